"""The random-walk kernel between graphs: dense solves, textbook posterior, why as printed it is constant."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from trimtab.core.errors import SettingsError
from trimtab.networks.graph_random_walk import (
    GraphGaussian,
    draw_affinities,
    graph_log_probability,
    graph_posterior,
    printed_kernel,
    transition_factors,
    walk_counts,
    walk_kernel,
    walk_steps,
)


def graphs(count, machines, rank=3, seed=0):
    """Factors of transition matrices, and weights that sum to 1."""
    random = np.random.default_rng(seed)
    left, right = transition_factors(random.exponential(size=(count, machines, rank)), np)
    start, stop = random.dirichlet(np.ones(machines), count), random.dirichlet(np.ones(machines), count)
    return left, right, start, stop


def dense_kernel(one, other, persistence):
    """The system of machines^2 unknowns, as the product graph is defined."""
    (left, right, start, stop), (left_2, right_2, start_2, stop_2) = one, other
    product = np.kron(left @ right.T, left_2 @ right_2.T)
    walks = np.linalg.solve(np.eye(len(product)) - persistence * product, np.kron(start, start_2))
    return np.kron(stop, stop_2) @ walks


def kernel_of(first, second, persistence, xp=np):
    steps = walk_steps(persistence)
    counts = (walk_counts(*arrays, steps=steps, xp=xp) for arrays in (first, second))
    return walk_kernel(*counts, persistence=persistence, xp=xp)


@pytest.mark.parametrize("persistence", [0.0, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("sizes", [(1, 1), (2, 5), (8, 8)])
def test_the_kernel_is_that_of_a_dense_solve(sizes, persistence) -> None:
    """Graphs need not have as many machines as each other."""
    first, second = graphs(3, sizes[0], seed=1), graphs(2, sizes[1], seed=2)
    found = kernel_of(first, second, persistence)
    assert found.shape == (3, 2)
    for i, j in np.ndindex(3, 2):
        one, other = ([array[at] for array in arrays] for arrays, at in ((first, i), (second, j)))
        assert found[i, j] == pytest.approx(dense_kernel(one, other, persistence), abs=1e-10)


def test_walks_that_eigenvectors_cannot_describe() -> None:
    """A walk 0 -> 1 -> 2 and out: its matrix has one eigenvalue, 0, three times, and one eigenvector."""
    chain = np.eye(3, k=1)
    first, last = np.eye(3)[0], np.eye(3)[2]
    counts = walk_counts(chain, np.eye(3), last, first, steps=6, xp=np)
    assert counts.tolist() == [0, 0, 1, 0, 0, 0]
    graph = (chain, np.eye(3), last, first)
    kernel = walk_kernel(counts[None], counts[None], persistence=0.5, xp=np)
    assert kernel.item() == dense_kernel(graph, graph, 0.5) == 0.25


@pytest.mark.parametrize("steps", [1, 2, 3, 8, 13])
def test_counts_are_powers_of_the_transition_matrix(steps) -> None:
    left, right, start, stop = (array[0] for array in graphs(1, 6))
    powers = [np.linalg.matrix_power(left @ right.T, length) for length in range(steps)]
    found = walk_counts(left, right, start, stop, steps=steps, xp=np)
    assert found == pytest.approx(np.array([stop @ power @ start for power in powers]), abs=1e-14)


def test_the_rest_of_the_sum_is_as_small_as_promised() -> None:
    """Of counts that are all 1 the kernel is 1 / (1 - persistence)."""
    for persistence in (0.3, 0.5, 0.95):
        for error in (1e-3, 1e-9):
            ones = np.ones((1, walk_steps(persistence, error=error)))
            missing = 1 / (1 - persistence) - walk_kernel(ones, ones, persistence=persistence, xp=np).item()
            assert persistence * error * 0.99 < missing <= error * 1.01
    assert walk_steps(0) == 1


def test_transitions_are_chances_and_padding_is_never_visited() -> None:
    features = np.random.default_rng(0).exponential(size=(4, 2))
    real = np.array([True, True, False, True])
    left, right = transition_factors(features, np, real)
    walk = left @ right.T
    assert walk.sum(1) == pytest.approx(real.astype(float)) and not walk[:, 2].any() and (walk >= 0).all()
    short = transition_factors(features[real], np)
    assert walk[np.ix_(real, real)] == pytest.approx(short[0] @ short[1].T)


@pytest.mark.parametrize("machines", [2, 8, 16])
def test_the_printed_kernel_is_the_same_for_every_pair_of_graphs(machines) -> None:
    """Walks are summed over all starts and stops, and chances of where to go next sum to 1.

    So there are machines^2 pairs of starts, each with 1 + p + p^2 + ... = 1 / (1 - p): the graphs do not
    matter, and a Gaussian process on this kernel cannot know the state of the cluster.
    """
    random = np.random.default_rng(0)
    walks = [random.dirichlet(np.full(machines, spread), machines) for spread in (0.05, 1.0, 50.0)]
    walks += [np.eye(machines), np.roll(np.eye(machines), 1, 0), np.full((machines, machines), 1 / machines)]
    for persistence in (0.5, 0.9):
        found = [
            printed_kernel(one, other, persistence=persistence, xp=np) for one in walks for other in walks
        ]
        assert found == pytest.approx([machines**2 / (1 - persistence)] * 36, rel=1e-12)


def correlations(machines, start=None):
    """Of ten random states; walks stop, and start unless told otherwise, where GPUs are free."""
    left, right, *_ = graphs(10, machines)
    free = np.random.default_rng(1).integers(0, 5, (10, machines)) + 1e-9
    free /= free.sum(1, keepdims=True)
    arrays = (left, right, free if start is None else start, free)
    gram = kernel_of(arrays, arrays, 0.5)
    return gram / np.sqrt(np.outer(np.diag(gram), np.diag(gram)))


def test_weights_make_graphs_differ_the_less_the_more_machines_there_are() -> None:
    """P^l r nears a constant vector, whose height is a mean over machines: of many it is nearly a number."""
    few, many = correlations(8).min(), correlations(512).min()
    assert few < 0.98 and many > 0.995


def test_weights_only_where_walks_stop_change_nothing() -> None:
    """P^l 1 = 1 already: what sums to 1 where walks stop gives 1 for every length, whatever the graph."""
    assert correlations(8, start=np.ones((10, 8))) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("moments", [1, 5])
def test_the_posterior_is_that_of_textbooks(moments) -> None:
    random = np.random.default_rng(3)
    now, history = graphs(4, 6, seed=4), graphs(moments, 6, seed=5)
    targets = random.normal(size=(moments, 6))
    here, across, there = (kernel_of(*pair, 0.7) for pair in ((now, now), (now, history), (history, history)))
    inverse = np.linalg.inv(there + 0.2**2 * np.eye(moments))
    counts = (walk_counts(*arrays, steps=walk_steps(0.7), xp=np) for arrays in (now, history))
    found = graph_posterior(*counts, targets, persistence=0.7, noise_deviation=0.2, xp=np)
    assert found.mean == pytest.approx(across @ inverse @ targets, abs=1e-12)
    assert found.covariance == pytest.approx(here - across @ inverse @ across.T, abs=1e-12)


def test_moments_of_zeros_count_for_nothing() -> None:
    random = np.random.default_rng(3)
    now, history, targets = random.random((2, 9)), random.random((5, 9)), random.normal(size=(5, 6))
    history[3:] = 0
    settings = {"persistence": 0.5, "noise_deviation": 0.1, "xp": np}
    for one, other in zip(
        graph_posterior(now, history, targets, **settings),
        graph_posterior(now, history[:3], targets[:3], **settings),
        strict=True,
    ):
        assert one == pytest.approx(other, abs=1e-12)


def gaussian(jobs=3, machines=4):
    random = np.random.default_rng(7)
    root = random.normal(size=(jobs, 2))
    return GraphGaussian(random.normal(size=(jobs, machines)), root @ root.T)


def test_the_density_is_that_of_every_machine_by_itself() -> None:
    found, shown = gaussian(), np.random.default_rng(8).normal(size=(3, 4))
    covariance = found.covariance + 0.5**2 * np.eye(3)
    wanted = sum(multivariate_normal(found.mean[:, k], covariance).logpdf(shown[:, k]) for k in range(4))
    assert float(graph_log_probability(found, shown, own_deviation=0.5, xp=np)) == pytest.approx(wanted)


def test_draws_are_linear_in_their_noise_with_exactly_the_covariance() -> None:
    found = gaussian(3, 3)
    columns = draw_affinities(found, np.eye(3), own_deviation=0.5, xp=np) - found.mean
    assert columns @ columns.T == pytest.approx(found.covariance + 0.25 * np.eye(3))


def test_padding_of_jobs_and_machines_adds_nothing_to_the_density() -> None:
    found, shown = gaussian(), np.random.default_rng(8).normal(size=(3, 4))
    jobs, machines = np.array([True, False, True]), np.array([True, True, False, True])
    shown[1], shown[:, 2] = np.nan, np.inf
    short = GraphGaussian(found.mean[np.ix_(jobs, machines)], found.covariance[np.ix_(jobs, jobs)])
    wanted = graph_log_probability(short, shown[np.ix_(jobs, machines)], own_deviation=0.5, xp=np)
    padded = graph_log_probability(found, shown, own_deviation=0.5, xp=np, jobs=jobs, machines=machines)
    assert float(padded) == pytest.approx(float(wanted))


def whole(features, weights, past, past_weights, targets, noise, persistence, xp):
    """From features to the density of what was drawn."""
    counts = [
        walk_counts(*transition_factors(one, xp), weight, weight, steps=40, xp=xp)
        for one, weight in ((features, weights), (past, past_weights))
    ]
    found = graph_posterior(*counts, targets, persistence=persistence, noise_deviation=0.1, xp=xp)
    shown = draw_affinities(found, noise, own_deviation=0.3, xp=xp)
    return shown, graph_log_probability(found, shown + 0.1, own_deviation=0.3, xp=xp)


def inputs():
    """Two rows: three jobs, five moments, six machines; persistence one of each row."""
    random = np.random.default_rng(11)
    features, past = random.exponential(size=(2, 3, 6, 4)), random.exponential(size=(2, 5, 6, 4))
    features[1, :, :, 1:] = features[1, :, :, :1]  # of rank 1: equal eigenvalues
    weights, past_weights = random.dirichlet(np.ones(6), (2, 3)), random.dirichlet(np.ones(6), (2, 5))
    targets, noise = random.normal(size=(2, 5, 6)), random.normal(size=(2, 3, 6))
    return features, weights, past, past_weights, targets, noise, np.array([[0.4], [0.6]])


def test_numpy_and_jax_agree_to_the_last_digits_and_rows_are_as_one_by_one() -> None:
    ours = whole(*inputs(), np)
    with jax.enable_x64(True):
        theirs = jax.jit(whole, static_argnames="xp")(*inputs(), xp=jnp)
    singles = whole(*(array.astype(np.float32) for array in inputs()), np)
    for our, their, single in zip(ours, theirs, singles, strict=True):
        assert our == pytest.approx(np.asarray(their), rel=1e-11, abs=1e-11)
        assert single.dtype == np.float32 and single == pytest.approx(our, rel=1e-3, abs=1e-3)
    for row in range(2):
        for alone, together in zip(whole(*(array[row] for array in inputs()), np), ours, strict=True):
            assert alone == pytest.approx(together[row], abs=1e-12)


def test_gradients_are_those_of_finite_differences() -> None:
    def value(arrays, xp):
        shown, chance = whole(*arrays, xp)
        return (shown * inputs()[5]).sum() + chance.sum()

    arrays = list(inputs())
    with jax.enable_x64(True):
        slopes = jax.jit(jax.grad(lambda parts: value(parts, jnp)))(arrays)
        slopes = [np.asarray(slope) for slope in slopes]
    for at, slope in enumerate(slopes):
        way = np.random.default_rng(at).normal(size=slope.shape)
        ends = [
            value([*arrays[:at], arrays[at] + sign * 1e-6 * way, *arrays[at + 1 :]], np) for sign in (1, -1)
        ]
        assert (slope * way).sum() == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5, abs=1e-6)


def test_what_cannot_be_is_refused() -> None:
    for persistence in (1.0, -0.5, float("nan")):
        with pytest.raises(SettingsError, match=f"persistence = {persistence} of a random walk"):
            walk_steps(persistence)
    with pytest.raises(SettingsError, match="error = 0 of a kernel; between 0 and 1"):
        walk_steps(0.5, error=0)
    with pytest.raises(SettingsError, match="steps = 0 of a random walk; at least 1"):
        walk_counts(np.ones((2, 1)), np.ones((2, 1)), np.ones(2), np.ones(2), steps=0, xp=np)
