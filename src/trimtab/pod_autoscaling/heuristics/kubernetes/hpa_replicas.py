"""How many replicas Kubernetes' horizontal pod autoscaler proposes, metric by metric.

The arithmetic of the controller's replica calculator, in its integers: usage, requests and targets are whole
thousandths of their unit (millicores, thousandths of a byte or of a request per second), utilisation is a
whole percentage rounded down, and a mean is cut to a whole thousandth. `milli_units` makes them from plain
numbers. It follows Kubernetes from 1.33 on, where tolerances became one for each direction.

A metric that cannot be used is an answer too (`Failed`), because the controller goes on with the others: see
`combined_replicas`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

__all__ = [
    "Failed",
    "PodGroups",
    "PodSample",
    "Proposal",
    "ReadinessTiming",
    "Tolerance",
    "average_value_replicas",
    "combined_replicas",
    "group_pods",
    "milli_units",
    "per_pod_value_replicas",
    "total_value_replicas",
    "utilisation_replicas",
]

MOST_REPLICAS = 2**31 - 1


class PodSample(NamedTuple):
    """One pod as the autoscaler sees it; by default one that has been running and ready for long.

    `usage_milli` is None when there is no metric for the pod, `request_milli` when one of its containers has
    no request, `ready` when there is no Ready condition (True and False are its status), `started_s` when the
    kubelet has not taken the pod yet. `ready_changed_s` is the last change of the Ready condition,
    `measured_s` the end of the window of `window_s` seconds over which the usage was measured.
    """

    usage_milli: int | None
    request_milli: int | None = None
    phase: str = "Running"
    deleted: bool = False
    ready: bool | None = True
    started_s: float | None = -math.inf
    ready_changed_s: float = -math.inf
    measured_s: float = math.inf
    window_s: float = 60.0


class ReadinessTiming(NamedTuple):
    """Two flags of the controller manager: how long a starting pod's CPU is not to be trusted."""

    cpu_initialisation_s: float = 300.0
    initial_readiness_delay_s: float = 30.0


class Tolerance(NamedTuple):
    """How far below and above 1 the ratio of usage to target may lie without a change.

    >>> Tolerance().holds(1.1), Tolerance().holds(0.9), Tolerance(up=0.05).holds(1.1)
    (True, True, False)
    """

    down: float = 0.1
    up: float = 0.1

    def holds(self, ratio: float) -> bool:
        # Not abs(1 - ratio): in doubles 1 + 0.1 is the 1.1 that 55 / 50 gives, but 1.1 - 1 is over 0.1.
        return 1.0 - self.down <= ratio <= 1.0 + self.up


class PodGroups(NamedTuple):
    """Places of the pods in their list, by how the autoscaler counts them."""

    counted: list[int]
    unready: list[int]
    missing: list[int]
    ignored: list[int]


class Proposal(NamedTuple):
    """`measured`: utilisation in percent, or the mean in thousandths, as the status of an HPA shows it."""

    replicas: int
    measured: int
    because: str


class Failed(NamedTuple):
    """A metric (or all of them) from which no number of replicas follows."""

    because: str


USUAL_TOLERANCE = Tolerance()
USUAL_TIMING = ReadinessTiming()


def milli_units(value: float) -> int:
    """Whole thousandths, rounded up, as Kubernetes reads a quantity; noise of doubles is not rounded up.

    >>> milli_units(0.07), milli_units(0.0001), milli_units(2)
    (70, 1, 2000)
    """
    return math.ceil(value * 1000 - 1e-6)


def group_pods(
    pods: Sequence[PodSample], now_s: float, *, cpu: bool, timing: ReadinessTiming = USUAL_TIMING
) -> PodGroups:
    """Who counts, who is not ready yet, whose metric is missing, and who is left out altogether.

    Only the `cpu` of a starting pod is distrusted: while it may still be initialising, until it is ready and
    one whole window was measured since; afterwards, only if it never was ready.
    """
    groups = PodGroups([], [], [], [])
    counted, unready, missing, ignored = groups
    initialising_since_s = now_s - timing.cpu_initialisation_s
    for place, pod in enumerate(pods):
        usage_milli, _, phase, deleted, ready, started_s, ready_changed_s, measured_s, window_s = pod
        if deleted or phase == "Failed":
            ignored.append(place)
        elif phase == "Pending":
            unready.append(place)
        elif usage_milli is None:
            missing.append(place)
        elif not cpu:
            counted.append(place)
        elif ready is None or started_s is None:
            unready.append(place)
        elif started_s > initialising_since_s:
            fresh = ready and measured_s >= ready_changed_s + window_s
            (counted if fresh else unready).append(place)
        elif not ready and started_s + timing.initial_readiness_delay_s > ready_changed_s:
            unready.append(place)
        else:
            counted.append(place)
    return groups


def utilisation_replicas(
    pods: Sequence[PodSample],
    current: int,
    target_percent: int,
    *,
    now_s: float,
    cpu: bool = True,
    tolerance: Tolerance = USUAL_TOLERANCE,
    timing: ReadinessTiming = USUAL_TIMING,
) -> Proposal | Failed:
    """For a resource with a target utilisation in percent of the requests.

    >>> busy = [PodSample(usage_milli=800, request_milli=1000)] * 3
    >>> utilisation_replicas(busy, 3, 50, now_s=0)
    Proposal(replicas=5, measured=80, because='in proportion to 3 pods')
    """
    groups = group_pods(pods, now_s, cpu=cpu, timing=timing)
    if refused := _refused(pods, groups):
        return refused
    requests = [pod.request_milli for pod in pods if pod.request_milli is not None]
    if len(requests) < len(pods):
        return Failed("a container has no request for the resource")
    usage = sum([pods[place].usage_milli or 0 for place in groups.counted])
    requested = sum([requests[place] for place in groups.counted])
    if requested == 0:
        return Failed("the requests of all pods with a metric are zero")
    percent = 100 * usage // requested

    def refilled(ratio: float, with_unready: bool) -> float:
        """On the way down a missing pod uses all of its request (or the target, where that is more)."""
        usage_then, requested_then = usage, requested
        if ratio != 1.0:
            requested_then += sum(requests[place] for place in groups.missing)
        if ratio < 1.0:
            assumed_percent = max(100, target_percent)
            usage_then += sum(requests[place] * assumed_percent // 100 for place in groups.missing)
        if with_unready:
            requested_then += sum(requests[place] for place in groups.unready)
        return (100 * usage_then // requested_then) / target_percent

    replicas, because = _proposed(current, groups, percent / target_percent, refilled, tolerance)
    return Proposal(replicas, percent, because)


def average_value_replicas(
    pods: Sequence[PodSample],
    current: int,
    target_milli: int,
    *,
    now_s: float,
    cpu: bool = False,
    tolerance: Tolerance = USUAL_TOLERANCE,
    timing: ReadinessTiming = USUAL_TIMING,
) -> Proposal | Failed:
    """For a metric of each pod with a target for its mean: `Pods`, or a resource with `averageValue`.

    >>> average_value_replicas([PodSample(30_000), PodSample(50_000)], 2, 20_000, now_s=0)
    Proposal(replicas=4, measured=40000, because='in proportion to 2 pods')
    """
    groups = group_pods(pods, now_s, cpu=cpu, timing=timing)
    if refused := _refused(pods, groups):
        return refused
    total = sum([pods[place].usage_milli or 0 for place in groups.counted])
    mean = _divided(total, len(groups.counted))

    def refilled(ratio: float, with_unready: bool) -> float:
        """On the way down a missing pod is at the target."""
        count = len(groups.counted) + (len(groups.unready) if with_unready else 0)
        count += len(groups.missing) if ratio != 1.0 else 0
        assumed = target_milli * len(groups.missing) if ratio < 1.0 else 0
        return _divided(total + assumed, count) / target_milli

    replicas, because = _proposed(current, groups, mean / target_milli, refilled, tolerance)
    return Proposal(replicas, mean, because)


def total_value_replicas(
    pods: Sequence[PodSample],
    current: int,
    value_milli: int,
    target_milli: int,
    *,
    tolerance: Tolerance = USUAL_TOLERANCE,
) -> Proposal | Failed:
    """For an `Object` or `External` metric with a target for its value: what is ready, in proportion.

    Without any replica (scaling to zero), one replica is as good as one target. Several series of an external
    metric are summed before.

    >>> total_value_replicas([PodSample(None)] * 3, 3, 3000, 2000).replicas
    5
    """
    ratio = value_milli / target_milli
    if current == 0:
        return Proposal(_ceiling(ratio), value_milli, "in proportion, from no pods")
    if tolerance.holds(ratio):
        return Proposal(current, value_milli, "within the tolerance")
    if not pods:
        return Failed("there are no pods")
    ready = sum(pod.phase == "Running" and pod.ready is True for pod in pods)
    return Proposal(_ceiling(ratio * ready), value_milli, f"in proportion to {ready} ready pods")


def per_pod_value_replicas(
    present: int, total_milli: int, target_milli: int, *, tolerance: Tolerance = USUAL_TOLERANCE
) -> Proposal:
    """For an `Object` or `External` metric with a target for each pod: the total over the target.

    `present` is the number of replicas that exist (the status of the scale), whether they are ready or not.

    >>> per_pod_value_replicas(2, 950_000, 100_000)
    Proposal(replicas=10, measured=475000, because='total over target')
    """
    measured = math.ceil(total_milli / present) if present else 0
    wanted = target_milli * present
    # Without pods the controller's ratio is infinite, or no number at all: out of any tolerance.
    if wanted and tolerance.holds(total_milli / wanted):
        return Proposal(present, measured, "within the tolerance")
    return Proposal(_ceiling(total_milli / target_milli), measured, "total over target")


def combined_replicas(outcomes: Sequence[Proposal | Failed], current: int) -> Proposal | Failed:
    """The largest proposal. With a failed metric among them, only if that is not a scale-down.

    >>> fewer, more, broken = Proposal(2, 30, "x"), Proposal(6, 90, "y"), Failed("no metrics")
    >>> combined_replicas([fewer, more, broken], 4).replicas
    6
    >>> combined_replicas([fewer, broken], 4)
    Failed(because='1 of 2 metrics failed and the rest would scale down: no metrics')
    """
    failures = [outcome for outcome in outcomes if isinstance(outcome, Failed)]
    proposals = [outcome for outcome in outcomes if isinstance(outcome, Proposal)]
    if not proposals:
        return Failed(failures[0].because if failures else "there are no metrics")
    largest = max(proposals, key=lambda proposal: proposal.replicas)
    if failures and largest.replicas < current:
        count = f"{len(failures)} of {len(outcomes)} metrics"
        return Failed(f"{count} failed and the rest would scale down: {failures[0].because}")
    return largest


def _refused(pods: Sequence[PodSample], groups: PodGroups) -> Failed | None:
    if not pods:
        return Failed("there are no pods")
    return None if groups.counted else Failed("no pod that counts has a metric")


def _proposed(
    current: int,
    groups: PodGroups,
    ratio: float,
    refilled: Callable[[float, bool], float],
    tolerance: Tolerance,
) -> tuple[int, str]:
    """The proposal from the ratio of usage to target, doubted where pods are missing or not ready.

    Doubts only hold back: pods in doubt are taken to be idle on the way up and busy on the way down, and if
    that turns the direction around, nothing is done.
    """
    counted, missing = len(groups.counted), len(groups.missing)
    with_unready = bool(groups.unready) and ratio > 1.0
    if not with_unready and not missing:
        if tolerance.holds(ratio):
            return current, "within the tolerance"
        return _ceiling(ratio * counted), f"in proportion to {counted} pods"
    doubted = refilled(ratio, with_unready)
    if tolerance.holds(doubted):
        return current, "within the tolerance, with pods in doubt"
    if (ratio < 1.0 < doubted) or (doubted < 1.0 < ratio):
        return current, "pods in doubt turn the direction around"
    considered = counted + (len(groups.unready) if with_unready else 0) + (missing if ratio != 1.0 else 0)
    replicas = _ceiling(doubted * considered)
    if (doubted < 1.0 and replicas > current) or (doubted > 1.0 and replicas < current):
        return current, "the number of pods turns the direction around"
    return replicas, f"in proportion to {considered} pods, some in doubt"


def _ceiling(replicas: float) -> int:
    return min(math.ceil(replicas), MOST_REPLICAS)


def _divided(total: int, count: int) -> int:
    """Integer division towards zero; a custom metric may be negative."""
    return total // count if total >= 0 else -(-total // count)
