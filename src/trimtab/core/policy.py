"""What a policy is: a name and a decision; and what a rule adds to it: settings.

Heuristics and learned policies, simulated and live, all have this one shape. A policy reads the
snapshot and nothing else, so the same object runs in the simulator and on the real system.
"""

import difflib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, Self, TypeVar, runtime_checkable

from trimtab.core.errors import SettingsError

__all__ = [
    "Parameter",
    "Policy",
    "RememberingRule",
    "RuleLike",
    "check_policy",
    "parameters_of",
    "tunable_parameters",
    "with_settings",
]

SnapshotSeen = TypeVar("SnapshotSeen", contravariant=True)
ActionMade = TypeVar("ActionMade", covariant=True)
World = TypeVar("World")
Decides = TypeVar("Decides")


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


@dataclass(frozen=True)
class Parameter:
    """A setting of a rule: what it may be, and the values `trimtab tune` tries; none: it is not tuned.

    >>> Parameter("target", 0.7, "busy share to aim at", grid=(0.5, 0.7, 0.9), low=0, high=1).value
    0.7
    """

    name: str
    value: float
    description: str
    grid: tuple[float, ...] = ()
    low: float = -math.inf
    high: float = math.inf
    whole: bool = False
    """Only whole numbers make sense."""


@runtime_checkable
class RuleLike(Protocol):
    """A policy that is a rule: its settings can be read and changed. Every wing has its own kind."""

    @property
    def name(self) -> str: ...
    @property
    def parameters(self) -> tuple[Parameter, ...]: ...
    @property
    def sentence(self) -> str:
        """What the rule does."""
        ...

    def with_values(self, values: Mapping[str, float]) -> Any:
        """The same rule with other settings."""
        ...


@dataclass(frozen=True)
class RememberingRule(Generic[World, Decides]):
    """A rule that may remember: its settings, and how a decider that has seen nothing yet is made.

    >>> rule = RememberingRule("ds2", lambda graph, values: None, (Parameter("target", 0.7, "", low=0),))
    >>> rule.with_values({"target": 0.5}).values
    {'target': 0.5}
    """

    name: str
    decider: Callable[[World, Mapping[str, float]], Decides]
    parameters: tuple[Parameter, ...] = ()

    @property
    def values(self) -> dict[str, float]:
        return {parameter.name: parameter.value for parameter in self.parameters}

    def begin(self, world: World) -> Decides:
        """Start afresh there, with nothing remembered."""
        return self.decider(world, self.values)

    @property
    def sentence(self) -> str:
        """What the rule does: the first line of its decider's docstring."""
        return (self.decider.__doc__ or "").strip().split("\n")[0]

    def with_values(self, values: Mapping[str, float]) -> Self:
        """The same rule with other settings; unknown names and values out of range are refused."""
        return replace(self, parameters=with_settings(self.name, self.parameters, values))


def check_policy(policy: object, asked: str = "decide") -> None:
    """Refuse what cannot be asked, above all the name of a policy in its place.

    >>> check_policy("fair")
    Traceback (most recent call last):
    trimtab.core.errors.SettingsError: 'fair' is the name of a policy; `make_policy('fair')` makes it
    """
    if isinstance(policy, str):
        raise SettingsError(f"{policy!r} is the name of a policy; `make_policy({policy!r})` makes it")
    missing = [part for part in ("name", asked) if not hasattr(policy, part)]
    if missing:
        raise SettingsError(f"{type(policy).__name__} is no policy: it has no `{missing[0]}`")


def parameters_of(policy: object) -> tuple[Parameter, ...]:
    """The settings of a rule; other policies have none."""
    return policy.parameters if isinstance(policy, RuleLike) else ()


def tunable_parameters(policy: object) -> tuple[Parameter, ...]:
    """The settings `trimtab tune` may change."""
    return tuple(parameter for parameter in parameters_of(policy) if parameter.grid)


def with_settings(
    rule: str, parameters: Sequence[Parameter], values: Mapping[str, float]
) -> tuple[Parameter, ...]:
    """The settings of a rule with some of them changed; unknown names and bad values are refused.

    >>> with_settings("ds2", [Parameter("target", 0.7, "", low=0, high=1)], {"target": 7})
    Traceback (most recent call last):
    trimtab.core.errors.SettingsError: policy 'ds2': target = 7 is out of range; use 0 to 1
    """
    known = {parameter.name: parameter for parameter in parameters}
    for name, value in values.items():
        if name not in known:
            raise SettingsError(f"policy {rule!r} has no setting {name!r}; {_hint(name, list(known))}")
        _check(rule, known[name], value)
    return tuple(replace(one, value=float(values.get(one.name, one.value))) for one in parameters)


def _check(rule: str, parameter: Parameter, value: float) -> None:
    name = parameter.name
    if not math.isfinite(value):
        raise SettingsError(f"policy {rule!r}: {name} = {value} is not a finite number")
    if not parameter.low <= value <= parameter.high:
        raise SettingsError(
            f"policy {rule!r}: {name} = {value:g} is out of range; "
            f"use {parameter.low:g} to {parameter.high:g}"
        )
    if parameter.whole and value != int(value):
        raise SettingsError(f"policy {rule!r}: {name} = {value:g} must be a whole number")


def _hint(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"its settings: {', '.join(known)}" if known else "it has none"
