"""Environments for learning: a batch of simulators that show views, step, and begin anew by themselves.

Environments are split into shards; compiled code gives up Python's lock, so shards run in parallel
threads. Neighbours in groups of `rollouts` live through the same workloads with the same luck.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from trimtab.core.environment import BatchOutcome
from trimtab.core.errors import ActionError, SettingsError
from trimtab.core.randomness import exponential, integers, split, uniform
from trimtab.dag_scheduling.cluster import Cluster
from trimtab.dag_scheduling.decima import showing
from trimtab.dag_scheduling.decima import view as v
from trimtab.dag_scheduling.decima.looking_ahead import NO_ROOM, Foresight, foresight_of
from trimtab.dag_scheduling.decima.network import Design, limits_of
from trimtab.dag_scheduling.decima.showing import FUTURE_WINDOWS_S, Episodes, Outcomes, Screen
from trimtab.dag_scheduling.heuristics import Rule
from trimtab.dag_scheduling.simulator import events, replay
from trimtab.dag_scheduling.simulator.compiling import compiled, fingerprint, is_importable, specialise
from trimtab.dag_scheduling.simulator.simulator import FIRST_SLOTS, NO_LIMIT_MS, tables_for
from trimtab.dag_scheduling.simulator.state import NOW, State, grow, new_state
from trimtab.dag_scheduling.workload import Workload

__all__ = ["Course", "RolloutEnvironment", "split_lane"]


@dataclass(frozen=True)
class Course:
    """What some environments practise: workloads by seed, on a cluster, beside a rule to learn from."""

    cluster: Cluster
    draw: Callable[[int], Workload]
    """Gives the workload of a seed; all must share one profile."""
    teacher: Rule | None = None
    sequences: int = 0
    """Practise the workloads of so many seeds only; 0: ever new ones."""
    look_ahead_s: float = 0.0
    """Measure costs against the teacher playing on for so long or up to twice; 0: do not."""
    look_every: int = 1
    """Look once for so many decisions; they share in what is found."""
    cost_scale_s: float = 1.0
    """Rewards are divided by it, so that courses of different load weigh alike."""
    weight: int = 1
    """Environments, relative to the other courses."""
    usual_length_s: float = 0.0
    """The teacher plays first episodes up to a random moment within it; 0: all start at their beginning."""


class RolloutEnvironment:
    """Many environments of one or more courses; satisfies `trimtab.core.environment.BatchEnvironment`."""

    def __init__(
        self,
        courses: Sequence[Course],
        design: Design,
        *,
        size: int,
        rollouts: int = 1,
        jobs_shown: int,
        stages_shown: int | None = None,
        episodes_each: int = 4,
        labelled: bool = True,
        threads: int = 1,
        catalogue: v.Catalogue | None = None,
    ) -> None:
        """`labelled` says what the teacher would do not only while imitating.

        Whoever has the `catalogue` of these courses is shown only what changes.
        """
        parts, each = split_lane(
            [course.weight for course in courses], size=size, rollouts=rollouts, threads=threads
        )
        classes = {len(course.cluster.class_memory) for course in courses}
        if classes != {design.classes}:
            raise SettingsError(
                f"the cluster has {max(classes)} executor classes, the network was made for "
                f"{design.classes}; use a policy trained for such a cluster"
            )
        self.size = size
        self.rollouts = rollouts
        self._design = design
        most_executors = max(course.cluster.executors for course in courses)
        self._catalogue = catalogue
        self._shards = [
            _Shard(course, design, most_executors, each, rollouts, episodes_each, labelled, number, part)
            for number, course in enumerate(courses)
            for part in range(parts[number])
        ]
        first_row = 0
        for number, start in enumerate(np.cumsum([0, *parts[:-1]])):
            for shard in self._shards[start : start + parts[number]]:
                shard.first_row(first_row)
            first_row += len(self._shards[start].tables.rows)
        most = max(shard.stages for shard in self._shards)
        self._stages = most if stages_shown is None else stages_shown
        if self._stages < most:
            raise SettingsError(f"stages_shown = {self._stages}, but a job has {most} stages; raise it")
        self._jobs = jobs_shown
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None
        self._slots = np.zeros((size, jobs_shown), np.int64)
        self._each = each

    def reset(self, seed: int, mean_episode_s: float, *, imitating: bool = False) -> None:
        """Begin new episodes everywhere; whoever imitates is not judged against the teacher (costs are 0)."""
        for shard in self._shards:
            shard.imitating = imitating
            shard.draw(seed, mean_episode_s)
        self._run(lambda shard: shard.begin())

    def reset_to(self, seeds: Sequence[int]) -> None:
        """Begin given episodes, one per environment and in their order: for validation."""
        if len(seeds) != self.size:
            raise SettingsError(f"{len(seeds)} seeds for {self.size} environments; give one for each")
        for place, shard in enumerate(self._shards):
            shard.plan(list(seeds[place * self._each : (place + 1) * self._each]), NO_LIMIT_MS, 1)
        self._run(lambda shard: shard.begin())

    def observe(self) -> dict[str, NDArray[np.generic]]:
        """Fresh arrays with one row per environment."""
        screen = self._new_screen()
        self._run(lambda shard: shard.show(_rows(screen, shard.place(self._shards, self._each))))
        self._slots = screen.slots
        shown = screen._asdict()
        del shown["slots"]
        del shown["rows" if self._catalogue is None else "children"]
        return shown

    def step(self, actions: NDArray[np.int32]) -> BatchOutcome:
        """Carry out answers (choice, limit), one row per environment."""
        outcomes = Outcomes(
            np.zeros(self.size, np.int64), np.zeros(self.size, np.int64), np.zeros(self.size, np.bool_)
        )
        scale = np.ones(self.size, np.float64)

        def one(shard: _Shard) -> None:
            rows = shard.place(self._shards, self._each)
            shard.step(
                actions[rows],
                self._slots[rows],
                self._stages,
                Outcomes._make(part[rows] for part in outcomes),
            )
            scale[rows] = 1000.0 * shard.course.cost_scale_s

        self._run(one)
        return BatchOutcome(
            rewards=(-outcomes.cost_ms / scale).astype(np.float32),
            elapsed_s=(outcomes.elapsed_ms / 1000.0).astype(np.float32),
            ended=outcomes.ended,
        )

    def _run(self, work: Callable[[_Shard], None]) -> None:
        def quietly(shard: _Shard) -> None:
            with np.errstate(over="ignore"):  # holds for the thread that asks for it only
                work(shard)

        if self._pool is None:
            for shard in self._shards:
                quietly(shard)
        else:
            list(self._pool.map(quietly, self._shards))

    def _new_screen(self) -> Screen:
        size, jobs, stages, classes = self.size, self._jobs, self._stages, self._design.classes
        fields, words, last_row = v.STAGE_FIELDS, v.words_for(stages), 0
        if self._catalogue is not None:
            fields, words, last_row = v.CHANGING_FIELDS, 0, len(self._catalogue.known) - 1
        return Screen(
            stages=np.empty((size, jobs, stages, fields), np.int16),
            children=np.empty((size, jobs, stages, words), np.uint32),
            rows=np.full((size, jobs), last_row, np.int32),
            jobs=np.empty((size, jobs, v.JOB_FIELDS), np.float32),
            cluster=np.empty((size, v.CLUSTER_FIELDS + 2 * classes), np.float32),
            future=np.empty((size, 2 * len(FUTURE_WINDOWS_S)), np.float32),
            slots=np.empty((size, jobs), np.int64),
            sequence=np.empty(size, np.int32),
            teacher=np.zeros((size, 2), np.int32),
        )


def split_lane(weights: Sequence[int], *, size: int, rollouts: int, threads: int) -> tuple[list[int], int]:
    """Shards of each course, and environments in each shard: a course of twice the weight has twice as many.

    >>> split_lane([2, 1], size=24, rollouts=1, threads=6)
    ([4, 2], 4)
    """
    parts = max(1, round(threads / sum(weights)))
    shards = parts * sum(weights)
    if size % (shards * rollouts):
        raise SettingsError(
            f"{size} environments cannot be split into {shards} shards of groups of {rollouts}; "
            f"choose a multiple of {shards * rollouts}"
        )
    return [parts * weight for weight in weights], size // shards


def random_choices(shown: dict[str, NDArray[np.generic]], random: np.random.Generator) -> NDArray[np.int32]:
    """A random stage and class that may be chosen in each environment, without a limit."""
    flags = shown["stages"][..., v.FLAGS].astype(np.int64)
    classes = (shown["cluster"].shape[1] - v.CLUSTER_FIELDS) // 2
    open_now = (flags[..., None] >> (v.CLASS_BITS + np.arange(classes))) & 1
    scores = open_now.reshape(len(flags), -1) * (1.0 + random.random((len(flags), flags[0].size * classes)))
    return np.stack([scores.argmax(1), np.zeros(len(flags))], axis=1).astype(np.int32)


def _rows(screen: Screen, rows: slice) -> Screen:
    return Screen._make(field[rows] for field in screen)


class _Shard:
    """Environments of one course, stepped by one thread."""

    def __init__(
        self,
        course: Course,
        design: Design,
        most_executors: int,
        size: int,
        rollouts: int,
        episodes_each: int,
        labelled: bool,
        number: int,
        part: int,
    ) -> None:
        self.course = course
        self._size, self._rollouts, self._episodes_each = size, rollouts, episodes_each
        self._labelled, self._number, self._part = labelled, number, part
        first = course.draw(0)
        self.tables = tables_for(first.profile, course.cluster)
        self.stages = self.tables.stages_per_slot
        self._known = showing.drawn(self.tables, v.words_for(self.stages))
        count = course.cluster.executors
        offered = limits_of(np.array([count], np.float32), design, most_executors, np)[0].astype(np.int64)
        self._limits = offered if design.limit_head else offered[:1]
        self.state = self._new_state(first.job_count)
        self._status = np.full(size, events.FINISHED, np.int64)
        self._actions = np.zeros((size, 3), np.int64)
        self._label = None if course.teacher is None else _labeller(course.teacher.function)
        self._parameters = np.array(() if course.teacher is None else course.teacher.values, np.float64)
        self._foresight = None if course.teacher is None else foresight_of(course.teacher.function)
        self._foreseen: _Foreseen | None = None
        if course.look_ahead_s > 0:
            assert self._foresight is not None
            self._foreseen = _Foreseen(self, self._foresight, self._parameters, size)
        self.imitating = False

    def first_row(self, row: int) -> None:
        """Where its profile begins in a catalogue of all courses."""
        self._known = self._known._replace(first_row=row)

    def place(self, shards: Sequence[_Shard], each: int) -> slice:
        """The rows of this shard in the arrays of all."""
        first = shards.index(self) * each
        return slice(first, first + each)

    def _new_state(self, jobs: int) -> State:
        one = new_state(self.tables, slots=min(FIRST_SLOTS, jobs), jobs=jobs)
        return State._make(np.zeros((self._size, *f.shape), f.dtype) for f in one)

    def draw(self, seed: int, mean_episode_s: float) -> None:
        """Draw the next episodes; a group shares workloads, luck and time limits."""
        count = self._size // self._rollouts * self._episodes_each
        # Numbered within the course: what is played does not depend on the number of threads.
        places = np.arange(self._part * count, (self._part + 1) * count)
        high = self.course.sequences or TRAINING_SEEDS
        seeds = integers(split(seed, "episodes", self._number), places, high=high)
        limits_ms: NDArray[np.int64] | int = NO_LIMIT_MS
        if np.isfinite(mean_episode_s):
            draws = exponential(split(seed, "limits", self._number), places, mean=1000.0 * mean_episode_s)
            limits_ms = np.maximum(draws, 1).astype(np.int64)
        self.plan(seeds.tolist(), limits_ms, self._rollouts)
        share = uniform(split(seed, "beginnings", self._number), places)
        self._beginnings_ms = (1000.0 * self.course.usual_length_s * share).astype(np.int64)

    def plan(self, seeds: list[int], limits_ms: NDArray[np.int64] | int, rollouts: int) -> None:
        """Lay out the episodes of these seeds, equally many for each group of `rollouts` environments."""
        workloads = [self.course.draw(one) for one in seeds]
        most = max(workload.job_count for workload in workloads)
        template = np.zeros((len(seeds), most), np.int64)
        arrival_ms = np.zeros((len(seeds), most), np.int64)
        for row, workload in enumerate(workloads):
            template[row, : workload.job_count] = workload.template
            arrival_ms[row, : workload.job_count] = workload.arrival_ms
        if self.state.jobs.shape[1] != most:
            self.state = self._new_state(most)
        each = len(seeds) * rollouts // self._size
        first = np.arange(self._size) // rollouts * each
        self._episodes = Episodes(
            template=template,
            arrival_ms=arrival_ms,
            jobs=np.array([workload.job_count for workload in workloads], np.int64),
            seed=np.array(seeds, np.int64),
            time_limit_ms=np.broadcast_to(np.int64(limits_ms), len(seeds)).copy(),
            next_row=first.copy(),
            first_row=first,
            rows_each=each,
            row=first.copy(),
        )
        self._beginnings_ms = np.zeros(len(seeds), np.int64)

    def begin(self) -> None:
        """Begin the first of the drawn episodes everywhere, some of them in their midst."""
        self._status[:] = events.FINISHED
        nothing = Outcomes(
            np.zeros(self._size, np.int64), np.zeros(self._size, np.int64), np.zeros(self._size, np.bool_)
        )
        showing.turn_over(self.state, self.tables, self._status, self._episodes, nothing)
        self._settle()
        if self._beginnings_ms.any():
            self._let_teacher_begin()
            showing.turn_over(self.state, self.tables, self._status, self._episodes, nothing)
            self._settle()
        if self._foreseen is not None and not self.imitating:
            self._foreseen.begin()

    def _let_teacher_begin(self) -> None:
        """Environments that all stood at the same point of an episode would teach one thing at a time."""
        assert self._foresight is not None
        until_ms = self.state.scalar[:, NOW] + self._beginnings_ms[self._episodes.row]
        going = True
        while going:
            self._foresight.play_until(self.state, self.tables, self._status, until_ms, self._parameters)
            going = bool((self._status == events.NEED_SLOTS).any())
            self._settle()

    def show(self, screen: Screen) -> None:
        """Fill this shard's rows of the screen, the teacher's labels among them."""
        scratch = np.empty(self.state.slots.shape[1])
        showing.show(self.state, self.tables, self._status, self._known, self._episodes, screen, scratch)
        if self._label is not None and (self._labelled or self.imitating):
            self._label(self.state, self.tables, self._status, screen, self._limits, self._parameters)

    def step(
        self, answers: NDArray[np.int32], slots: NDArray[np.int64], stages: int, outcomes: Outcomes
    ) -> None:
        """Carry out the answers, take the rewards, begin new episodes where one has ended."""
        showing.read_actions(self.state, self._status, slots, stages, answers, self._limits, self._actions)
        if self._foreseen is not None and not self.imitating:
            self._foreseen.note(self._status, self._actions)
        replay.step_many(self.state, self.tables, self._status, self._actions)
        self._settle()
        showing.turn_over(self.state, self.tables, self._status, self._episodes, outcomes)
        self._settle()
        if self._foreseen is not None and self.imitating:
            outcomes.cost_ms[:] = 0
        elif self._foreseen is not None:
            self._foreseen.compare(outcomes)

    def grow(self) -> None:
        """Make room for twice as many jobs in the system."""
        rows = [State._make(field[index] for field in self.state) for index in range(self._size)]
        grown = [grow(row, self.tables) for row in rows]
        self.state = State._make(np.stack(fields) for fields in zip(*grown, strict=True))

    def _settle(self) -> None:
        """Make room for more jobs in the system, or say why an environment cannot go on."""
        if not self._status.any():
            return
        while (waiting := np.flatnonzero(self._status == events.NEED_SLOTS)).size:
            self.grow()
            for index in waiting.tolist():
                row = State._make(field[index] for field in self.state)
                self._status[index] = events.advance(row, self.tables)
        wrong = np.flatnonzero((self._status == events.STUCK) | (self._status == replay.ILLEGAL))
        if wrong.size:
            raise ActionError(
                f"environment {wrong[0]}: action {self._actions[wrong[0]].tolist()} is outside the mask"
            )


class _Foreseen:
    """What the teacher would make of each environment: turns costs into costs beyond the teacher's.

    Of every few decisions (`look_every`) the last one is charged: what they all cost, plus what the
    teacher foresees now, minus what it foresaw before them. Over an episode that adds up to its cost
    minus the teacher's. Short of the end, both foresights reach to the same moment, which moves on in
    jumps, and estimate the rest; who sleeps beyond that moment is charged nothing.

    Whoever does as the teacher does changes nothing that was foreseen: most decisions need no look.
    """

    def __init__(
        self, shard: _Shard, foresight: Foresight, parameters: NDArray[np.float64], size: int
    ) -> None:
        course = shard.course
        self._shard, self._foresight, self._parameters = shard, foresight, parameters
        self._reach_ms = int(1000 * course.look_ahead_s)
        self._every = course.look_every
        self._costs = np.zeros(size, np.int64)
        self._until_ms = np.zeros(size, np.int64)
        self._now_ms = np.zeros(size, np.int64)
        self._owed_ms = np.zeros(size, np.int64)
        self._decisions = np.zeros(size, np.int64)  # since the first that differs from the teacher's
        self._same = np.ones(size, np.bool_)
        self._scratch: State | None = None

    def begin(self) -> None:
        """Look ahead everywhere."""
        self._reach_out(np.ones(len(self._costs), np.bool_))

    def note(self, status: NDArray[np.int64], actions: NDArray[np.int64]) -> None:
        """Find out who is about to do something else than the teacher would."""
        shard = self._shard
        self._foresight.does_the_same(
            shard.state, shard.tables, status, actions, self._parameters, self._same
        )

    def compare(self, outcomes: Outcomes) -> None:
        """Look again where it is due, and rewrite the costs of the last decisions."""
        self._now_ms += outcomes.elapsed_ms
        self._owed_ms += outcomes.cost_ms
        self._decisions += ~self._same | (self._decisions > 0)
        short = self._now_ms + self._reach_ms > self._until_ms
        going = ~outcomes.ended
        due = going & (self._decisions > 0) & (short | (self._decisions >= self._every))
        before = self._costs.copy()
        self._look_ahead(due)
        charged = due | (outcomes.ended & (self._decisions > 0))
        beyond = self._owed_ms + np.where(outcomes.ended, 0, self._costs) - before
        outcomes.cost_ms[:] = np.where(charged & (self._now_ms <= self._until_ms), beyond, 0)
        self._owed_ms[charged] = self._decisions[charged] = 0
        self._reach_out(outcomes.ended | (going & short))

    def _reach_out(self, chosen: NDArray[np.bool_]) -> None:
        self._owed_ms[chosen] = self._decisions[chosen] = 0
        self._now_ms[chosen] = self._shard.state.scalar[chosen, NOW]
        self._until_ms[chosen] = self._now_ms[chosen] + 2 * self._reach_ms
        self._look_ahead(chosen)

    def _look_ahead(self, chosen: NDArray[np.bool_]) -> None:
        going = chosen.any()
        while going:
            state = self._shard.state
            shapes = (state.slots.shape[1:], state.jobs.shape[1:])
            if self._scratch is None or (self._scratch.slots.shape, self._scratch.jobs.shape) != shapes:
                self._scratch = State._make(np.empty_like(field[0]) for field in state)
            tables, until_ms = self._shard.tables, self._until_ms
            self._foresight.cost_to_go(
                state, self._scratch, tables, chosen, until_ms, self._parameters, self._costs
            )
            going = bool((self._costs[chosen] == NO_ROOM).any())
            if going:
                self._shard.grow()


TRAINING_SEEDS = 900_000
"""Seeds of training workloads end here; validation follows, tests begin at a million."""


@cache
def _labeller(function: Callable[..., object]) -> Callable[..., None]:
    rule = compiled(function)
    name = f"{function.__name__}_{fingerprint(function)}"
    return specialise(showing.label, {"decide": rule}, name, cached=is_importable(function))
