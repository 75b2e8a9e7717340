"""Machines, jobs and parts of jobs as plain objects."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

__all__ = ["WHOLE", "Job", "Machine", "Part"]

WHOLE = 1000


@dataclass(eq=False)
class Job:
    """What a job asks for, and how far it has come."""

    number: int
    arrival_ms: int
    duration_ms: int
    instances: int
    gpu_milli: int  # of one instance, like the next two
    cpu_milli: int
    memory_mib: int
    allowed_types: set[int]
    user: int
    group: int
    kind: int
    sensitivity: int  # thousandths
    communication: float
    noise: float
    expected_ms: float = math.nan
    parts: list[Part] = field(default_factory=list)  # in the order of the action; empty: it does not run
    rate: float = 0.0
    done_ms: float = 0.0  # until since_ms
    since_ms: int = 0
    end_ms: int = -1
    started_ms: int = 0  # this stay
    done_at_start_ms: float = 0.0  # when this stay began
    attained_ms: int = 0  # in earlier stays
    fee: float = 0.0
    preemptions: int = 0
    first_start_ms: int = -1
    completion_ms: int = -1

    @property
    def total_milli(self) -> int:
        return self.instances * self.gpu_milli

    @property
    def whole_gpus(self) -> int:
        """GPUs of the job, rounded up."""
        return -(-self.total_milli // WHOLE)


@dataclass(eq=False)
class Machine:
    """What is free on a machine, and what has been seen there."""

    number: int
    gpu_type: int
    rack: int
    price: float
    free_of_gpu: list[int]
    free_cpu_milli: int
    free_memory_mib: int
    parts: list[Part] = field(default_factory=list)
    drift: float = 0.0  # log of its factor
    drift_factor: float = 1.0
    observed_speed: float = 1.0
    observed: float = 0.0

    @property
    def gpus(self) -> int:
        return len(self.free_of_gpu)

    @property
    def free_gpus(self) -> list[int]:
        """Numbers of the wholly free ones."""
        return [gpu for gpu, free in enumerate(self.free_of_gpu) if free == WHOLE]

    @property
    def free_milli(self) -> int:
        return sum(self.free_of_gpu)

    @property
    def load(self) -> int:
        return sum(part.job.sensitivity * part.milli for part in self.parts)

    def fits(self, job: Job) -> int:
        """Instances of the job that could start here."""
        if self.gpu_type not in job.allowed_types:
            return 0
        if job.gpu_milli >= WHOLE:
            room = len(self.free_gpus) // (job.gpu_milli // WHOLE)
        else:
            room = sum(free // job.gpu_milli for free in self.free_of_gpu)
        if job.cpu_milli:
            room = min(room, self.free_cpu_milli // job.cpu_milli)
        if job.memory_mib:
            room = min(room, self.free_memory_mib // job.memory_mib)
        return min(room, job.instances)

    def take(self, job: Job, instances: int, wanted_gpu: int) -> Part:
        """Give GPUs, CPUs and memory to so many instances, which fit."""
        part = Part(job, self, instances)
        for _ in range(instances):
            if job.gpu_milli >= WHOLE:
                taken = dict.fromkeys(self.free_gpus[: job.gpu_milli // WHOLE], WHOLE)
            else:
                taken = {self._gpu_for_share(job.gpu_milli, wanted_gpu): job.gpu_milli}
            for gpu, milli in taken.items():
                self.free_of_gpu[gpu] -= milli
                part.held[gpu] = part.held.get(gpu, 0) + milli
        self.free_cpu_milli -= instances * job.cpu_milli
        self.free_memory_mib -= instances * job.memory_mib
        self.parts.append(part)
        return part

    def _gpu_for_share(self, milli: int, wanted: int) -> int:
        if 0 <= wanted < self.gpus and self.free_of_gpu[wanted] >= milli:
            return wanted
        with_room = [gpu for gpu in range(self.gpus) if self.free_of_gpu[gpu] >= milli]
        return min(with_room, key=lambda gpu: (self.free_of_gpu[gpu], gpu))

    def give_back(self, part: Part) -> None:
        for gpu, milli in part.held.items():
            self.free_of_gpu[gpu] += milli
        self.free_cpu_milli += part.instances * part.job.cpu_milli
        self.free_memory_mib += part.instances * part.job.memory_mib
        self.parts.remove(part)

    def observe(self, speed: float) -> None:
        """A job ran here so fast, relative to what was nominal; recent ones count more."""
        self.observed = 0.9 * self.observed + 1.0
        self.observed_speed += (speed - self.observed_speed) / self.observed


@dataclass(eq=False)
class Part:
    """Instances of a job on one machine."""

    job: Job
    machine: Machine
    instances: int
    held: dict[int, int] = field(default_factory=dict)  # GPU of the machine: thousandths

    @property
    def milli(self) -> int:
        return self.instances * self.job.gpu_milli
