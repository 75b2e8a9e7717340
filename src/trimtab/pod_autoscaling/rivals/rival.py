"""How a rival begins from what it learned in practice, acts, and goes on learning service by service."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.core.bundle import load_bundle
from trimtab.core.errors import BundleError
from trimtab.core.policy import Parameter
from trimtab.core.randomness import split
from trimtab.pod_autoscaling.heuristics.measures import just_begun, size_of
from trimtab.pod_autoscaling.heuristics.multi import MultiDecider, multi
from trimtab.pod_autoscaling.heuristics.rule import Values
from trimtab.pod_autoscaling.problem import (
    CPU,
    MEMORY,
    REPLICAS,
    Flags,
    Floats,
    Integers,
    Services,
    Snapshot,
)
from trimtab.pod_autoscaling.rivals.learning import Luck
from trimtab.pod_autoscaling.rivals.seeing import Seen, look

__all__ = ["BUNDLES", "LEARN", "WING", "Knowledge", "Manner", "Rival", "Wish", "pods_in_a_step"]

WING = "pod_autoscaling"
BUNDLES = Path(str(files("trimtab.pod_autoscaling.rivals").joinpath("bundles")))
Knowledge = Mapping[str, NDArray[Any]]

# The pods of rivals without a vertical decision; and what all of them begin with in practice.
_POD_CORES = 1.0
# A service in use is not a playground: so many of its decisions are tries.
_EXPLORE_LIVE = 0.01
_STEP_SHARE = 1 / 8
# `multi` scales before queues are long; rivals may be slower, so their pods have more memory to spare.
_MEMORY = {"cpu": _POD_CORES, "margin": 1.5, "reserve": 6.0}

LEARN = Parameter(
    "learn",
    1.0,
    "1: goes on learning from the service it runs; 0: as it came out of practice, without tries",
    low=0.0,
    high=1.0,
    whole=True,
)


class Manner(NamedTuple):
    """How a rival goes about it."""

    learn: bool = True
    explore: float = _EXPLORE_LIVE
    """Share of decisions that are tries."""
    together: bool = False
    """All services teach one agent, as in practice; otherwise each its own."""
    seed: int = 0


class Wish(NamedTuple):
    """What a rival wants, [E] each; NaN: as it is."""

    replicas: Floats
    cpu: Floats | None = None


class Rival(ABC):
    """A learned autoscaler at work; a `Decider`. Memory, which none of them decides, is that of `multi`.

    Services that monitoring says nothing of are left as they are. A rival learns from a decision when it was
    carried out (a guard may have refused it) and what came of it is known.
    """

    name: ClassVar[str]

    def __init__(
        self,
        services: Services,
        values: Values,
        *,
        knowledge: Knowledge | None = None,
        manner: Manner | None = None,
    ) -> None:
        """Begin with what was learned in practice, unless other knowledge is given."""
        self.manner = Manner(learn=bool(values["learn"])) if manner is None else manner
        self.luck = Luck(split(self.manner.seed, "rival", self.name))
        self.agents = 1 if self.manner.together else len(services.slo_s)
        self.begin_with(_learned(self.name) if knowledge is None else knowledge)
        self.restart(services)

    @classmethod
    @abstractmethod
    def fresh(cls, seed: int) -> Knowledge:
        """What it knows before any practice."""

    @abstractmethod
    def begin_with(self, knowledge: Knowledge) -> None:
        """Give every agent this knowledge to go on with."""

    def restart(self, services: Services) -> None:
        """Other services: what was learned stays, what was going on is forgotten."""
        self.count = len(services.slo_s)
        self.agent = np.zeros(self.count, np.int64) if self.manner.together else np.arange(self.count)
        self._asked: Floats | None = None
        self._for_memory = MultiDecider(services, {**multi().values, **_MEMORY})

    def decide(self, snapshot: Snapshot) -> Floats:
        seen = look(snapshot)
        lived = seen.told & ~just_begun(snapshot) & self._carried_out(snapshot)
        replicas, cpu = self.wish(snapshot, seen, lived)
        cpu = np.full(self.count, _POD_CORES) if cpu is None else cpu
        wanted = size_of(
            snapshot,
            replicas=np.where(seen.told, replicas, np.nan),
            cpu=np.where(seen.told, cpu, np.nan),
            memory=self._for_memory.decide(snapshot)[:, MEMORY],
        )
        self._asked = wanted
        return wanted

    @abstractmethod
    def wish(self, snapshot: Snapshot, seen: Seen, lived: Flags) -> Wish:
        """Learn from the last decision of the services that are `lived`, [E], and make the next."""

    @abstractmethod
    def knowledge(self) -> Knowledge:
        """What a bundle keeps: that of the first agent."""

    def grouped(self, values: NDArray[Any]) -> NDArray[Any]:
        """[E, ...] as [A, E / A, ...]: what each agent is told."""
        return values.reshape(self.agents, self.count // self.agents, *values.shape[1:])

    def tries(self) -> Flags:
        """Which services get a try this time, [E]."""
        if not self.manner.learn:
            return np.zeros(self.count, bool)
        return self.luck.uniform(self.count) < self.manner.explore

    def chosen(self, scores: Floats) -> Integers:
        """The best of the actions [E, actions], the first of equals; or a try.

        In practice a try is any action, in use the second best.
        """
        best = scores.argmax(1)
        if self.manner.together:
            tried = self.luck.integers(scores.shape[1], self.count)
        else:
            others = scores.copy()
            np.put_along_axis(others, best[:, None], -np.inf, 1)
            tried = others.argmax(1)
        return np.where(self.tries(), tried, best)

    def _carried_out(self, snapshot: Snapshot) -> Flags:
        if self._asked is None:
            return np.zeros(self.count, bool)
        same = np.abs(snapshot.size - self._asked) < 1e-6
        return same[:, REPLICAS] & same[:, CPU]


def pods_in_a_step(replicas: Floats) -> Floats:
    """One pod, or an eighth of them where there are many: papers have one, for services of a few pods.

    >>> pods_in_a_step(np.array([1.0, 8.0, 40.0])).tolist()
    [1.0, 1.0, 5.0]
    """
    return np.maximum(1.0, np.round(_STEP_SHARE * replicas))


def _learned(name: str) -> Knowledge:
    bundle = load_bundle(BUNDLES / name)
    if (bundle.wing, bundle.kind) != (WING, name):
        raise BundleError(
            f"{BUNDLES / name}: a policy of {bundle.wing} ({bundle.kind}), and here {name} is needed; "
            "practise again"
        )
    return bundle.tensors
