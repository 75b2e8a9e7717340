"""Today's autoscalers: every rule a user could pick instead of a learned policy, one file per family."""

from trimtab.pod_autoscaling.heuristics.rule import Rule

__all__ = ["Rule"]
