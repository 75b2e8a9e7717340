"""Snapshots made by hand: machines, jobs that wait and jobs that run, without a simulator.

Also a small player of such scenes with whole GPUs and true durations, for laws about rules.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trimtab.gpu_scheduling.problem import NOWHERE, PREEMPT, START, WHOLE, Action, Snapshot, decode

MINUTE = 60_000
HOUR = 60 * MINUTE


@dataclass
class Job:
    """What a scene knows of a job; `parts` (machine, instances) are empty while it waits."""

    instances: int = 1
    gpu_milli: int = WHOLE
    arrival_ms: int = 0
    expected_ms: float = float("nan")
    cpu_milli: int = 0
    memory_mib: int = 0
    allowed_types: int = -1
    user: int = 0
    kind: int = 0
    sensitivity: int = 1000
    communication: float = 0.0
    attained_ms: int = 0
    done_ms: float = 0.0
    rate: float = 0.0
    started_ms: int = 0
    parts: list[tuple[int, int]] = field(default_factory=list)
    gpus_held: list[tuple[int, int]] = field(default_factory=list)  # GPU of the cluster, thousandths
    ended: bool = False


class Scene:
    """A cluster at one moment.

    >>> scene = Scene([4, 4])
    >>> first, second = scene.waits(gpus=4), scene.runs({0: 3})
    >>> scene.snapshot().free_gpus.tolist()
    [1, 4]
    """

    def __init__(
        self,
        gpus: list[int],
        *,
        racks: list[int] | None = None,
        speeds: list[float] | None = None,
        types: list[int] | None = None,
        cpus: float = 96.0,
        memory_gib: float = 512.0,
        now_ms: int = 0,
        contention: float = 0.0,
        communication_weight: float = 1.0,
        across_racks: float = 1.0,
    ) -> None:
        count = len(gpus)
        self.gpus = np.array(gpus, np.int64)
        self.racks = np.array(racks or [0] * count, np.int64)
        self.speeds = np.array(speeds or [1.0] * count)
        self.types = np.array(types or [0] * count, np.int64)
        self.first_gpu = np.cumsum(self.gpus) - self.gpus
        self.free_of_gpu = np.full(int(self.gpus.sum()), WHOLE, np.int64)
        self.cpu_milli = np.full(count, int(cpus * 1000), np.int64)
        self.memory_mib = np.full(count, int(memory_gib * 1024), np.int64)
        self.observed_speed, self.observed = np.ones(count), np.zeros(count)
        self.now_ms, self.unseen = now_ms, 0
        self.contention, self.communication_weight = contention, communication_weight
        self.across_racks = across_racks
        self.jobs: list[Job] = []
        self.running: list[int] = []
        self.more_to_come = True

    # --- what there is ---------------------------------------------------------------------------------

    def waits(self, gpus: int | None = None, **told: Any) -> int:
        """A job that waits; `gpus` instances of one GPU, or as told. Returns its slot."""
        if gpus is not None:
            told["instances"] = gpus
        self.jobs.append(Job(**told))
        return len(self.jobs) - 1

    def runs(self, parts: dict[int, int], *, started_ms: int = 0, rate: float = 1.0, **told: Any) -> int:
        """A job that runs on machines with so many instances each. Returns its slot."""
        job = self.waits(sum(parts.values()), **told)
        self.start(job, list(parts.items()), rate=rate)
        self.jobs[job].started_ms = started_ms
        return job

    def fill(self, gpu: int, milli: int) -> None:
        """Let someone outside hold some of a GPU (counted in the whole cluster)."""
        self.free_of_gpu[gpu] -= milli

    def start(self, job: int, parts: list[tuple[int, int]], *, rate: float = 1.0, gpu: int = NOWHERE) -> None:
        one = self.jobs[job]
        one.parts, one.rate, one.started_ms = parts, rate, self.now_ms
        for machine, instances in parts:
            first = self.first_gpu[machine]
            places = range(first, first + self.gpus[machine])
            for _ in range(instances):
                if one.gpu_milli >= WHOLE:
                    free = [place for place in places if self.free_of_gpu[place] == WHOLE]
                    taken = [(place, WHOLE) for place in free[: one.gpu_milli // WHOLE]]
                else:
                    open_to = [place for place in places if self.free_of_gpu[place] >= one.gpu_milli]
                    fullest = min(open_to, key=lambda place: (self.free_of_gpu[place], place))
                    chosen = first + gpu if gpu != NOWHERE and first + gpu in open_to else fullest
                    taken = [(int(chosen), one.gpu_milli)]
                for place, milli in taken:
                    self.free_of_gpu[place] -= milli
                one.gpus_held += taken
        self.running.append(job)

    def stop(self, job: int) -> None:
        """Take a running job off its machines; it waits again."""
        one = self.jobs[job]
        for place, milli in one.gpus_held:
            self.free_of_gpu[place] += milli
        one.attained_ms += self.now_ms - one.started_ms
        one.done_ms += one.rate * (self.now_ms - one.started_ms)
        one.parts, one.gpus_held, one.rate = [], [], 0.0
        self.running.remove(job)

    # --- what is seen ----------------------------------------------------------------------------------

    def snapshot(self, typical: list[tuple[int, int, float]] | None = None) -> Snapshot:
        """All as arrays; `typical` tasks are (thousandths of GPUs, of CPUs, share of what comes)."""
        count = len(self.gpus)
        jobs = self.jobs
        first_part = np.full(max(len(jobs), 1), NOWHERE, np.int64)
        parts: list[tuple[int, int, int]] = []
        load, beside = np.zeros(count, np.int64), np.zeros(count, np.int64)
        cpu, memory = self.cpu_milli.copy(), self.memory_mib.copy()
        for slot, job in enumerate(jobs):
            for place, (machine, instances) in enumerate(job.parts):
                if place == 0:
                    first_part[slot] = len(parts)
                following = NOWHERE if place + 1 == len(job.parts) else len(parts) + 1
                parts.append((machine, instances, following))
                load[machine] += job.sensitivity * instances * job.gpu_milli
                beside[machine] += 1
                cpu[machine] -= instances * job.cpu_milli
                memory[machine] -= instances * job.memory_mib
        ends = self.first_gpu + self.gpus
        by_machine = [self.free_of_gpu[a:b] for a, b in zip(self.first_gpu, ends, strict=True)]
        table = np.array(sorted(typical or []), float).reshape(-1, 3)
        columns = np.array(parts or [(0, 0, NOWHERE)], np.int64)
        waiting = [s for s, job in enumerate(jobs) if s not in self.running and not job.ended]
        fields: dict[str, Any] = {
            "now_ms": self.now_ms,
            "may_hold": bool(self.running) or self.more_to_come,
            "unseen": self.unseen,
            "pending": np.array(waiting, np.int64),
            "running": np.array(self.running, np.int64),
            "job_id": np.arange(max(len(jobs), 1)),
            "group": np.zeros(max(len(jobs), 1), np.int64),
            "since_ms": _column(jobs, "started_ms", np.int64),
            "preemptions": np.zeros(max(len(jobs), 1), np.int64),
            "first_part": first_part,
            "part_machine": columns[:, 0].copy(),
            "part_instances": columns[:, 1].copy(),
            "next_part": columns[:, 2].copy(),
            "gpus": self.gpus,
            "gpu_type": self.types,
            "rack": self.racks,
            "speed": self.speeds,
            "price": np.ones(count),
            "free_gpus": np.array([(free == WHOLE).sum() for free in by_machine], np.int64),
            "free_milli": np.array([free.sum() for free in by_machine], np.int64),
            "free_cpu_milli": cpu,
            "free_memory_mib": memory,
            "load": load,
            "jobs": beside,
            "observed_speed": self.observed_speed,
            "observed": self.observed,
            "first_gpu": self.first_gpu,
            "free_of_gpu": self.free_of_gpu,
            "total_gpus": int(self.gpus.sum()),
            "free_total_milli": int(self.free_of_gpu.sum()),
            "contention": self.contention,
            "communication_weight": self.communication_weight,
            "across_racks": self.across_racks,
            "machine_order": np.zeros(count, np.int64),
            "machine_score": np.zeros(count),
            "job_order": np.zeros(max(len(jobs), 1), np.int64),
            "job_score": np.zeros(max(len(jobs), 1)),
            "nominal": self.speeds[None, :].copy(),
            "typical_gpu_milli": table[:, 0].astype(np.int64),
            "typical_cpu_milli": table[:, 1].astype(np.int64),
            "typical_memory_mib": np.zeros(len(table), np.int64),
            "typical_types": np.full(len(table), -1, np.int64),
            "typical_share": table[:, 2].copy(),
        }
        for name in (
            "arrival_ms",
            "instances",
            "gpu_milli",
            "cpu_milli",
            "memory_mib",
            "allowed_types",
            "user",
        ):
            fields[name] = _column(jobs, name, np.int64)
        for name in ("kind", "sensitivity", "started_ms", "attained_ms"):
            fields[name] = _column(jobs, name, np.int64)
        for name in ("communication", "expected_ms", "done_ms", "rate"):
            fields[name] = _column(jobs, name, np.float64)
        return Snapshot(**fields)

    # --- what happens ----------------------------------------------------------------------------------

    def act(self, action: Action, snapshot: Snapshot, *, rate: float = 1.0) -> bool:
        """Do what a rule says, if it may be done; False when it holds."""
        command = decode(snapshot, action)
        if command is None:
            return False
        job = int(action.job)
        if int(action.verb) == PREEMPT:
            self.stop(job)
        else:
            assert int(action.verb) == START
            parts = [(part.machine, part.instances) for part in command.parts]
            self.start(job, parts, rate=rate, gpu=int(action.gpu))
        return True


def play(scene: Scene, rule: Any, arrivals: list[tuple[int, dict[str, Any]]]) -> dict[int, int]:
    """Play jobs (time, what is told) that take as long as expected; when each was first started."""
    started: dict[int, int] = {}
    coming = sorted(arrivals, key=lambda one: one[0])
    while coming or scene.running:
        ends = {job: _end_ms(scene.jobs[job]) for job in scene.running}
        scene.now_ms = int(min([*ends.values(), *(time for time, _ in coming[:1])]))
        for job, end_ms in ends.items():
            if end_ms == scene.now_ms:
                scene.stop(job)
                scene.jobs[job].ended = True
        while coming and coming[0][0] == scene.now_ms:
            scene.waits(arrival_ms=scene.now_ms, **coming.pop(0)[1])
        scene.more_to_come = bool(coming)
        while True:
            snapshot = scene.snapshot()
            if len(snapshot.pending) == 0:
                break
            action = rule.decide(snapshot)
            if not scene.act(action, snapshot):
                break
            started.setdefault(int(action.job), scene.now_ms)
    return started


def _end_ms(job: Job) -> float:
    return job.started_ms + max(job.expected_ms - job.done_ms, 1.0) / job.rate


def _column(jobs: list[Job], name: str, kind: type) -> np.ndarray:
    return np.array([getattr(job, name) for job in jobs] or [0], kind)
