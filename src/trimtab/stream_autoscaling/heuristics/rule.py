"""What all rules have in common: a name, settings with ranges, and a decider that does the work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from trimtab.core.policy import Parameter, RememberingRule
from trimtab.stream_autoscaling.problem import Decider, Graph

__all__ = ["Parameter", "Rule", "Values"]

Values: TypeAlias = Mapping[str, float]


class Rule(RememberingRule[Graph, Decider]):
    """A rule with its settings; a `StreamPolicy`.

    >>> from trimtab.stream_autoscaling.heuristics.ds2 import ds2
    >>> ds2().with_values({"target": 0.5}).values["target"]
    0.5
    """
