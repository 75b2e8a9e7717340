"""Environments for learning: a batch of clusters that show views, step, and begin anew by themselves.

Neighbours in groups of `rollouts` live through the same workloads with the same luck, so that what differs
between them is what they decided. On every workload the rule plays first: rewards are in units of its mean
completion time and fee, so that quiet and crowded workloads weigh alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.core.environment import BatchOutcome
from trimtab.core.errors import ActionError, SettingsError
from trimtab.core.randomness import exponential, integers, split, uniform
from trimtab.gpu_scheduling.cluster import Cluster
from trimtab.gpu_scheduling.das import stepping
from trimtab.gpu_scheduling.das.design import Design
from trimtab.gpu_scheduling.das.executing import action_of_choice, parts_of_action
from trimtab.gpu_scheduling.das.experience import Experience
from trimtab.gpu_scheduling.das.scoring import PREEMPTIVE
from trimtab.gpu_scheduling.das.view import View, empty_view, experience_row
from trimtab.gpu_scheduling.heuristics.rule import Rule
from trimtab.gpu_scheduling.simulator import events, looking, replay
from trimtab.gpu_scheduling.simulator.by_address import WITHOUT_COMPILER
from trimtab.gpu_scheduling.simulator.simulator import FIRST_SLOTS
from trimtab.gpu_scheduling.simulator.state import (
    COST,
    HEARTBEAT,
    NEVER,
    NOW,
    SEED,
    TIME_LIMIT,
    State,
    copied,
    grow,
    new_state,
)
from trimtab.gpu_scheduling.simulator.tables import Tables, make_tables
from trimtab.gpu_scheduling.workload import Workload

__all__ = ["TRAINING_SEEDS", "Course", "Reward", "RolloutEnvironment", "check_teacher"]

TRAINING_SEEDS = 900_000
"""Seeds of training workloads end here; validation follows, tests begin at a million."""
_NO_MACHINES = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Course:
    """What some environments practise: workloads by seed, on a cluster."""

    cluster: Cluster
    draw: Callable[[int], Workload]


class Reward(NamedTuple):
    """What decisions earn.

    With `little` an episode adds up to -jobs x (mean completion time + fee_weight x mean fee wasted), both
    over the rule's, by Little's law. Wasted is what jobs cost beyond the least they can, which is the same
    for everyone; if all of the fee counted while jobs run, whoever looks ahead some hours would learn to
    start nothing. With `paper` a round earns the mean over its jobs: 1 / (fee x completion time) of one that
    is started, both over the rule's means, less `waiting` x minutes x GPUs of one that still waits.
    """

    kind: Literal["little", "paper"] = "little"
    fee_weight: float = 1.0
    waiting: float = 1e-3


class _Episode(NamedTuple):
    """A workload with all that is known of it before it is played."""

    tables: Tables
    usual: NDArray[np.float64]  # mean completion time in ms and mean fee under the rule
    begun: State  # where all rollouts begin


class RolloutEnvironment:
    """Many environments of one or more courses; satisfies `trimtab.core.environment.BatchEnvironment`."""

    def __init__(
        self,
        courses: Sequence[Course],
        design: Design,
        *,
        size: int,
        rule: Rule,
        rollouts: int = 1,
        reward: Reward | None = None,
        teacher: Rule | None = None,
        experience: Experience | None = None,
        labelled: bool = True,
        staggered: bool = True,
        even: bool = False,
        threads: int = 1,
    ) -> None:
        """`experience` is what an experienced design expects jobs to do; others have none.

        `labelled` says what the teacher would do not only while imitating.

        `staggered` lets the rule play the beginning of first episodes, up to a random moment, so that not all
        groups of environments stand at the same point. `even` episodes are all as long as the mean, where
        one is given, instead of memoryless: where only whole ones count, few are then played in vain.
        """
        if size % (rollouts * len(courses)):
            raise SettingsError(
                f"{size} environments cannot be split into groups of {rollouts} on each of {len(courses)} "
                f"clusters; choose a multiple of {rollouts * len(courses)}"
            )
        self._reward = reward or Reward()
        if self._reward.kind == "paper" and design.actions != "scores":
            raise SettingsError(
                "reward = paper counts whole rounds, and choices are single jobs; set reward = little, or "
                "actions = scores"
            )
        check_teacher(teacher, design)
        self._experience = experience_row(experience, design)
        self.size, self.rollouts = size, rollouts
        self._courses, self._design, self._rule = list(courses), design, rule
        self._labelled, self._staggered, self._even = labelled, staggered, even
        self._teacher = None if teacher is None else stepping.teacher_of(teacher)
        self._player = stepping.teacher_of(rule)
        self._machines = max(len(course.cluster.machine_table.gpus) for course in courses)
        self._parts = parts_of_action(design.actions, design.window, self._machines)
        self._seed, self._mean_episode_s, self._imitating = 0, np.inf, False
        self._given: Sequence[int] | None = None
        self._episodes: dict[tuple[int, int], _Episode] = {}
        self._states: list[State] = []
        self._tables: list[Tables] = []
        self._rows: Any = []
        self._number = np.zeros(size, np.int64)
        self._usual = np.ones((size, 3))
        bounds = np.linspace(0, size, min(threads, size) + 1).astype(int).tolist()
        self._shares = list(pairwise(bounds))
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None
        self._wasted_before, self._cost_ms = np.zeros(size), np.zeros(size)
        self._now_before = np.zeros(size, np.int64)
        self.measured = np.full((size, 2), np.nan)
        """Mean completion time in ms and mean fee of the last finished episode of each environment."""

    # --- the protocol ----------------------------------------------------------------------------------

    def reset(self, seed: int, mean_episode_s: float, *, imitating: bool = False) -> None:
        """Begin new episodes everywhere."""
        self._seed, self._mean_episode_s, self._imitating = seed, mean_episode_s, imitating
        self._given = None
        self._begin_everywhere({})

    def reset_to(self, seeds: Sequence[int]) -> None:
        """Begin given episodes, one per environment and in their order; whoever ends rests."""
        if len(seeds) != self.size:
            raise SettingsError(f"{len(seeds)} seeds for {self.size} environments; give one for each")
        known = self._episodes if self._given == seeds else {}
        self._given, self._mean_episode_s, self._imitating = seeds, np.inf, False
        self._begin_everywhere(known)

    def observe(self) -> dict[str, NDArray[Any]]:
        """Arrays with one row per environment; each step makes new ones."""
        self._refuse_unbegun()
        shown: dict[str, NDArray[Any]] = dict(self._playing.seen._asdict())
        if self._teacher is not None:
            shown["teacher"] = self._labels(self._teacher)
        return shown

    def step(self, actions: NDArray[Any]) -> BatchOutcome:
        """Carry out answers, one row per environment; begin anew where an episode ends."""
        self._refuse_unbegun()
        self._refuse_other_shape(actions)
        before = self._playing.seen
        self._playing = self._playing._replace(seen=empty_view(self._design, self.size, self._machines))
        status, outcomes = self._playing.status, self._playing.outcomes
        outcomes.cost_ms[:] = 0.0
        outcomes.gain[:] = 0.0
        going = status == events.DECIDE
        if self._design.actions == "scores":
            self._run(stepping.step_scores, actions.astype(np.float32), self._usual)
        else:
            self._run(stepping.step_choices, actions.astype(np.int64))
        for place in np.flatnonzero(status == events.NEED_SLOTS):
            self._make_room(int(place))
        for place in np.flatnonzero(status == events.ILLEGAL):
            self._refuse(int(place), actions[place])
        rewards, elapsed_s = self._settle()
        ended = going & (status != events.DECIDE)
        for place in np.flatnonzero(ended):
            self._end(int(place))
        for place in np.flatnonzero(status != events.DECIDE):
            _copy_row(before, self._playing.seen, int(place))
        return BatchOutcome(rewards, elapsed_s, ended)

    # --- what a step does ------------------------------------------------------------------------------

    def _run(self, work: Callable[..., None], *told: Any) -> None:
        """Compiled work on all environments; it gives up Python's lock, so threads share it."""

        def share(ends: tuple[int, int]) -> None:
            with np.errstate(over="ignore"):  # holds for the thread that asks for it only
                work(self._rows, self._playing, *told, *ends)

        if self._pool is None:
            for ends in self._shares:
                share(ends)
        else:
            list(self._pool.map(share, self._shares))

    def _make_room(self, place: int) -> None:
        """Make room for more jobs and go on, as often as need be."""
        with np.errstate(over="ignore"):
            while self._playing.status[place] == events.NEED_SLOTS:
                self._put(place, grow(self._states[place]), self._tables[place])
                stepping.go_on(self._rows[place], self._playing, place)

    def _put(self, place: int, state: State, tables: Tables) -> None:
        self._states[place], self._tables[place] = state, tables
        self._rows[place] = replay.row_of(state, tables)

    def _settle(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Rewards and seconds since the question before."""
        outcomes = self._playing.outcomes
        wasted = outcomes.wasted - self._wasted_before
        self._wasted_before[:] = outcomes.wasted
        elapsed_s = (outcomes.now_ms - self._now_before) / 1000.0
        self._now_before[:] = outcomes.now_ms
        self._cost_ms += outcomes.cost_ms
        rewards = outcomes.gain
        if self._reward.kind == "little":
            time = outcomes.cost_ms / self._usual[:, 0]
            rewards = -(time + self._reward.fee_weight * wasted / self._usual[:, 1])
        return rewards.astype(np.float32), elapsed_s.astype(np.float32)

    def _end(self, place: int) -> None:
        """Note what came of an episode, and begin another one unless episodes were given."""
        jobs = len(self._tables[place].jobs)
        self.measured[place] = self._cost_ms[place] / jobs, self._playing.outcomes.fee[place] / jobs
        if self._given is None:
            self._number[place] += 1
            self._begin(place)

    def _labels(self, teacher: stepping.Teacher) -> NDArray[np.int32]:
        """What the teacher would choose; as if it held where nobody asks, since shapes must not change."""
        labels = np.zeros((self.size, self._parts), np.int64)
        labels[:, 0] = self._design.window
        labels[:, 1:] = np.arange(self._machines)
        if self._labelled or self._imitating:
            self._run(teacher.label, teacher.parameters, labels)
        return labels.astype(np.int32)

    # --- beginnings ------------------------------------------------------------------------------------

    def _begin_everywhere(self, known: dict[tuple[int, int], _Episode]) -> None:
        """Begin the first episodes; those that are known need not be drawn again."""
        self._episodes = known
        size = self.size
        self._playing = stepping.Playing(
            status=np.full(size, events.FINISHED, np.int64),
            seen=empty_view(self._design, size, self._machines),
            slots=np.zeros((size, self._design.window), np.int64),
            outcomes=stepping.new_outcomes(size),
            experience=self._experience,
        )
        self._number[:] = 0
        self.measured[:] = np.nan
        if not self._states:
            self._tables = [self._drawn(place // self.rollouts, 0).tables for place in range(size)]
            self._states = [new_state(tables, slots=FIRST_SLOTS) for tables in self._tables]
            rows = [replay.row_of(*one) for one in zip(self._states, self._tables, strict=True)]
            self._rows = rows if WITHOUT_COMPILER else np.array(rows)
        for place in range(size):
            self._begin(place)

    def _begin(self, place: int) -> None:
        group = place // self.rollouts
        episode = self._drawn(group, int(self._number[place]))
        self._forget(group)
        self._put(place, copied(episode.begun), episode.tables)
        self._usual[place] = *episode.usual, self._reward.waiting
        outcomes = self._playing.outcomes
        with np.errstate(over="ignore"):
            stepping.go_on(self._rows[place], self._playing, place)
        self._make_room(place)
        if self._playing.status[place] != events.DECIDE:
            # The limit came before the first question; the next episode begins with one.
            self._number[place] += 1
            self._begin(place)
            return
        self._cost_ms[place] = 0.0
        self._wasted_before[place] = outcomes.wasted[place]
        self._now_before[place] = outcomes.now_ms[place]

    def _begun(self, tables: Tables, seed: int, limit_ms: int, until_ms: int, heartbeat_ms: int) -> State:
        """A new episode, played by the rule up to a moment."""
        state = new_state(tables, slots=FIRST_SLOTS)
        state.scalar[SEED], state.scalar[TIME_LIMIT] = seed, limit_ms
        task, going = replay.BEGIN, True
        with np.errstate(over="ignore"):
            while going:
                row = replay.row_of(state, tables)
                status = replay.ask_engine(row, task, 0, 0, _NO_MACHINES, 0)
                state.scalar[HEARTBEAT] = heartbeat_ms
                status = self._player.play_until(row, status, until_ms, self._player.parameters)
                if status == events.ILLEGAL:
                    raise ActionError(f"{self._rule.name}: an action that may not be done; use another rule")
                going, task = status == events.NEED_SLOTS, replay.GO_ON
                if going:
                    state = grow(state)
        return state

    def _drawn(self, group: int, number: int) -> _Episode:
        """The episode of that number in a group; the same for all its rollouts."""
        if (group, number) not in self._episodes:
            self._episodes[group, number] = self._new_episode(group, number)
        return self._episodes[group, number]

    def _forget(self, group: int) -> None:
        """Drop episodes that all rollouts of a group have behind them."""
        least = self._number[group * self.rollouts : (group + 1) * self.rollouts].min()
        for number in [n for g, n in self._episodes if g == group and n < least]:
            del self._episodes[group, number]

    def _new_episode(self, group: int, number: int) -> _Episode:
        course = self._courses[group % len(self._courses)]
        if self._given is not None:
            seed = int(self._given[group * self.rollouts])
        else:
            seed = int(integers(split(self._seed, "episodes"), group, number, high=TRAINING_SEEDS))
        workload = course.draw(seed)
        tables = make_tables(workload, course.cluster)
        heartbeat_ms = tables.heartbeat_ms if self._rule.timed else int(NEVER)
        played = self._begun(tables, seed, int(NEVER), int(NEVER), heartbeat_ms).results
        limit_ms, begin_ms = int(NEVER), 0
        if self._staggered and number == 0 and self._given is None:
            share = float(uniform(split(self._seed, "beginnings"), group))
            begin_ms = int(share * workload.arrival_ms[-1])
        if np.isfinite(self._mean_episode_s) and self._given is None:
            drawn = 1000.0 * self._mean_episode_s
            if not self._even:
                drawn = exponential(split(self._seed, "limits"), group, number, mean=drawn)
            limit_ms = max(begin_ms, int(workload.arrival_ms[0])) + max(1, int(drawn))
        usual = np.array([(played["completion_ms"] - workload.arrival_ms).mean(), played["fee"].mean()])
        # Time alone does not bring a question: whoever holds waits for a job to come or to end.
        begun = self._begun(tables, seed, limit_ms, begin_ms, int(NEVER))
        begun.scalar[COST] = 0
        return _Episode(tables, usual, begun)

    # --- what may be asked besides ---------------------------------------------------------------------

    @property
    def going(self) -> bool:
        """Whether any environment still plays; those of `reset_to` come to rest."""
        return bool((self._playing.status == events.DECIDE).any())

    @property
    def usual(self) -> NDArray[np.float64]:
        """[environments, 2]: the rule's mean completion time in ms and mean fee on the present workloads."""
        return self._usual[:, :2].copy()

    # --- refusals --------------------------------------------------------------------------------------

    def _refuse_unbegun(self) -> None:
        if not self._states:
            raise SettingsError("the environments have not begun; call reset first")

    def _refuse_other_shape(self, actions: NDArray[Any]) -> None:
        if actions.shape != (self.size, self._parts):
            raise ActionError(
                f"answers of shape {actions.shape}; {self._design.actions} here have "
                f"{(self.size, self._parts)}"
            )
        if not np.isfinite(actions).all():
            raise ActionError(
                "some answers are not finite; the parameters are broken, train the agents again"
            )

    def _refuse(self, place: int, told: NDArray[Any]) -> None:
        if self._design.actions == "choices":
            snapshot = looking.look(self._states[place], self._tables[place])
            action_of_choice(snapshot, self._playing.slots[place], told)
        raise ActionError(
            f"environment {place}: its answer is refused at {self._states[place].scalar[NOW]} ms; see "
            "problem.decode"
        )


def check_teacher(teacher: Rule | None, design: Design) -> None:
    """Refuse a teacher whose decisions cannot be labels."""
    if teacher is None:
        return
    if design.actions != "choices":
        raise SettingsError(
            f"teacher = {teacher.name!r}: a rule makes choices, not scores; set actions = choices, or leave "
            "the teacher out"
        )
    if teacher.discipline in PREEMPTIVE:
        raise SettingsError(
            f"teacher = {teacher.name!r} stops running jobs, which these agents cannot; choose another "
            "discipline, such as backfill"
        )
    if teacher.needs_durations:
        raise SettingsError(
            f"teacher = {teacher.name!r} needs durations, which these agents do not know; choose another rule"
        )


def _copy_row(source: View, target: View, row: int) -> None:
    for old, new in zip(source, target, strict=True):
        new[row] = old[row]
