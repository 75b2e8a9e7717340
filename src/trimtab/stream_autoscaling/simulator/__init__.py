"""The compiled engine: batches of streaming jobs as plain arrays, fluid queues under numba."""

from trimtab.stream_autoscaling.simulator.simulator import Outcome, StreamSimulator, simulate, simulate_batch

__all__ = ["Outcome", "StreamSimulator", "simulate", "simulate_batch"]
