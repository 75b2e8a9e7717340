"""Random small workloads and clusters for agreement tests and laws, and policies that choose at random.

Times are short and from a coarse grid, so that jobs often come and end at the same moment, and rounds,
heartbeats and steps of drift fall on the same milliseconds as these.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from trimtab.gpu_scheduling.cluster import Cluster, GpuType, MachineGroup
from trimtab.gpu_scheduling.problem import HOLD, NOWHERE, Action, Snapshot, gang_fits, preempt, start
from trimtab.gpu_scheduling.reference.run import empty_machines, job_of
from trimtab.gpu_scheduling.workload import Workload, make_workload

TYPES = ("V100", "T4", "odd", "unheard-of")  # the last is a model no cluster here has
seeds = st.integers(0, 2**32)


class Instance(NamedTuple):
    """A workload that fits on its cluster."""

    cluster: Cluster
    workload: Workload


class RandomActions:
    """Starts, preempts and holds at random; the choices depend on the order of jobs, never on their slots."""

    name = "random actions"

    def __init__(self, seed: int, *, preempting: int = 12, holding: float = 0.2) -> None:
        self.random = np.random.default_rng(seed)
        self.preempting, self.holding = preempting, holding

    def decide(self, snapshot: Snapshot) -> Action:
        if snapshot.may_hold and self.random.random() < self.holding:
            return HOLD
        # Each preemption loses work, so there is an end to them.
        if self.preempting > 0 and len(snapshot.running) and self.random.random() < 0.25:
            self.preempting -= 1
            return preempt(int(self.random.choice(snapshot.running)), snapshot.machine_order[:0])
        fitting = [int(job) for job in snapshot.pending if gang_fits(snapshot, job)]
        if not fitting:
            return HOLD
        machines = self.random.permutation(len(snapshot.gpus))
        return start(fitting[self.random.integers(len(fitting))], machines, int(self.random.integers(-1, 5)))


class InOrder:
    """First come, first served, on the first machines with room; if strict, nobody overtakes."""

    def __init__(self, *, strict: bool) -> None:
        self.name, self.strict = "in order", strict

    def decide(self, snapshot: Snapshot) -> Action:
        for job in snapshot.pending[:1] if self.strict else snapshot.pending:
            if gang_fits(snapshot, job):
                return start(int(job), np.arange(len(snapshot.gpus)), NOWHERE)
        return HOLD


@st.composite
def clusters(draw: st.DrawFn, *, calm: bool = False) -> Cluster:
    """One to five machines, of a few kinds; `calm`: without noise and drift."""
    group = st.builds(
        MachineGroup,
        count=st.integers(1, 2),
        gpus=st.sampled_from([1, 2, 3, 4, 9]),
        gpu_type=st.sampled_from(TYPES[:3]),
        cpus=st.sampled_from([2.0, 5.5, 96.0]),
        memory_gib=st.sampled_from([1.5, 64.0]),
        speed=st.sampled_from([0.7, 1.0, 1.3]),
        rack=st.integers(0, 1),
        rack_size=st.integers(0, 1),
    )
    maybe = st.sampled_from
    return Cluster(
        machines=tuple(draw(st.lists(group, min_size=1, max_size=3))),
        gpu_types=(GpuType(name="odd", speed=0.37, price=0.11),),
        contention=draw(maybe([0.0, 0.15, 2.5])),
        communication=draw(maybe([0.0, 1.0, 1.7])),
        across_racks=draw(maybe([0.0, 1.0])),
        noise=0.0 if calm else draw(maybe([0.0, 0.3])),
        drift=0.0 if calm else draw(maybe([0.0, 0.4])),
        drift_period_s=draw(maybe([1, 2])),
        drift_memory_s=draw(maybe([1, 7])),
        checkpoint_s=draw(maybe([0.0, 0.5, 1.25])),
        large_checkpoint_s=2.0,
        round_s=draw(maybe([0, 0, 0, 1, 3])),
        heartbeat_s=draw(maybe([1, 2, 60])),
        information=draw(maybe(["none", "predicted", "oracle"])),
    )


@st.composite
def instances(draw: st.DrawFn, *, most_jobs: int = 8, calm: bool = False) -> Instance:
    """A cluster and one to eight jobs, each of which fits when nobody else is there."""
    cluster = draw(clusters(calm=calm))
    count = draw(st.integers(1, most_jobs))

    def by_job(*values: Any) -> list[Any]:
        return draw(st.lists(st.sampled_from(values), min_size=count, max_size=count))

    speeds = st.lists(st.sampled_from([np.nan, 0.4, 1.1, 2.0]), min_size=len(TYPES), max_size=len(TYPES))
    workload = make_workload(
        np.cumsum(by_job(0, 0, 1, 500, 1000, 1333)),
        duration_ms=by_job(1, 500, 1000, 1000, 2000, 3107),
        instances=1,
        gpu_milli=by_job(100, 330, 500, 1000, 1000, 2000, 4000),
        cpu_milli=by_job(0, 1000, 1500),
        memory_mib=by_job(0, 700),
        allowed_types=by_job(0, 0, 1, 3, 4, 12),
        user=by_job(0, 1),
        group=by_job(0, 1, 2),
        kind=by_job(0, 1),
        sensitivity=by_job(1.0, 0.0, 0.5, 1.7),
        communication=by_job(0.0, 0.3, 1.0),
        type_names=TYPES,
        kind_names=("plain", "picky"),
        kind_speed=[[np.nan] * len(TYPES), draw(speeds)],
        source="random",
    )
    wanted = draw(st.lists(st.integers(1, 12), min_size=count, max_size=count))
    return Instance(cluster, gangs_that_fit(workload, cluster, wanted))


@st.composite
def twins(draw: st.DrawFn) -> Instance:
    """Equal jobs that share machines from the start: they often end at the same moment."""
    cluster = draw(clusters()).model_copy(update={"contention": 2.0})
    count = draw(st.integers(2, 6))
    workload = make_workload(
        [0] * count,
        duration_ms=draw(st.sampled_from([1, 1000])),
        gpu_milli=draw(st.sampled_from([250, 1000])),
        communication=0.5,
        source="twins",
    )
    return Instance(cluster, gangs_that_fit(workload, cluster, [draw(st.integers(1, 2))] * count))


def gangs_that_fit(workload: Workload, cluster: Cluster, wanted: list[int]) -> Workload:
    """Give each job as many of the wanted instances as the empty cluster holds; if none, lower demands."""
    instances, demands = [], {name: getattr(workload, name).copy() for name in DEMANDS}
    for place, most in enumerate(wanted):
        room = room_for(workload, place, cluster)
        if room == 0:
            for name, modest in DEMANDS.items():
                demands[name][place] = modest
            modestly = replace(workload, **demands)
            room = room_for(modestly, place, cluster)
        instances.append(min(most, room))
    return replace(workload, instances=np.array(instances, np.int64), **demands)


DEMANDS = {"gpu_milli": 500, "cpu_milli": 0, "memory_mib": 0, "allowed_types": 0}


def room_for(workload: Workload, place: int, cluster: Cluster) -> int:
    """Instances of a job that fit on the empty cluster."""
    job = job_of(workload, place, 0, cluster)
    job.instances = 1000
    return sum(machine.fits(job) for machine in empty_machines(cluster))
