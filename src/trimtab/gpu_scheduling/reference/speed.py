"""How fast a job runs where it runs."""

from __future__ import annotations

import math

import numpy as np

from trimtab.gpu_scheduling.cluster import Cluster
from trimtab.gpu_scheduling.reference.entities import Job, Machine
from trimtab.gpu_scheduling.workload import Workload

__all__ = ["Speeds", "allowed_types", "kind_speed"]


def allowed_types(bits: int, workload: Workload, cluster: Cluster) -> set[int]:
    """GPU models a job may use, as positions in the cluster's table; unknown names fall away."""
    types = [one.name for one in cluster.machine_table.types]
    if bits == 0:
        return set(range(len(types)))
    named = [name for t, name in enumerate(workload.type_names) if bits >> t & 1]
    return {types.index(name) for name in named if name in types}


def kind_speed(workload: Workload, cluster: Cluster) -> np.ndarray:
    """Speeds by kind of job and the cluster's GPU models; NaN: not measured."""
    types = cluster.machine_table.types
    found = np.full((len(workload.kind_names), len(types)), np.nan)
    for t, one in enumerate(types):
        if one.name in workload.type_names:
            found[:, t] = workload.kind_speed[:, workload.type_names.index(one.name)]
    return found


class Speeds:
    """Speeds without and with the company of others."""

    def __init__(self, workload: Workload, cluster: Cluster) -> None:
        self.cluster, self.table = cluster, cluster.machine_table
        self.by_kind = kind_speed(workload, cluster)

    def alone(self) -> np.ndarray:
        """[kinds, machines]: speed of every kind of job on every machine, empty and in usual health."""
        return np.array(
            [
                [self.speed_of(kind, machine) for machine in range(len(self.table.names))]
                for kind in range(len(self.by_kind))
            ]
        )

    def nominal(self, job: Job, machine: Machine) -> float:
        """Speed of a job on a machine that is empty and in usual health."""
        return self.speed_of(job.kind, machine.number)

    def speed_of(self, kind: int, machine: int) -> float:
        """Speed of a kind of job on a machine: as measured, else that of the machine itself."""
        of_machine = float(self.table.speed[machine])
        gpu_type = int(self.table.gpu_type[machine])
        of_kind = float(self.by_kind[kind, gpu_type])
        if math.isnan(of_kind):
            return of_machine
        return of_kind * (of_machine / self.table.types[gpu_type].speed)

    def spread(self, job: Job) -> float:
        """What a running job loses by communication."""
        if len(job.parts) == 1:
            return 0.0
        racks = {part.machine.rack for part in job.parts}
        further = self.cluster.across_racks if len(racks) > 1 else 0.0
        return self.cluster.communication * job.communication * (1.0 + further)

    def usual_rate(self, job: Job) -> float:
        """Rate of a running job without contention, noise and drift."""
        return min(self.nominal(job, part.machine) for part in job.parts) / (1.0 + self.spread(job))

    def rate(self, job: Job) -> float:
        """Work a running job does in a millisecond, now."""
        slowest = math.inf
        for part in job.parts:
            machine, own = part.machine, job.sensitivity * part.milli
            contention = (
                self.cluster.contention
                * (job.sensitivity / 1000.0)
                * ((machine.load - own) / 1e6)
                / machine.gpus
            )
            slowest = min(slowest, self.nominal(job, machine) * machine.drift_factor / (1.0 + contention))
        return slowest / (1.0 + self.spread(job)) * job.noise

    def alone_ms(self, job: Job, empty: list[Machine]) -> int:
        """Duration of the job alone on an empty cluster, on its best machines."""
        allowed = [machine for machine in empty if machine.fits(job) > 0]
        holding = [machine for machine in allowed if machine.fits(job) == job.instances]
        spread = 1 + self.cluster.communication * job.communication
        on_one = [self.nominal(job, machine) for machine in holding]
        on_several = [self.nominal(job, machine) / spread for machine in allowed]
        return math.ceil(job.duration_ms / max(on_one + on_several))
