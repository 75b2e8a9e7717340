"""The compiled engine: batches of streaming jobs as plain arrays, fluid queues under numba."""

from trimtab.stream_autoscaling.simulator.simulator import Outcome, StreamSimulator, simulate

__all__ = ["Outcome", "StreamSimulator", "simulate"]
