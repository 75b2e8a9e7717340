"""The compiled engine of replicated services, and its Python face."""

from trimtab.pod_autoscaling.simulator.drawn import Drawn
from trimtab.pod_autoscaling.simulator.simulator import Simulator, simulate, simulate_batch

__all__ = ["Drawn", "Simulator", "simulate", "simulate_batch"]
