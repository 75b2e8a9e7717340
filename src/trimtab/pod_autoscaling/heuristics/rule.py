"""What all rules have in common: a name, settings with ranges, and a decider that does the work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from trimtab.core.policy import Parameter, RememberingRule
from trimtab.pod_autoscaling.problem import Decider, Services

__all__ = ["Parameter", "Rule", "Values"]

Values: TypeAlias = Mapping[str, float]


class Rule(RememberingRule[Services, Decider]):
    """A rule with its settings; a `PodPolicy`.

    >>> from trimtab.pod_autoscaling.heuristics.mpc import mpc
    >>> mpc().with_values({"utilisation": 0.7}).values["utilisation"]
    0.7
    """
