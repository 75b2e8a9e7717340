"""Every rule a user could pick instead of a learned scheduler, in three parts that combine freely."""

from trimtab.gpu_scheduling.heuristics.rule import Rule, Setting

__all__ = ["Rule", "Setting"]
