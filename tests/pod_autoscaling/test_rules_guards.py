"""Whatever monitoring says or fails to say, no rule crashes, invents numbers or scales down in the dark."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tests.pod_autoscaling.snapshots import one_row, services_of, snapshot_of

from trimtab.pod_autoscaling.policies import make_policy
from trimtab.pod_autoscaling.problem import Decider, Services, Snapshot, allowed

# Settings that make slow rules act at once, and every branch run.
POLICIES = (
    "autothrottle",
    "autothrottle:target=0.05,replicas=3",
    "hpa",
    "hpa:down_wait_s=0,cpu=2",
    "hpa-vpa",
    "hpa-vpa:resize_wait_s=30,down_wait_s=0",
    "keda",
    "keda:rate=10,down_wait_s=0",
    "mpc",
    "mpc:cpu=0,down_wait_s=0",
    "multi",
    "multi:cpu=1,keep_pods_s=15,deviations=0",
    "multi:in_place=0",
    "predictive-hpa",
    "predictive-hpa:period_s=300,down_wait_s=0",
    "static",
    "static:replicas=2",
    "vpa",
    "vpa:least_pods=1",
)
MOVING = tuple(name for name in POLICIES if not name.startswith("static"))
SERVICES = services_of(3, slo_s=[0.2, 0.4, 2.0])
SHAPE = (3, 20)
SIZES = ((6, 1.0, 512), (2, 3.0, 1024), (1, 0.3, 128))


def plain(**changed: object) -> Snapshot:
    usual: dict[str, object] = {"size": SIZES, "cpu": [[4.0], [3.0], [0.1]], "rate": [[200.0], [50.0], [1.0]]}
    return snapshot_of(SERVICES, **{**usual, **changed})  # pyright: ignore[reportArgumentType]


def nothing_reported() -> Snapshot:
    return plain(complete=False, pod_measured=False)


def not_a_number_everywhere() -> Snapshot:
    unknown = np.full(SHAPE, np.nan)
    names = ("rate", "late", "failed", "latency_s", "latency_p50_s", "latency_p99_s", "in_flight")
    names += ("cpu", "throttled", "memory", "kills")
    pods = {"pod_cpu": np.nan, "pod_memory": np.nan, "pod_measured": False}
    return plain(complete=False, **pods, **dict.fromkeys(names, unknown))


def not_a_number_but_complete() -> Snapshot:
    return not_a_number_everywhere()._replace(
        samples=not_a_number_everywhere().samples._replace(complete=np.ones(SHAPE, bool))
    )


def no_latency() -> Snapshot:
    return plain(latency_s=np.nan, latency_p50_s=np.nan, latency_p99_s=np.nan)


def no_requests() -> Snapshot:
    return plain(
        rate=0.0, cpu=0.0, in_flight=0.0, latency_s=np.nan, latency_p50_s=np.nan, latency_p99_s=np.nan
    )


def busy_without_requests() -> Snapshot:
    return plain(rate=0.0, in_flight=900.0)


def requests_without_cpu() -> Snapshot:
    return plain(cpu=0.0)


def everything_fails() -> Snapshot:
    return plain(failed=1.0, late=1.0, in_flight=5000.0, latency_p99_s=30.0, throttled=1.0)


def no_pods_ready() -> Snapshot:
    return plain(pod_ready=False, pod_pending=True, ready=0, samples_ready=0.0, cpu=0.0)


def no_pods_at_all() -> Snapshot:
    return plain(pod_exists=False, ready=0, samples_ready=0.0, cpu=0.0)


def pods_on_their_way_out() -> Snapshot:
    return plain(pods=12, pod_exists=True, pod_ending=np.arange(12) >= np.array([[6], [2], [1]]))


def pods_were_killed() -> Snapshot:
    return plain(pod_killed_s=35_990.0, pod_killed_at=512.0, kills=1.0)


def first_decision() -> Snapshot:
    return plain(present=False, complete=False, rate=0.0, cpu=0.0, pod_measured=False)


def one_interval() -> Snapshot:
    return plain(present=np.broadcast_to(np.arange(20) == 19, SHAPE))


def in_the_midst_of_a_resize() -> Snapshot:
    return plain(resizing=True, pod_cpu_request=0.5)


def a_node_refuses() -> Snapshot:
    return plain(infeasible=True, resizing=True, pod_cpu_request=0.5, cpu=9.0)


def sizes_out_of_bounds() -> Snapshot:
    return plain(size=(40, 9.0, 32), pods=40)


NASTY: tuple[Callable[[], Snapshot], ...] = (
    nothing_reported,
    not_a_number_everywhere,
    not_a_number_but_complete,
    no_latency,
    no_requests,
    busy_without_requests,
    requests_without_cpu,
    everything_fails,
    no_pods_ready,
    no_pods_at_all,
    pods_on_their_way_out,
    pods_were_killed,
    first_decision,
    one_interval,
    in_the_midst_of_a_resize,
    a_node_refuses,
    sizes_out_of_bounds,
)


def begin(name: str) -> Decider:
    return make_policy(name).begin(SERVICES)


def check(snapshot: Snapshot, wanted: np.ndarray) -> None:
    assert wanted.shape == snapshot.size.shape
    assert wanted.dtype == np.float64
    assert np.isfinite(wanted).all()
    assert ((wanted >= SERVICES.least - 1e-9) & (wanted <= SERVICES.most + 1e-9)).all()
    assert (allowed(snapshot, wanted) >= SERVICES.least - 1e-9).all()


def moved(snapshot: Snapshot, step: int) -> Snapshot:
    """The same, so many intervals later; measured just then."""
    later_s = 15.0 * step
    pods = snapshot.pods._replace(measured_s=snapshot.pods.measured_s + later_s)
    return snapshot._replace(now_s=snapshot.now_s + later_s, pods=pods)


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("nasty", NASTY, ids=lambda made: made.__name__)
def test_no_rule_crashes_on_a_nasty_snapshot(name: str, nasty: Callable[[], Snapshot]) -> None:
    decider, snapshot = begin(name), nasty()
    for step in range(6):
        check(snapshot, decider.decide(moved(snapshot, step)))


@pytest.mark.parametrize("name", POLICIES)
def test_no_rule_crashes_on_one_nasty_snapshot_after_another(name: str) -> None:
    """What is remembered from one must not spoil the next."""
    decider = begin(name)
    for step, nasty in enumerate(2 * NASTY):
        snapshot = moved(nasty(), step)
        check(snapshot, decider.decide(snapshot))


@pytest.mark.parametrize("name", POLICIES)
def test_with_incomplete_metrics_nothing_is_made_smaller(name: str) -> None:
    """The newest sample is incomplete; whatever the older ones say, allowed() lets nothing shrink."""
    complete = np.broadcast_to(np.arange(20) < 19, SHAPE)
    decider = begin(name)
    for step in range(30):
        snapshot = moved(plain(complete=complete, cpu=0.01, rate=0.1, memory=70.0), step)
        done = allowed(snapshot, decider.decide(snapshot))
        assert (done >= snapshot.size - 1e-9).all()


@pytest.mark.parametrize("name", [one for one in MOVING if "cpu=2" not in one and "replicas=3" not in one])
@pytest.mark.parametrize("nasty", [not_a_number_everywhere, first_decision], ids=lambda made: made.__name__)
def test_where_nothing_is_known_no_rule_wants_a_change(name: str, nasty: Callable[[], Snapshot]) -> None:
    decider, snapshot = begin(name), nasty()
    for step in range(5):
        assert decider.decide(moved(snapshot, step)).tolist() == snapshot.size.tolist()


@pytest.mark.parametrize("name", POLICIES)
def test_bounds_that_leave_no_choice_are_obeyed(name: str) -> None:
    only = services_of(2, least=(3, 0.5, 256), most=(3, 0.5, 256))
    decider = make_policy(name).begin(only)
    for step, cpu in enumerate((0.0, 1.4, 9.0, 0.01)):
        snapshot = snapshot_of(only, size=(3, 0.5, 256), cpu=cpu, rate=100 * cpu, now_s=36_000.0 + 15 * step)
        assert decider.decide(snapshot).tolist() == [[3, 0.5, 256]] * 2


def wild(random: np.random.Generator, services: Services, step: int, ages: np.ndarray) -> Snapshot:
    """Anything that monitoring could say, of services that are so many intervals old."""
    size = np.stack(
        [random.integers(1, 8, 3), random.uniform(0.2, 4, 3).round(2), 16.0 * random.integers(4, 60, 3)], 1
    )
    present = np.arange(20)[::-1] < ages[:, None]
    pods = 8
    return snapshot_of(
        services,
        size=size,
        pods=pods,
        present=present,
        complete=present & (random.random(SHAPE) > 0.05),
        rate=random.uniform(0, 300, SHAPE),
        cpu=random.uniform(0, 6, SHAPE),
        in_flight=random.uniform(0, 60, SHAPE),
        latency_s=random.uniform(0.01, 0.2, SHAPE),
        latency_p99_s=random.uniform(0.05, 1.0, SHAPE),
        throttled=random.uniform(0, 1, SHAPE),
        memory=random.uniform(50, 800, SHAPE),
        pod_cpu=random.uniform(0, 2, (3, pods)),
        pod_measured=random.random((3, pods)) > 0.1,
        now_s=36_000.0 + 15 * step,
    )


@pytest.mark.parametrize("name", POLICIES)
def test_services_of_a_batch_do_not_know_of_each_other(name: str) -> None:
    """Each row decides as it would alone, also one that begins anew while the others go on."""
    random = np.random.default_rng(7)
    together = begin(name)
    apart = [services_of(1, slo_s=slo_s) for slo_s in SERVICES.slo_s]
    alone = [make_policy(name).begin(one) for one in apart]
    for step in range(30):
        ages = np.array([step + 9, max(step - 12, 0) if step >= 12 else step, step + 40])
        snapshot = wild(random, SERVICES, step, ages)
        if step == 12:
            alone[1] = make_policy(name).begin(apart[1])
        expected = [alone[row].decide(one_row(snapshot, row))[0].tolist() for row in range(3)]
        assert together.decide(snapshot).tolist() == expected
