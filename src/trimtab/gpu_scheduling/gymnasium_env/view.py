"""What an agent sees of a GPU cluster and what its answers mean: spaces, masks, and the way between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from trimtab.core.errors import ActionError, SettingsError
from trimtab.core.settings import Field, Settings
from trimtab.gpu_scheduling.cluster import Cluster
from trimtab.gpu_scheduling.das.design import Design
from trimtab.gpu_scheduling.das.view import JOB_FACTS, MACHINE_FACTS, empty_view
from trimtab.gpu_scheduling.gymnasium_env.filling import (
    CLUSTER_FACTS,
    PLACE_FACTS,
    new_offers,
    offer_of,
    show,
)
from trimtab.gpu_scheduling.heuristics.rule import PLACEMENT, Rule
from trimtab.gpu_scheduling.policies import PLACEMENTS, make_policy
from trimtab.gpu_scheduling.problem import HOLD, NOWHERE, Action, Snapshot, start
from trimtab.gymnasium_base.actions import Illegal

__all__ = ["OWN_FACTS", "EnvSettings", "View"]

LARGEST_FACT = 1000.0
"""Facts are cut off here, so that their space is bounded; nearly all lie between 0 and 1."""
OWN_FACTS = tuple(
    name
    for name in JOB_FACTS
    if name not in ("service attained", "was preempted", "GPUs free", "jobs waiting")
)
"""What is shown of a job. It has not run before, as nothing is stopped here; the moment has its own part."""
_OWN = [JOB_FACTS.index(name) for name in OWN_FACTS]


class EnvSettings(Settings):
    """The shape of observations and actions, and what happens to an action outside the mask.

    >>> EnvSettings(placements=("best-fit", "fast:neighbours=2,tightness=0.3")).max_jobs
    32
    """

    max_jobs: int = Field(default=32, ge=1, le=4096, description="Waiting jobs shown at once.")
    placements: tuple[str, ...] = Field(
        default=("best-fit", "fast", "load-balance"),
        min_length=1,
        description="What may be chosen for a job: placements by name, settings after a colon.",
    )
    heartbeat: bool = Field(
        default=False,
        description="Ask again while jobs are held back and time goes by (`heartbeat_s` of the cluster).",
    )
    illegal: Illegal = Field(
        default="raise",
        description="Refuse an action outside the mask, or take the nearest inside it and say so.",
    )
    reward_unit_ms: float = Field(
        default=60_000.0, gt=0, description="Job-milliseconds that make a reward of -1."
    )


class View:
    """Spaces of one cluster, and the moment that was looked at last."""

    def __init__(self, cluster: Cluster, settings: EnvSettings) -> None:
        self.placements = settings.placements
        rules = [_rule_with(name) for name in settings.placements]
        if len(set(settings.placements)) < len(rules):
            raise SettingsError(f"placements = {', '.join(settings.placements)}; name each of them once")
        self._kinds: list[tuple[Callable[..., None], NDArray[np.float64]]] = [
            (offer_of(rule.placement), rule.table[PLACEMENT]) for rule in rules
        ]
        jobs, kinds, machines = settings.max_jobs, len(rules), len(cluster.machine_table.names)
        self._seen = empty_view(Design(window=jobs), 1, machines)
        self._cluster = np.zeros(len(CLUSTER_FACTS), np.float32)
        self._offers = new_offers(jobs=jobs, placements=kinds, machines=machines)
        self.hold = jobs * kinds
        shapes = {
            "jobs": (jobs, len(OWN_FACTS)),
            "places": (jobs, kinds, len(PLACE_FACTS)),
            "machines": (machines, len(MACHINE_FACTS)),
            "cluster": (len(CLUSTER_FACTS),),
        }
        parts: dict[str, spaces.Space[Any]] = {
            name: spaces.Box(0.0, LARGEST_FACT, shape, np.float32) for name, shape in shapes.items()
        }
        parts |= {"job_mask": spaces.MultiBinary(jobs), "action_mask": spaces.MultiBinary(self.hold + 1)}
        self.observation_space: spaces.Space[Any] = spaces.Dict(parts)
        self.action_space = spaces.Discrete(self.hold + 1)
        self.mask = np.zeros(self.hold + 1, np.int8)
        self.now_ms, self.waiting, self.shown = 0, 0, 0

    def look(self, row: Any, snapshot: Snapshot, *, ended: bool) -> bool:
        """Look at the moment (`row` is the same for compiled code); whether anything could be started."""
        self.now_ms, self.waiting = snapshot.now_ms, len(snapshot.pending)
        self.shown = show(row, self._seen, self._cluster, self._offers.slots)
        for kind, (offer, parameters) in enumerate(self._kinds):
            offer(row, self._offers, self.shown, kind, parameters)
        self.mask = np.zeros(self.hold + 1, np.int8)
        self.mask[:-1] = self._offers.counts.reshape(-1) > 0
        # After the end nothing is asked; a mask that allows nothing would break those who sample from it.
        self.mask[-1] = snapshot.may_hold or ended
        return bool(self.mask[:-1].any())

    def observation(self) -> dict[str, NDArray[Any]]:
        """What is seen now, in arrays of its own."""
        return {
            "jobs": np.minimum(self._seen.jobs[0][:, _OWN], LARGEST_FACT),
            "places": np.minimum(self._offers.facts, LARGEST_FACT),
            "machines": np.minimum(self._seen.machines[0], LARGEST_FACT),
            "cluster": np.minimum(self._cluster, LARGEST_FACT),
            "job_mask": self._seen.waits[0].astype(np.int8),
            "action_mask": self.mask.copy(),
        }

    def meant(self, number: int) -> Action:
        """The action that a number inside the mask stands for."""
        if number == self.hold:
            return HOLD
        at, kind = divmod(number, len(self.placements))
        slots, counts, machines, gpus, _ = self._offers
        return start(int(slots[at]), machines[at, kind, : counts[at, kind]], int(gpus[at, kind]))

    def number_of(self, job: int, placement: str) -> int:
        """The number that starts a job (by its slot) as a placement would."""
        if placement not in self.placements:
            raise ActionError(
                f"placement {placement!r} is none of those to choose from: {', '.join(self.placements)}"
            )
        (found,) = np.nonzero(self._offers.slots == job)
        if job == NOWHERE or not len(found):
            raise ActionError(
                f"job in slot {job} is not shown; {self.shown} of {self.waiting} that wait are, see max_jobs"
            )
        return int(found[0]) * len(self.placements) + self.placements.index(placement)


def _rule_with(name: str) -> Rule:
    """A rule with this placement, which is then the one that its settings are for."""
    if name.partition(":")[0] not in PLACEMENTS:
        raise SettingsError(f"placements: {name!r} is none; choose from {', '.join(PLACEMENTS)}")
    rule = make_policy(f"fifo+{name}")
    assert isinstance(rule, Rule)
    return rule
