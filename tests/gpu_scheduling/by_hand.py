"""Short words for scenes of a few jobs on a few machines."""

from __future__ import annotations

import numpy as np

from trimtab.gpu_scheduling.cluster import Cluster, MachineGroup
from trimtab.gpu_scheduling.problem import HOLD, NOWHERE, start
from trimtab.gpu_scheduling.reference import ReferenceSimulator
from trimtab.gpu_scheduling.workload import Workload

NONE = np.zeros(0, np.int64)
HOUR_MS = 3_600_000


def cluster_of(*groups: MachineGroup, **settings) -> Cluster:
    """A cluster without contention, so that a job is as fast as its slowest machine unless a test says so."""
    return Cluster.model_validate({"machines": groups, "contention": 0.0, **settings})


def machine(gpus: int = 4, **settings) -> MachineGroup:
    return MachineGroup(gpus=gpus, **settings)


def begin(cluster: Cluster, workload: Workload, seed: int = 0) -> ReferenceSimulator:
    simulator = ReferenceSimulator(cluster)
    simulator.reset(workload, seed)
    return simulator


def put(simulator: ReferenceSimulator, job: int, *machines: int, gpu: int = NOWHERE) -> None:
    simulator.step(start(job, np.array(machines, np.int64), gpu))


def put_all(simulator: ReferenceSimulator, *machines: int) -> ReferenceSimulator:
    """Start whatever fits, in order of arrival, until all is done."""
    while not simulator.ended:
        job = next(
            (j for j in simulator.pending if sum(m.fits(j) for m in simulator.machines) >= j.instances), None
        )
        if job is None:
            simulator.step(HOLD)
        else:
            put(simulator, job.number, *(machines or range(len(simulator.machines))))
    return simulator


def completions(simulator: ReferenceSimulator) -> list[int]:
    return simulator.episode("by hand").completion_ms.tolist()


def put_all_waiting(run: ReferenceSimulator) -> None:
    """Start everything that waits, which fits."""
    for job in list(run.pending):
        put(run, job.number, *range(len(run.machines)))
