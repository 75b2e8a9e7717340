"""Inputs of Kubernetes' HPA with the answers worked out by hand, each with its reasoning.

For tests and for `make bench-pod-exact`. Nothing here was computed by the code that it checks. Utilisation is
cut to a whole percentage of the requests; its ratio to the target is what decides, and pods in doubt are
filled in before a second ratio. Unless it says otherwise requests are 1000 m and pods are ready for long.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from trimtab.pod_autoscaling.heuristics.kubernetes.hpa_behavior import (
    Behavior,
    Bounds,
    ScalingPolicy,
    ScalingRules,
)
from trimtab.pod_autoscaling.heuristics.kubernetes.hpa_replicas import Failed, PodSample, Proposal, Tolerance

NOW_S = 10_000.0


class ReplicaVector(NamedTuple):
    """One metric: utilisation, average, total or per pod. No number is expected where the metric fails."""

    why: str
    metric: str
    pods: list[PodSample]
    current: int
    target: int
    expected: int | None
    value: int = 0
    cpu: bool = True
    tolerance: Tolerance = Tolerance()


class CombinedVector(NamedTuple):
    """Several metrics."""

    why: str
    outcomes: list[Proposal | Failed]
    current: int
    expected: int | None


class Timeline(NamedTuple):
    """Steps of (seconds, current replicas, proposed replicas or None for a failed metric, expected)."""

    why: str
    behavior: Behavior | None
    steps: list[tuple[float, int, int | None, int]]
    bounds: Bounds = Bounds(1, 100)


def pods(count: int, usage: int | None, request: int | None = 1000, **rest: Any) -> list[PodSample]:
    return [PodSample(usage, request, **rest)] * count


def starting(usage: int, age_s: float, *, ready: bool, ready_age_s: float, **rest: Any) -> list[PodSample]:
    """One pod that began `age_s` ago and whose readiness changed `ready_age_s` ago."""
    since_s, changed_s = NOW_S - age_s, NOW_S - ready_age_s
    return [PodSample(usage, 1000, started_s=since_s, ready=ready, ready_changed_s=changed_s, **rest)]


PENDING = pods(1, None, phase="Pending")
MISSING = pods(1, None)

_U, _A, _T, _P = "utilisation", "average", "total", "per pod"
REPLICAS = [
    # --- utilisation: proportion, whole percent, tolerance
    ReplicaVector("80 / 50 = 1.6 of 3 pods is 4.8", _U, pods(3, 800), 3, 50, 5),
    ReplicaVector("20 / 50 = 0.4 of 4 pods is 1.6", _U, pods(4, 200), 4, 50, 2),
    ReplicaVector("at the target", _U, pods(4, 500), 4, 50, 4),
    ReplicaVector("upper edge: 55 / 50 is the very double 1 + 0.1", _U, pods(10, 550), 10, 50, 10),
    ReplicaVector("over the edge: 1.12 of 10 is 11.2", _U, pods(10, 560), 10, 50, 12),
    ReplicaVector("lower edge: 45 / 50 = 0.9", _U, pods(10, 450), 10, 50, 10),
    ReplicaVector("under the edge: 0.88 of 10 is 8.8", _U, pods(10, 440), 10, 50, 9),
    ReplicaVector("55.9 % is 55 %: still at the edge", _U, pods(10, 559), 10, 50, 10),
    ReplicaVector("44.9 % is 44 %: 8.8, not within 0.898", _U, pods(10, 449), 10, 50, 9),
    ReplicaVector("60.8 % is 60 %: 1.2 of 10 is 12, not 12.16", _U, pods(10, 608), 10, 50, 12),
    ReplicaVector("upper edge of target 80: 88 / 80", _U, pods(7, 880), 7, 80, 7),
    ReplicaVector("lower edge of target 70: 63 / 70", _U, pods(7, 630), 7, 70, 7),
    ReplicaVector(
        "sums, not mean of ratios: 1000 / 5000 is 20 %", _U, pods(1, 900) + pods(1, 100, 4000), 2, 40, 1
    ),
    ReplicaVector("of the pods there are, 4 at 2.0, not of 6 asked for", _U, pods(4, 1000), 6, 50, 8),
    ReplicaVector("above the request: 150 / 100 of 3 is 4.5", _U, pods(3, 1500), 3, 100, 5),
    ReplicaVector("idle: 0 of 5", _U, pods(5, 0), 5, 50, 0),
    ReplicaVector(
        "no tolerance up: 1.02 of 10 is 10.2", _U, pods(10, 510), 10, 50, 11, tolerance=Tolerance(0.1, 0)
    ),
    ReplicaVector(
        "no tolerance up leaves that down", _U, pods(10, 450), 10, 50, 10, tolerance=Tolerance(0.1, 0)
    ),
    ReplicaVector(
        "tolerance down 0.3: 36 / 50 = 0.72", _U, pods(10, 360), 10, 50, 10, tolerance=Tolerance(0.3, 0.1)
    ),
    ReplicaVector(
        "tolerance up 0.3: 64 / 50 = 1.28", _U, pods(10, 640), 10, 50, 10, tolerance=Tolerance(0.1, 0.3)
    ),
    ReplicaVector(
        "tolerance up 0.3 leaves that down: 0.88", _U, pods(10, 440), 10, 50, 9, tolerance=Tolerance(0.1, 0.3)
    ),
    # --- utilisation: metrics are missing
    ReplicaVector("up, missing is 0: 2400 / 4000 = 60 %, 1.2 of 4", _U, pods(3, 800) + MISSING, 4, 50, 5),
    ReplicaVector("up, then within: 2100 / 4000 = 52 %", _U, pods(3, 700) + MISSING, 4, 50, 4),
    ReplicaVector("up turns down: 600 / 4000 = 15 %", _U, pods(1, 600) + 3 * MISSING, 4, 50, 4),
    ReplicaVector("down, missing is 100 %: 1700 / 8000 = 21 %, 3.36", _U, pods(7, 100) + MISSING, 8, 50, 4),
    ReplicaVector("down, then at the upper edge: 2200 / 4000 = 55 %", _U, pods(3, 400) + MISSING, 4, 50, 4),
    ReplicaVector("down turns up: 2800 / 4000 = 70 %", _U, pods(2, 400) + 2 * MISSING, 4, 50, 4),
    ReplicaVector(
        "missing is the target where that is more: 3300 / 4000 = 82 %, 82 / 150 of 4 is 2.19",
        *(_U, pods(3, 600) + MISSING, 4, 150, 3),
    ),
    ReplicaVector("ratio is just 1: missing pods change nothing", _U, pods(2, 500) + MISSING, 3, 50, 3),
    ReplicaVector(
        "requests differ: 1800 / 6000 = 30 % turns it", _U, pods(2, 900) + pods(1, None, 4000), 3, 50, 3
    ),
    ReplicaVector("up, yet 1.2 of 3 pods is fewer than 10", _U, pods(2, 900) + MISSING, 10, 50, 10),
    ReplicaVector("down, yet 0.8 of 4 pods is more than 1", _U, pods(3, 200) + MISSING, 1, 50, 1),
    ReplicaVector(
        "completed pods without metric are missing ones",
        _U,
        pods(3, 800) + pods(1, None, phase="Succeeded"),
        4,
        50,
        5,
    ),
    # --- utilisation: pods are not ready
    ReplicaVector("up, pending is 0: 60 %, 1.2 of 4", _U, pods(3, 800) + PENDING, 4, 50, 5),
    ReplicaVector("down, pending is left out: 0.4 of 3", _U, pods(3, 200) + PENDING, 4, 50, 2),
    ReplicaVector("ratio is just 1: pods not ready change nothing", _U, pods(2, 500) + PENDING, 3, 50, 3),
    ReplicaVector("up turns down: 600 / 3000 = 20 %", _U, pods(1, 600) + 2 * PENDING, 3, 50, 3),
    ReplicaVector(
        "a hot start does not count: 100 s old and not ready",
        *(_U, pods(3, 800) + starting(2000, 100, ready=False, ready_age_s=100), 4, 50, 5),
    ),
    ReplicaVector(
        "ready, but its window began before that: left out on the way down",
        *(
            _U,
            pods(3, 200) + starting(2000, 100, ready=True, ready_age_s=50, measured_s=NOW_S - 10),
            4,
            50,
            2,
        ),
    ),
    ReplicaVector(
        "one whole window since it is ready: 2600 / 4000 = 65 %, 1.3 of 4",
        *(
            _U,
            pods(3, 200) + starting(2000, 100, ready=True, ready_age_s=70, measured_s=NOW_S - 10),
            4,
            50,
            6,
        ),
    ),
    ReplicaVector(
        "old and never ready (readiness set 10 s after the start): 0.4 of 3",
        *(_U, pods(3, 200) + starting(2000, 301, ready=False, ready_age_s=291), 4, 50, 2),
    ),
    ReplicaVector(
        "old and no longer ready: counts, 65 %",
        *(_U, pods(3, 200) + starting(2000, 301, ready=False, ready_age_s=201), 4, 50, 6),
    ),
    ReplicaVector(
        "readiness set just 30 s after the start: was ready once, counts",
        *(_U, pods(3, 200) + starting(2000, 301, ready=False, ready_age_s=271), 4, 50, 6),
    ),
    ReplicaVector(
        "just 300 s old: no longer initialising, an old window is good",
        *(_U, pods(3, 200) + starting(2000, 300, ready=True, ready_age_s=5, measured_s=NOW_S - 10), 4, 50, 6),
    ),
    ReplicaVector(
        "memory of a starting pod counts",
        *(_U, pods(3, 200) + starting(2000, 100, ready=False, ready_age_s=100), 4, 50, 6),
        cpu=False,
    ),
    ReplicaVector("no Ready condition", _U, pods(3, 200) + pods(1, 2000, ready=None), 4, 50, 2),
    ReplicaVector("no start time", _U, pods(3, 200) + pods(1, 2000, started_s=None), 4, 50, 2),
    ReplicaVector("up with both: 50 %, 50 / 30 of 4 is 6.7", _U, pods(2, 1000) + MISSING + PENDING, 4, 30, 7),
    ReplicaVector(
        "down with both: 1200 / 3000 = 40 %, 0.8 of 3", _U, pods(2, 100) + MISSING + PENDING, 4, 50, 3
    ),
    # --- utilisation: pods that are no more, and failures
    ReplicaVector(
        "a deleted pod is not there: 1.6 of 3", _U, pods(3, 800) + pods(1, 0, deleted=True), 4, 50, 5
    ),
    ReplicaVector("nor a failed one", _U, pods(3, 800) + pods(1, 0, phase="Failed"), 4, 50, 5),
    ReplicaVector("nobody counts", _U, PENDING + MISSING, 2, 50, None),
    ReplicaVector("no pods", _U, [], 2, 50, None),
    ReplicaVector("a pod without request spoils all", _U, pods(3, 800) + pods(1, 800, None), 4, 50, None),
    ReplicaVector("requests of zero", _U, pods(2, 10, 0), 2, 50, None),
    # --- a mean of the pods (usage and target in thousandths)
    ReplicaVector("mean 40 over 20, of 2", _A, pods(1, 30_000) + pods(1, 50_000), 2, 20_000, 4, cpu=False),
    ReplicaVector("11.33 is cut to 11: upper edge", _A, pods(2, 11) + pods(1, 12), 3, 10, 3, cpu=False),
    ReplicaVector("lower edge", _A, pods(4, 9000), 4, 10_000, 4, cpu=False),
    ReplicaVector(
        "down, missing is at the target: 6250, 2.5", _A, pods(3, 5000) + MISSING, 4, 10_000, 3, cpu=False
    ),
    ReplicaVector(
        "up, missing is 0: 15000, 1.5 of 4", _A, pods(3, 20_000) + MISSING, 4, 10_000, 6, cpu=False
    ),
    ReplicaVector("up turns down: 3000", _A, pods(1, 12_000) + 3 * MISSING, 4, 10_000, 4, cpu=False),
    ReplicaVector("ratio is just 1: stays at 4", _A, pods(2, 9000) + 3 * MISSING, 4, 9000, 4, cpu=False),
    ReplicaVector("readiness is not asked", _A, pods(2, 40_000, ready=False), 2, 20_000, 4, cpu=False),
    ReplicaVector(
        "but for CPU: 2000 / 3 = 666, 1.332 of 3",
        *(_A, pods(2, 1000) + starting(5000, 100, ready=False, ready_age_s=100), 3, 500, 4),
    ),
    ReplicaVector("up, yet fewer than 9", _A, pods(2, 20_000) + MISSING, 9, 10_000, 9, cpu=False),
    ReplicaVector(
        "negative, cut towards zero: -4 / 10 of 2", _A, pods(1, -5) + pods(1, -4), 2, 10, 0, cpu=False
    ),
    ReplicaVector("no metric at all", _A, 2 * MISSING, 2, 10, None, cpu=False),
    # --- one value for all pods
    ReplicaVector("1.5 of 3 ready", _T, pods(3, None), 3, 2000, 5, value=3000),
    ReplicaVector(
        "of those ready: 1.5 of 2", _T, pods(2, 1) + pods(2, 1, ready=False), 4, 2000, 3, value=3000
    ),
    ReplicaVector(
        "and running: 1.5 of 2", _T, pods(2, 1) + pods(2, 1, phase="Pending"), 4, 2000, 3, value=3000
    ),
    ReplicaVector("upper edge", _T, pods(3, 1), 3, 2000, 3, value=2200),
    ReplicaVector("lower edge", _T, pods(3, 1), 3, 2000, 3, value=1800),
    ReplicaVector("0.5 of 4", _T, pods(4, 1), 4, 2000, 2, value=1000),
    ReplicaVector("from zero: 2.5 targets", _T, [], 0, 1000, 3, value=2500),
    ReplicaVector("from zero: nothing", _T, [], 0, 1000, 0, value=0),
    ReplicaVector("no pods", _T, [], 2, 1000, None, value=3000),
    ReplicaVector("at most what a number of 32 bits holds", _T, pods(9, 1), 9, 1, 2**31 - 1, value=10**12),
    # --- one value, so much for each pod (`current` is what exists)
    ReplicaVector("95 over 10", _P, [], 2, 10_000, 10, value=95_000),
    ReplicaVector("within: 105 over 10 for 10", _P, [], 10, 10_000, 10, value=105_000),
    ReplicaVector("upper edge: 110", _P, [], 10, 10_000, 10, value=110_000),
    ReplicaVector("over the edge", _P, [], 10, 10_000, 12, value=110_001),
    ReplicaVector("42 over 10", _P, [], 10, 10_000, 5, value=42_000),
    ReplicaVector("from zero", _P, [], 0, 10_000, 1, value=1),
    ReplicaVector("from zero: nothing", _P, [], 0, 10_000, 0, value=0),
]

_FEW, _MANY, _BROKEN = Proposal(2, 0, ""), Proposal(6, 0, ""), Failed("no metrics")
COMBINED = [
    CombinedVector("the largest wins", [_FEW, _MANY], 4, 6),
    CombinedVector("the largest wins, also on the way down", [_FEW, Proposal(3, 0, "")], 4, 3),
    CombinedVector("one fails, the other scales up", [_BROKEN, _MANY], 4, 6),
    CombinedVector("one fails, the other stays", [_MANY, _BROKEN], 6, 6),
    CombinedVector("one fails, so no scale-down", [_FEW, _BROKEN], 4, None),
    CombinedVector("all fail", [_BROKEN, _BROKEN], 4, None),
]


def policies(*rules: tuple[str, int, float], select: str = "Max", wait_s: float = 0.0) -> ScalingRules:
    return ScalingRules(wait_s, tuple(ScalingPolicy(*rule) for rule in rules), select)


_FREE = policies(("Percent", 100, 15))
USUAL = Behavior()
HASTY = Behavior(down=_FREE)  # no waiting


def up(*rules: tuple[str, int, float], **rest: Any) -> Behavior:
    return Behavior(up=policies(*rules, **rest), down=_FREE)


def down(*rules: tuple[str, int, float], **rest: Any) -> Behavior:
    return Behavior(down=policies(*rules, **rest))


_BOTH_DOWN = (("Percent", 10, 60), ("Pods", 4, 60))
_TWO_PERIODS = (("Pods", 1, 15), ("Pods", 5, 300))
TIMELINES = [
    # --- rates, up
    Timeline("usual: 4 pods beat 100 % of 3", USUAL, [(0, 3, 9, 7)]),
    Timeline("usual: 100 % of 10 beats 4 pods", USUAL, [(0, 10, 30, 20)]),
    Timeline("the change of 10 s ago counts: from 3 at most 7", USUAL, [(0, 3, 9, 7), (10, 7, 20, 7)]),
    Timeline("one of just a period ago does not: 7 doubles", USUAL, [(0, 3, 9, 7), (15, 7, 20, 14)]),
    Timeline(
        "Min: 4 pods rather than 100 %",
        up(("Pods", 4, 15), ("Percent", 100, 15), select="Min"),
        [(0, 10, 30, 14)],
    ),
    Timeline("Disabled up", up(("Pods", 4, 15), select="Disabled"), [(0, 10, 30, 10), (15, 10, 5, 5)]),
    Timeline("10 % of 3 is one pod: 3.3 rounded up", up(("Percent", 10, 60)), [(0, 3, 9, 4)]),
    Timeline(
        "10 % of 50 is six pods: the double 1.1 is a little more", up(("Percent", 10, 60)), [(0, 50, 99, 56)]
    ),
    Timeline(
        "two changes of the last minute add up: at most 4 + 4",
        up(("Pods", 4, 60)),
        [(0, 4, 6, 6), (10, 6, 7, 7), (20, 7, 99, 8)],
    ),
    Timeline("2 pods a minute", up(("Pods", 2, 60)), [(0, 5, 20, 7), (30, 7, 20, 7), (60, 7, 20, 9)]),
    Timeline(
        "the quicker of two periods: 16 of 16 and 15", up(*_TWO_PERIODS), [(0, 10, 99, 15), (15, 15, 99, 16)]
    ),
    Timeline(
        "the slower: 11 of 11 and 15, 12 of 12 and 15",
        up(*_TWO_PERIODS, select="Min"),
        [(0, 10, 99, 11), (15, 11, 99, 12)],
    ),
    Timeline(
        "what was removed counts: from 10 at most 14",
        Behavior(policies(("Pods", 4, 60)), policies(("Pods", 2, 60))),
        [(0, 10, 1, 8), (30, 8, 99, 14)],
    ),
    Timeline(
        "a limit below what there is holds it: put up from 2 to 10, 2 + 4 is less",
        USUAL,
        [(0, 2, 5, 10), (5, 10, 20, 10)],
        Bounds(10, 100),
    ),
    Timeline("the upper bound", USUAL, [(0, 10, 99, 15)], Bounds(1, 15)),
    # --- rates, down
    Timeline(
        "10 %: 80, 72, and 64.8 cut to 64",
        down(("Percent", 10, 60)),
        [(0, 80, 10, 72), (15, 72, 10, 72), (60, 72, 10, 64)],
    ),
    Timeline("25 % of 10: 7.5 cut to 7", down(("Percent", 25, 60)), [(0, 10, 1, 7)]),
    Timeline("4 pods", down(("Pods", 4, 60)), [(0, 10, 1, 6), (45, 6, 1, 6), (60, 6, 1, 2)]),
    Timeline("Max: 10 % of 80 are 8 pods", down(*_BOTH_DOWN), [(0, 80, 1, 72)]),
    Timeline("Max: 4 pods of 20 are more than 10 %", down(*_BOTH_DOWN), [(0, 20, 1, 16)]),
    Timeline("Min: 4 pods of 80", down(*_BOTH_DOWN, select="Min"), [(0, 80, 1, 76)]),
    Timeline("Min: 10 % of 20 are 2 pods", down(*_BOTH_DOWN, select="Min"), [(0, 20, 1, 18)]),
    Timeline("Disabled down", down(("Pods", 4, 60), select="Disabled"), [(0, 10, 1, 10), (60, 10, 14, 14)]),
    Timeline(
        "what was added counts: from 10 down to 8",
        Behavior(policies(("Pods", 4, 60)), policies(("Pods", 2, 60))),
        [(0, 10, 99, 14), (30, 14, 1, 8)],
    ),
    Timeline(
        "a change up is outdated by the 15 s of its own policies and overwritten by the next, though the"
        " policy down looks back 600 s: 12 - 4 - 1, not 12 - 8 - 1",
        Behavior(policies(("Pods", 4, 15)), policies(("Pods", 1, 600))),
        [(0, 4, 99, 8), (60, 8, 99, 12), (100, 12, 1, 7)],
    ),
    Timeline("the lower bound", HASTY, [(0, 10, 1, 3)], Bounds(3, 20)),
    # --- stabilisation
    Timeline(
        "usual: not down for 300 s, then to 5",
        USUAL,
        [(0, 10, 10, 10), (15, 10, 5, 10), (299, 10, 5, 10), (300, 10, 5, 5)],
    ),
    Timeline(
        "what there is at first is the first recommendation",
        USUAL,
        [(0, 10, 5, 10), (290, 10, 5, 10), (301, 10, 5, 5)],
    ),
    Timeline(
        "down to the most of the window",
        USUAL,
        [(0, 10, 10, 10), (100, 10, 8, 10), (200, 10, 5, 10), (301, 10, 5, 8), (401, 8, 5, 5)],
    ),
    Timeline("no window: at once", HASTY, [(0, 10, 5, 5)]),
    Timeline(
        "60 s up: the least of the window",
        up(("Percent", 900, 15), wait_s=60),
        [(0, 4, 10, 4), (30, 4, 6, 4), (61, 4, 10, 6)],
    ),
    Timeline(
        "60 s up: one of just 60 s ago is out",
        up(("Percent", 900, 15), wait_s=60),
        [(0, 4, 8, 4), (30, 4, 8, 4), (60, 4, 8, 8)],
    ),
    Timeline(
        "both windows: between 4 and 8 nothing moves",
        Behavior(policies(("Percent", 900, 15), wait_s=300), policies(("Percent", 100, 15), wait_s=300)),
        [(0, 5, 8, 5), (15, 5, 4, 5), (30, 5, 8, 5)],
    ),
    Timeline(
        "stabilised first, to 8 of the window, then limited to 2 pods a minute",
        down(("Pods", 2, 60), wait_s=100),
        [(0, 20, 20, 20), (50, 20, 8, 20), (101, 20, 1, 18), (130, 18, 1, 18), (161, 18, 1, 16)],
    ),
    Timeline(
        "a short peak goes up at once and down after 300 s",
        USUAL,
        [(0, 4, 8, 8), (15, 8, 4, 8), (299, 8, 4, 8), (301, 8, 4, 4)],
    ),
    Timeline("past recommendations do not raise: still 8", USUAL, [(0, 4, 20, 8), (15, 8, 8, 8)]),
    # --- failed metrics, bounds, off
    Timeline("a failed metric holds", HASTY, [(0, 10, None, 10), (15, 10, 5, 5)]),
    Timeline(
        "and is not remembered: nothing of 300 s holds 10",
        USUAL,
        [(0, 10, 10, 10), (310, 10, None, 10), (320, 10, 5, 5)],
    ),
    Timeline("above the bound: back at once", USUAL, [(0, 12, 12, 10)], Bounds(1, 10)),
    Timeline("and not limited by a policy", down(("Pods", 1, 60)), [(0, 30, 30, 10)], Bounds(1, 10)),
    Timeline(
        "and not remembered as recommended: 30 was the first",
        USUAL,
        [(0, 30, 30, 10), (15, 10, 2, 10), (301, 10, 2, 2)],
        Bounds(1, 10),
    ),
    Timeline(
        "below the bound: up at once, even with a failed metric", USUAL, [(0, 1, None, 3)], Bounds(3, 10)
    ),
    Timeline("zero replicas are off", USUAL, [(0, 0, 5, 0)]),
    Timeline("unless zero is allowed: 0 + 4", USUAL, [(0, 0, 9, 4)], Bounds(0, 10)),
    Timeline("down to zero where allowed", HASTY, [(0, 2, 0, 0)], Bounds(0, 10)),
    # --- without a behaviour
    Timeline("older: double", None, [(0, 3, 20, 6)]),
    Timeline("older: at least up to four", None, [(0, 1, 9, 4)]),
    Timeline("older: the upper bound", None, [(0, 8, 99, 10)], Bounds(1, 10)),
    Timeline("older: no memory of changes, doubles every time", None, [(0, 3, 99, 6), (1, 6, 99, 12)]),
    Timeline(
        "older: one of just 300 s ago still holds", None, [(0, 10, 10, 10), (300, 10, 5, 10), (301, 10, 5, 5)]
    ),
    Timeline(
        "older: down to the bound at once after that", None, [(0, 10, 1, 10), (301, 10, 1, 2)], Bounds(2, 20)
    ),
    Timeline(
        "older: past recommendations do raise: 20 of before, doubled to 16",
        None,
        [(0, 4, 20, 8), (15, 8, 8, 16)],
    ),
]
