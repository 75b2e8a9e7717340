"""Starting a learner on a system that must not suffer for it: observe, learn offline, act, step back.

After AWARE's bootstrapper (Qiu et al., ATC 2023): a heuristic acts and is logged; the policy learns offline
from that log and a fitted simulator; it acts when it is good enough, and the heuristic takes over again when
it is not. The slides say that two thresholds R1 and R2 come from the user's objective; the formulas here are
our reconstruction, for rewards ``alpha * utilisation + (1 - alpha) * min(SLO / latency, 1)``:

    R1 = alpha * U + (1 - alpha)                      good enough to act: as busy as the heuristic, never late
    R2 = alpha * U + (1 - alpha) / (1 + overshoot)    must stop: as busy, but late by more than is tolerated

with U the utilisation that the heuristic reached on the same system.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from trimtab.core.errors import BundleError, SettingsError
from trimtab.core.settings import Field, Settings

__all__ = ["Bootstrap", "BootstrapSettings", "Phase", "Thresholds", "Turn"]


class Phase(StrEnum):
    """Where a service stands."""

    OBSERVE = "observe"
    OFFLINE = "offline"
    ONLINE = "online"


class Thresholds(NamedTuple):
    """Mean reward of a step from which a policy may act, and below which it must stop."""

    act: float  # R1
    stop: float  # R2

    @classmethod
    def of(cls, utilisation: float, *, alpha: float = 0.3, overshoot: float = 0.25) -> Thresholds:
        """From the heuristic's utilisation and the user's objective.

        >>> act, stop = Thresholds.of(0.6)  # .3 * .6 + .7 and .3 * .6 + .7 * .8
        >>> round(act, 3), round(stop, 3)
        (0.88, 0.74)
        """
        if not (0 <= utilisation <= 1 and 0 <= alpha <= 1 and overshoot >= 0):
            raise SettingsError(
                f"utilisation = {utilisation:g}, alpha = {alpha:g}, overshoot = {overshoot:g}; "
                "give shares between 0 and 1, and an overshoot of 0 or more"
            )
        busy = alpha * utilisation
        return cls(busy + 1 - alpha, busy + (1 - alpha) / (1 + overshoot))


class BootstrapSettings(Settings):
    """How long to look, how sure to be, how long to wait."""

    alpha: float = Field(default=0.3, ge=0, le=1, description="Weight of utilisation in the reward.")
    overshoot: float = Field(
        default=0.25, ge=0, le=100, description="Latency beyond the objective, as a share, that is tolerated."
    )
    observe_ticks: int = Field(
        default=240,
        ge=1,
        le=10_000_000,
        description="Ticks of the heuristic logged before anything is learned.",
    )
    evaluation_episodes: int = Field(
        default=10, ge=1, le=100_000, description="Offline episodes whose mean reward must reach R1."
    )
    window: int = Field(
        default=10, ge=1, le=100_000, description="Online steps whose mean reward must not fall below R2."
    )
    cooldown_ticks: int = Field(
        default=20, ge=0, le=10_000_000, description="Ticks the heuristic acts, at least, after a step back."
    )


class Turn(NamedTuple):
    """Who acts in the next tick, and why."""

    phase: Phase
    policy_acts: bool
    because: str
    changed: bool = False


class Bootstrap:
    """The phases of one service. It is told rewards, and says who acts.

    `tick` for every step of the real system, whoever acts; `trained` for every round of training offline, and
    `evaluated` for every episode the policy played there since. Without a given `utilisation` the heuristic's
    is measured while it is observed.

    >>> start = Bootstrap(
    ...     BootstrapSettings(observe_ticks=2, evaluation_episodes=1, window=2, cooldown_ticks=2)
    ... )
    >>> [start.tick(0.8, utilisation=0.6).phase.value for _ in range(2)]
    ['observe', 'offline']
    >>> turn = start.evaluated(0.9)
    >>> turn.policy_acts, turn.because
    (True, 'mean of 1 episodes 0.900 reaches R1 = 0.880')
    >>> [start.tick(reward).policy_acts for reward in (0.9, 0.5)]
    [True, False]
    """

    def __init__(
        self, settings: BootstrapSettings | None = None, *, utilisation: float | None = None
    ) -> None:
        self.settings = settings or BootstrapSettings()
        self.phase = Phase.OBSERVE
        self.thresholds = None if utilisation is None else self._thresholds(utilisation)
        self._ticks, self._busy_sum, self._busy_ticks, self._waiting = 0, 0.0, 0, 0
        self._episodes: deque[float] = deque(maxlen=self.settings.evaluation_episodes)
        self._rewards: deque[float] = deque(maxlen=self.settings.window)

    def tick(self, reward: float, *, utilisation: float = math.nan) -> Turn:
        """One step of the real system gave this reward; NaN where it is not known."""
        self._ticks += 1
        if self.phase is Phase.OBSERVE:
            return self._observed(utilisation)
        if self.phase is Phase.OFFLINE:
            self._waiting = max(self._waiting - 1, 0)
            return self._maybe_online()
        return self._acted(reward)

    def trained(self) -> None:
        """The policy learned offline: what it played before was played by another one, and proves nothing."""
        self._episodes.clear()

    def evaluated(self, reward: float) -> Turn:
        """The policy as it is now played one episode offline, with this mean reward of a step."""
        if self.phase is not Phase.OFFLINE:
            return self._turn("evaluations count while it learns offline")
        if not math.isfinite(reward):
            raise SettingsError(f"mean reward of an offline episode is {reward}; mend the evaluation")
        self._episodes.append(reward)
        return self._maybe_online()

    def retrain(self, because: str) -> Turn:
        """Go back to learning offline, as after a drift alarm; before that the log must be there."""
        if self.phase is not Phase.ONLINE:
            return self._turn(f"{because}: the heuristic acts already")
        return self._step_back(because)

    def _observed(self, utilisation: float) -> Turn:
        if math.isfinite(utilisation):
            self._busy_sum, self._busy_ticks = self._busy_sum + utilisation, self._busy_ticks + 1
        left = self.settings.observe_ticks - self._ticks
        if left > 0:
            return self._turn(f"{left} more ticks to observe")
        if self.thresholds is None:
            if not self._busy_ticks:
                return self._turn("no utilisation of the heuristic was seen yet, and R1 and R2 depend on it")
            self.thresholds = self._thresholds(min(max(self._busy_sum / self._busy_ticks, 0.0), 1.0))
        self.phase = Phase.OFFLINE
        act, stop = self.thresholds
        return self._turn(f"observed for {self._ticks} ticks: R1 = {act:.3f}, R2 = {stop:.3f}", changed=True)

    def _maybe_online(self) -> Turn:
        wanted, done = self.settings.evaluation_episodes, len(self._episodes)
        act = self._known().act
        if done < wanted:
            return self._turn(f"{done} of {wanted} offline episodes")
        mean = math.fsum(self._episodes) / done
        if mean < act:
            return self._turn(f"mean of {done} episodes {mean:.3f} is below R1 = {act:.3f}")
        if self._waiting:
            return self._turn(f"good enough, but {self._waiting} more ticks to wait")
        self.phase = Phase.ONLINE
        self._rewards.clear()
        return self._turn(f"mean of {done} episodes {mean:.3f} reaches R1 = {act:.3f}", changed=True)

    def _acted(self, reward: float) -> Turn:
        if math.isfinite(reward):
            self._rewards.append(reward)
        stop = self._known().stop
        count = len(self._rewards)
        if count < self.settings.window:
            return self._turn(f"{count} of {self.settings.window} steps of the window")
        mean = math.fsum(self._rewards) / count
        if mean < stop:
            return self._step_back(f"mean of {count} steps {mean:.3f} is below R2 = {stop:.3f}")
        return self._turn(f"mean of {count} steps {mean:.3f} is not below R2 = {stop:.3f}")

    def _step_back(self, because: str) -> Turn:
        """What was played offline before proves nothing any more."""
        self.phase = Phase.OFFLINE
        self._waiting = self.settings.cooldown_ticks
        self._episodes.clear()
        self._rewards.clear()
        return self._turn(because, changed=True)

    def _turn(self, because: str, *, changed: bool = False) -> Turn:
        return Turn(self.phase, self.phase is Phase.ONLINE, because, changed)

    def _thresholds(self, utilisation: float) -> Thresholds:
        return Thresholds.of(utilisation, alpha=self.settings.alpha, overshoot=self.settings.overshoot)

    def _known(self) -> Thresholds:
        if self.thresholds is None:
            raise AssertionError("thresholds are set before the phase of observation ends")
        return self.thresholds

    def saved(self) -> dict[str, Any]:
        """Where it stands, as plain values for a JSON file; `restored` takes them."""
        return {
            "phase": self.phase.value,
            "thresholds": None if self.thresholds is None else list(self.thresholds),
            "ticks": self._ticks,
            "busy": [self._busy_sum, self._busy_ticks],
            "waiting": self._waiting,
            "episodes": list(self._episodes),
            "rewards": list(self._rewards),
        }

    @classmethod
    def restored(cls, settings: BootstrapSettings, saved: Mapping[str, Any]) -> Bootstrap:
        """One that stands where another was saved."""
        one = cls(settings)
        try:
            one.phase = Phase(saved["phase"])
            told = saved["thresholds"]
            one.thresholds = None if told is None else Thresholds(*map(_finite, told))
            one._ticks, one._waiting = int(saved["ticks"]), int(saved["waiting"])
            one._busy_sum, one._busy_ticks = _finite(saved["busy"][0]), int(saved["busy"][1])
            one._episodes.extend(map(_finite, saved["episodes"]))
            one._rewards.extend(map(_finite, saved["rewards"]))
        except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
            raise BundleError(f"state of a bootstrap is damaged ({error!r}); begin afresh") from None
        if one.phase is not Phase.OBSERVE and one.thresholds is None:
            raise BundleError(f"state of a bootstrap is {one.phase} without thresholds; begin afresh")
        return one


def _finite(value: Any) -> float:
    """A number; beside one that is none, as a threshold, every policy would be good enough."""
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{number} is no such number")
    return number
