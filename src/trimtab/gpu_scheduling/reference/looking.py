"""What a policy sees, gathered from the objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trimtab.gpu_scheduling.problem import NOWHERE, Snapshot
from trimtab.gpu_scheduling.reference.speed import allowed_types
from trimtab.gpu_scheduling.workload.jobs import typical_demands

if TYPE_CHECKING:
    from trimtab.gpu_scheduling.reference.run import ReferenceSimulator

__all__ = ["look"]


def look(run: ReferenceSimulator) -> Snapshot:
    """A snapshot that shares nothing with the objects."""
    jobs, machines, cluster, table = run.jobs, run.machines, run.cluster, run.cluster.machine_table

    def whole(values: object) -> np.ndarray:
        return np.array(values, np.int64)

    def real(values: object) -> np.ndarray:
        return np.array(values, np.float64)

    typical, share = typical_demands(run.workload)
    parts = [part for job in run.running for part in job.parts]
    first_part, next_part = [NOWHERE] * len(jobs), [NOWHERE] * len(parts)
    for place, part in enumerate(parts):
        if first_part[part.job.number] == NOWHERE:
            first_part[part.job.number] = place
        else:
            next_part[place - 1] = place
    return Snapshot(
        now_ms=run.now,
        may_hold=run.may_hold,
        unseen=run.unseen,
        pending=whole([job.number for job in run.pending]),
        running=whole([job.number for job in run.running]),
        job_id=whole([job.number for job in jobs]),
        arrival_ms=whole([job.arrival_ms for job in jobs]),
        instances=whole([job.instances for job in jobs]),
        gpu_milli=whole([job.gpu_milli for job in jobs]),
        cpu_milli=whole([job.cpu_milli for job in jobs]),
        memory_mib=whole([job.memory_mib for job in jobs]),
        allowed_types=whole([sum(1 << t for t in job.allowed_types) for job in jobs]),
        user=whole([job.user for job in jobs]),
        group=whole([job.group for job in jobs]),
        kind=whole([job.kind for job in jobs]),
        sensitivity=whole([job.sensitivity for job in jobs]),
        communication=real([job.communication for job in jobs]),
        expected_ms=real([job.expected_ms for job in jobs]),
        started_ms=whole([job.started_ms for job in jobs]),
        attained_ms=whole([job.attained_ms for job in jobs]),
        done_ms=real([job.done_ms for job in jobs]),
        since_ms=whole([job.since_ms for job in jobs]),
        rate=real([job.rate for job in jobs]),
        preemptions=whole([job.preemptions for job in jobs]),
        first_part=whole(first_part),
        part_machine=whole([part.machine.number for part in parts]),
        part_instances=whole([part.instances for part in parts]),
        next_part=whole(next_part),
        gpus=whole([machine.gpus for machine in machines]),
        gpu_type=whole([machine.gpu_type for machine in machines]),
        rack=whole([machine.rack for machine in machines]),
        speed=table.speed.copy(),
        price=real([machine.price for machine in machines]),
        free_gpus=whole([len(machine.free_gpus) for machine in machines]),
        free_milli=whole([machine.free_milli for machine in machines]),
        free_cpu_milli=whole([machine.free_cpu_milli for machine in machines]),
        free_memory_mib=whole([machine.free_memory_mib for machine in machines]),
        load=whole([machine.load for machine in machines]),
        jobs=whole([len(machine.parts) for machine in machines]),
        observed_speed=real([machine.observed_speed for machine in machines]),
        observed=real([machine.observed for machine in machines]),
        first_gpu=whole([sum(m.gpus for m in machines[:place]) for place in range(len(machines))]),
        free_of_gpu=whole([free for machine in machines for free in machine.free_of_gpu]),
        typical_gpu_milli=typical.gpu_milli,
        typical_cpu_milli=typical.cpu_milli,
        typical_memory_mib=typical.memory_mib,
        typical_types=whole(
            [
                sum(1 << t for t in allowed_types(int(bits), run.workload, cluster))
                for bits in typical.allowed_types
            ]
        ),
        typical_share=share,
        nominal=run.speeds.alone(),
        total_gpus=sum(machine.gpus for machine in machines),
        free_total_milli=run.free_total_milli,
        contention=cluster.contention,
        communication_weight=cluster.communication,
        across_racks=cluster.across_racks,
        machine_order=np.zeros(len(machines), np.int64),
        machine_score=np.zeros(len(machines)),
        job_order=np.zeros(len(jobs), np.int64),
        job_score=np.zeros(len(jobs)),
    )
