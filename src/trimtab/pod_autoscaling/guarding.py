"""The guard for services: dimensions, floors and evidence as values, and a policy that goes through it.

What a service needs now is read off its metrics: a pod gets no less CPU than 1.05 times what its busiest
pods use, no less memory than 1.1 times the highest working set of the last intervals (after a kill as much as
Kubernetes' vertical autoscaler would give), and all pods together no fewer cores than are used over 0.95.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trimtab.control.decision import Guarded
from trimtab.control.evidence import Evidence, Needs
from trimtab.control.guard import Guard
from trimtab.control.guard_settings import Canary, Dimension, GuardSettings, Recovery
from trimtab.control.limits import product_of
from trimtab.control.reasons import Acting, Reason, Step
from trimtab.core.errors import SettingsError
from trimtab.core.settings import load_settings
from trimtab.pod_autoscaling.problem import (
    CPU,
    MEMORY,
    REPLICAS,
    SIZE,
    Decider,
    Floats,
    PodPolicy,
    Services,
    Snapshot,
    nearest_allowed,
)

__all__ = [
    "WORDS",
    "Acted",
    "GuardedDecider",
    "GuardedPolicy",
    "cost_of",
    "counts_of",
    "evidence_of",
    "guard_of",
    "needs_of",
    "shadow_of",
    "turns_of",
]

WORDS = {
    Reason.POLICY_ACTS: "free to act",
    Reason.SHADOW: "shadow",
    Reason.RESTING: "resting",
    Reason.KILLED: "switched off",
    Reason.OBSERVING: "observing",
    Reason.SUSPENDED: "suspended",
    Reason.HELD: "held",
    Reason.STALE: "stale data",
    Reason.INVALID: "no answer",
    Reason.SURPRISED: "surprised",
    Reason.RECOVERING: "recovering",
    Reason.HEURISTIC_UNUSABLE: "no rule",
}
"""What the guard chose by, in words short enough for a picture."""

_CPU_MARGIN, _MEMORY_MARGIN, _FULL = 1.05, 1.1, 0.95
_KILL_FACTOR, _KILL_MIB, _KILL_REMEMBERED_S = 1.2, 100.0, 600.0
# A GiB costs about an eighth of a core.
_MEMORY_PRICE = 0.12 / 1024


def guard_of(services: Services, interval_s: float, **settings: Any) -> Guard:
    """A guard for some services; `settings` are fields of `GuardSettings`, such as ``mode="active"``."""
    if (services.quantum != services.quantum[0]).any():
        raise SettingsError("services of one guard need the same quanta; guard them one by one")
    dimensions = tuple(
        Dimension(
            name=name,
            unit=unit,
            quantum=float(services.quantum[0, column]),
            least=float(services.least[:, column].min()),
            most=float(services.most[:, column].max()),
            joint=column != MEMORY,
        )
        for column, (name, unit) in enumerate(zip(SIZE, ("", "cores", "MiB"), strict=True))
    )
    given = {"recovery": Recovery(budget=float(services.budget.min())), **settings}
    return Guard(
        _settings_of(dimensions, interval_s=interval_s, **given),
        capacity=product_of(REPLICAS, CPU),
        cost=cost_of,
    )


def cost_of(sizes: Floats) -> Floats:
    """Of sizes [E, 3], in prices of a core."""
    return sizes[:, REPLICAS] * (sizes[:, CPU] + _MEMORY_PRICE * sizes[:, MEMORY])


def _settings_of(dimensions: Sequence[Dimension], **given: Any) -> GuardSettings:
    """Through the settings' door, so that what is wrong is refused in one line."""
    whole = {"dimensions": tuple(dimensions), **given}
    return load_settings(GuardSettings, None, whole, given_as=lambda field: "guard")


def evidence_of(snapshot: Snapshot, surprise: ArrayLike = 0.0) -> Evidence:
    """What the service shows of the last interval, and how unlike training that is to the policy."""
    samples = snapshot.samples
    told = samples.present & samples.complete
    newest = told.shape[1] - 1 - np.argmax(told[:, ::-1], axis=1)
    behind = np.where(told.any(1), told.shape[1] - 1 - newest, np.inf)
    known = told[:, -1]
    requests = np.where(known, samples.rate[:, -1] * snapshot.interval_s, 0.0)
    return Evidence.of(
        len(known),
        data_age_s=snapshot.interval_s * behind,
        latency_ratio=np.where(known, samples.latency_p99_s[:, -1] / snapshot.services.slo_s, np.nan),
        bad=requests * np.where(known, samples.late[:, -1], 0.0),
        total=requests,
        surprise=surprise,
    )


def needs_of(snapshot: Snapshot, settings: GuardSettings) -> Needs:
    """What the service needs now, and may have."""
    services, samples, pods = snapshot.services, snapshot.samples, snapshot.pods
    told = samples.present & samples.complete
    floor = np.zeros(snapshot.size.shape)
    counted = pods.exists & pods.ready & pods.measured & np.isfinite(pods.cpu)
    floor[:, CPU] = _CPU_MARGIN * _busiest(pods.cpu, counted)
    floor[:, MEMORY] = _MEMORY_MARGIN * np.where(told, np.nan_to_num(samples.memory), 0.0).max(1)
    # NaN where there was no kill, which is not recent.
    recent = pods.exists & (snapshot.now_s[:, None] - pods.killed_s < _KILL_REMEMBERED_S)
    grown = np.maximum(_KILL_FACTOR * pods.killed_at, pods.killed_at + _KILL_MIB)
    floor[:, MEMORY] = np.maximum(floor[:, MEMORY], np.where(recent, grown, 0.0).max(1))
    cores = np.where(told[:, -1], samples.cpu[:, -1], 0.0)
    return Needs.of(
        settings,
        snapshot.size,
        least=services.least,
        most=services.most,
        floor=np.minimum(floor, services.most),
        capacity=cores / _FULL,
    )


def _busiest(cpu: Floats, counts: NDArray[np.bool_]) -> Floats:
    """The 95th percentile, rounded up, over the pods that count, [E]; 0 where none does."""
    ranked = np.sort(np.where(counts, cpu, -np.inf), axis=1)
    number = counts.sum(1)
    place = ranked.shape[1] - number + np.ceil(0.95 * (number - 1)).astype(np.int64)
    found = np.take_along_axis(ranked, np.minimum(place, ranked.shape[1] - 1)[:, None], axis=1)[:, 0]
    return np.where(number > 0, found, 0.0)


class Acted(NamedTuple):
    """Who acted in one interval, for every service, and why."""

    who: NDArray[np.int8]
    """[E]: an `Acting`."""
    reasons: NDArray[np.int8]
    """[E, steps]: the weightiest `Reason` of each `Step`."""
    extra_cost: Floats
    """[E]: cost of what the policy asked for beyond that of what the rule did, as a share."""
    raised: str = ""
    """What the policy raised instead of an answer, if it did."""


def counts_of(acted: Sequence[Acted], *, row: int = 0) -> Counter[tuple[Acting, Reason]]:
    """In how many intervals who acted on one service, and why.

    >>> codes = np.array([[0, 0, 0, 0, 0, Reason.POLICY_ACTS, 0]])
    >>> alone = Acted(np.array([Acting.POLICY]), codes, np.zeros(1))
    >>> counts_of([alone, alone])[Acting.POLICY, Reason.POLICY_ACTS]
    2
    """
    return Counter((Acting(one.who[row]), Reason(one.reasons[row, Step.CHOOSE])) for one in acted)


def turns_of(acted: Sequence[Acted], canary: Canary, *, row: int = 0) -> tuple[int, int]:
    """In canary mode, the slots that were the policy's, and all that began.

    >>> codes = np.array([[0, 0, 0, 0, 0, Reason.RESTING, 0]])
    >>> resting = Acted(np.array([Acting.HEURISTIC]), codes, np.zeros(1))
    >>> turn = Acted(np.array([Acting.POLICY]), 0 * codes, np.zeros(1))
    >>> turns_of([resting, resting, turn, turn, resting], Canary(slot_ticks=2))
    (1, 3)
    """
    begun = acted[:: canary.slot_ticks]
    return sum(bool(one.reasons[row, Step.CHOOSE] != Reason.RESTING) for one in begun), len(begun)


def shadow_of(acted: Sequence[Acted], *, row: int = 0) -> tuple[float, int]:
    """What a policy in shadow asked for beyond the rule (mean share of cost), and how often for too little.

    Too little is less than present usage needs, by the floors of the guard.

    >>> who, codes = np.array([Acting.HEURISTIC]), np.zeros((2, 1, 7), np.int8)
    >>> codes[1, 0, Step.NEEDS] = Reason.USAGE
    >>> shadow_of([Acted(who, codes[0], np.array([0.1])), Acted(who, codes[1], np.array([-0.3]))])
    (-0.1, 1)
    """
    extra = float(np.mean([one.extra_cost[row] for one in acted]))
    return round(extra, 12), sum(bool(one.reasons[row, Step.NEEDS] != Reason.NONE) for one in acted)


@dataclass(frozen=True)
class _Failed(Guarded):
    """A decision about which the policy said nothing, since it failed."""

    raised: str

    def explain(self, environment: int) -> tuple[str, ...]:
        opening, *others = super().explain(environment)
        return opening, f"the policy raised {self.raised}", *others


class GuardedDecider:
    """Both at work; `last` says what became of the last answers, and why.

    A policy that raises has given no answer. What the rule raises is raised: nobody stands behind it.
    """

    last: Guarded | None = None

    def __init__(
        self, services: Services, policy: Decider, heuristic: Decider, settings: dict[str, Any]
    ) -> None:
        self._services, self._policy, self._heuristic = services, policy, heuristic
        self._settings = settings
        self._guard: Guard | None = None
        self.acted: list[Acted] = []
        """Who acted and why, interval by interval."""

    def decide(self, snapshot: Snapshot) -> Floats:
        if self._guard is None:
            self._guard = guard_of(self._services, snapshot.interval_s, **self._settings)
            self._state = self._guard.begin(len(snapshot.now_s))
        heuristic = nearest_allowed(self._services, self._heuristic.decide(snapshot))
        # Looked at before the policy is asked: one that works in place must not blind the guard.
        evidence, needs = evidence_of(snapshot), needs_of(snapshot, self._guard.settings)
        proposal, raised = self._proposal(snapshot)
        evidence = evidence._replace(surprise=self._surprise(len(evidence.surprise)))
        self._state, guarded = self._guard.step(self._state, proposal, heuristic, evidence, needs)
        self.last = _Failed(**vars(guarded), raised=raised) if raised else guarded
        asked = guarded.trail[1 + Step.PROJECT]
        extra_cost = cost_of(asked) / cost_of(guarded.heuristic) - 1
        self.acted.append(Acted(guarded.acting, guarded.reasons, extra_cost, raised))
        return guarded.action

    def _surprise(self, services: int) -> Floats:
        """What the policy says of it, unknown where that makes no sense.

        Rules know no training, and nothing surprises them.
        """
        try:
            told = np.asarray(getattr(self._policy, "surprise", 0.0), np.float64)
            return np.broadcast_to(told, (services,)).copy()
        except Exception:
            return np.full(services, np.nan)

    def _proposal(self, snapshot: Snapshot) -> tuple[Floats | None, str]:
        try:
            return self._policy.decide(snapshot), ""
        except Exception as error:
            return None, f"{type(error).__name__}: {error}"


class GuardedPolicy:
    """A policy behind the guard, with a rule beside it that one would trust alone; itself a policy.

    >>> from trimtab.pod_autoscaling.policies import make_policy
    >>> GuardedPolicy(make_policy("multi"), make_policy("hpa"), mode="canary").name
    'multi guarded by hpa'
    """

    def __init__(self, policy: PodPolicy, heuristic: PodPolicy, **settings: Any) -> None:
        self._policy, self._heuristic = policy, heuristic
        self._settings = {"mode": "active", **settings}
        # What these services are is known later; that the settings are some is known now.
        checked = _settings_of([Dimension(name="replicas", most=1)], **self._settings)
        self.mode = checked.mode
        self.canary: Canary | None = checked.canary if checked.mode == "canary" else None
        """When the policy acts, in canary mode."""
        self._begun: GuardedDecider | None = None

    @property
    def name(self) -> str:
        return f"{self._policy.name} guarded by {self._heuristic.name}"

    @property
    def acted(self) -> list[Acted]:
        """Who acted and why, interval by interval, since it last began."""
        return [] if self._begun is None else self._begun.acted

    def begin(self, services: Services) -> GuardedDecider:
        """Start afresh on these services."""
        begun = [one.begin(services) for one in (self._policy, self._heuristic)]
        self._begun = GuardedDecider(services, begun[0], begun[1], self._settings)
        return self._begun
