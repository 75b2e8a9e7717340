"""What an agent sees of a service and what its answers mean: spaces, masks, and the way between."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from trimtab.core.settings import Field, Settings
from trimtab.networks.actor_critic import ActorCriticDesign
from trimtab.pod_autoscaling.aware.actions import ACTION_PARTS, Actuator, actuator_of
from trimtab.pod_autoscaling.aware.design import ActionKind, Design
from trimtab.pod_autoscaling.aware.features import LARGEST_FEATURE, Observer, Seen, numbers_of
from trimtab.pod_autoscaling.deployment import Objective
from trimtab.pod_autoscaling.problem import SIZE, Floats, Services, Snapshot, allowed

__all__ = ["EnvSettings", "Moment", "View", "action_of_size", "observed_numbers"]


class EnvSettings(Settings):
    """What an action is.

    >>> EnvSettings(actions="discrete7").actions
    'discrete7'
    """

    actions: Literal[ActionKind, "size"] = Field(
        default="around3",
        description="What is answered: around3, logratio3, discrete7 or knobs2 (see `aware.actions`); "
        "or size: where replicas, cores and MiB lie between their bounds, in proportions.",
    )


class Moment(NamedTuple):
    """A service at a decision."""

    snapshot: Snapshot
    seen: Seen
    observation: NDArray[np.float32]


class View:
    """Spaces of one service, and what it is that remembers of an episode. Begin each with `begin`."""

    def __init__(self, objective: Objective, settings: EnvSettings) -> None:
        self._kind, self._objective = settings.actions, objective
        self._parts = len(_parts_of(settings))
        self._design = _design(objective, settings)
        numbers = len(observed_numbers(objective, settings))
        self.observation_space = spaces.Box(-LARGEST_FEATURE, LARGEST_FEATURE, (numbers,), np.float32)
        kinds: dict[str, spaces.Space[Any]] = {
            "discrete7": spaces.Discrete(len(ACTION_PARTS["discrete7"])),
            "size": spaces.Box(-1.0, 1.0, (len(SIZE),), np.float64),
        }
        self.action_space = kinds.get(self._kind) or spaces.Box(-1.0, 1.0, (self._parts,), np.float32)

    def begin(self, services: Services) -> None:
        """Forget what was seen: another service comes (a batch of one)."""
        self._observer = Observer(services, self._design)
        if self._design.priced:
            self._observer.set_prices(np.array([self._objective.multiplier]))
        self._actuator: Actuator | None = None
        if self._kind != "size":
            self._actuator = actuator_of(services, self._design, self._observer)

    def look(self, snapshot: Snapshot) -> Moment:
        """Look at the service; each snapshot is shown once."""
        seen = self._observer.see(snapshot)
        numbers = seen.observation[0, : self.observation_space.shape[0]]
        return Moment(snapshot, seen, np.clip(numbers, -LARGEST_FEATURE, LARGEST_FEATURE))

    def wanted(self, action: NDArray[Any], moment: Moment) -> Floats:
        """The size that an action means, [1, 3]; it is remembered as the one before."""
        if self._actuator is None:
            least, most = moment.snapshot.services.least, moment.snapshot.services.most
            return least * (most / least) ** ((action[None] + 1) / 2)
        answer = _seven(int(action)) if self._kind == "discrete7" else action[None]
        self._observer.acted(answer)
        return self._actuator.sized(answer, moment.snapshot, moment.seen)

    def mask(self, moment: Moment) -> NDArray[np.int8] | None:
        """Of the seven steps: to do nothing, and all that would change something now."""
        if self._kind != "discrete7" or self._actuator is None:
            return None
        snapshot = moment.snapshot
        sizes = [
            allowed(snapshot, self._actuator.sized(_seven(step), snapshot, moment.seen))
            for step in range(self._parts)
        ]
        mask = np.array([(one != snapshot.size).any() for one in sizes], np.int8)
        mask[0] = 1
        return mask


def observed_numbers(objective: Objective, settings: EnvSettings) -> tuple[str, ...]:
    """Names of what an agent sees, in order: as `aware` sees it, then the action before, part by part.

    >>> observed_numbers(Objective(), EnvSettings())[-3:]
    ('before: headroom', 'before: rush held for', 'before: cores of a pod')
    """
    before = tuple(f"before: {part}" for part in _parts_of(settings))
    return (*numbers_of(_design(objective, settings)), *before)


def action_of_size(services: Services, size: Floats) -> Floats:
    """The action of the kind `size` that asks for a size [1, 3], such as a rule decides on.

    >>> one = Services(*np.array([[[1, 0.25, 64.0]], [[16, 4.0, 4096]], [[1, 0.01, 16]]]), *np.ones((2, 1)))
    >>> action_of_size(one, np.array([[4, 4.0, 64.0]])).tolist()
    [0.0, 1.0, -1.0]
    """
    least, most = services.least, services.most
    span = np.log(most / least)
    above = np.log(np.clip(size, least, most) / least)
    # Where a bound leaves no choice, any answer means the same.
    return (2 * np.divide(above, span, out=np.full_like(above, 0.5), where=span > 0) - 1)[0]


def _parts_of(settings: EnvSettings) -> tuple[str, ...]:
    """What an answer is made of; a size is among the other numbers already."""
    return () if settings.actions == "size" else ACTION_PARTS[settings.actions]


def _design(objective: Objective, settings: EnvSettings) -> Design:
    """How `aware` would look at the service and answer."""
    kind: ActionKind = "logratio3" if settings.actions == "size" else settings.actions
    return Design(
        # Of the network only the length of its answers matters here.
        ActorCriticDesign(observation=1, actions=len(ACTION_PARTS[kind])),
        actions=kind,
        reward=objective.reward,
        utilisation_weight=objective.utilisation_weight,
        memory_price=objective.memory_price,
        multiplier=objective.multiplier,
    )


def _seven(step: int) -> NDArray[np.float32]:
    """One of the seven steps as `aware` answers it: the largest of seven numbers."""
    answer = np.full((1, len(ACTION_PARTS["discrete7"])), -1.0, np.float32)
    answer[0, step] = 1.0
    return answer
