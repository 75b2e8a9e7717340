"""What a learned autoscaler may answer, and the size that this means.

``around3``    ours: around the size that `multi` wants. Work to prepare for times 1.5^a; from there, where a
               is above 0, that share of the way (in proportions) to what the rushes of the last hours needed;
               cores of a calm pod times 4^a. Memory is the rule's: kills are too rare to be learned from in
               hours. An answer of zeros is the rule.
``logratio3``  around the present size: replicas times 2^a, CPU and memory of a pod times 1.5^a.
``discrete7``  as AWARE has it (Qiu et al., ATC 2023): nothing, a replica more or fewer, 128 millicores more
               or fewer, 128 MiB more or fewer; the largest of seven numbers.
``knobs2``     the target of HPA, 30 to 95 percent, and the percentile of VPA, 0.5 to 0.99, which then do the
               work: what can be deployed where only those two may move pods.

Bounds and steps of sizes are kept here; what a live service must be kept from besides is the guard's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.pod_autoscaling.aware.design import ActionKind, Design
from trimtab.pod_autoscaling.aware.features import Observer, Seen
from trimtab.pod_autoscaling.heuristics.hpa_vpa import HpaVpaDecider, hpa_vpa
from trimtab.pod_autoscaling.problem import Floats, Services, Snapshot, nearest_allowed

__all__ = [
    "ACTION_PARTS",
    "HEADROOM",
    "PERCENTILES",
    "POD_CPU",
    "RATIOS",
    "TARGETS",
    "Actuator",
    "actuator_of",
    "between",
]

Answers = NDArray[np.float32]

ACTION_PARTS: dict[ActionKind, tuple[str, ...]] = {
    "around3": ("headroom", "rush held for", "cores of a pod"),
    "logratio3": ("replicas", "cores of a pod", "memory"),
    "discrete7": (
        "nothing", "replica more", "replica fewer", "cpu more", "cpu less", "memory more", "memory less",
    ),
    "knobs2": ("target of HPA", "percentile of VPA"),
}  # fmt: skip
"""What each kind of answer is made of."""

HEADROOM, POD_CPU = 1.5, 4.0
"""Bases of ``around3``: work to prepare for, and cores of a pod, are multiplied by these to the answer."""
RATIOS = (2.0, 1.5, 1.5)
"""Bases of ``logratio3``: replicas, CPU, memory."""
TARGETS, PERCENTILES = (30.0, 95.0), (0.5, 0.99)
"""What answers of -1 and 1 mean for ``knobs2``."""
_CPU_STEP, _MEMORY_STEP = 0.128, 128.0


class Actuator:
    """Makes sizes of answers, and answers of what the rule wants."""

    def sized(self, answers: Answers, snapshot: Snapshot, seen: Seen) -> Floats:
        """The size that an answer means, [E, 3]."""
        raise NotImplementedError

    def taught(self, snapshot: Snapshot, seen: Seen) -> Answers:
        """The answer nearest to what the rule wants."""
        raise NotImplementedError


class _AroundRule(Actuator):
    def __init__(self, services: Services, design: Design, observer: Observer) -> None:
        self._rule, self._cpu = observer.rule, design.base_cpu

    def sized(self, answers: Answers, snapshot: Snapshot, seen: Seen) -> Floats:
        headroom, rush, pod = np.moveaxis(answers.astype(np.float64), -1, 0)
        more = HEADROOM**headroom
        rushed = np.where(rush > 0, seen.peak_cores, 0.0)
        now, lately = seen.measured.cores * more, seen.measured.cores_lately * more
        # In proportions between what is foreseen and the rush.
        held = np.maximum(now, 1e-9) * (rushed / np.maximum(now, 1e-9)) ** np.maximum(rush, 0.0)
        needed = seen.measured._replace(
            cores=np.where(rushed > now, held, now),
            cores_lately=np.where(rushed > now, np.maximum(held, lately), lately),
        )
        return self._rule.sized(snapshot, needed, calm_cpu=self._cpu * POD_CPU**pod)

    def taught(self, snapshot: Snapshot, seen: Seen) -> Answers:
        return np.zeros((len(seen.rule), len(ACTION_PARTS["around3"])), np.float32)


class _Ratios(Actuator):
    def __init__(self, services: Services, design: Design, observer: Observer) -> None:
        self._bases = np.array(RATIOS)

    def sized(self, answers: Answers, snapshot: Snapshot, seen: Seen) -> Floats:
        wanted = snapshot.size * self._bases ** answers.astype(np.float64)
        return nearest_allowed(snapshot.services, wanted)

    def taught(self, snapshot: Snapshot, seen: Seen) -> Answers:
        ratio = np.log(seen.rule / snapshot.size) / np.log(self._bases)
        return np.clip(ratio, -1, 1).astype(np.float32)


class _Steps(Actuator):
    def __init__(self, services: Services, design: Design, observer: Observer) -> None:
        up = np.diag([1.0, _CPU_STEP, _MEMORY_STEP])
        self._steps = np.concatenate([np.zeros((1, 3)), np.stack([up, -up], 1).reshape(6, 3)])

    def sized(self, answers: Answers, snapshot: Snapshot, seen: Seen) -> Floats:
        return nearest_allowed(snapshot.services, snapshot.size + self._steps[answers.argmax(1)])

    def taught(self, snapshot: Snapshot, seen: Seen) -> Answers:
        """The step that comes nearest, each dimension in its own steps; nothing where none comes nearer."""
        unit = np.abs(self._steps).max(0)
        off = (seen.rule - snapshot.size) / unit
        left = np.abs(off[:, None] - self._steps[None] / unit).sum(2)
        answers = np.full((len(off), len(self._steps)), -1.0, np.float32)
        answers[np.arange(len(off)), left.argmin(1)] = 1.0
        return answers


class _Knobs(Actuator):
    def __init__(self, services: Services, design: Design, observer: Observer) -> None:
        self._rule = HpaVpaDecider(services, hpa_vpa().values)
        usual = hpa_vpa().values
        self._taught = np.array(
            [_share(usual["target"], TARGETS), _share(usual["percentile"], PERCENTILES)], np.float32
        )

    def sized(self, answers: Answers, snapshot: Snapshot, seen: Seen) -> Floats:
        target, percentile = np.moveaxis(np.clip(answers.astype(np.float64), -1, 1), -1, 0)
        targets, percentiles = np.round(between(TARGETS, target)), between(PERCENTILES, percentile)
        return self._rule.decide(snapshot, targets=targets, percentiles=percentiles)

    def taught(self, snapshot: Snapshot, seen: Seen) -> Answers:
        return np.tile(self._taught, (len(seen.rule), 1))


def between(span: tuple[float, float], place: Any) -> Any:
    """The value at a place of a span, of which -1 and 1 are the ends; `_share` is the way back."""
    return span[0] + (place + 1) / 2 * (span[1] - span[0])


def _share(value: float, span: tuple[float, float]) -> float:
    """Where a value lies in a span, -1 to 1."""
    return 2 * (value - span[0]) / (span[1] - span[0]) - 1


_ACTUATORS: dict[str, Callable[[Services, Design, Observer], Actuator]] = {
    "around3": _AroundRule,
    "logratio3": _Ratios,
    "discrete7": _Steps,
    "knobs2": _Knobs,
}


def actuator_of(services: Services, design: Design, observer: Observer) -> Actuator:
    """Begin with a design's kind of answers on these services."""
    return _ACTUATORS[design.actions](services, design, observer)
