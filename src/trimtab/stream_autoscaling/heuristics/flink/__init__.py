"""The autoscaler of the Flink Kubernetes operator: formulas, alignment, what it remembers, and the rule."""

from trimtab.stream_autoscaling.heuristics.flink.rule import flink

__all__ = ["flink"]
