"""Whatever monitoring says or fails to say, no rule crashes, invents numbers or scales down in the dark."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tests.stream_autoscaling.snapshots import chain_graph, snapshot_of

from trimtab.stream_autoscaling.policies import make_policy
from trimtab.stream_autoscaling.problem import Decider, Snapshot, allowed

# Settings that make slow rules act at once, and every branch of the Flink port run.
POLICIES = (
    "aws",
    "aws:high_s=0,low_s=0,low=0.9",
    "dhalion",
    "dhalion:wait_s=0",
    "ds2",
    "ds2:activation=3,tolerance=0.1,catch_up_s=300,warm_up_s=60",
    "flink",
    "flink:window_s=120,stabilisation_s=0,down_interval_s=0",
    "flink:window_s=120,stabilisation_s=0,down_interval_s=120,effectiveness=1,scalability=1,restart_tracked=1,alignment=3",
    "hpa",
    "hpa:down_wait_s=0",
    "keda-lag",
    "keda-lag:down_wait_s=0",
    "reactive",
    "static",
    "static:parallelism=2",
)
GRAPH = chain_graph(
    5,
    environments=3,
    edges={(0, 1): 1.0, (0, 2): 0.5, (1, 3): 2.0, (2, 3): 1.0},  # the fifth vertex is a source of its own
    key_groups=[0, 0, 12, 128, 0],
)
SHAPE = (3, 30, 5)


def plain(**changed: object) -> Snapshot:
    usual: dict[str, object] = {
        "parallelism": [6, 4, 3, 8, 2],
        "busy": [0.5, 0.6, 0.4, 0.7, 0.2],
        "records_in": [100, 100, 50, 250, 40],
        "records_out": [150, 200, 50, 0, 0],
    }
    return snapshot_of(GRAPH, **{**usual, **changed})  # pyright: ignore[reportArgumentType]


def nothing_reported() -> Snapshot:
    return plain(complete=False)


def not_a_number_everywhere() -> Snapshot:
    unknown = np.full(SHAPE, np.nan)
    names = (
        "records_in",
        "records_out",
        "busy",
        "backpressured",
        "idle",
        "queue_fill",
        "pending",
        "state_mb",
    )
    return plain(complete=False, latency_s=np.nan, latency_p95_s=np.nan, **dict.fromkeys(names, unknown))


def no_latency() -> Snapshot:
    return plain(latency_s=np.nan, latency_p95_s=np.nan)


def zero_rates() -> Snapshot:
    return plain(records_in=0, records_out=0)


def all_idle() -> Snapshot:
    return plain(records_in=0, records_out=0, busy=0, idle=1)


def busy_without_records() -> Snapshot:
    return plain(records_in=0, records_out=0, busy=1, pending=[1e6, 0, 0, 0, 1e6])


def records_without_busy_time() -> Snapshot:
    return plain(busy=0, idle=1)


def blocked_all_the_time() -> Snapshot:
    return plain(busy=0, backpressured=1, pending=[1e6, 0, 0, 0, 0])


def first_interval() -> Snapshot:
    present = np.zeros((3, 30), bool)
    return plain(present=present, complete=False)


def one_interval() -> Snapshot:
    present = np.zeros((3, 30), bool)
    present[:, -1] = True
    return plain(present=present)


def in_the_midst_of_a_restart() -> Snapshot:
    return plain(rescaling=True, since_rescale_s=3.0, complete=False, cooldown_s=27.0)


def few_slots() -> Snapshot:
    return plain(slots=4, parallelism=[4, 4, 3, 4, 2], busy=0.95)


def a_vertex_is_missing() -> Snapshot:
    complete = np.ones(SHAPE, bool)
    complete[0, :, 0] = complete[1, :, 3] = complete[2, ::2, 1] = False
    return plain(complete=complete)


NASTY: tuple[Callable[[], Snapshot], ...] = (
    nothing_reported,
    not_a_number_everywhere,
    no_latency,
    zero_rates,
    all_idle,
    busy_without_records,
    records_without_busy_time,
    blocked_all_the_time,
    first_interval,
    one_interval,
    in_the_midst_of_a_restart,
    few_slots,
    a_vertex_is_missing,
)


def begin(name: str) -> Decider:
    return make_policy(name).begin(GRAPH)


def check(snapshot: Snapshot, wanted: np.ndarray) -> None:
    assert wanted.shape == snapshot.parallelism.shape
    assert wanted.dtype == np.int64
    done = allowed(snapshot, wanted)
    assert ((done >= 1) & (done <= np.maximum(GRAPH.most, snapshot.parallelism))).all()


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("nasty", NASTY, ids=lambda made: made.__name__)
def test_no_rule_crashes_on_a_nasty_snapshot(name: str, nasty: Callable[[], Snapshot]) -> None:
    decider, snapshot = begin(name), nasty()
    for step in range(4):
        moved = snapshot._replace(now_s=snapshot.now_s + 60.0 * step)
        check(moved, decider.decide(moved))


@pytest.mark.parametrize("name", POLICIES)
def test_no_rule_crashes_on_one_nasty_snapshot_after_another(name: str) -> None:
    """What is remembered from one must not spoil the next."""
    decider = begin(name)
    for step, nasty in enumerate(2 * NASTY):
        snapshot = nasty()
        snapshot = snapshot._replace(now_s=snapshot.now_s + 60.0 * step)
        check(snapshot, decider.decide(snapshot))


@pytest.mark.parametrize("name", POLICIES)
def test_with_incomplete_metrics_no_rule_scales_down(name: str) -> None:
    """The newest sample is incomplete; whatever the older ones say, allowed() lets nothing shrink."""
    complete = np.ones(SHAPE, bool)
    complete[:, -1] = False
    decider = begin(name)
    for step in range(90):
        snapshot = plain(complete=complete, busy=0.01, idle=0.99, now_s=36_000.0 + 60 * step)
        done = allowed(snapshot, decider.decide(snapshot))
        assert (done >= snapshot.parallelism).all()


@pytest.mark.parametrize("name", [one for one in POLICIES if not one.startswith(("static", "reactive"))])
def test_where_nothing_is_known_no_rule_wants_a_change(name: str) -> None:
    decider, snapshot = begin(name), not_a_number_everywhere()
    for step in range(5):
        moved = snapshot._replace(now_s=snapshot.now_s + 60.0 * step)
        assert (decider.decide(moved) == snapshot.parallelism).all()


@pytest.mark.parametrize("name", POLICIES)
def test_environments_of_a_batch_do_not_know_of_each_other(name: str) -> None:
    """Each row decides as it would alone, also one that begins anew while the others go on."""
    random = np.random.default_rng(7)
    together = begin(name)
    alone = [
        make_policy(name).begin(type(GRAPH)(*(part[row : row + 1] for part in GRAPH))) for row in range(3)
    ]
    ages = np.array([40, 40, 40])
    for step in range(30):
        ages = ages + 1
        if step == 12:
            ages[1] = 0
        present = np.arange(30)[::-1] < ages[:, None]
        snapshot = plain(
            present=present,
            complete=present[:, :, None] & (random.random(SHAPE) > 0.05),
            busy=random.uniform(0.02, 1.0, SHAPE),
            records_in=random.uniform(0, 200, SHAPE),
            records_out=random.uniform(0, 200, SHAPE),
            pending=np.where(GRAPH.is_source[:, None], random.uniform(0, 5e4, SHAPE), 0.0),
            now_s=36_000.0 + 60 * step,
        )
        if step == 12:
            alone[1] = make_policy(name).begin(type(GRAPH)(*(part[1:2] for part in GRAPH)))
        expected = [alone[row].decide(one_row(snapshot, row))[0].tolist() for row in range(3)]
        assert together.decide(snapshot).tolist() == expected


def one_row(snapshot: Snapshot, row: int) -> Snapshot:
    def cut(parts: tuple) -> list:
        return [part[row : row + 1] for part in parts]

    graph = type(snapshot.graph)(*cut(snapshot.graph))
    samples = type(snapshot.samples)(*cut(snapshot.samples))
    fields = (
        "now_s",
        "parallelism",
        "rescaling",
        "cooldown_s",
        "since_rescale_s",
        "since_checkpoint_s",
        "downtime_s",
        "slots",
    )
    each = {name: getattr(snapshot, name)[row : row + 1] for name in fields}
    return snapshot._replace(graph=graph, samples=samples, **each)


@pytest.mark.parametrize("name", POLICIES)
def test_padding_changes_nothing(name: str) -> None:
    """A job decides the same when it is padded to more vertices, and what is padded stays at 0."""
    small = chain_graph(2)
    large = type(small)(*(np.pad(part, [(0, 0)] + [(0, 2)] * (part.ndim - 1)) for part in small))
    for busy in (0.05, 0.95):
        usual = {"busy": busy, "records_in": 100.0, "records_out": 100.0}
        alone = snapshot_of(small, parallelism=4, **usual)
        padded = snapshot_of(large, parallelism=[4, 4, 0, 0], **usual)
        wanted = make_policy(name).begin(large).decide(padded)
        assert wanted[:, :2].tolist() == make_policy(name).begin(small).decide(alone).tolist()
        assert allowed(padded, wanted)[:, 2:].tolist() == [[0, 0]]
