"""What a policy is: a name and a decision.

Heuristics and learned policies, simulated and live, all have this one shape. A policy reads the
snapshot and nothing else, so the same object runs in the simulator and on the real system.
"""

from typing import Protocol, TypeVar, runtime_checkable

__all__ = ["Policy"]

SnapshotSeen = TypeVar("SnapshotSeen", contravariant=True)
ActionMade = TypeVar("ActionMade", covariant=True)


@runtime_checkable
class Policy(Protocol[SnapshotSeen, ActionMade]):
    """Any object with a name and a `decide`.

    >>> class AlwaysFirst:
    ...     name = "toy/always-first"
    ...
    ...     def decide(self, snapshot: list[str]) -> int:
    ...         return 0
    >>> isinstance(AlwaysFirst(), Policy)
    True
    """

    @property
    def name(self) -> str:
        """The name in the registry and in every table, e.g. ``fair``."""
        ...

    def decide(self, snapshot: SnapshotSeen) -> ActionMade:
        """Choose an action that the snapshot's mask allows."""
        ...
