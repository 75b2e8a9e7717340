"""From a proposed to a commanded number of replicas, as Kubernetes' horizontal pod autoscaler goes.

First stabilisation over past recommendations, then the limits on the rate of change, then the bounds.

    memory = HpaMemory()
    decision = decide(memory, proposal, current, bounds, behavior, now_s=now_s)
    if decision.replicas != current:                        # after the target was scaled
        record_scale(memory, behavior, current, decision.replicas, now_s=now_s)

`step` does both. Without a behaviour (None) the older rules hold: at most double or four, whichever is more,
and scale-downs only to the largest recommendation of five minutes. Those rules also scale *up* to it, when
the rate limit or somebody else had kept the target below; with a behaviour that does not happen.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from trimtab.core.errors import SettingsError
from trimtab.pod_autoscaling.heuristics.kubernetes.hpa_replicas import Failed, Proposal, Tolerance

__all__ = [
    "Behavior",
    "Bounds",
    "Decision",
    "HpaMemory",
    "ScaleEvent",
    "ScalingPolicy",
    "ScalingRules",
    "behavior_from_manifest",
    "decide",
    "record_scale",
    "scale_down_limit",
    "scale_up_limit",
    "stabilised",
    "step",
]

DOWNSCALE_STABILISATION_S = 300.0
TOLERANCE = 0.1


@dataclass(frozen=True, slots=True)
class ScalingPolicy:
    """At most `value` pods, or percent of the pods, within `period_s` seconds."""

    kind: str
    value: int
    period_s: float

    def __post_init__(self) -> None:
        if self.kind not in ("Pods", "Percent"):
            raise SettingsError(f"scaling policy of kind {self.kind!r}; give Pods or Percent")
        if self.value < 1 or not 0 < self.period_s <= 1800:
            raise SettingsError(f"scaling policy {self}; give a value from 1 and a period from 1 to 1800 s")


@dataclass(frozen=True, slots=True)
class ScalingRules:
    """One direction: how long to wait, how fast to go, and how far off the target is near enough.

    `select` picks among the policies: Max allows the larger change, Min the smaller, Disabled none.
    """

    stabilisation_s: float
    policies: tuple[ScalingPolicy, ...]
    select: str = "Max"
    tolerance: float = TOLERANCE

    def __post_init__(self) -> None:
        if self.select not in ("Max", "Min", "Disabled"):
            raise SettingsError(f"selectPolicy {self.select!r}; give Max, Min or Disabled")
        if not self.policies:
            raise SettingsError("scaling rules without a policy; give one, or leave the policies out")
        if not 0 <= self.stabilisation_s <= 3600 or not self.tolerance >= 0:
            raise SettingsError(f"{self}; give a window from 0 to 3600 s and a tolerance from 0")

    @property
    def longest_period_s(self) -> float:
        return max(policy.period_s for policy in self.policies)


USUAL_UP = ScalingRules(0.0, (ScalingPolicy("Pods", 4, 15.0), ScalingPolicy("Percent", 100, 15.0)))
USUAL_DOWN = ScalingRules(DOWNSCALE_STABILISATION_S, (ScalingPolicy("Percent", 100, 15.0),))


@dataclass(frozen=True, slots=True)
class Behavior:
    """The `behavior` of an HPA; what is not said is as Kubernetes fills it in.

    >>> Behavior().up.policies[0]
    ScalingPolicy(kind='Pods', value=4, period_s=15.0)
    """

    up: ScalingRules = USUAL_UP
    down: ScalingRules = USUAL_DOWN

    @property
    def tolerance(self) -> Tolerance:
        return Tolerance(self.down.tolerance, self.up.tolerance)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Fewest and most replicas. With a fewest of 0 it scales to zero; else zero replicas switch it off."""

    least: int
    most: int

    def __post_init__(self) -> None:
        if not 0 <= self.least <= self.most or self.most < 1:
            given = f"replicas from {self.least} to {self.most}"
            raise SettingsError(f"{given}; give 0 <= minReplicas <= maxReplicas and maxReplicas from 1")


class ScaleEvent(NamedTuple):
    """Replicas added or removed at one time; `outdated` ones are overwritten by the next."""

    change: int
    at_s: float
    outdated: bool = False


@dataclass(slots=True)
class HpaMemory:
    """What the controller remembers of one HPA: recommendations before stabilisation, and changes made.

    An outdated entry is overwritten, one at a time. A change is outdated by the periods of its *own*
    direction; so with quick policies up and slow ones down, a change up may be forgotten too early for the
    limit down. That is how Kubernetes does it.
    """

    recommendations: list[tuple[int, float]] = field(default_factory=list)
    ups: list[ScaleEvent] = field(default_factory=list)
    downs: list[ScaleEvent] = field(default_factory=list)

    def as_dict(self) -> dict[str, list[list[Any]]]:
        """For a file, so that a controller may be started again without forgetting."""
        entries = {"recommendations": self.recommendations, "ups": self.ups, "downs": self.downs}
        return {name: [list(entry) for entry in kept] for name, kept in entries.items()}

    @classmethod
    def from_dict(cls, kept: Mapping[str, Sequence[Sequence[Any]]]) -> HpaMemory:
        return cls(
            [(int(replicas), float(at_s)) for replicas, at_s in kept["recommendations"]],
            [ScaleEvent(*event) for event in kept["ups"]],
            [ScaleEvent(*event) for event in kept["downs"]],
        )


class Decision(NamedTuple):
    """`because` is the reason word of the condition that Kubernetes would show, or why a metric failed."""

    replicas: int
    stabilised: int
    because: str


def behavior_from_manifest(manifest: Mapping[str, Any]) -> Behavior:
    """The `spec.behavior` of an autoscaling/v2 object; each field that is absent or null is the usual one.

    >>> behavior_from_manifest({"scaleDown": {"stabilizationWindowSeconds": 60}}).down.stabilisation_s
    60.0
    """
    return Behavior(
        _rules(manifest.get("scaleUp"), USUAL_UP, "scaleUp"),
        _rules(manifest.get("scaleDown"), USUAL_DOWN, "scaleDown"),
    )


def _rules(manifest: Mapping[str, Any] | None, usual: ScalingRules, name: str) -> ScalingRules:
    given = {key: value for key, value in (manifest or {}).items() if value is not None}
    known = {"stabilizationWindowSeconds", "policies", "selectPolicy", "tolerance"}
    if unknown := sorted(given.keys() - known):
        raise SettingsError(f"behavior.{name} has no field {unknown[0]!r}; it has {', '.join(sorted(known))}")
    policies = usual.policies
    if "policies" in given:
        policies = tuple(_policy(one, name) for one in given["policies"])
    return ScalingRules(
        float(given.get("stabilizationWindowSeconds", usual.stabilisation_s)),
        policies,
        given.get("selectPolicy", usual.select),
        float(given.get("tolerance", usual.tolerance)),
    )


def _policy(manifest: Mapping[str, Any], name: str) -> ScalingPolicy:
    try:
        return ScalingPolicy(manifest["type"], int(manifest["value"]), float(manifest["periodSeconds"]))
    except KeyError as missing:
        needed = "give type, value and periodSeconds"
        raise SettingsError(f"a policy of behavior.{name} lacks {missing}; {needed}") from None


def step(
    memory: HpaMemory,
    outcome: Proposal | Failed,
    current: int,
    bounds: Bounds,
    behavior: Behavior | None = None,
    *,
    now_s: float,
) -> Decision:
    """`decide`, and remember the change as made.

    >>> memory, bounds = HpaMemory(), Bounds(1, 20)
    >>> step(memory, Proposal(9, 90, "in proportion"), 3, bounds, Behavior(), now_s=0.0)
    Decision(replicas=7, stabilised=9, because='ScaleUpLimit')
    >>> memory.ups
    [ScaleEvent(change=4, at_s=0.0, outdated=False)]
    """
    decision = decide(memory, outcome, current, bounds, behavior, now_s=now_s)
    if decision.replicas != current:
        record_scale(memory, behavior, current, decision.replicas, now_s=now_s)
    return decision


def decide(
    memory: HpaMemory,
    outcome: Proposal | Failed,
    current: int,
    bounds: Bounds,
    behavior: Behavior | None = None,
    *,
    now_s: float,
) -> Decision:
    """What to scale to, from what the metrics propose. Remembers the recommendation, not yet the change.

    `current` is the number that was asked for last (the spec of the scale), not the number of pods there are.
    An HPA seen for the first time takes it as its first recommendation. Outside the bounds it is put back
    into them at once and metrics are not asked; neither that nor a failed metric is remembered.
    """
    if not memory.recommendations:
        memory.recommendations.append((current, now_s))
    if current == 0 and bounds.least != 0:
        return Decision(0, 0, "ScalingDisabled")
    if current > bounds.most:
        return Decision(bounds.most, bounds.most, "TooManyReplicas")
    if current < bounds.least:
        return Decision(bounds.least, bounds.least, "TooFewReplicas")
    if isinstance(outcome, Failed):
        return Decision(current, current, outcome.because)
    proposed = max(outcome.replicas, 0)
    if behavior is None:
        settled = _largest_recommendation(memory, proposed, now_s)
        return _within_doubling(current, settled, bounds)
    settled = stabilised(memory, proposed, current, behavior, now_s=now_s)
    return _within_rates(memory, current, settled, bounds, behavior, now_s)


def stabilised(memory: HpaMemory, proposed: int, current: int, behavior: Behavior, *, now_s: float) -> int:
    """What is there, raised to the least and lowered to the most that was recommended within the windows.

    A recommendation of exactly one window ago no longer counts. The new one is remembered as it was proposed.
    """
    up_cutoff_s = now_s - behavior.up.stabilisation_s
    down_cutoff_s = now_s - behavior.down.stabilisation_s
    least = most = proposed
    outdated = -1
    for place, (replicas, at_s) in enumerate(memory.recommendations):
        if at_s > up_cutoff_s and replicas < least:
            least = replicas
        if at_s > down_cutoff_s and replicas > most:
            most = replicas
        if at_s < up_cutoff_s and at_s < down_cutoff_s:
            outdated = place
    _remember(memory.recommendations, outdated, (proposed, now_s))
    return min(max(current, least), most)


def scale_up_limit(memory: HpaMemory, current: int, rules: ScalingRules, *, now_s: float) -> int:
    """The most replicas that the policies allow now, counted from what there was a period ago.

    >>> scale_up_limit(HpaMemory(), 10, USUAL_UP, now_s=0.0)
    20
    """
    if rules.select == "Disabled":
        return current
    limits: list[int] = []
    for policy in rules.policies:
        before = current - _changed(memory.ups, policy, now_s) + _changed(memory.downs, policy, now_s)
        # Rounded up, so that a small percentage of few pods is still one pod.
        share = 1 + policy.value / 100
        limits.append(before + policy.value if policy.kind == "Pods" else math.ceil(before * share))
    return min(limits) if rules.select == "Min" else max(limits)


def scale_down_limit(memory: HpaMemory, current: int, rules: ScalingRules, *, now_s: float) -> int:
    """The fewest replicas that the policies allow now, counted from what there was a period ago.

    >>> scale_down_limit(HpaMemory(), 10, ScalingRules(0.0, (ScalingPolicy("Percent", 25, 60.0),)), now_s=0.0)
    7
    """
    if rules.select == "Disabled":
        return current
    limits: list[int] = []
    for policy in rules.policies:
        before = current - _changed(memory.ups, policy, now_s) + _changed(memory.downs, policy, now_s)
        share = 1 - policy.value / 100
        limits.append(before - policy.value if policy.kind == "Pods" else int(before * share))
    return max(limits) if rules.select == "Min" else min(limits)


def record_scale(
    memory: HpaMemory, behavior: Behavior | None, before: int, after: int, *, now_s: float
) -> None:
    """Remember a change that was made, also one back into the bounds. Without a behaviour nobody asks."""
    if behavior is None or after == before:
        return
    events, rules = (memory.ups, behavior.up) if after > before else (memory.downs, behavior.down)
    cutoff_s = now_s - rules.longest_period_s
    outdated = -1
    for place, event in enumerate(events):
        if event.outdated or event.at_s < cutoff_s:
            events[place] = event._replace(outdated=True)
            outdated = place
    _remember(events, outdated, ScaleEvent(abs(after - before), now_s))


def _within_rates(
    memory: HpaMemory, current: int, settled: int, bounds: Bounds, behavior: Behavior, now_s: float
) -> Decision:
    if settled > current:
        limit = max(scale_up_limit(memory, current, behavior.up, now_s=now_s), current)
        return _capped(settled, limit, bounds.most)
    if settled < current:
        limit = min(scale_down_limit(memory, current, behavior.down, now_s=now_s), current)
        floor = max(limit, bounds.least)
        if settled < floor:
            because = "ScaleDownLimit" if limit > bounds.least else "TooFewReplicas"
            return Decision(floor, settled, because)
    return Decision(settled, settled, "DesiredWithinRange")


def _within_doubling(current: int, settled: int, bounds: Bounds) -> Decision:
    """Without a behaviour: up to double or four, down to the bound at once."""
    if settled < bounds.least:
        return Decision(bounds.least, settled, "TooFewReplicas")
    return _capped(settled, max(2 * current, 4), bounds.most)


def _capped(settled: int, limit: int, most: int) -> Decision:
    ceiling = min(limit, most)
    if settled > ceiling:
        return Decision(ceiling, settled, "ScaleUpLimit" if limit < most else "TooManyReplicas")
    return Decision(settled, settled, "DesiredWithinRange")


def _largest_recommendation(memory: HpaMemory, proposed: int, now_s: float) -> int:
    """Without a behaviour: the largest of five minutes, one of exactly five minutes ago included."""
    cutoff_s = now_s - DOWNSCALE_STABILISATION_S
    most, outdated = proposed, -1
    for place, (replicas, at_s) in enumerate(memory.recommendations):
        if at_s < cutoff_s:
            outdated = place
        elif replicas > most:
            most = replicas
    _remember(memory.recommendations, outdated, (proposed, now_s))
    return most


def _changed(events: Sequence[ScaleEvent], policy: ScalingPolicy, now_s: float) -> int:
    cutoff_s = now_s - policy.period_s
    return sum([event.change for event in events if event.at_s > cutoff_s])


def _remember(kept: list[Any], outdated: int, entry: tuple[Any, ...]) -> None:
    if outdated >= 0:
        kept[outdated] = entry
    else:
        kept.append(entry)
