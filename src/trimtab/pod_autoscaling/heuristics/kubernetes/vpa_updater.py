"""When Kubernetes' vertical pod autoscaler acts on a recommendation, on which pods, and how.

A pod is to be changed if a request is outside [lower, upper], or a container was killed for want of memory
soon after it had started, or if it is old and far enough from the target. Pods that must grow come first. How
many may go at once is up to the replica group; whether they are evicted or resized in place, up to the mode.

    memory = UpdaterMemory()
    for change in plan(pods, group, "InPlaceOrRecreate", memory, now_s=now_s):   # every 60 s
        ...                                                      # change.action is "evict" or "resize"

Recommendations are those of `vpa_recommender.within_policy`. What a LimitRange, a disruption budget or the
rate limits of the updater say is not looked at here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from trimtab.core.errors import SettingsError
from trimtab.pod_autoscaling.heuristics.kubernetes.vpa_recommender import Amounts, Recommendation

__all__ = [
    "MODES",
    "Change",
    "ContainerState",
    "PodState",
    "Priority",
    "ReplicaGroup",
    "UpdaterMemory",
    "UpdaterSettings",
    "in_place_decision",
    "plan",
    "priority_of",
    "quick_oom",
    "wanted",
]

MODES = ("Off", "Initial", "Recreate", "Auto", "InPlaceOrRecreate", "InPlace")
DEFERRED_LIMIT_S = 300.0
IN_PROGRESS_LIMIT_S = 3600.0


@dataclass(frozen=True, slots=True)
class UpdaterSettings:
    """The flags of the updater that decide about pods, with their usual values."""

    least_difference: float = 0.1
    settled_after_s: float = 12 * 3600.0
    quick_oom_s: float = 600.0
    least_replicas: int = 2
    eviction_tolerance: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.eviction_tolerance <= 1 or self.least_replicas < 1 or self.least_difference < 0:
            raise SettingsError(
                f"{self}; give a tolerance from 0 to 1, replicas from 1 and a difference from 0"
            )


USUAL = UpdaterSettings()


class ContainerState(NamedTuple):
    """Requests that a container has (not those of a resize under way) beside what is recommended for it.

    None where it has no request, or is not scaled. `ran_before_oom_s` is how long it had run when it was last
    killed for want of memory.
    """

    cpu_request_millicores: float | None
    memory_request_bytes: float | None
    recommendation: Recommendation | None
    ran_before_oom_s: float | None = None
    controls_cpu: bool = True
    controls_memory: bool = True


class PodState(NamedTuple):
    """One live pod, not one that is being deleted.

    `resize` says how its resize in place goes: none, deferred, infeasible, in progress or error.
    `resize_refused` is the API server's no to another one, for instance since the QoS class would change.
    """

    name: str
    containers: tuple[ContainerState, ...]
    started_s: float | None
    phase: str = "Running"
    resize: str = "none"
    resize_refused: bool = False


class Priority(NamedTuple):
    """Whether a request is out of range or must grow, and the sum of relative differences to the targets."""

    outside: bool
    grows: bool
    difference: float


class Change(NamedTuple):
    """What to do with a pod: evict it, so that it comes back at its new size, or resize it in place."""

    name: str
    action: str
    because: str


@dataclass(slots=True)
class ReplicaGroup:
    """Pods of one controller, of which a share may be missing at a time; counts what is done in one round."""

    configured: int
    running: int
    tolerated: int
    evicted: int = 0
    resized: int = 0

    @classmethod
    def of(cls, pods: Sequence[PodState], configured: int, settings: UpdaterSettings = USUAL) -> ReplicaGroup:
        running = sum(pod.phase != "Pending" for pod in pods)
        return cls(configured, running, int(configured * settings.eviction_tolerance))

    @property
    def disruptable(self) -> bool:
        """Whether one more may go. Of a small group that is complete one may go, whatever the tolerance.

        >>> (
        ...     ReplicaGroup(4, 4, 2).disruptable,
        ...     ReplicaGroup(4, 2, 2).disruptable,
        ...     ReplicaGroup(1, 1, 0).disruptable,
        ... )
        (True, False, True)
        """
        gone = self.evicted + self.resized
        alone = self.tolerated == 0 and gone == 0 and self.running == self.configured
        return self.running - gone > self.configured - self.tolerated or alone


@dataclass(slots=True)
class UpdaterMemory:
    """By pod: since when a resize is seen to be under way, and the targets that did not fit on the node."""

    resizing_since_s: dict[str, float] = field(default_factory=dict)
    infeasible: dict[str, tuple[Amounts | None, ...]] = field(default_factory=dict)

    def look(self, pods: Sequence[PodState], now_s: float) -> None:
        """Begin to count for pods that are being resized; forget the others, and pods that are gone.

        Kubernetes does not forget the time of a resize that went well, and gives up a later one too early.
        """
        resizing = {pod.name for pod in pods if pod.resize != "none"}
        self.resizing_since_s = {name: self.resizing_since_s.get(name, now_s) for name in resizing}
        names = {pod.name for pod in pods}
        self.infeasible = {name: kept for name, kept in self.infeasible.items() if name in names}


def plan(
    pods: Sequence[PodState],
    group: ReplicaGroup,
    mode: str,
    memory: UpdaterMemory,
    *,
    now_s: float,
    settings: UpdaterSettings = USUAL,
) -> list[Change]:
    """The changes of one round, the most urgent first.

    >>> sizes = Recommendation(
    ...     Amounts(500, 2**30), Amounts(400, 2**29), Amounts(900, 2**31), Amounts(500, 2**30)
    ... )
    >>> pods = [PodState(f"pod-{i}", (ContainerState(200, 2**30, sizes),), 0.0) for i in range(4)]
    >>> group = ReplicaGroup.of(pods, configured=4)
    >>> [change.name for change in plan(pods, group, "Recreate", UpdaterMemory(), now_s=60.0)]
    ['pod-0', 'pod-1']
    """
    if mode not in MODES:
        raise SettingsError(f"VPA update mode {mode!r}; give one of {', '.join(MODES)}")
    memory.look(pods, now_s)
    if mode in ("Off", "Initial") or len(pods) < settings.least_replicas:
        return []
    in_place = mode in ("InPlaceOrRecreate", "InPlace")
    open_to_change = [pod for pod in pods if _considered(pod, group, mode, memory, now_s)]
    ordered = _ordered(open_to_change, now_s, settings)
    changes: list[Change] = []
    evictions: list[tuple[PodState, str]] = [] if in_place else ordered
    if in_place:
        changes, evictions = _resized(ordered, group, mode, memory, now_s)
    for pod, because in evictions:
        if _evictable(pod, group, memory, now_s):
            group.evicted += pod.phase != "Pending"
            changes.append(Change(pod.name, "evict", because))
    return changes


def priority_of(containers: Sequence[ContainerState]) -> Priority:
    """How urgent a change is, over all containers that have a recommendation."""
    outside = grows = False
    # In thousandths of a core and of a byte, as Kubernetes adds them; a total of 0 is taken as 1 of these.
    requested, targeted = [0.0, 0.0], [0.0, 0.0]
    for container in containers:
        if container.recommendation is None:
            continue
        target, lower, upper, _ = container.recommendation
        requests = (container.cpu_request_millicores, container.memory_request_bytes)
        controlled = (container.controls_cpu, container.controls_memory)
        for place, (request, unit) in enumerate(zip(requests, (1.0, 1000.0), strict=True)):
            if not controlled[place]:
                continue
            targeted[place] += target[place] * unit
            if request is None:
                outside = grows = True
                continue
            requested[place] += request * unit
            grows = grows or target[place] > request
            outside = outside or not lower[place] <= request <= upper[place]
    difference = 0.0
    for before, after in zip(requested, targeted, strict=True):
        if before or after:
            difference += abs(max(before, 1.0) - after) / max(before, 1.0)
    return Priority(outside, grows, difference)


def quick_oom(pod: PodState, settings: UpdaterSettings = USUAL) -> bool:
    """Whether a container that is scaled was killed for want of memory within minutes of its start."""
    return any(
        container.recommendation is not None
        and container.ran_before_oom_s is not None
        and container.ran_before_oom_s < settings.quick_oom_s
        for container in pod.containers
    )


def wanted(pod: PodState, *, now_s: float, settings: UpdaterSettings = USUAL) -> str | None:
    """Why a pod is to be changed, or None."""
    priority, oom = priority_of(pod.containers), quick_oom(pod, settings)
    if oom and priority.difference == 0:
        return None  # killed for want of memory, but a change would give it no more
    if priority.outside:
        return "a request is out of range"
    if oom:
        return "killed for want of memory soon after its start"
    if pod.started_s is None or now_s < pod.started_s + settings.settled_after_s:
        return None
    return "old and off the target" if priority.difference >= settings.least_difference else None


def in_place_decision(
    pod: PodState, group: ReplicaGroup, mode: str, memory: UpdaterMemory, now_s: float
) -> str:
    """What resizing in place would meet: approved, deferred, evict, infeasible, or known infeasible.

    InPlace never evicts, and after a size did not fit tries again only with a smaller one; what is deferred
    is sent all the same, for the new size may fit better. InPlaceOrRecreate waits, and evicts when the resize
    is infeasible or failed, is deferred for more than five minutes or takes more than an hour, as soon as the
    group may lose a pod.
    """
    if pod.phase == "Pending":
        return "deferred"
    if mode == "InPlace" and pod.name in memory.infeasible and not _smaller(pod, memory.infeasible[pod.name]):
        return "known infeasible"
    if pod.resize != "none":
        if mode == "InPlace":
            return "infeasible" if pod.resize in ("infeasible", "error") else "deferred"
        return "evict" if _given_up(pod, group, memory, now_s) else "deferred"
    return "approved" if group.disruptable else "deferred"


def _considered(pod: PodState, group: ReplicaGroup, mode: str, memory: UpdaterMemory, now_s: float) -> bool:
    if mode in ("Recreate", "Auto"):
        return _evictable(pod, group, memory, now_s)
    decision = in_place_decision(pod, group, mode, memory, now_s)
    return decision in ("approved", "evict") or (mode == "InPlace" and decision != "known infeasible")


def _ordered(pods: Sequence[PodState], now_s: float, settings: UpdaterSettings) -> list[tuple[PodState, str]]:
    """Pods that are to be changed, with the reason: those that grow first, then by difference."""
    found: list[tuple[Priority, PodState, str]] = []
    for pod in pods:
        because = wanted(pod, now_s=now_s, settings=settings)
        if because is not None:
            found.append((priority_of(pod.containers), pod, because))
    found.sort(key=lambda one: (one[0].grows, one[0].difference), reverse=True)
    return [(pod, because) for _, pod, because in found]


def _resized(
    ordered: Sequence[tuple[PodState, str]],
    group: ReplicaGroup,
    mode: str,
    memory: UpdaterMemory,
    now_s: float,
) -> tuple[list[Change], list[tuple[PodState, str]]]:
    """Resizes in place, and the pods that must be evicted instead."""
    changes: list[Change] = []
    evictions: list[tuple[PodState, str]] = []
    for pod, because in ordered:
        decision = in_place_decision(pod, group, mode, memory, now_s)
        if decision == "evict":
            evictions.append((pod, f"{because}; its resize was {pod.resize}"))
        elif decision == "deferred" and mode == "InPlaceOrRecreate":
            continue
        elif pod.resize_refused:
            if mode == "InPlaceOrRecreate":
                evictions.append((pod, f"{because}; its resize was refused"))
        else:
            if decision == "infeasible":
                memory.infeasible[pod.name] = _targets(pod)
            group.resized += 1
            changes.append(Change(pod.name, "resize", because))
    return changes, evictions


def _evictable(pod: PodState, group: ReplicaGroup, memory: UpdaterMemory, now_s: float) -> bool:
    if pod.phase == "Pending":
        return True
    if pod.resize != "none":
        return _given_up(pod, group, memory, now_s)
    return group.disruptable


def _given_up(pod: PodState, group: ReplicaGroup, memory: UpdaterMemory, now_s: float) -> bool:
    if not group.disruptable:
        return False
    waited_s = now_s - memory.resizing_since_s.get(pod.name, now_s)
    if pod.resize == "deferred":
        return waited_s > DEFERRED_LIMIT_S
    if pod.resize == "in progress":
        return waited_s > IN_PROGRESS_LIMIT_S
    return True


def _targets(pod: PodState) -> tuple[Amounts | None, ...]:
    return tuple(one.recommendation.target if one.recommendation else None for one in pod.containers)


def _smaller(pod: PodState, tried: Sequence[Amounts | None]) -> bool:
    """Whether any amount of any container is now less than what did not fit."""
    return any(
        now is not None and then is not None and any(a < b for a, b in zip(now, then, strict=True))
        for now, then in zip(_targets(pod), tried, strict=False)
    )
