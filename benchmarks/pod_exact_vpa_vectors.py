"""Inputs of Kubernetes' VPA with the answers worked out by hand, each with its reasoning.

For tests and for `make bench-pod-exact`. Bucket b of a histogram ends at first * (1.05 ** (b + 1) - 1) / 0.05
and numbers are these formulas in exact fractions, not answers of the code that they check.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from trimtab.pod_autoscaling.heuristics.kubernetes.vpa_recommender import Amounts, Recommendation
from trimtab.pod_autoscaling.heuristics.kubernetes.vpa_updater import ContainerState, PodState

MIB = 2**20
GIB = 2**30
DAY_S = 86_400.0
HOUR_S = 3_600.0


class ConstantUsage(NamedTuple):
    """A constant usage (cores or bytes), the bucket it falls into, and the target with its 15 %.

    `target` is the formula; `whole` what Kubernetes makes of it, which cuts the end of the bucket to whole
    millicores or bytes, then the margin too.
    """

    usage: float
    bucket: int
    target: float
    whole: int


CPU_CONSTANT = [
    ConstantUsage(0.05, 4, 0.063544759375, 63),  # 55.26 m are 55, 8.25 are 8
    ConstantUsage(0.25, 16, 0.297164213094237452, 296),  # 258.4 m are 258, 38.7 are 38
    ConstantUsage(1.0, 36, 1.168723596837204307, 1168),  # 1016.3 m are 1016, 152.4 are 152
    ConstantUsage(2.0, 49, 2.407501950723345488, 2406),  # 2093.5 m are 2093, 313.95 are 313
]
MEMORY_CONSTANT = [
    ConstantUsage(300 * MIB, 19, 380258472.183216631, 380_258_472),  # 330659541 + 49598931.15
    ConstantUsage(512 * MIB, 26, 628694954.138561505, 628_694_953),  # 546691264 + 82003689.6
    ConstantUsage(GIB, 37, 1238659776.679064523, 1_238_659_775),  # 1077095457 + 161564318.55
]
# Minutes of history at one sample a minute: factors of the lower bound, (1 + 0.001 / days) ** -2, and of the
# upper, 1 + 1 / days.
CONFIDENCE = [
    (5, 0.602793102117974, 289.0),
    (30, 0.910494726414545, 49.0),
    (60, 0.953674316406250, 25.0),
    (720, 0.996011968079808, 3.0),
    (1440, 0.998002996004994, 2.0),
    (10_080, 0.999714346927116, 1.142857142857143),
]
# Where buckets of CPU start, in cores: 0.2 * (1.05 ** b - 1).
CPU_STARTS = [
    (0, 0.0),
    (1, 0.01),
    (2, 0.0205),
    (10, 0.12577892535548828125),
    (174, 972.4756275284365125),
    (175, 1021.1094089048583382),
]


class OomVector(NamedTuple):
    """Bytes that were requested, and the peak seen in the same window, when the container was killed."""

    why: str
    requested: int
    peak: int
    sample: int


OOM = [
    OomVector("100 MiB more is more than 20 %", 200 * MIB, 0, 300 * MIB),
    OomVector("at 500 MiB both are 600 MiB", 500 * MIB, 0, 600 * MIB),
    OomVector("20 % more, cut to a byte: 1288490188.8", GIB, 0, 1_288_490_188),
    OomVector("a peak above the request: 700 MiB * 1.2", 500 * MIB, 700 * MIB, 840 * MIB),
    OomVector("a peak below it", GIB, 700 * MIB, 1_288_490_188),
]


class DecayVector(NamedTuple):
    """One sample of 1 core at time 0 and one of 4 cores some days later, weight 1 each; a percentile.

    The later one weighs 2 ** days as much, so the earlier has a share of 1 / (1 + 2 ** days).
    """

    days: float
    share: float
    early: bool


# 1 core is in bucket 36; 4 cores are in bucket 62, as 1 + 4 * 0.05 / 0.01 = 21 = 1.05 ** 62.4.
EARLY_END, LATE_END = 1.016281388554090702, 4.124698514136814996
DECAY = [
    DecayVector(0, 0.5, True),  # half of the weight is just reached
    DecayVector(0, 0.51, False),
    DecayVector(1, 1 / 3, True),
    DecayVector(1, 0.34, False),
    DecayVector(2, 0.2, True),
    DecayVector(2, 0.21, False),
    DecayVector(0.5, 0.41, True),  # share 0.4142
    DecayVector(0.5, 0.42, False),
    DecayVector(-1, 0.66, True),  # a sample that comes late: share 2 / 3
    DecayVector(-1, 0.67, False),
    DecayVector(100, 1e-12, False),
    DecayVector(101, 1e-12, False),  # the reference has moved; the early sample is below epsilon
]

# Published in github.com/kubernetes/autoscaler/issues/2542, as VPA wrote it.
PUBLISHED_CHECKPOINT = {
    "cpuHistogram": {
        "bucketWeights": {"0": 10000, "1": 133, "2": 96, "3": 29, "4": 4, "5": 5, "7": 2},
        "referenceTimestamp": "2019-11-16T00:00:00Z",
        "totalWeight": 4396.8574,
    },
    "firstSampleStart": None,
    "lastSampleStart": "2019-11-19T12:09:24Z",
    "lastUpdateTime": None,
    "memoryHistogram": {
        "bucketWeights": {"10": 324, "11": 10000},
        "referenceTimestamp": "2019-11-17T00:00:00Z",
        "totalWeight": 23.46872,
    },
    "totalSamplesCount": 11337,
    "version": "v3",
}
# CPU: bucket 0 holds 10000 of 10269 (97.4 %), so every percentile ends at 0.01 core; the 98th is in bucket 1.
# Memory: bucket 10 holds 3.1 %; bucket 11 ends at 1e7 * (1.05 ** 12 - 1) / 0.05.
PUBLISHED_PERCENTILES = [("cpu", 0.9, 0.01), ("cpu", 0.98, 0.0205), ("memory", 0.5, 159171265.204425830)]


class UpdaterVector(NamedTuple):
    """Pods of one group under one mode, and what is done: (name, action) in order."""

    why: str
    mode: str
    pods: list[PodState]
    expected: list[tuple[str, str]]
    configured: int | None = None
    resizing_s: float = 0.0


def sized(
    target: tuple[float, float], lower: tuple[float, float], upper: tuple[float, float]
) -> Recommendation:
    return Recommendation(Amounts(*target), Amounts(*lower), Amounts(*upper), Amounts(*target))


NOW_S = 100 * HOUR_S
SIZES = sized((500, GIB), (400, GIB // 2), (900, 2 * GIB))


def pod(
    name: str,
    cpu: float | None = 500,
    memory: float | None = GIB,
    *,
    age_s: float = HOUR_S,
    oom_after_s: float | None = None,
    **rest: Any,
) -> PodState:
    container = ContainerState(cpu, memory, SIZES, oom_after_s)
    return PodState(name, (container,), NOW_S - age_s, **rest)


def four(cpu: float | None = 500, memory: float | None = GIB, **rest: Any) -> list[PodState]:
    return [pod(name, cpu, memory, **rest) for name in "abcd"]


_EVICT_TWO = [("a", "evict"), ("b", "evict")]
_RESIZE_TWO = [("a", "resize"), ("b", "resize")]
UPDATER = [
    UpdaterVector("on target", "Recreate", four(), []),
    UpdaterVector("below the lower bound; half of 4 may go", "Recreate", four(399), _EVICT_TWO),
    UpdaterVector("at the lower bound: 0.25 off, but young", "Recreate", four(400), []),
    UpdaterVector("at the upper bound", "Recreate", four(900), []),
    UpdaterVector("above the upper bound", "Recreate", four(901), _EVICT_TWO),
    UpdaterVector("memory alone is enough", "Recreate", four(500, GIB // 2 - 1), _EVICT_TWO),
    UpdaterVector("no request is out of range", "Recreate", four(None), _EVICT_TWO),
    UpdaterVector("12 h old and 50 / 450 off", "Recreate", four(450, age_s=12 * HOUR_S), _EVICT_TWO),
    UpdaterVector("a second too young", "Recreate", four(450, age_s=12 * HOUR_S - 1), []),
    UpdaterVector("old, 45 / 455 = 0.0989 off", "Recreate", four(455, age_s=24 * HOUR_S), []),
    UpdaterVector(
        "old, 0.05 of CPU and 0.06 of memory off are 0.11 together",
        *("Recreate", four(500 / 1.05, GIB / 1.06, age_s=24 * HOUR_S), _EVICT_TWO),
    ),
    UpdaterVector(
        "old, but no start time is no age",
        "Recreate",
        [one._replace(started_s=None) for one in four(450)],
        [],
    ),
    UpdaterVector(
        "killed after 599 s, and a change helps", "Recreate", four(500, GIB - 1, oom_after_s=599), _EVICT_TWO
    ),
    UpdaterVector("killed after 600 s is not quick", "Recreate", four(500, GIB - 1, oom_after_s=600), []),
    UpdaterVector("killed quickly, but nothing to change", "Recreate", four(oom_after_s=10), []),
    UpdaterVector(
        "those that grow come first, then the larger difference",
        "Recreate",
        [pod("shrinks", 5000), pod("grows", 399), pod("grows more", 100), pod("fits")],
        [("grows more", "evict"), ("grows", "evict")],
    ),
    UpdaterVector("one replica is not enough", "Recreate", [pod("a", 100)], []),
    UpdaterVector("two are, and half of them is 1", "Recreate", four(100)[:2], [("a", "evict")]),
    UpdaterVector("of 3, half is 1", "Recreate", four(100)[:3], [("a", "evict")]),
    UpdaterVector("2 of 4 are there: none may go", "Recreate", four(100)[:2], [], configured=4),
    UpdaterVector(
        "a pending pod may go and is not counted",
        "Recreate",
        [pod("a", 100, phase="Pending"), *four(100)[1:]],
        [("a", "evict"), ("b", "evict")],
    ),
    UpdaterVector("Off", "Off", four(100), []),
    UpdaterVector("Initial", "Initial", four(100), []),
    UpdaterVector("Auto is Recreate", "Auto", four(100), _EVICT_TWO),
    UpdaterVector("in place: as many at once", "InPlaceOrRecreate", four(100), _RESIZE_TWO),
    UpdaterVector(
        "refused by the API server: evicted", "InPlaceOrRecreate", four(100, resize_refused=True), _EVICT_TWO
    ),
    UpdaterVector("refused, but never evict", "InPlace", four(100, resize_refused=True), []),
    UpdaterVector("infeasible: evicted", "InPlaceOrRecreate", four(100, resize="infeasible"), _EVICT_TWO),
    UpdaterVector("an error: evicted", "InPlaceOrRecreate", four(100, resize="error"), _EVICT_TWO),
    UpdaterVector(
        "deferred for 300 s: wait", "InPlaceOrRecreate", four(100, resize="deferred"), [], None, 300
    ),
    UpdaterVector(
        "for 301 s: evicted", "InPlaceOrRecreate", four(100, resize="deferred"), _EVICT_TWO, None, 301
    ),
    UpdaterVector(
        "in progress for an hour: wait", "InPlaceOrRecreate", four(100, resize="in progress"), [], None, 3600
    ),
    UpdaterVector(
        "for longer: evicted", "InPlaceOrRecreate", four(100, resize="in progress"), _EVICT_TWO, None, 3601
    ),
]
