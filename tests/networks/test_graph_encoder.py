import jax.numpy as jnp
import numpy as np
import pytest

from trimtab.networks.graph_encoder import Grid, encode, latest_parent, longest_path, new_encoder
from trimtab.networks.graph_rows import Packed, packed

COUNT, STAGES, FEATURES, SIZE = 40, 9, 3, 5
RANDOM = np.random.default_rng(7)
CHILDREN = np.triu(RANDOM.random((COUNT, STAGES, STAGES)) < 0.3, k=1).astype(np.float32)
FEATURES_OF_STAGES = RANDOM.normal(size=(COUNT, STAGES, FEATURES)).astype(np.float32)


@pytest.fixture(params=[(), (6,)], ids=["one layer", "two layers"])
def parameters(request):
    """Parameters in which every bias counts: fresh ones are zero."""
    fresh = new_encoder(np.random.default_rng(1), features=FEATURES, hidden=8, size=SIZE, inner=request.param)
    noise = np.random.default_rng(2)
    return {
        part: [
            {
                name: array + noise.normal(0, 0.1, array.shape).astype(np.float32)
                for name, array in layer.items()
            }
            for layer in layers
        ]
        for part, layers in fresh.items()
    }


def reachable(children: np.ndarray) -> np.ndarray:
    """[..., v, w] is true where w is v itself or below it."""
    reached = np.eye(children.shape[-1], dtype=bool) | (children > 0)
    for _ in range(children.shape[-1]):
        reached = (reached.astype(int) @ reached.astype(int)) > 0
    return reached


def another_order(children: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """A random order of the stages of one DAG with every parent before its children."""
    waiting, order = set(range(len(children))), []
    while waiting:
        ready = [w for w in waiting if not any(children[v, w] for v in waiting)]
        order.append(random.choice(ready))
        waiting.remove(order[-1])
    return np.array(order)


def identity_encoder():
    """Weights of 1 and no bias: embeddings can be computed by hand."""
    layer = {"weights": np.ones((1, 1)), "bias": np.zeros(1)}
    return {"own": [layer, layer], "message": [layer], "combine": [layer]}


def test_the_embeddings_of_a_positive_chain_are_sums() -> None:
    chain = np.eye(3, k=1)
    assert encode(identity_encoder(), np.array([[1.0], [2.0], [3.0]]), chain, np).ravel().tolist() == [
        6,
        5,
        3,
    ]


def test_a_message_passes_two_rectifiers() -> None:
    # Own: -1 becomes -0.2 in the hidden layer. Message: -0.2 * 0.2; combined: that times 0.2 again.
    embeddings = encode(identity_encoder(), np.array([[1.0], [-1.0]]), np.eye(2, k=1), np)
    np.testing.assert_allclose(embeddings.ravel(), [1 - 0.2**3, -0.2])


def test_the_outer_rectifier_stands_outside_the_sum() -> None:
    # Children are heard as 1 and -0.04 (see above). Their sum, 0.96, passes whole; alone, -0.04 would shrink.
    children = np.array([[0, 1, 1], [0, 0, 0], [0, 0, 0]])
    embeddings = encode(identity_encoder(), np.array([[1.0], [1.0], [-1.0]]), children, np)
    np.testing.assert_allclose(embeddings[0], 1 + (1 - 0.2**2))


def test_numpy_and_jax_agree(parameters) -> None:
    served = encode(parameters, FEATURES_OF_STAGES, CHILDREN, np)
    trained = encode(parameters, jnp.asarray(FEATURES_OF_STAGES), jnp.asarray(CHILDREN), jnp)
    assert served.dtype == trained.dtype == np.float32
    np.testing.assert_allclose(served, trained, rtol=1e-5, atol=1e-5)


def test_a_batch_is_its_members(parameters) -> None:
    together = encode(
        parameters, FEATURES_OF_STAGES.reshape(4, 10, STAGES, -1), CHILDREN.reshape(4, 10, STAGES, -1), np
    )
    one = encode(parameters, FEATURES_OF_STAGES[17], CHILDREN[17], np)
    np.testing.assert_allclose(together[1, 7], one, rtol=1e-5, atol=1e-6)


def test_the_order_of_stages_does_not_matter(parameters) -> None:
    random = np.random.default_rng(3)
    orders = np.stack([another_order(children, random) for children in CHILDREN])
    # A chain has one order only; nearly all of these graphs have many.
    assert (orders != np.arange(STAGES)).any(axis=1).mean() > 0.9
    graphs = np.arange(COUNT)[:, None]
    features = FEATURES_OF_STAGES[graphs, orders]
    children = CHILDREN[graphs[..., None], orders[:, :, None], orders[:, None, :]]
    expected = encode(parameters, FEATURES_OF_STAGES, CHILDREN, np)[graphs, orders]
    np.testing.assert_allclose(encode(parameters, features, children, np), expected, rtol=1e-5, atol=1e-5)


def test_a_stage_knows_only_what_is_below_it(parameters) -> None:
    # In double precision: every rectifier on the way may leave a fifth, 4 % a level.
    features = FEATURES_OF_STAGES.astype(np.float64)
    before = encode(parameters, features, CHILDREN, np)
    below = reachable(CHILDREN)
    for stage in range(STAGES):
        changed = features.copy()
        changed[:, stage] += 1
        moved = np.abs(encode(parameters, changed, CHILDREN, np) - before).max(-1)
        assert (moved[~below[:, :, stage]] == 0).all()
        assert (moved[below[:, :, stage]] > 1e-12).all()


def test_edges_above_do_not_matter(parameters) -> None:
    before = encode(parameters, FEATURES_OF_STAGES, CHILDREN, np)
    for stage in range(1, STAGES):
        changed = CHILDREN.copy()
        changed[:, :stage] = 1 - changed[:, :stage]
        after = encode(parameters, FEATURES_OF_STAGES, np.triu(changed, k=1), np)
        np.testing.assert_allclose(after[:, stage:], before[:, stage:], rtol=1e-6, atol=1e-6)


def test_stages_that_only_fill_up_do_not_matter(parameters) -> None:
    filled_features = np.pad(FEATURES_OF_STAGES, ((0, 0), (0, 4), (0, 0)), constant_values=9)
    filled_children = np.pad(CHILDREN, ((0, 0), (0, 4), (0, 4)))
    filled = encode(parameters, filled_features, filled_children, np)[:, :STAGES]
    expected = encode(parameters, FEATURES_OF_STAGES, CHILDREN, np)
    np.testing.assert_allclose(filled, expected, rtol=1e-5, atol=1e-6)


def test_a_new_encoder_has_the_asked_sizes() -> None:
    fresh = new_encoder(np.random.default_rng(0), features=2, hidden=8, size=4, inner=(6,))
    shapes = {part: [layer["weights"].shape for layer in layers] for part, layers in fresh.items()}
    assert shapes == {
        "own": [(2, 8), (8, 4)],
        "message": [(4, 6), (6, 4)],
        "combine": [(4, 6), (6, 4)],
    }


def paths_from(stage: int, children: np.ndarray):
    yield [stage]
    for child in np.flatnonzero(children[stage]).tolist():
        for path in paths_from(child, children):
            yield [stage, *path]


def test_the_longest_path_is_the_longest_of_all_paths() -> None:
    lengths = np.random.default_rng(4).uniform(0, 10, (COUNT, STAGES))
    found = longest_path(lengths, CHILDREN, np)
    for graph in range(COUNT):
        paths = [list(paths_from(stage, CHILDREN[graph])) for stage in range(STAGES)]
        expected = [max(lengths[graph, path].sum() for path in of_stage) for of_stage in paths]
        np.testing.assert_allclose(found[graph], expected)


def test_longest_paths_agree_in_numpy_and_jax() -> None:
    lengths = np.random.default_rng(5).uniform(0, 10, (COUNT, STAGES)).astype(np.float32)
    trained = longest_path(jnp.asarray(lengths), jnp.asarray(CHILDREN), jnp)
    np.testing.assert_allclose(longest_path(lengths, CHILDREN, np), trained, rtol=1e-6)


def test_no_stage_is_ready_before_its_latest_parent() -> None:
    times = np.random.default_rng(6).uniform(0, 10, (COUNT, STAGES))
    found = latest_parent(times, CHILDREN)
    for graph, stage in np.ndindex(COUNT, STAGES):
        parents = np.flatnonzero(CHILDREN[graph, :, stage])
        assert found[graph, stage] == max(times[graph, parents], default=0.0)


def everywhere() -> tuple[np.ndarray, np.ndarray, np.ndarray, Packed]:
    """Features, children and places of graphs of different size, and the same packed."""
    real = np.arange(STAGES + 4) < 1 + np.arange(COUNT)[:, None] % STAGES
    features = np.pad(FEATURES_OF_STAGES, ((0, 0), (0, 4), (0, 0)), constant_values=9)
    children = np.pad(CHILDREN, ((0, 0), (0, 4), (0, 4))) * real[:, :, None] * real[:, None, :]
    return features, children, real, packed(children, real)


def test_packed_the_embeddings_are_the_same(parameters) -> None:
    features, children, real, rows = everywhere()
    found = rows.placed(rows.encode(parameters, rows.rows(features[None])), 0.0)[0]
    assert found.dtype == np.float32
    expected = encode(parameters, features, children, np)
    np.testing.assert_allclose(found[real], expected[real], rtol=1e-5, atol=1e-6)
    assert (found[~real] == 0).all()


def test_packed_everything_is_as_in_a_grid() -> None:
    _, children, real, rows = everywhere()
    grid = Grid(children[None], np)
    values = np.random.default_rng(6).uniform(0, 10, (2, 1, *real.shape)).astype(np.float32) * real
    few = np.stack([rows.rows(one) for one in values])
    paths = rows.longest_path(few)
    for one, expected in zip(paths, grid.longest_path(values), strict=True):
        np.testing.assert_allclose(one, rows.rows(expected), rtol=1e-6)
    np.testing.assert_allclose(rows.latest_parent(few[0]), rows.rows(grid.latest_parent(values[0])))
    np.testing.assert_allclose(rows.largest(few[0]), grid.largest(values[0]))
    np.testing.assert_allclose(rows.total(few.T), grid.total(np.moveaxis(values, 0, -1)), rtol=1e-5)
    by_graph = np.arange(COUNT)[None]
    np.testing.assert_array_equal(rows.spread(by_graph), rows.graph)


def test_packed_stages_can_be_picked() -> None:
    *_, real, rows = everywhere()
    wanted = np.random.default_rng(8).random(len(rows.order)) < 0.3
    few = rows.among(wanted)
    values = np.arange(len(rows.order), dtype=np.float32)
    np.testing.assert_array_equal(few.picked(values), values[wanted])
    placed = few.placed(few.picked(values), -1.0)
    assert placed.shape == (1, *real.shape) and (placed >= 0).sum() == wanted.sum()
    np.testing.assert_array_equal(few.rows(placed), values[wanted])


def test_a_level_needs_only_those_below() -> None:
    _, children, real, rows = everywhere()
    assert sorted(rows.order) == np.flatnonzero(real).tolist()
    assert all(level.children.max() < level.start for level in rows.levels)
    # Each stage has, besides its children, row 0.
    assert sum(len(level.children) for level in rows.levels) == children.sum() + real.sum()


def test_graphs_without_edges_are_one_level(parameters) -> None:
    alone, real = np.zeros_like(CHILDREN), np.ones((COUNT, STAGES), bool)
    rows = packed(alone, real)
    assert len(rows.levels) == 1 and not rows.latest_parent(np.ones(COUNT * STAGES)).any()
    found = rows.encode(parameters, rows.rows(FEATURES_OF_STAGES[None]))
    expected = encode(parameters, FEATURES_OF_STAGES, alone, np)
    np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=1e-5, atol=1e-6)
