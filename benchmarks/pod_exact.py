"""`make bench-pod-exact`: Kubernetes' HPA and VPA against answers worked out by hand, and what a call costs.

The vectors with their reasoning are in `pod_exact_vectors` (HPA) and `pod_exact_vpa_vectors` (VPA); the tests
hold the same ones one by one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from benchmarks import pod_exact_vpa_vectors as vpa
from benchmarks.pod_exact_vectors import (
    COMBINED,
    NOW_S,
    REPLICAS,
    TIMELINES,
    USUAL,
    CombinedVector,
    ReplicaVector,
    Timeline,
)
from benchmarks.results import Row, at_least, at_most, finish
from trimtab.pod_autoscaling.heuristics.kubernetes.hpa_behavior import Bounds, HpaMemory, step
from trimtab.pod_autoscaling.heuristics.kubernetes.hpa_replicas import (
    Failed,
    PodSample,
    Proposal,
    average_value_replicas,
    combined_replicas,
    per_pod_value_replicas,
    total_value_replicas,
    utilisation_replicas,
)
from trimtab.pod_autoscaling.heuristics.kubernetes.vpa_histogram import DecayingHistogram, cpu_buckets
from trimtab.pod_autoscaling.heuristics.kubernetes.vpa_recommender import (
    ContainerUsage,
    RecommenderSettings,
    ServiceUsage,
    recommend,
)
from trimtab.pod_autoscaling.heuristics.kubernetes.vpa_updater import ReplicaGroup, UpdaterMemory, plan

LEAST_VECTORS = 60
# The formulas without cutting to whole amounts, and without a least size in the way of small numbers.
FORMULAS = RecommenderSettings(whole=False, least_pod_cpu_millicores=0.0, least_pod_memory_bytes=0.0)


def proposed(vector: ReplicaVector) -> int | None:
    """The replicas that one metric asks for; None where it fails."""
    pods, current, target, tolerance = vector.pods, vector.current, vector.target, vector.tolerance
    outcome: Proposal | Failed
    if vector.metric == "total":
        outcome = total_value_replicas(pods, current, vector.value, target, tolerance=tolerance)
    elif vector.metric == "per pod":
        outcome = per_pod_value_replicas(current, vector.value, target, tolerance=tolerance)
    else:
        of_pods = utilisation_replicas if vector.metric == "utilisation" else average_value_replicas
        outcome = of_pods(pods, current, target, now_s=NOW_S, cpu=vector.cpu, tolerance=tolerance)
    return None if isinstance(outcome, Failed) else outcome.replicas


def combined(vector: CombinedVector) -> int | None:
    outcome = combined_replicas(vector.outcomes, vector.current)
    return None if isinstance(outcome, Failed) else outcome.replicas


def played(timeline: Timeline) -> list[int]:
    """The replicas of every step of a timeline."""
    memory, answers = HpaMemory(), []
    for now_s, current, wanted, _ in timeline.steps:
        outcome = Failed("no metrics") if wanted is None else Proposal(wanted, 0, "")
        decision = step(memory, outcome, current, timeline.bounds, timeline.behavior, now_s=now_s)
        answers.append(decision.replicas)
    return answers


def used_constantly(
    *,
    cores: float = 0.0,
    size_bytes: float = 0.0,
    minutes: int = 1440,
    settings: RecommenderSettings = FORMULAS,
) -> ServiceUsage:
    """A history of one sample a minute, the same all the time; 1440 minutes are 1441 samples."""
    service = ServiceUsage()
    container = ContainerUsage(service, settings)
    for minute in range(minutes + 1):
        container.add_cpu(cores, at_s=60.0 * minute)
        container.add_memory(size_bytes, at_s=60.0 * minute)
    return service


def planned(vector: vpa.UpdaterVector) -> list[tuple[str, str]]:
    """What the updater does: (name, action) in order."""
    memory = UpdaterMemory()
    group = ReplicaGroup.of(vector.pods, vector.configured or len(vector.pods))
    memory.look(vector.pods, vpa.NOW_S - vector.resizing_s)
    changes = plan(vector.pods, group, vector.mode, memory, now_s=vpa.NOW_S)
    return [(change.name, change.action) for change in changes]


def hpa_rows() -> list[Row]:
    wrong = [vector.why for vector in REPLICAS if proposed(vector) != vector.expected]
    wrong += [vector.why for vector in COMBINED if combined(vector) != vector.expected]
    late = [one.why for one in TIMELINES if played(one) != [step[3] for step in one.steps]]
    for why in (*wrong, *late):
        print(f"HPA misses: {why}")
    return [
        at_least("HPA: vectors", len(REPLICAS) + len(COMBINED) + len(TIMELINES), LEAST_VECTORS),
        at_most("HPA: replicas from metrics, vectors missed", len(wrong), 0),
        at_most("HPA: stabilisation, policies and bounds, vectors missed", len(late), 0),
    ]


def worst(pairs: Iterable[tuple[float, float]]) -> float:
    """Largest relative error of (found, expected)."""
    return max(abs(found - expected) / abs(expected) for found, expected in pairs)


def target_errors() -> list[tuple[float, float]]:
    pairs: list[tuple[float, float]] = []
    for case in vpa.CPU_CONSTANT:
        found = recommend(used_constantly(cores=case.usage), settings=FORMULAS)
        pairs.append((found.target.cpu_millicores, 1000 * case.target))
    for case in vpa.MEMORY_CONSTANT:
        found = recommend(used_constantly(size_bytes=case.usage), settings=FORMULAS)
        pairs.append((found.target.memory_bytes, case.target))
    return pairs


def whole_missed() -> int:
    cpu = [recommend(used_constantly(cores=case.usage)).target.cpu_millicores for case in vpa.CPU_CONSTANT]
    memory = [
        recommend(used_constantly(size_bytes=case.usage)).target.memory_bytes for case in vpa.MEMORY_CONSTANT
    ]
    expected = [case.whole for case in (*vpa.CPU_CONSTANT, *vpa.MEMORY_CONSTANT)]
    return sum(found != wanted for found, wanted in zip([*cpu, *memory], expected, strict=True))


def confidence_errors() -> list[tuple[float, float]]:
    """Bounds over the target; a constant usage has all percentiles in one bucket."""
    pairs: list[tuple[float, float]] = []
    for minutes, lower, upper in vpa.CONFIDENCE:
        # One sample a minute from 0 on: one more sample than minutes, so the clock decides.
        found = recommend(used_constantly(cores=1.0, minutes=minutes), settings=FORMULAS)
        pairs.append((found.lower.cpu_millicores / found.target.cpu_millicores, lower))
        pairs.append((found.upper.cpu_millicores / found.target.cpu_millicores, upper))
    return pairs


def decayed(vector: vpa.DecayVector) -> float:
    """A percentile of a sample of 1 core and a later one of 4 cores."""
    histogram = DecayingHistogram(cpu_buckets())
    histogram.add(1.0, weight=1.0, at_s=0.0)
    histogram.add(4.0, weight=1.0, at_s=vector.days * vpa.DAY_S)
    return histogram.percentile(vector.share)


def merged(vector: vpa.DecayVector) -> float:
    """The same, each sample in a histogram of its own, merged."""
    early, late = DecayingHistogram(cpu_buckets()), DecayingHistogram(cpu_buckets())
    early.add(1.0, weight=1.0, at_s=0.0)
    late.add(4.0, weight=1.0, at_s=vector.days * vpa.DAY_S)
    early.merge(late)
    return early.percentile(vector.share)


def decay_errors(answer: Callable[[vpa.DecayVector], float]) -> list[tuple[float, float]]:
    return [(answer(vector), vpa.EARLY_END if vector.early else vpa.LATE_END) for vector in vpa.DECAY]


def oom_sample(vector: vpa.OomVector) -> float:
    """The sample that a kill leaves behind."""
    container = ContainerUsage(ServiceUsage())
    if vector.peak:
        container.add_memory(vector.peak, at_s=0.0)
    container.add_oom(vector.requested, at_s=60.0)
    return container.oom_peak_bytes


def published_errors() -> list[tuple[float, float]]:
    usage = ServiceUsage.load(vpa.PUBLISHED_CHECKPOINT)
    found = {"cpu": usage.cpu, "memory": usage.memory}
    return [(found[kind].percentile(share), value) for kind, share, value in vpa.PUBLISHED_PERCENTILES]


def vpa_rows() -> list[Row]:
    starts = [(cpu_buckets().starts[bucket], start) for bucket, start in vpa.CPU_STARTS if start]
    changes = [vector.why for vector in vpa.UPDATER if planned(vector) != vector.expected]
    for why in changes:
        print(f"VPA updater misses: {why}")
    return [
        at_most("VPA: starts of buckets, worst relative error", worst(starts), 1e-9),
        at_most("VPA: targets of constant usage, worst relative error", worst(target_errors()), 1e-9),
        at_most("VPA: targets in whole millicores and bytes, missed", whole_missed(), 0),
        at_most("VPA: confidence from 5 min to 7 d, worst relative error", worst(confidence_errors()), 1e-9),
        at_most("VPA: decay, worst relative error", worst(decay_errors(decayed)), 1e-9),
        at_most("VPA: merge, worst relative error", worst(decay_errors(merged)), 1e-9),
        at_most("VPA: memory after a kill, missed", sum(oom_sample(one) != one.sample for one in vpa.OOM), 0),
        at_most("VPA: a published checkpoint, worst relative error", worst(published_errors()), 1e-9),
        at_least("VPA updater: vectors", len(vpa.UPDATER), 30),
        at_most("VPA updater: vectors missed", len(changes), 0),
    ]


def microseconds(call: Callable[[int], object], rounds: int = 50, repeats: int = 200) -> float:
    """Best mean time of a call over many short repeats: what it costs while nobody disturbs."""
    best = float("inf")
    for repeat in range(repeats):
        start = time.perf_counter()
        for number in range(repeat * rounds, (repeat + 1) * rounds):
            call(number)
        best = min(best, time.perf_counter() - start)
    return 1e6 * best / rounds


def speed_rows() -> list[Row]:
    measured = (700, 1000, "Running", False, True, 0.0, 10.0)

    def hpa(number: int) -> object:
        """Every 15 s: 20 pods into words, utilisation, behaviour, whose window holds 20 recommendations."""
        now_s = 1000.0 + 15 * number
        pods: Sequence[PodSample] = [PodSample(*measured, now_s, 15.0) for _ in range(20)]
        outcome = utilisation_replicas(pods, 20, 50, now_s=now_s)
        return step(memory, outcome, 20, bounds, USUAL, now_s=now_s)

    memory, bounds = HpaMemory(), Bounds(1, 100)
    service = used_constantly(cores=0.3, size_bytes=3e8)
    container = ContainerUsage(service)
    return [
        at_most("HPA: a step with 20 pods, microseconds", microseconds(hpa), 60),
        at_most(
            "VPA: a CPU sample, microseconds",
            microseconds(lambda number: container.add_cpu(0.1 + number % 7, at_s=1e5 + 15 * number)),
            10,
        ),
        at_most("VPA: a recommendation, microseconds", microseconds(lambda _: recommend(service)), 100),
    ]


if __name__ == "__main__":
    finish("pod-exact", [*hpa_rows(), *vpa_rows(), *speed_rows()])
