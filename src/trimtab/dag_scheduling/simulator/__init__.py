"""The compiled engine: batches of environments as plain arrays, event loops under numba."""

from trimtab.dag_scheduling.simulator.batch import BatchSimulator, BatchTransition
from trimtab.dag_scheduling.simulator.simulator import Simulator, simulate

__all__ = ["BatchSimulator", "BatchTransition", "Simulator", "simulate"]
