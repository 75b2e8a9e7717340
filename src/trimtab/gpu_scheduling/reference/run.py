"""One episode, moment by moment."""

from __future__ import annotations

import math

import numpy as np

from trimtab.core.environment import Transition
from trimtab.core.errors import ActionError, TrimtabError, WorkloadError
from trimtab.core.policy import Policy
from trimtab.gpu_scheduling.cluster import Cluster
from trimtab.gpu_scheduling.episode import Episode, RunLog
from trimtab.gpu_scheduling.problem import PREEMPT, WAIT, Action, Snapshot, decode
from trimtab.gpu_scheduling.reference.entities import WHOLE, Job, Machine
from trimtab.gpu_scheduling.reference.guessing import Guesses
from trimtab.gpu_scheduling.reference.looking import look
from trimtab.gpu_scheduling.reference.luck import drift_on, noise_of
from trimtab.gpu_scheduling.reference.speed import Speeds, allowed_types
from trimtab.gpu_scheduling.workload import Workload

__all__ = ["ReferenceSimulator", "reference_run"]


class ReferenceSimulator:
    """One environment: reset it with a workload, then answer its questions.

    >>> from trimtab.gpu_scheduling.problem import start
    >>> from trimtab.gpu_scheduling.workload import make_workload
    >>> simulator = ReferenceSimulator(Cluster())
    >>> snapshot = simulator.reset(make_workload([0], duration_ms=[5000], gpus=[4]), seed=0)
    >>> simulator.step(start(snapshot.pending[0], np.arange(8))).reward
    -5000
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.jobs: list[Job] = []

    def reset(self, workload: Workload, seed: int) -> Snapshot:
        """Begin an episode; returns the first question."""
        self.workload, self.seed = workload, seed
        self.speeds = Speeds(workload, self.cluster)
        self.guesses = Guesses(self.cluster.information)
        self.machines = empty_machines(self.cluster)
        self.jobs = [job_of(workload, place, seed, self.cluster) for place in range(workload.job_count)]
        for job in self.jobs:
            refuse_unless_it_fits(job, self.machines, workload)
        self.alone_ms = [self.speeds.alone_ms(job, self.machines) for job in self.jobs]
        self.pending: list[Job] = []  # in order of arrival
        self.running: list[Job] = []  # in order of start
        self.arrived = 0
        self.now = 0
        self.asking_ms: int | None = None
        self.heartbeats = True
        self.unseen = 0
        self.drift_steps = 0
        if self.cluster.drift > 0:
            for machine in self.machines:
                drift_on(machine, 0, seed, self.cluster)
        self.cost = self.busy_milli_ms = self.stranded_milli_ms = 0
        self.decisions = self.events = 0
        self.log: list[tuple[int, int, int, int, int, int, bool]] = []
        self._run_to_next_question()
        return self.snapshot

    @property
    def snapshot(self) -> Snapshot:
        return look(self)

    @property
    def ended(self) -> bool:
        return all(job.completion_ms >= 0 for job in self.jobs)

    @property
    def may_hold(self) -> bool:
        return bool(self.running) or self.arrived < len(self.jobs)

    @property
    def free_total_milli(self) -> int:
        return sum(machine.free_milli for machine in self.machines)

    def step(self, action: Action) -> Transition[Snapshot]:
        """Answer the present question; runs to the next one."""
        if self.ended:
            raise ActionError("the episode has ended; call reset(workload, seed) to begin another")
        decode(self.snapshot, action)
        cost, now = self.cost, self.now
        self.decisions += 1
        if action.verb == WAIT:
            self._hold()
        elif action.verb == PREEMPT:
            self._preempt(self.jobs[action.job])
        else:
            self._start(self.jobs[action.job], [int(m) for m in action.machines], action.gpu)
        if action.verb == WAIT or not self.pending:
            self._run_to_next_question()
        return Transition(
            snapshot=self.snapshot,
            reward=cost - self.cost,
            terminated=self.ended,
            truncated=False,
            elapsed_ms=self.now - now,
        )

    # --- moments -----------------------------------------------------------------------------------

    def _run_to_next_question(self) -> None:
        if not self.pending:
            self.asking_ms = None
        while not self.ended:
            self._pass_time(self._next_moment())
            if self._live_through_moment():
                return

    def _next_moment(self) -> int:
        moments = [job.end_ms for job in self.running]
        if self.arrived < len(self.jobs):
            moments.append(self.jobs[self.arrived].arrival_ms)
        if self.asking_ms is not None:
            moments.append(self.asking_ms)
        if self.cluster.drift > 0:
            moments.append(self._next_drift_ms)
        return min(moments)

    @property
    def _next_drift_ms(self) -> int:
        return (self.drift_steps + 1) * self.cluster.drift_period_s * 1000

    def _pass_time(self, moment: int) -> None:
        elapsed = moment - self.now
        self.cost += (len(self.pending) + len(self.running)) * elapsed
        if self.pending:
            self.stranded_milli_ms += self.free_total_milli * elapsed
        self.now = moment

    def _live_through_moment(self) -> bool:
        """Let happen what is due; says whether the policy is to be asked now."""
        happened = False
        for job in [job for job in self.running if job.end_ms == self.now]:
            self._complete(job)
            happened = True
        if self.cluster.drift > 0 and self._next_drift_ms == self.now and not self.ended:
            self._drift()
        while self.arrived < len(self.jobs) and self.jobs[self.arrived].arrival_ms == self.now:
            self._arrive(self.jobs[self.arrived])
            happened = True
        if not self.pending:
            self.asking_ms = None
            return False
        if self.cluster.round_s > 0:
            self.asking_ms = self._round_at_or_after(self.now)
            happened = False
        if self.asking_ms == self.now:
            self.unseen = 0
            return True
        return happened

    def _round_at_or_after(self, moment: int) -> int:
        round_ms = self.cluster.round_s * 1000
        return -(-moment // round_ms) * round_ms

    def _hold(self) -> None:
        self.unseen = len(self.pending)
        if self.cluster.round_s > 0:
            self.asking_ms = self._round_at_or_after(self.now + 1)
        else:
            self.asking_ms = self.now + self.cluster.heartbeat_s * 1000 if self.heartbeats else None

    # --- what happens at a moment ------------------------------------------------------------------

    def _arrive(self, job: Job) -> None:
        self.arrived += 1
        self.events += 1
        job.expected_ms = self.guesses.expected_ms(job)
        self.pending.append(job)

    def _drift(self) -> None:
        self.drift_steps += 1
        self.events += 1
        self.unseen = 0
        for machine in self.machines:
            drift_on(machine, self.drift_steps, self.seed, self.cluster)
        for job in self.running:
            self._rate_anew(job)

    def _complete(self, job: Job) -> None:
        self.events += 1
        job.done_ms = float(job.duration_ms)
        job.completion_ms = self.now
        self._leave(job)
        self.guesses.learn(job)

    def _start(self, job: Job, machines: list[int], gpu: int) -> None:
        place = self.pending.index(job)
        if place < self.unseen:
            self.unseen -= 1
        self.pending.remove(job)
        self.running.append(job)
        needed = job.instances
        while needed > 0:
            machine = self.machines[machines.pop(0)]
            taking = min(needed, machine.fits(job))
            if taking > 0:
                job.parts.append(machine.take(job, taking, gpu))
                needed -= taking
        if job.first_start_ms < 0:
            job.first_start_ms = self.now
        job.started_ms = self.now
        job.done_at_start_ms = job.done_ms
        job.since_ms = self.now
        job.rate = self.speeds.rate(job)
        self._foresee_end(job)
        self._rate_neighbours([part.machine for part in job.parts])

    def _preempt(self, job: Job) -> None:
        job.done_ms += job.rate * (self.now - job.since_ms)
        self._leave(job)
        large = job.total_milli > 8 * WHOLE
        job.done_ms -= (self.cluster.large_checkpoint_s if large else self.cluster.checkpoint_s) * 1000.0
        job.preemptions += 1
        self.pending.append(job)
        self.pending.sort(key=lambda one: one.number)

    def _leave(self, job: Job) -> None:
        """End a stay: pay, learn how fast it was, log it, and give everything back."""
        elapsed = self.now - job.started_ms
        job.attained_ms += elapsed
        usual = self.speeds.usual_rate(job)
        for part in job.parts:
            job.fee += part.milli * part.machine.price * elapsed / 3.6e9
            self.busy_milli_ms += part.milli * elapsed
            if elapsed > 0:
                part.machine.observe((job.done_ms - job.done_at_start_ms) / elapsed / usual)
            mask = sum(1 << gpu for gpu in part.held)
            row = (job.number, part.machine.number, mask, part.milli, job.started_ms, self.now)
            self.log.append((*row, job.completion_ms >= 0))
            part.machine.give_back(part)
        touched = [part.machine for part in job.parts]
        self.running.remove(job)
        job.parts, job.rate, job.since_ms = [], 0.0, self.now
        self.unseen = 0
        self._rate_neighbours(touched)

    # --- rates -------------------------------------------------------------------------------------

    def _rate_neighbours(self, touched: list[Machine]) -> None:
        if self.cluster.contention > 0:
            for job in self.running:
                if any(part.machine in touched for part in job.parts):
                    self._rate_anew(job)

    def _rate_anew(self, job: Job) -> None:
        rate = self.speeds.rate(job)
        if rate != job.rate:
            job.done_ms += job.rate * (self.now - job.since_ms)
            job.since_ms = self.now
            job.rate = rate
            self._foresee_end(job)

    def _foresee_end(self, job: Job) -> None:
        job.end_ms = self.now + max(1, math.ceil((float(job.duration_ms) - job.done_ms) / job.rate))

    # --- the record --------------------------------------------------------------------------------

    def episode(self, policy: str) -> Episode:
        """The record of the finished episode."""
        if not self.ended:
            raise TrimtabError("the episode has not finished; step on until `ended`")
        jobs = self.jobs
        return Episode(
            policy=policy,
            seed=self.seed,
            machine_names=self.cluster.machine_table.names,
            machine_gpus=self.cluster.machine_table.gpus,
            gpus=self.workload.gpus,
            arrival_ms=self.workload.arrival_ms,
            first_start_ms=np.array([job.first_start_ms for job in jobs], np.int64),
            completion_ms=np.array([job.completion_ms for job in jobs], np.int64),
            duration_ms=self.workload.duration_ms,
            alone_ms=np.array(self.alone_ms, np.int64),
            run_ms=np.array([job.attained_ms for job in jobs], np.int64),
            fee=np.array([job.fee for job in jobs], np.float64),
            preemptions=np.array([job.preemptions for job in jobs], np.int64),
            busy_gpu_ms=self.busy_milli_ms / WHOLE,
            stranded_gpu_ms=self.stranded_milli_ms / WHOLE,
            reward=-self.cost,
            decisions=self.decisions,
            events=self.events,
            runs=self._run_log(),
        )

    def _run_log(self) -> RunLog:
        job, machine, mask, milli, start, end, completed = zip(*self.log, strict=True)
        return RunLog(
            job=np.array(job, np.int64),
            machine=np.array(machine, np.int64),
            gpu_mask=np.array(mask, np.uint64),
            milli=np.array(milli, np.int64),
            start_ms=np.array(start, np.int64),
            end_ms=np.array(end, np.int64),
            completed=np.array(completed, np.bool_),
        )


def reference_run(
    workload: Workload, policy: Policy[Snapshot, Action], cluster: Cluster, seed: int
) -> Episode:
    """Play a workload to its end, asking the policy at every decision.

    A policy with `timed = False` says that time alone does not change its answer: there are no heartbeats.
    """
    simulator = ReferenceSimulator(cluster)
    snapshot = simulator.reset(workload, seed)
    simulator.heartbeats = getattr(policy, "timed", True)
    while not simulator.ended:
        snapshot = simulator.step(policy.decide(snapshot)).snapshot
    return simulator.episode(policy.name)


def empty_machines(cluster: Cluster) -> list[Machine]:
    """The machines of a cluster with nothing on them."""
    table = cluster.machine_table
    return [
        Machine(
            number=number,
            gpu_type=int(table.gpu_type[number]),
            rack=int(table.rack[number]),
            price=float(table.price[number]),
            free_of_gpu=[WHOLE] * int(table.gpus[number]),
            free_cpu_milli=int(table.cpu_milli[number]),
            free_memory_mib=int(table.memory_mib[number]),
        )
        for number in range(len(table.names))
    ]


def job_of(workload: Workload, place: int, seed: int, cluster: Cluster) -> Job:
    """A job of a workload, before it arrives."""
    return Job(
        number=place,
        arrival_ms=int(workload.arrival_ms[place]),
        duration_ms=int(workload.duration_ms[place]),
        instances=int(workload.instances[place]),
        gpu_milli=int(workload.gpu_milli[place]),
        cpu_milli=int(workload.cpu_milli[place]),
        memory_mib=int(workload.memory_mib[place]),
        allowed_types=allowed_types(int(workload.allowed_types[place]), workload, cluster),
        user=int(workload.user[place]),
        group=int(workload.group[place]),
        kind=int(workload.kind[place]),
        sensitivity=round(1000 * float(workload.sensitivity[place])),
        communication=float(workload.communication[place]),
        noise=noise_of(place, seed, cluster),
    )


def refuse_unless_it_fits(job: Job, empty: list[Machine], workload: Workload) -> None:
    """Refuse a job that could never start."""
    name = f"{workload.provenance.source}: job {workload.name_of(job.number)}"
    if not any(machine.gpu_type in job.allowed_types for machine in empty):
        raise WorkloadError(f"{name}: no machine has a GPU model it may use; drop it, or add such machines")
    if sum(machine.fits(job) for machine in empty) < job.instances:
        raise WorkloadError(f"{name}: does not fit on the empty cluster; drop it, or add machines")
