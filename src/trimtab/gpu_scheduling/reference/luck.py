"""What chance does to jobs and machines: draws by counting, nothing in sequence."""

from __future__ import annotations

import math

import numpy as np

from trimtab.compiling.normal import draw_normal
from trimtab.core.randomness import hash_counters
from trimtab.gpu_scheduling.cluster import Cluster
from trimtab.gpu_scheduling.reference.entities import Machine

__all__ = ["drift_on", "noise_of"]

OF_JOBS, OF_MACHINES = 1, 2


def noise_of(job: int, seed: int, cluster: Cluster) -> float:
    """Factor on the rate of a job, as long as it lives; 1 on average."""
    sigma = cluster.noise
    if sigma == 0.0:
        return 1.0
    return math.exp(sigma * _normal(seed, OF_JOBS, job) - sigma * sigma / 2)


def drift_on(machine: Machine, step: int, seed: int, cluster: Cluster) -> None:
    """Let the log of a machine's speed wander by one step; step 0 is the start."""
    z = _normal(seed, OF_MACHINES, machine.number, step)
    if step == 0:
        machine.drift = cluster.drift * z
    else:
        kept = math.exp(-cluster.drift_period_s / cluster.drift_memory_s)
        machine.drift = kept * machine.drift + math.sqrt(1 - kept * kept) * cluster.drift * z
    machine.drift_factor = math.exp(machine.drift)


def _normal(seed: int, *counters: int) -> float:
    return float(draw_normal(np.uint64(hash_counters(seed, *counters))))
