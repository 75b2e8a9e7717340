"""Registered policies that play on a cluster with executors of one class."""

from trimtab.dag_scheduling.decima.policy import DecimaPolicy
from trimtab.dag_scheduling.policies import POLICIES, make_policy

__all__ = ["POLICIES_FOR_ONE_CLASS"]


def _plays(name: str) -> bool:
    policy = make_policy(name)
    return not isinstance(policy, DecimaPolicy) or policy.design.classes == 1


POLICIES_FOR_ONE_CLASS = [name for name in POLICIES.names() if _plays(name)]
