"""What all rules have in common: a name, settings with ranges, and a decider that does the work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from trimtab.core.policy import Parameter, with_settings
from trimtab.stream_autoscaling.problem import Decider, Graph

__all__ = ["MakeDecider", "Parameter", "Rule", "Values"]

Values: TypeAlias = Mapping[str, float]
MakeDecider: TypeAlias = Callable[[Graph, Values], Decider]


@dataclass(frozen=True)
class Rule:
    """A rule with its settings; a `StreamPolicy`.

    >>> from trimtab.stream_autoscaling.heuristics.ds2 import ds2
    >>> ds2().with_values({"target": 0.5}).values["target"]
    0.5
    """

    name: str
    decider: MakeDecider
    parameters: tuple[Parameter, ...] = ()

    @property
    def values(self) -> dict[str, float]:
        return {parameter.name: parameter.value for parameter in self.parameters}

    def begin(self, graph: Graph) -> Decider:
        """Start afresh on these jobs, with nothing remembered."""
        return self.decider(graph, self.values)

    @property
    def sentence(self) -> str:
        """What the rule does: the first line of its decider's docstring."""
        return (self.decider.__doc__ or "").strip().split("\n")[0]

    def with_values(self, values: Values) -> Rule:
        """The same rule with other settings; unknown names and values out of range are refused."""
        return replace(self, parameters=with_settings(self.name, self.parameters, values))
