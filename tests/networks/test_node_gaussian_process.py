"""The random-walk process over machines: scipy's density, dense algebra, exact draws, masks, gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from trimtab.core.errors import SettingsError
from trimtab.networks.node_gaussian_process import (
    draw,
    entropy,
    log_probability,
    machine_posterior,
    machine_prior,
    marginal_deviation,
    persistence_of,
)

SIZES = [(1, 1), (1, 4), (3, 16), (8, 4), (40, 16), (300, 16)]
NOISE = 0.3


def drawn(machines, rank, seed=0):
    random = np.random.default_rng(seed)
    features = np.log1p(np.exp(random.normal(0, 2, (machines, rank))))
    counts = np.where(random.random(machines) < 0.5, random.uniform(0.2, 20, machines), 0.0)
    return features, random.normal(size=machines), counts, random.normal(size=machines)


def similarity(features):
    alike = features @ features.T
    degree = alike.sum(1)
    return alike / np.sqrt(np.outer(degree, degree))


def dense(features, mean, counts, observed, deviation, persistence):
    """Covariances and means as textbooks write them, with matrices of machines by machines."""
    precision = (np.eye(len(mean)) - persistence * similarity(features)) / deviation**2
    weight = counts / NOISE**2
    covariance = np.linalg.inv(precision + np.diag(weight))
    return mean + covariance @ (weight * (observed - mean)), covariance


def made(features, mean, counts=None, observed=None, deviation=0.7, persistence=0.6, real=None, xp=np):
    prior = machine_prior(features, mean, deviation=deviation, persistence=persistence, real=real, xp=xp)
    if counts is None:
        return prior
    return machine_posterior(prior, counts, observed, noise_deviation=NOISE, xp=xp)


@pytest.mark.parametrize("evidence", [False, True])
@pytest.mark.parametrize("persistence", [0.0, 0.5, 0.99])
@pytest.mark.parametrize("size", SIZES)
def test_density_entropy_mean_and_deviations_are_those_of_dense_algebra(size, persistence, evidence) -> None:
    features, mean, counts, observed = drawn(*size)
    counts = counts if evidence else np.zeros_like(counts)
    wanted, covariance = dense(features, mean, counts, observed, 0.7, persistence)
    found = made(features, mean, counts if evidence else None, observed, persistence=persistence)
    assert found.mean == pytest.approx(wanted, abs=1e-10)
    assert marginal_deviation(found, np) ** 2 == pytest.approx(np.diag(covariance), rel=1e-9)
    law = multivariate_normal(wanted, covariance)
    for affinities in (wanted, np.random.default_rng(5).normal(0, 2, size[0])):
        assert float(log_probability(found, affinities, np)) == pytest.approx(
            float(law.logpdf(affinities)), rel=1e-12, abs=1e-9
        )
    assert float(entropy(found, np)) == pytest.approx(float(law.entropy()), rel=1e-12, abs=1e-9)


@pytest.mark.parametrize("evidence", [False, True])
@pytest.mark.parametrize("size", SIZES[:5])
def test_a_draw_is_linear_in_its_noise_with_exactly_the_covariance(size, evidence) -> None:
    """Of each unit vector of noise a column: the columns times their transpose are the covariance."""
    machines, rank = size
    features, mean, counts, observed = drawn(*size)
    counts = counts if evidence else np.zeros_like(counts)
    wanted, covariance = dense(features, mean, counts, observed, 0.7, 0.6)
    found = made(features, mean, counts, observed)
    units = np.eye(machines + rank)
    columns = draw(found, units[:, :machines], units[:, machines:], np) - wanted
    assert columns.T @ columns == pytest.approx(covariance, abs=1e-11)


@pytest.mark.parametrize("evidence", [False, True])
def test_covariance_of_many_draws(evidence) -> None:
    features, mean, counts, observed = drawn(8, 4)
    counts = counts if evidence else np.zeros_like(counts)
    wanted, covariance = dense(features, mean, counts, observed, 0.7, 0.6)
    random, many = np.random.default_rng(1), 200_000
    found = made(features, mean, counts, observed)
    draws = draw(found, random.normal(size=(many, 8)), random.normal(size=(many, 4)), np)
    assert draws.mean(0) == pytest.approx(wanted, abs=0.01)
    assert abs(np.cov(draws.T) - covariance).max() < 0.01 * abs(covariance).max()


def test_the_covariance_is_the_sum_over_walks_and_its_largest_eigenvalue_is_that_of_the_degrees() -> None:
    features, mean, *_ = drawn(6, 3)
    alike = similarity(features)
    walks = sum(0.6**length * np.linalg.matrix_power(alike, length) for length in range(80))
    prior = made(features, mean, deviation=1.0)
    assert marginal_deviation(prior, np) ** 2 == pytest.approx(np.diag(walks), rel=1e-12)
    assert np.linalg.eigvalsh(prior.loadings.T @ prior.loadings).max() == pytest.approx(1, abs=1e-12)
    degree = (features @ features.T).sum(1)
    assert alike @ np.sqrt(degree) == pytest.approx(np.sqrt(degree))


def test_unseen_machines_borrow_from_similar_ones_and_evidence_outweighs_the_prior() -> None:
    """Machines 0 and 1 are of one kind, 2 and 3 of another that was never seen."""
    kinds = np.array([[1.0, 0], [1, 0], [0, 1], [0, 1]])
    few, many = (np.array([count, 0.0, 0, 0]) for count in (1.0, 1e8))
    seen = np.array([2.0, np.nan, np.nan, np.inf])
    after_few, after_many = (made(kinds, np.zeros(4), counts, seen) for counts in (few, many))
    assert 0 < after_few.mean[1] < after_few.mean[0] < 2
    assert after_few.mean[2:].tolist() == [0, 0]
    prior = marginal_deviation(made(kinds, np.zeros(4)), np)
    after = marginal_deviation(after_few, np)
    assert (after[:2] < prior[:2] - 0.01).all() and after[2:] == pytest.approx(prior[2:])
    assert after_many.mean[0] == pytest.approx(2, abs=1e-6)
    assert marginal_deviation(after_many, np)[0] == pytest.approx(NOISE / 1e4, rel=1e-6)
    # Persistence 0.6 within a kind of two: correlation 0.3 / (1 - 0.3) = 3/7, the share that is borrowed.
    assert after_many.mean[1] == pytest.approx(2 * 3 / 7, abs=1e-6)


def test_no_evidence_changes_nothing_and_evidence_in_two_parts_is_evidence_at_once() -> None:
    features, mean, counts, observed = drawn(30, 5)
    prior = made(features, mean)
    none = machine_posterior(prior, 0 * counts, np.full(30, np.nan), noise_deviation=NOISE, xp=np)
    for before, after in zip(prior, none, strict=True):
        assert np.array_equal(before, after)
    first = np.arange(30) % 2 == 0
    half = machine_posterior(prior, counts * first, observed, noise_deviation=NOISE, xp=np)
    both = machine_posterior(half, counts * ~first, observed, noise_deviation=NOISE, xp=np)
    once = machine_posterior(prior, counts, observed, noise_deviation=NOISE, xp=np)
    for one, other in zip(both, once, strict=True):
        assert one == pytest.approx(other, abs=1e-12)


def test_padding_changes_nothing_whatever_it_holds() -> None:
    features, mean, counts, observed = drawn(12, 4)
    real = np.arange(12) % 3 != 1
    random = np.random.default_rng(3)
    own, walk = random.normal(size=12), random.normal(size=4)
    affinities = np.where(real, random.normal(size=12), np.nan)
    padded = made(features, mean, counts, observed, real=real)
    short = made(*(array[real] for array in (features, mean, counts, observed)))
    assert float(log_probability(padded, affinities, np)) == pytest.approx(
        float(log_probability(short, affinities[real], np)), abs=1e-12
    )
    assert float(entropy(padded, np)) == pytest.approx(float(entropy(short, np)), abs=1e-12)
    assert padded.mean[real] == pytest.approx(short.mean)
    assert marginal_deviation(padded, np)[real] == pytest.approx(marginal_deviation(short, np))
    assert not marginal_deviation(padded, np)[~real].any()
    shown = draw(padded, own, walk, np)
    assert shown[real] == pytest.approx(draw(short, own[real], walk, np))
    assert np.array_equal(shown[~real], mean[~real])


def test_without_any_real_machine_the_density_is_one() -> None:
    features, mean, counts, observed = drawn(4, 2)
    nothing = made(features, mean, counts, observed, real=np.zeros(4, bool))
    assert log_probability(nothing, np.ones(4), np) == 0 and entropy(nothing, np) == 0


def test_a_machine_without_features_is_similar_to_none() -> None:
    features, mean, *_ = drawn(5, 3)
    features[2] = 0
    alone = marginal_deviation(made(features, mean), np)
    assert alone[2] == pytest.approx(0.7)
    others = np.arange(5) != 2
    assert alone[others] == pytest.approx(marginal_deviation(made(features[others], mean[others]), np))


def test_batches_of_jobs_are_as_one_by_one() -> None:
    """Features by batch, job and machine; evidence and mask of a batch are shared by its jobs."""
    random = np.random.default_rng(2)
    features, mean = random.random((3, 4, 7, 5)), random.normal(size=(3, 4, 7))
    deviation, persistence = random.uniform(0.5, 2, (3, 4, 1)), random.uniform(0.1, 0.9, (3, 4, 1))
    real = random.random((3, 1, 7)) < 0.8
    counts, observed = random.uniform(0, 5, (3, 1, 7)), random.normal(size=(3, 1, 7))
    own, walk = random.normal(size=(3, 4, 7)), random.normal(size=(3, 4, 5))
    batch = made(features, mean, counts, observed, deviation, persistence, real)
    draws = draw(batch, own, walk, np)
    chances, spread = log_probability(batch, draws, np), entropy(batch, np)
    assert draws.shape == (3, 4, 7) and chances.shape == spread.shape == (3, 4)
    for at in np.ndindex(3, 4):
        row = (at[0], 0)
        settings = float(deviation[at][0]), float(persistence[at][0]), real[row]
        one = made(features[at], mean[at], counts[row], observed[row], *settings)
        assert draws[at] == pytest.approx(draw(one, own[at], walk[at], np), abs=1e-12)
        assert chances[at] == pytest.approx(float(log_probability(one, draws[at], np)), abs=1e-11)
        assert spread[at] == pytest.approx(float(entropy(one, np)), abs=1e-11)


def everything(features, mean, counts, observed, deviation, persistence, own, walk, real, xp):
    found = made(features, mean, counts, observed, deviation, persistence, real, xp)
    shown = draw(found, own, walk, xp)
    return shown, log_probability(found, shown + 0.1, xp), entropy(found, xp), marginal_deviation(found, xp)


def inputs(machines, rank, jobs=2):
    parts = [drawn(machines, rank, seed) for seed in range(jobs)]
    random = np.random.default_rng(9)
    settings = np.array([[0.7], [1.3]]), np.array([[0.6], [0.95]])
    noise = random.normal(size=(jobs, machines)), random.normal(size=(jobs, rank))
    return (*(np.stack(arrays) for arrays in zip(*parts, strict=True)), *settings, *noise)


@pytest.mark.parametrize("size", [(1, 3), (9, 4), (64, 16)])
def test_numpy_and_jax_agree_to_the_last_digits(size) -> None:
    real = np.arange(size[0]) % 4 != 3
    ours = everything(*inputs(*size), real, np)
    with jax.enable_x64(True):
        theirs = jax.jit(everything, static_argnames="xp")(*inputs(*size), real=real, xp=jnp)
    singles = [array.astype(np.float32) for array in inputs(*size)]
    rounded = everything(*singles, real, np)
    theirs_rounded = jax.jit(everything, static_argnames="xp")(*singles, real=real, xp=jnp)
    for our, their, single, other in zip(ours, theirs, rounded, theirs_rounded, strict=True):
        assert our == pytest.approx(np.asarray(their), rel=1e-12, abs=1e-12)
        assert single.dtype == np.float32 and other.dtype == jnp.float32
        assert single == pytest.approx(np.asarray(other), rel=1e-4, abs=1e-4)
        assert single == pytest.approx(our, rel=1e-4, abs=1e-4)


def alike(features):
    features[..., 1:] = features[..., :1]
    return features


@pytest.mark.parametrize(
    ("size", "change"),
    [((7, 3), np.array), ((3, 6), np.array), ((1, 2), np.array), ((5, 3), alike), ((5, 3), np.ones_like)],
    ids=["usual", "rank above machines", "one machine", "equal features", "equal machines"],
)
def test_gradients_are_those_of_finite_differences_where_eigenvalues_are_equal_too(size, change) -> None:
    features, *rest = inputs(*size)
    real = np.arange(size[0]) % 5 != 3
    weights = [np.random.default_rng(at).normal(size=shape) for at, shape in enumerate([(2, size[0]), 2, 2])]

    def value(xp, *arrays):
        shown, chance, spread, each = everything(*arrays, real, xp)
        return (shown * weights[0]).sum() + (chance * weights[1]).sum() + (spread + each.sum(-1)).sum()

    arrays = [change(features), *rest]
    with jax.enable_x64(True):
        slopes = jax.jit(jax.grad(lambda parts: value(jnp, *parts)))([jnp.asarray(one) for one in arrays])
        slopes = [np.asarray(slope) for slope in slopes]
    random = np.random.default_rng(4)
    for at, slope in enumerate(slopes):
        assert np.isfinite(slope).all()
        if at == 2:  # where counts are 0 the function has a kink: only upwards
            continue
        way, little = random.normal(size=slope.shape), 1e-6
        ends = [
            value(np, *arrays[:at], arrays[at] + sign * little * way, *arrays[at + 1 :]) for sign in (1, -1)
        ]
        assert (slope * way).sum() == pytest.approx((ends[0] - ends[1]) / (2 * little), rel=1e-5, abs=1e-6)


def test_the_gradient_by_counts_of_machines_seen() -> None:
    arrays = list(inputs(6, 3))
    arrays[2] = np.random.default_rng(0).uniform(1, 5, (2, 6))

    def value(counts, xp):
        return everything(*arrays[:2], counts, *arrays[3:], None, xp)[1].sum()

    way = np.random.default_rng(1).normal(size=(2, 6))
    with jax.enable_x64(True):
        slope = float((jax.jit(jax.grad(lambda counts: value(counts, jnp)))(arrays[2]) * way).sum())
    ends = [value(arrays[2] + sign * 1e-6 * way, np) for sign in (1, -1)]
    assert slope == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-6)


def test_padding_gets_no_gradient() -> None:
    features, mean, counts, observed = map(jnp.asarray, drawn(6, 3))
    real = jnp.arange(6) < 4

    def chance(parts):
        return log_probability(made(*parts, counts, observed, real=real, xp=jnp), jnp.ones(6), jnp)

    by_features, by_mean = jax.jit(jax.grad(chance))((features, mean))
    assert not by_features[4:].any() and not by_mean[4:].any()
    assert by_features[:4].any(1).all() and by_mean[:4].all()


def test_one_machine_by_hand() -> None:
    """S is 1 whatever the features, so the variance is deviation^2 / (1 - persistence)."""
    one = made(np.array([[0.3, 7.0]]), np.array([1.0]), deviation=2.0, persistence=0.9)
    assert marginal_deviation(one, np)[0] == pytest.approx(np.sqrt(4 / 0.1))


def test_no_persistence_leaves_independent_machines() -> None:
    features, mean, *_ = drawn(9, 3)
    prior = made(features, mean, persistence=0)
    own = np.random.default_rng(0).normal(size=9)
    assert draw(prior, own, np.full(3, 1e6), np) == pytest.approx(mean + 0.7 * own)


@pytest.mark.parametrize("short_of_one", [1e-3, 1e-6, 1e-9])
def test_near_one_what_all_machines_share_may_vary_without_end(short_of_one) -> None:
    """Along sqrt(degree) the variance is deviation^2 / (1 - persistence), all else stays bounded."""
    features, mean, *_ = drawn(20, 4)
    prior = made(features, mean, deviation=1.0, persistence=1 - short_of_one)
    way = np.sqrt((features @ features.T).sum(1))
    way /= np.linalg.norm(way)
    # Along this direction alone the log density falls by step^2 (1 - persistence) / 2.
    step = 1 / np.sqrt(short_of_one)
    fall = log_probability(prior, mean, np) - log_probability(prior, mean + step * way, np)
    assert float(fall) == pytest.approx(0.5, rel=1e-5)
    own = np.random.default_rng(0).normal(size=20)
    assert np.isfinite(draw(prior, own, np.ones(4), np)).all()


def test_single_precision_holds_at_the_largest_learned_persistence() -> None:
    features, mean, counts, observed = drawn(2048, 16)
    persistence = float(persistence_of(np.array(1e3), np))
    assert persistence == 0.999
    found, exact = (
        made(*(array.astype(kind) for array in (features, mean, counts, observed)), persistence=persistence)
        for kind in (np.float32, np.float64)
    )
    affinities = mean + np.random.default_rng(0).normal(size=2048)
    single = log_probability(found, affinities.astype(np.float32), np)
    assert single.dtype == np.float32
    assert float(single) == pytest.approx(float(log_probability(exact, affinities, np)), rel=1e-4)
    assert found.mean == pytest.approx(exact.mean, abs=1e-3)


def test_what_cannot_be_is_refused() -> None:
    features, mean, counts, observed = drawn(3, 2)
    for persistence in (1.0, -0.1, 1, float("nan")):
        with pytest.raises(SettingsError, match=f"persistence = {persistence} of a random walk"):
            made(features, mean, persistence=persistence)
    for deviation in (0.0, -1, float("nan")):
        with pytest.raises(SettingsError, match=f"deviation = {deviation} of a Gaussian process; above 0"):
            made(features, mean, deviation=deviation)
    with pytest.raises(SettingsError, match="noise_deviation = 0 of observations; above 0"):
        machine_posterior(made(features, mean), counts, observed, noise_deviation=0, xp=np)
