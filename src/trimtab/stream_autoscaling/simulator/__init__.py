"""The compiled engine: batches of streaming jobs as plain arrays, fluid queues under numba."""

from trimtab.stream_autoscaling.simulator.simulator import Outcome, StreamSimulator, simulate
from trimtab.stream_autoscaling.simulator.tables import capacity_of, starting_parallelism

__all__ = ["Outcome", "StreamSimulator", "capacity_of", "simulate", "starting_parallelism"]
