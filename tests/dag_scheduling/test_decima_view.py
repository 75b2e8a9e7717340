"""What the network is shown: compiled and from a snapshot the same, and the right jobs where not all fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.dag_scheduling.random_instances import random_profile

from trimtab.dag_scheduling.cluster import Cluster, ExecutorClass
from trimtab.dag_scheduling.decima import view as v
from trimtab.dag_scheduling.decima.network import Design, limit_scores, new_network, stage_scores
from trimtab.dag_scheduling.decima.rollouts import Course, RolloutEnvironment
from trimtab.dag_scheduling.decima.showing import catalogue
from trimtab.dag_scheduling.decima.view import View, action_of, child_words, view_of, words_for
from trimtab.dag_scheduling.heuristics import Rule, fifo
from trimtab.dag_scheduling.policies import make_policy
from trimtab.dag_scheduling.problem import NOWHERE, Action, Snapshot
from trimtab.dag_scheduling.simulator import Simulator
from trimtab.dag_scheduling.simulator.replay import look_from_python
from trimtab.dag_scheduling.simulator.simulator import tables_for
from trimtab.dag_scheduling.simulator.state import State
from trimtab.dag_scheduling.workload import (
    JobRecord,
    Profile,
    Provenance,
    StageRecord,
    Workload,
    batch,
    build_profile,
    poisson,
)
from trimtab.dag_scheduling.workload.presets import WorkloadSettings, draw_workload

FIFO = Rule("fifo", fifo)
FOUR_SIZES = Cluster(classes=tuple(ExecutorClass(count=2, memory=m) for m in (0.25, 0.5, 0.75, 1.0)))


def rule(name: str) -> Rule:
    """A rule by its name."""
    found = make_policy(name)
    assert isinstance(found, Rule)
    return found


def course_of(cluster: Cluster, teacher: Rule | None = FIFO, **workload: Any) -> Course:
    """A course on a named workload."""
    settings = WorkloadSettings.model_validate(workload)

    def draw(seed: int) -> Workload:
        return draw_workload(settings, executors=cluster.executors, seed=seed)

    return Course(cluster, draw, teacher)


def course_on(cluster: Cluster, profile: Profile, jobs: int, gap_ms: float = 0.0) -> Course:
    """A course on a profile made by a test: a batch, or a stream with this gap."""

    def draw(seed: int) -> Workload:
        if gap_ms == 0.0:
            return batch(profile, jobs=jobs, seed=seed)
        return poisson(profile, jobs=jobs, mean_gap_ms=gap_ms, seed=seed)

    return Course(cluster, draw, FIFO)


def trace_course(cluster: Cluster, workload: Workload) -> Course:
    """A course that knows one workload only."""
    return Course(cluster, lambda _: workload, FIFO)


def look(playing: RolloutEnvironment) -> list[Snapshot]:
    """The snapshot of every environment, straight from the engine's state."""
    return [
        look_from_python(State._make(field[index] for field in shard.state), shard.tables)
        for shard in playing._shards
        for index in range(shard._size)
    ]


def observe(playing: RolloutEnvironment) -> dict[str, Any]:
    """What every environment shows, by name."""
    return playing.observe()


def view_in(observation: dict[str, Any]) -> View:
    return View(*(observation[name] for name in View._fields))


def masked_choices(
    parameters: object, view: View, design: Design, most: int, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Any choice and any limit that the masks allow, evenly: (answers, choices on offer, limits on offer)."""
    scores = stage_scores(parameters, view, design, np)
    choice = np.where(scores.mask, random.random(scores.mask.shape), -1.0).argmax(1)
    _, offered, _ = limit_scores(parameters, scores, choice, design, most, np)
    idle = choice == scores.mask.shape[1] - 1
    limit = np.where(idle, 0, np.where(offered, random.random(offered.shape), -1.0).argmax(1))
    return np.stack([choice, limit], 1).astype(np.int32), scores.mask, offered | idle[:, None]


def design_for(cluster: Cluster) -> Design:
    return Design(classes=len(cluster.class_memory), hidden=8, embedding=4)


STREAM = course_of(Cluster(executors=7), name="tpch", jobs=9, arrivals="poisson", load=0.8)
COURSES: dict[str, Course] = {
    "tpch": course_of(Cluster(executors=10), name="tpch", jobs=5),
    "synthetic": course_of(Cluster(executors=10), name="synthetic", jobs=4),
    "tiny": course_of(Cluster(executors=3), name="tiny:late-small", jobs=2, arrivals="trace"),
    "four sizes": course_of(FOUR_SIZES, name="tpch", jobs=5, random_memory=True),
    "stream": STREAM,
    "learned durations": course_of(
        Cluster(executors=6, durations="learned", objective="makespan"), name="tpch", jobs=4
    ),
    "compat": course_on(Cluster(executors=5, rules="compat"), random_profile(3), 6, 700.0),
    # Profile 35 holds tasks that take no time at all.
    "no time": course_on(Cluster(executors=4), random_profile(35), 6, 300.0),
}


# --- one view, two ways to make it ------------------------------------------------------------------


def assert_shows(observation: dict[str, Any], index: int, snapshot: Snapshot, room: int = 0) -> None:
    """Row `index` of the compiled screen is the view of the snapshot, with nothing but zeros around it."""
    bits = child_words(snapshot.child_offset, snapshot.child, words_for(len(snapshot.scratch)))
    shown = view_of(snapshot, bits, room).view
    jobs, stages = shown.stages.shape[1:3]
    words = shown.children.shape[-1]
    screen = {name: observation[name][index] for name in View._fields}
    np.testing.assert_array_equal(screen["stages"][:jobs, :stages], shown.stages[0])
    np.testing.assert_array_equal(screen["children"][:jobs, :stages, :words], shown.children[0])
    # Sums of floats may be added up in another order.
    np.testing.assert_allclose(screen["jobs"][:jobs], shown.jobs[0], rtol=1e-6)
    np.testing.assert_array_equal(screen["cluster"], shown.cluster[0])
    assert not screen["stages"][jobs:].any() and not screen["stages"][:, stages:].any()
    assert not screen["children"][jobs:].any() and not screen["children"][:, stages:].any()
    assert not screen["children"][..., words:].any()
    assert not screen["jobs"][jobs:].any()


def test_what_changes_and_a_catalogue_make_the_whole_view():
    """Courses on different profiles side by side; who has the catalogue needs 3 KB of 7 for a decision."""
    courses = [COURSES[name] for name in ("tpch", "stream", "synthetic")]
    tables = [tables_for(course.draw(0).profile, course.cluster) for course in courses]
    known = catalogue(tables, max(one.stages_per_slot for one in tables))
    design = design_for(courses[0].cluster)
    whole = RolloutEnvironment(courses, design, size=6, jobs_shown=4)
    lean = RolloutEnvironment(courses, design, size=6, jobs_shown=4, catalogue=known)
    whole.reset(5, np.inf)
    lean.reset(5, np.inf)
    for _ in range(40):
        told, little = whole.observe(), lean.observe()
        stages, children = v.completed(little["stages"], little["rows"], known, np)
        np.testing.assert_array_equal(stages, told["stages"])
        np.testing.assert_array_equal(children, told["children"])
        for name in ("jobs", "cluster", "future", "sequence", "teacher"):
            np.testing.assert_array_equal(little[name], told[name])
        assert sum(part.nbytes for part in little.values()) < 0.6 * sum(part.nbytes for part in told.values())
        for playing in (whole, lean):
            playing.step(told["teacher"].astype(np.int32))


@pytest.mark.parametrize("name", COURSES)
def test_the_compiled_screen_is_the_view_of_the_snapshot(name):
    course = COURSES[name]
    design = design_for(course.cluster)
    parameters, random = new_network(design, 0), np.random.default_rng(0)
    playing = RolloutEnvironment([course], design, size=3, jobs_shown=course.draw(0).job_count + 1)
    playing.reset(seed=1, mean_episode_s=float("inf"))
    seen = set()
    for _ in range(60):
        observation = observe(playing)
        for index, snapshot in enumerate(look(playing)):
            assert_shows(observation, index, snapshot)
            seen.add((len(snapshot.jobs), bool(snapshot.may_idle), snapshot.source_job != NOWHERE))
        answers, _, _ = masked_choices(
            parameters, view_in(observation), design, course.cluster.executors, random
        )
        playing.step(answers)
    # Otherwise the comparison says little: different numbers of jobs, both kinds of sources, both masks.
    assert len({jobs for jobs, _, _ in seen}) > 1
    assert {idle for _, idle, _ in seen} == {True, False}
    assert {source for _, _, source in seen} == {True, False}


def test_a_view_by_hand():
    """One job of two stages on 4 executors (3 small, 1 large) that wait in the cluster's pool.

    The first stage has 6 tasks of 1023 ms: 1024 * log2(1024) = 10240. It needs 0.5 of the memory, so
    only the large class (bit 3) may be chosen for it; runnable 1 + schedulable 2 + 8 = 11.
    """
    always = {1: [1023]}
    stages = [
        StageRecord(6, fresh=always, first_wave=always, later_wave=always, memory=0.5),
        StageRecord(1, parents=[0], later_wave={1: [0]}),
    ]
    workload = batch(build_profile([JobRecord("pair", stages)]), jobs=1, seed=0)
    cluster = Cluster(classes=(ExecutorClass(count=3, memory=0.25), ExecutorClass(count=1)))
    snapshot = Simulator(cluster).reset(workload, seed=0)
    view, slots = view_of(snapshot, child_words(snapshot.child_offset, snapshot.child, 1))
    assert slots.tolist() == [0]
    first, second = np.zeros(v.STAGE_FIELDS), np.zeros(v.STAGE_FIELDS)
    first[[v.UNSTARTED, v.DEMAND, v.TASK_MS, v.MEMORY, v.FLAGS]] = 6, 6, 10240, 2048, 11
    second[[v.UNSTARTED, v.DEMAND]] = 1, 1
    assert view.stages[0, 0].tolist() == [first.tolist(), second.tolist()]
    assert view.children[0, 0].tolist() == [[0b10], [0]]
    assert view.jobs[0, 0, [v.EXECUTORS, v.SOURCE, v.AGE_S, v.PRESENT]].tolist() == [0, 0, 0, 1]
    assert view.jobs[0, 0, v.TOTAL_WORK_S] == np.float32(6 * 1.023)
    assert view.cluster[0].tolist() == [4, 0, 0, 0, 3, 1, 0.25, 1]


def test_counts_beyond_two_bytes_are_cut_off():
    always = {1: [1]}
    stage = StageRecord(70_000, fresh=always, first_wave=always, later_wave=always)
    workload = batch(build_profile([JobRecord("huge", [stage])]), jobs=1, seed=0)
    snapshot = Simulator(Cluster(executors=2)).reset(workload, seed=0)
    fields = view_of(snapshot, child_words(snapshot.child_offset, snapshot.child, 1)).view.stages[0, 0, 0]
    assert fields[[v.UNSTARTED, v.DEMAND]].tolist() == [v.LARGEST_COUNT] * 2


# --- graphs as bits ---------------------------------------------------------------------------------


def test_child_words_by_hand():
    """0 -> 1, 2 and 1 -> 2: bits 1 and 2 make 6, bit 2 makes 4."""
    words = child_words(np.array([0, 2, 3, 3]), np.array([1, 2, 2]), 1)
    assert words.tolist() == [[6], [4], [0]] and words.dtype == np.uint32


def test_child_words_of_more_than_32_stages():
    """Children 31, 32, 63 and 64 of stage 0: last bit of word 0, both ends of word 1, first bit of word 2."""
    offset = np.concatenate([[0], np.full(65, 4)])
    words = child_words(offset, np.array([31, 32, 63, 64]), words_for(65))
    assert words[0].tolist() == [1 << 31, (1 << 31) | 1, 1]
    assert not words[1:].any()
    assert [words_for(stages) for stages in (1, 32, 33, 64, 65)] == [1, 1, 2, 2, 3]


def long_chain(stages: int) -> Profile:
    always = {1: [100]}
    records = [
        StageRecord(2, parents=[place - 1] if place else [], later_wave=always) for place in range(stages)
    ]
    return build_profile([JobRecord("chain", records), JobRecord("short", records[:1])])


def test_a_job_of_40_stages_is_shown_whole():
    """A chain: the only child of stage i is stage i + 1, across the border between the words."""
    profile = long_chain(40)
    workload = Workload(profile, np.array([1, 0]), np.zeros(2, np.int64), Provenance("by hand"))
    playing = RolloutEnvironment(
        [trace_course(Cluster(executors=2), workload)], Design(hidden=8, embedding=4), size=1, jobs_shown=2
    )
    playing.reset_to([0])
    observation = observe(playing)
    assert_shows(observation, 0, look(playing)[0])
    bits = observation["children"][0, 1].astype(np.uint64)
    assert bits.shape == (40, 2)
    assert [int(low | (high << np.uint64(32))) for low, high in bits] == [
        *(1 << (stage + 1) for stage in range(39)),
        0,
    ]


# --- more jobs than room ----------------------------------------------------------------------------


def work_left_ms(snapshot: Snapshot, slot: int) -> float:
    stages = slice(snapshot.first_stage[slot], snapshot.first_stage[slot] + int(snapshot.stage_count[slot]))
    return float((snapshot.unstarted[stages] * snapshot.task_ms[stages]).sum())


def can_use_executors(snapshot: Snapshot, slot: int) -> bool:
    first = int(snapshot.first_stage[slot])
    return bool(snapshot.schedulable[first : first + int(snapshot.stage_count[slot])].any())


def expected_slots(snapshot: Snapshot, room: int) -> list[int]:
    """The source, then the jobs that can use executors by work left, then the others likewise."""
    jobs = snapshot.jobs.tolist()
    others = sorted(
        (slot for slot in jobs if slot != snapshot.source_job),
        key=lambda slot: (not can_use_executors(snapshot, slot), work_left_ms(snapshot, slot)),
    )
    return ([int(snapshot.source_job)] if snapshot.source_job != NOWHERE else []) + others[
        : room - (snapshot.source_job != NOWHERE)
    ]


@pytest.mark.parametrize("room", [2, 3, 5])
def test_with_more_jobs_than_room_the_source_and_the_smallest_are_shown(room):
    course = course_of(Cluster(executors=8), name="tpch", jobs=11)
    design = design_for(course.cluster)
    parameters, random = new_network(design, 0), np.random.default_rng(room)
    playing = RolloutEnvironment([course], design, size=2, jobs_shown=room)
    playing.reset_to([3, 4])
    crowded = sourced = 0
    for _ in range(80):
        observation = observe(playing)
        for index, snapshot in enumerate(look(playing)):
            active = len(snapshot.jobs)
            assert observation["cluster"][index, v.HIDDEN_JOBS] == max(active - room, 0)
            shown = playing._slots[index].tolist()
            if active <= room:
                assert shown == snapshot.jobs.tolist() + [NOWHERE] * (room - active)
                continue
            crowded += 1
            sourced += snapshot.source_job != NOWHERE
            expected = expected_slots(snapshot, room)
            assert [work_left_ms(snapshot, slot) for slot in shown] == pytest.approx(
                [work_left_ms(snapshot, slot) for slot in expected]
            )
            assert len(set(shown)) == room and (shown[0] == expected[0] or snapshot.source_job == NOWHERE)
            assert_rows_are(observation, index, snapshot, shown)
            assert_shows(observation, index, snapshot, room)  # live as in training
        answers, _, _ = masked_choices(
            parameters, view_in(observation), design, course.cluster.executors, random
        )
        playing.step(answers)
    assert crowded > 50 and sourced > 10


def assert_rows_are(
    observation: dict[str, Any], index: int, snapshot: Snapshot, slots: Sequence[int]
) -> None:
    """The rows of the screen are those that the whole view has for these jobs."""
    bits = child_words(snapshot.child_offset, snapshot.child, words_for(len(snapshot.scratch)))
    whole = view_of(snapshot, bits)
    rows = [whole.slots.tolist().index(slot) for slot in slots]
    stages = whole.view.stages.shape[2]
    np.testing.assert_array_equal(observation["stages"][index][:, :stages], whole.view.stages[0, rows])
    np.testing.assert_allclose(observation["jobs"][index], whole.view.jobs[0, rows], rtol=1e-6)


# --- reading the answer -----------------------------------------------------------------------------


def test_answers_are_read_by_job_stage_and_class():
    """Two jobs of 2 stages, 2 classes: choices 0 to 7 count classes, then stages, then jobs; 8 is idle."""
    always = {1: [100]}
    records = [StageRecord(3, later_wave=always), StageRecord(3, parents=[0], later_wave=always)]
    workload = batch(build_profile([JobRecord("pair", records)]), jobs=2, seed=0)
    cluster = Cluster(classes=(ExecutorClass(count=1, memory=0.5), ExecutorClass(count=1)))
    snapshot = Simulator(cluster).reset(workload, seed=0)
    shown = view_of(snapshot, child_words(snapshot.child_offset, snapshot.child, 1))
    read = [action_of(shown, snapshot, choice, 5) for choice in range(9)]
    assert read[:8] == [Action(number // 2, 5, number % 2) for number in range(8)]
    assert read[8] == Action(NOWHERE, 0, 0)
    # The second row may stand for another slot.
    turned = shown._replace(slots=np.array([1, 0]))
    assert action_of(turned, snapshot, 0, 5) == Action(2, 5, 0)


def test_a_trace_that_begins_late_is_shown_from_its_first_arrival():
    workload = batch(random_profile(1), jobs=3, seed=0)
    late = replace(workload, arrival_ms=workload.arrival_ms + 5000)
    playing = RolloutEnvironment(
        [trace_course(Cluster(executors=3), late)], Design(hidden=8, embedding=4), size=1, jobs_shown=3
    )
    playing.reset_to([0])
    observation = observe(playing)
    assert observation["jobs"][0, :, v.AGE_S].tolist() == [0.0] * 3
