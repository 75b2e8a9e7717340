"""What all rules have in common: a name, settings with ranges, and a decider that does the work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from trimtab.core.policy import Parameter, with_settings
from trimtab.pod_autoscaling.problem import Decider, Services

__all__ = ["MakeDecider", "Parameter", "Rule", "Values"]

Values: TypeAlias = Mapping[str, float]
MakeDecider: TypeAlias = Callable[[Services, Values], Decider]


@dataclass(frozen=True)
class Rule:
    """A rule with its settings; a `PodPolicy`.

    >>> from trimtab.pod_autoscaling.heuristics.mpc import mpc
    >>> mpc().with_values({"utilisation": 0.7}).values["utilisation"]
    0.7
    """

    name: str
    decider: MakeDecider
    parameters: tuple[Parameter, ...] = ()

    @property
    def values(self) -> dict[str, float]:
        return {parameter.name: parameter.value for parameter in self.parameters}

    def begin(self, services: Services) -> Decider:
        """Start afresh on these services, with nothing remembered."""
        return self.decider(services, self.values)

    @property
    def sentence(self) -> str:
        """What the rule does: the first line of its decider's docstring."""
        return (self.decider.__doc__ or "").strip().split("\n")[0]

    def with_values(self, values: Values) -> Rule:
        """The same rule with other settings; unknown names and values out of range are refused."""
        return replace(self, parameters=with_settings(self.name, self.parameters, values))
