"""What an environment is: a workload and a seed in, snapshots out, one decision at a time.

The workload is an argument and not hidden inside, because replaying one workload many times is
what paired comparisons and input-dependent baselines are made of. Nothing resets by itself.
"""

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar, runtime_checkable

__all__ = ["Environment", "Transition"]

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
