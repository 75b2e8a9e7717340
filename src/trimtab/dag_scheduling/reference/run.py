"""One episode, event by event."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from trimtab.core.randomness import hash_counters
from trimtab.dag_scheduling.cluster import Cluster
from trimtab.dag_scheduling.problem import NOWHERE, Action, Snapshot
from trimtab.dag_scheduling.reference.durations import recorded_durations, usable_points
from trimtab.dag_scheduling.reference.entities import Executor, Job, Stage
from trimtab.dag_scheduling.simulator.simulator import tables_for
from trimtab.dag_scheduling.workload import Workload

__all__ = ["ReferenceRun", "play_reference"]


@dataclass
class ReferenceRun:
    """What the engine is compared with."""

    completion_ms: list[int]
    first_start_ms: list[int]
    reward: int = 0
    decisions: int = 0
    busy_ms: int = 0
    moving_ms: int = 0
    tasks: list[tuple[int, int, int, int, int, int]] = field(default_factory=list)


def play_reference(
    workload: Workload, decide: Callable[[Snapshot], Action], cluster: Cluster, seed: int
) -> ReferenceRun:
    """Play a workload to its end, asking `decide` at every decision."""
    return _Run(workload, decide, cluster, seed).play()


class _Run:
    def __init__(
        self,
        workload: Workload,
        decide: Callable[[Snapshot], Action],
        cluster: Cluster,
        seed: int,
    ) -> None:
        self.workload, self.decide, self.cluster, self.seed = workload, decide, cluster, seed
        classes = np.repeat(np.arange(len(cluster.class_counts)), cluster.class_counts)
        self.executors = [Executor(number, int(kind)) for number, kind in enumerate(classes)]
        self.pool = list(self.executors)
        self.jobs: list[Job] = []
        self.now = int(workload.arrival_ms[0])
        self.events: list[tuple[int, int, Executor]] = []
        self.begun_events = 0
        self.next_job = 0
        self.seen_ms: list[int] = []
        self.most_stages = int(workload.profile.stage_count.max())
        self.result = ReferenceRun([NOWHERE] * workload.job_count, [NOWHERE] * workload.job_count)

    # --- the loop ----------------------------------------------------------------------------------

    def play(self) -> ReferenceRun:
        while self.next_job < self.workload.job_count or self.jobs:
            arrival = (
                int(self.workload.arrival_ms[self.next_job])
                if self.next_job < self.workload.job_count
                else None
            )
            if arrival is not None and (not self.events or arrival <= self.events[0][0]):
                self.pass_time(arrival)
                while (
                    self.next_job < self.workload.job_count
                    and self.workload.arrival_ms[self.next_job] == arrival
                ):
                    self.admit_next_job()
                if self.cluster.corrects("offer_idle"):
                    self.ask_all_pools(skip=None)
                else:
                    self.ask_pool(None)
            elif self.events:
                moment, _, executor = heapq.heappop(self.events)
                self.pass_time(moment)
                if executor.moving:
                    self.executor_arrives(executor)
                else:
                    self.task_ends(executor)
            else:
                self.ask_all_pools(skip=None)
                assert self.events, "stuck"
        return self.result

    def pass_time(self, moment: int) -> None:
        if self.cluster.objective == "average_jct":
            weight = len(self.jobs)
        else:
            weight = int(bool(self.jobs) or self.next_job < self.workload.job_count)
        self.result.reward -= (moment - self.now) * weight
        self.now = moment

    def push(self, executor: Executor, moment: int) -> None:
        heapq.heappush(self.events, (moment, self.begun_events, executor))
        self.begun_events += 1

    def admit_next_job(self) -> None:
        profile = self.workload.profile
        used = {job.slot for job in self.jobs}
        slot = next(i for i in range(len(used) + 1) if i not in used)
        job = Job(self.next_job, slot, self.now)
        template = int(self.workload.template[self.next_job])
        first, last = profile.stage_offset[template], profile.stage_offset[template + 1]
        for position, row in enumerate(range(first, last)):
            stage = Stage(job, position, row, int(profile.tasks[row]), float(profile.memory[row]))
            for parent in profile.parent[profile.parent_offset[row] : profile.parent_offset[row + 1]]:
                stage.parents.append(job.stages[parent])
                job.stages[parent].children.append(stage)
            job.stages.append(stage)
            if not stage.parents:
                self.mark_runnable(stage)
        self.jobs.append(job)
        self.next_job += 1

    def mark_runnable(self, stage: Stage) -> None:
        stage.runnable_since = stage.job.became_runnable
        stage.job.became_runnable += 1

    # --- the two events of an executor -------------------------------------------------------------

    def executor_arrives(self, executor: Executor) -> None:
        stage, executor.target, executor.moving = executor.target, None, False
        if stage is not None:
            stage.moving_here -= 1
            executor.job = stage.job
            stage.job.executors.append(executor)
        if stage is None or stage.started == stage.tasks:
            self.backup(executor)
        elif stage.runnable:
            self.start_task(executor, stage)
        else:
            self.wait(executor, stage.job)

    def task_ends(self, executor: Executor) -> None:
        stage = executor.stage
        assert stage is not None
        stage.finished += 1
        stage.durations_ms.append(executor.task_ms)
        self.seen_ms.append(executor.task_ms)
        if stage.started < stage.tasks:
            self.start_task(executor, stage)
            return
        opened = [c for c in stage.children if stage.done and all(p.done for p in c.parents)]
        for child in opened:
            self.mark_runnable(child)
        job = stage.job
        promised = any(entry[1] == executor.executor_class for entry in stage.promises)
        if promised:
            self.carry_out(executor, stage.promises)
        elif opened:
            self.wait(executor, job)
        if opened:
            self.ask_pool(job)
            if self.cluster.corrects("offer_idle"):
                self.ask_all_pools(skip=job)
        elif not promised and not job.done:
            self.ask_stage(stage, executor)
        if job.done:
            self.remove_job(job)
            if self.cluster.corrects("offer_idle"):
                if not promised:
                    self.pool.append(executor)
                self.ask_all_pools(skip=None)
            elif not promised:
                self.ask_loose(executor)

    def remove_job(self, job: Job) -> None:
        self.result.completion_ms[job.number] = self.now
        self.jobs.remove(job)
        self.pool.extend(job.pool)
        for executor in job.executors:
            executor.job, executor.stage, executor.warm = None, None, False
        for executor in self.executors:
            if executor.target is not None and executor.target.job is job:
                executor.target = None
        for other in self.jobs:
            for stage in other.stages:
                stage.promises = [e for e in stage.promises if e[0] is None or e[0].job is not job]

    # --- what executors do -------------------------------------------------------------------------

    def start_task(self, executor: Executor, stage: Stage) -> None:
        job = stage.job
        wave = 2 if executor.stage is stage else 1 if executor.warm else 0
        self.detach(executor)
        executor.stage, executor.warm = stage, True
        stage.attached.append(executor)
        duration = self.duration_ms(stage, stage.started, wave, len(job.executors))
        stage.started += 1
        executor.task_ms = duration
        if self.result.first_start_ms[job.number] == NOWHERE:
            self.result.first_start_ms[job.number] = self.now
        self.result.busy_ms += duration
        self.result.tasks.append(
            (job.number, stage.position, executor.number, self.now, self.now + duration, wave)
        )
        self.push(executor, self.now + duration)

    def duration_ms(self, stage: Stage, task: int, wave: int, executors: int) -> int:
        number = int(hash_counters(self.seed, stage.job.number, stage.position, task))
        points = usable_points(self.workload.profile, self.cluster)
        left = max((p for p in points if p <= executors), default=points[0])
        right = min((p for p in points if p >= executors), default=points[-1])
        if left < right:
            corrected = self.cluster.corrects("interpolation")
            share = right - executors if corrected else executors - left
            use_left = number >> 32 < share * 2**32 // (right - left)
            point = left if use_left else right
        else:
            point = right
        values, extra = recorded_durations(
            self.workload.profile, stage.row, wave, point, points, self.cluster.warmup_delay_ms
        )
        return int(values[(number & 0xFFFFFFFF) * len(values) >> 32]) + extra

    def detach(self, executor: Executor) -> None:
        if executor.stage is not None:
            executor.stage.attached.remove(executor)
            executor.stage = None

    def leave_job(self, executor: Executor) -> None:
        self.detach(executor)
        if executor.job is not None:
            executor.job.executors.remove(executor)
            executor.job = None
        executor.warm = False

    def move(self, executor: Executor, stage: Stage) -> None:
        self.leave_job(executor)
        executor.target, executor.moving = stage, True
        stage.moving_here += 1
        self.result.moving_ms += self.cluster.moving_delay_ms
        self.push(executor, self.now + self.cluster.moving_delay_ms)

    def wait(self, executor: Executor, job: Job | None) -> None:
        if job is None:
            self.leave_job(executor)
            self.pool.append(executor)
        else:
            self.detach(executor)
            executor.warm = executor.warm and self.cluster.corrects("warm_waiting")
            job.pool.append(executor)

    def backup(self, executor: Executor) -> None:
        memory = self.cluster.class_memory[executor.executor_class]
        if executor.job is not None:
            for stage in executor.job.runnable_stages():
                if stage.demand > 0 and stage.memory <= memory:
                    self.start_task(executor, stage)
                    return
        for stage in self.schedulable():
            stays = stage.job is executor.job and self.cluster.corrects("backup_stays")
            if stage.memory <= memory and not stays:
                self.move(executor, stage)
                return
        self.wait(executor, executor.job)

    # --- decisions ---------------------------------------------------------------------------------

    def schedulable(self, chosen: tuple[Stage, ...] = ()) -> list[Stage]:
        return [
            stage
            for job in self.jobs
            for stage in job.stages
            if stage.demand > 0
            and stage not in chosen
            and all(parent.demand <= 0 for parent in stage.parents)
        ]

    def ask_pool(self, job: Job | None) -> None:
        waiting = sorted(self.pool if job is None else job.pool, key=lambda e: e.number)
        if not waiting:
            return
        promises = self.ask(_count_classes(waiting, self.cluster), job)
        for executor in waiting:
            (self.pool if job is None else job.pool).remove(executor)
            self.carry_out(executor, promises)

    def ask_all_pools(self, skip: Job | None) -> None:
        """Cluster's pool first; pools whose executors have no choice are passed over."""
        for job in [None, *self.jobs]:
            waiting = self.pool if job is None else job.pool
            if waiting and (job is None or job is not skip):
                free = _count_classes(waiting, self.cluster)
                if self.has_choice(free, ()):
                    self.ask_pool(job)

    def ask_stage(self, stage: Stage, executor: Executor) -> None:
        free = _count_classes(stage.attached, self.cluster)
        for _, executor_class, count in stage.promises:
            free[executor_class] -= count
        stage.promises += self.ask(free, stage.job)
        self.carry_out(executor, stage.promises)

    def ask_loose(self, executor: Executor) -> None:
        self.carry_out(executor, self.ask(_count_classes([executor], self.cluster), None))

    def has_choice(self, free: list[int], chosen: tuple[Stage, ...]) -> bool:
        largest = max(m for m, k in zip(self.cluster.class_memory, free, strict=True) if k > 0)
        return any(stage.memory <= largest for stage in self.schedulable(chosen))

    def ask(self, free: list[int], source: Job | None) -> list[list]:
        """One round: ask until every offered executor has a destination."""
        promises: list[list] = []
        chosen: tuple[Stage, ...] = ()
        while sum(free) > 0:
            action = Action(NOWHERE, 0, 0)
            if self.has_choice(free, chosen):
                self.result.decisions += 1
                action = self.decide(self.snapshot(free, source, chosen, promises))
            if action.stage == NOWHERE:
                promises += [[None, kind, count] for kind, count in enumerate(free) if count > 0]
                break
            job = next(j for j in self.jobs if j.slot == action.stage // self.most_stages)
            stage = job.stages[action.stage % self.most_stages]
            room = action.limit - len(job.executors) - self.incoming(job, source, promises)
            room += sum(free) if job is source else 0
            count = min(stage.demand, free[action.executor_class], room)
            assert count > 0
            stage.promised += count
            free[action.executor_class] -= count
            promises.append([stage, action.executor_class, count])
            chosen += (stage,)
        return promises

    def carry_out(self, executor: Executor, promises: list[list]) -> None:
        entry = next(e for e in promises if e[1] == executor.executor_class)
        entry[2] -= 1
        if entry[2] == 0:
            promises.remove(entry)
        stage = entry[0]
        if stage is None:
            job = executor.job
            stays = job is not None and any(s.started < s.tasks for s in job.stages)
            self.wait(executor, job if stays else None)
            return
        stage.promised -= 1
        if stage.started == stage.tasks:
            self.backup(executor)
        elif executor.job is not stage.job:
            self.move(executor, stage)
        elif stage.runnable:
            self.start_task(executor, stage)
        else:
            self.wait(executor, stage.job)

    def incoming(self, job: Job, source: Job | None, open_promises: list[list]) -> int:
        """Executors under way to the job, or promised to it by other jobs."""
        count = sum(stage.moving_here for stage in job.stages)
        for other in self.jobs:
            if other is not job:
                for stage in other.stages:
                    count += sum(e[2] for e in stage.promises if e[0] is not None and e[0].job is job)
        if source is not job:
            count += sum(e[2] for e in open_promises if e[0] is not None and e[0].job is job)
        return count

    # --- what a policy sees ------------------------------------------------------------------------

    def snapshot(
        self, free: list[int], source: Job | None, chosen: tuple[Stage, ...], promises: list[list]
    ) -> Snapshot:
        profile, most = self.workload.profile, self.most_stages
        slots = max(job.slot for job in self.jobs) + 1
        by_job = {
            name: np.zeros(slots, np.int64)
            for name in ("job_id", "arrival_ms", "stage_count", "executors", "incoming")
        }
        by_stage = {
            name: np.zeros(slots * most, np.int64)
            for name in (
                "tasks",
                "unstarted",
                "running",
                "demand",
                "runnable_since",
                "profile_stage",
            )
        }
        runnable, schedulable = np.zeros(slots * most, bool), np.zeros(slots * most, bool)
        task_ms, memory = np.zeros(slots * most), np.zeros(slots * most)
        open_stages = set(self.schedulable(chosen))
        for job in self.jobs:
            by_job["job_id"][job.slot] = job.number
            by_job["arrival_ms"][job.slot] = job.arrival_ms
            by_job["stage_count"][job.slot] = len(job.stages)
            by_job["executors"][job.slot] = len(job.executors)
            by_job["incoming"][job.slot] = self.incoming(job, source, promises)
            for stage in job.stages:
                number = job.slot * most + stage.position
                by_stage["tasks"][number] = stage.tasks
                by_stage["unstarted"][number] = stage.tasks - stage.started
                by_stage["running"][number] = stage.started - stage.finished
                by_stage["demand"][number] = stage.demand
                by_stage["runnable_since"][number] = stage.runnable_since
                by_stage["profile_stage"][number] = stage.row
                runnable[number] = stage.runnable
                schedulable[number] = stage in open_stages
                task_ms[number] = self.expected_ms(stage)
                memory[number] = stage.memory
        latest = self.workload.arrival_ms[max(self.next_job - 65, 0) : self.next_job]
        return Snapshot(
            now_ms=self.now,
            executor_count=len(self.executors),
            source_job=NOWHERE if source is None else source.slot,
            free_executors=np.array(free, np.int64),
            may_idle=bool(self.events) or bool(chosen),
            class_memory=np.array(self.cluster.class_memory),
            arrival_gap_ms=float(np.mean(np.diff(latest))) if len(latest) > 1 else 0.0,
            jobs=np.array([job.slot for job in self.jobs], np.int64),
            first_stage=np.arange(slots) * most,
            runnable=runnable,
            schedulable=schedulable,
            task_ms=task_ms,
            memory=memory,
            slowdown=tables_for(profile, self.cluster).slowdown,
            child_offset=profile.child_offset,
            child=profile.child,
            scratch=np.zeros(most),
            **by_job,
            **by_stage,
        )

    def expected_ms(self, stage: Stage) -> float:
        if self.cluster.durations == "known":
            return float(self.workload.profile.task_ms[stage.row])
        usual = sum(self.seen_ms) / len(self.seen_ms) if self.seen_ms else 1000.0
        return (sum(stage.durations_ms) + usual) / (len(stage.durations_ms) + 1)


def _count_classes(executors: list[Executor], cluster: Cluster) -> list[int]:
    counts = [0] * len(cluster.class_counts)
    for executor in executors:
        counts[executor.executor_class] += 1
    return counts
