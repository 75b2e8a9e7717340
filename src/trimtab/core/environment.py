"""What an environment is: a workload and a seed in, snapshots out, one decision at a time.

The workload is an argument and not hidden inside, because replaying one workload many times is
what paired comparisons and input-dependent baselines are made of. Nothing resets by itself.

Learning plays many environments at once and never wants to wait for the slowest episode: there,
a `BatchEnvironment` draws its own workloads and begins another episode wherever one ends.
"""

from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

__all__ = ["BatchEnvironment", "BatchOutcome", "Environment", "Transition"]

Snapshot = TypeVar("Snapshot")
WorkloadTaken = TypeVar("WorkloadTaken", contravariant=True)
ActionTaken = TypeVar("ActionTaken", contravariant=True)


@dataclass(frozen=True, slots=True)
class Transition(Generic[Snapshot]):
    """What one decision led to.

    `terminated` means the work is done: nothing follows, its value is zero. `truncated` means
    somebody stopped watching: more would have followed. Averages over truncated episodes are lies.

    >>> Transition("idle", reward=-2.0, terminated=True, truncated=False, elapsed_ms=40).ended
    True
    """

    snapshot: Snapshot
    reward: float
    terminated: bool
    truncated: bool
    elapsed_ms: int

    @property
    def ended(self) -> bool:
        """Whether the episode is over, for either reason."""
        return self.terminated or self.truncated


@runtime_checkable
class Environment(Protocol[WorkloadTaken, Snapshot, ActionTaken]):
    """A system that asks for decisions.

    >>> class Countdown:
    ...     def reset(self, workload: int, seed: int) -> int:
    ...         self.left = workload
    ...         return self.left
    ...
    ...     def step(self, action: int) -> Transition[int]:
    ...         self.left -= action
    ...         done = self.left <= 0
    ...         return Transition(self.left, -1.0, terminated=done, truncated=False, elapsed_ms=10)
    >>> countdown = Countdown()
    >>> countdown.reset(2, seed=0)
    2
    >>> countdown.step(2).terminated
    True
    >>> isinstance(countdown, Environment)
    True
    """

    def reset(self, workload: WorkloadTaken, seed: int) -> Snapshot:
        """Start over on this workload with this luck; return the first decision to make."""
        ...

    def step(self, action: ActionTaken) -> Transition[Snapshot]:
        """Take the action and run on to the next decision."""
        ...


class BatchOutcome(NamedTuple):
    """What one decision in each environment led to; every array has one entry per environment.

    `ended` marks the last decision of an episode: the next observation there is of a new one.
    """

    rewards: NDArray[np.float32]
    elapsed_s: NDArray[np.float32]
    ended: NDArray[np.bool_]


@runtime_checkable
class BatchEnvironment(Protocol):
    """Many environments that decide in step, for learning.

    >>> class Coins:
    ...     size, rollouts = 4, 2
    ...
    ...     def reset(self, seed: int, mean_episode_s: float, *, imitating: bool = False) -> None:
    ...         self.heads = np.arange(self.size) // self.rollouts % 2
    ...
    ...     def observe(self) -> dict[str, NDArray[Any]]:
    ...         return {"heads": self.heads.copy()}
    ...
    ...     def step(self, actions: NDArray[Any]) -> BatchOutcome:
    ...         right = (actions[:, 0] == self.heads).astype(np.float32)
    ...         return BatchOutcome(right, np.ones(4, np.float32), np.ones(4, bool))
    >>> coins = Coins()
    >>> coins.reset(seed=0, mean_episode_s=np.inf)
    >>> coins.step(np.zeros((4, 1))).rewards
    array([1., 1., 0., 0.], dtype=float32)
    >>> isinstance(coins, BatchEnvironment)
    True
    """

    size: int
    """How many environments there are."""
    rollouts: int
    """This many neighbours (equal ``i // rollouts``) live through the same workloads and luck."""

    def reset(self, seed: int, mean_episode_s: float, *, imitating: bool = False) -> None:
        """Begin everywhere.

        A finite `mean_episode_s` ends episodes at random, memoryless times, the same within a
        group of rollouts; ``inf`` sets no limit. While `imitating`, a teacher is copied and rewards
        need not be worked out.
        """
        ...

    def observe(self) -> dict[str, NDArray[Any]]:
        """Show what each environment asks now; fresh arrays, never overwritten later."""
        ...

    def step(self, actions: NDArray[Any]) -> BatchOutcome:
        """Decide everywhere and run on to the next decisions, into new episodes where one ends."""
        ...
