"""What the network agents see: hand-computed facts, the window, padding, and the same when compiled."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.gpu_scheduling.snapshots import HOUR, MINUTE, Scene

from trimtab.core.errors import SettingsError
from trimtab.gpu_scheduling.das import stepping
from trimtab.gpu_scheduling.das.design import Design
from trimtab.gpu_scheduling.das.experience import gathered
from trimtab.gpu_scheduling.das.view import (
    JOB_FACTS,
    MACHINE_FACTS,
    PAIR_FACTS,
    empty_view,
    experience_row,
    look,
    window_of,
)
from trimtab.gpu_scheduling.problem import NOWHERE, gang_fits
from trimtab.gpu_scheduling.simulator import events, looking, replay
from trimtab.gpu_scheduling.simulator.by_address import WITHOUT_COMPILER
from trimtab.gpu_scheduling.simulator.state import NEVER, SEED, TIME_LIMIT, new_state
from trimtab.gpu_scheduling.simulator.tables import make_tables
from trimtab.gpu_scheduling.workload import make_workload
from trimtab.gpu_scheduling.workload.clusters import find_cluster
from trimtab.gpu_scheduling.workload.presets import WorkloadSettings, draw_workload, past_jobs

SMALL = Design(window=8)


def test_there_are_as_many_names_as_the_networks_are_made_for() -> None:
    assert (len(JOB_FACTS), len(MACHINE_FACTS), len(PAIR_FACTS)) == (16, 12, 4)
    assert len(set(JOB_FACTS)) == 16
    assert len(set(MACHINE_FACTS)) == 12


def test_facts_by_hand() -> None:
    scene = Scene([4, 8], speeds=[1.0, 0.5], contention=0.15, now_ms=2 * HOUR, cpus=10)
    waits = scene.waits(
        instances=2,
        gpu_milli=3000,
        arrival_ms=HOUR,
        cpu_milli=5000,
        sensitivity=1200,
        communication=0.1,
        expected_ms=30 * MINUTE,
    )
    scene.runs({1: 2}, cpu_milli=1000, sensitivity=800)
    scene.observed[:] = [0.0, 5.0]
    scene.observed_speed[:] = [1.0, 0.9]
    view, slots = empty_view(SMALL, 1, 2), np.zeros(8, np.int64)

    assert look(scene.snapshot(), view, 0, slots) == 1

    assert slots.tolist() == [waits] + [NOWHERE] * 7
    facts = dict(zip(JOB_FACTS, view.jobs[0, 0].tolist(), strict=True))
    # 5 CPUs of 20 are a quarter, 3 GPUs of 12 are as well: a share of 1, halved.
    wanted = {
        "GPUs": math.log2(7) / 5,
        "GPUs per instance": 0.5,
        "needs several machines": 0.0,
        "CPU per GPU": 0.5,
        "memory per GPU": 0.0,
        "age": math.log1p(3600) / 14,
        "rank of arrival": 0.0,
        "service attained": 0.0,
        "was preempted": 0.0,
        "sensitivity": 0.6,
        "communication": 0.5,
        "machines allowed": 1.0,
        "expected duration": math.log1p(1800) / 14,
        "duration known": 1.0,
        "GPUs free": 10 / 12,
        "jobs waiting": math.log1p(1) / 5,
    }
    assert facts == pytest.approx(wanted, abs=1e-6)
    facts = dict(zip(MACHINE_FACTS, view.machines[0, 1].tolist(), strict=True))
    wanted = {
        "free GPUs": 0.75,
        "share free": 0.75,
        "wholly empty": 0.0,
        "speed": 0.5,
        "price": math.log1p(1) / 2,
        "free CPU": 0.8,
        "free memory": 1.0,
        "jobs there": 1 / 8,
        "load": 0.8 * 2 / 8,
        "observed speed": 0.9,
        "observations": 0.5,
        "GPUs": 1.0,
    }
    assert facts == pytest.approx(wanted, abs=1e-6)
    # One instance fits on the first, and leaves a GPU; CPUs leave room for one on the second.
    assert view.pairs[0, 0, 0] == pytest.approx([0.5, 0.0, 0.0, 0.0])
    assert view.pairs[0, 0, 1] == pytest.approx([0.5, math.log(0.5), 0.15 * 1.2 * 0.2, 0.0])
    assert view.fits[0].tolist() == [True] + [False] * 7
    assert view.seen[0].tolist() == [0, 5]
    assert view.speed[0].tolist() == pytest.approx([1, 0.9])
    assert view.may_hold[0]


def test_a_job_of_unknown_duration_says_so_and_one_that_fills_a_machine_too() -> None:
    scene = Scene([4, 4])
    scene.waits(gpus=4)
    scene.runs({0: 1})
    view, slots = empty_view(SMALL, 1, 2), np.zeros(8, np.int64)
    look(scene.snapshot(), view, 0, slots)
    assert view.jobs[0, 0, JOB_FACTS.index("duration known")] == 0
    assert view.jobs[0, 0, JOB_FACTS.index("expected duration")] == 0
    # Three of four fit on the first, and fill it; all fit on the second, and fill it as well.
    assert view.pairs[0, 0, :, 0].tolist() == [0.75, 1.0]
    assert view.pairs[0, 0, :, 3].tolist() == [1.0, 1.0]


def test_experience_says_what_to_expect_of_a_job_whose_duration_nobody_tells() -> None:
    """Of one like those that took 100 s; where a duration was told, that counts."""
    past = make_workload(np.arange(400), duration_ms=100_000, gpus=1)
    known = gathered([past])
    scene = Scene([4])
    scene.waits(gpus=1)
    scene.waits(gpus=1, expected_ms=HOUR)
    expected, told = JOB_FACTS.index("expected duration"), JOB_FACTS.index("duration known")
    for design, facts in (
        (Design(window=8, experienced=True), [math.log1p(100) / 14, math.log1p(3600) / 14]),
        (SMALL, [0.0, math.log1p(3600) / 14]),
    ):
        view, slots = empty_view(design, 1, 1), np.zeros(8, np.int64)
        look(scene.snapshot(), view, 0, slots, experience_row(known, design))
        assert view.jobs[0, :2, expected] == pytest.approx(facts, abs=1e-6)
        assert view.jobs[0, :2, told].tolist() == [0.0, 1.0]
    with pytest.raises(SettingsError, match="there is no experience; gather one"):
        experience_row(None, Design(experienced=True))


def test_of_many_jobs_the_oldest_and_the_newest_are_seen() -> None:
    scene = Scene([4])
    for place in range(20):
        scene.waits(gpus=1, arrival_ms=place)
    slots = np.zeros(8, np.int64)
    assert window_of(scene.snapshot(), slots) == 8
    assert slots.tolist() == [0, 1, 2, 3, 4, 5, 18, 19]
    view = empty_view(SMALL, 1, 1)
    look(scene.snapshot(), view, 0, slots)
    ranks = view.jobs[0, :, JOB_FACTS.index("rank of arrival")]
    assert ranks == pytest.approx(np.array([0, 1, 2, 3, 4, 5, 18, 19]) / 20)


def test_what_is_not_there_is_nothing_whatever_was_there_before() -> None:
    scene = Scene([4])
    scene.waits(gpus=1)
    view, slots = empty_view(SMALL, 2, 3), np.zeros(8, np.int64)
    for field in view:
        field[:] = 1
    look(scene.snapshot(), view, 1, slots)
    assert view.real[1].tolist() == [True, False, False]
    assert view.waits[1].tolist() == [True] + [False] * 7
    for padded in (view.jobs[1, 1:], view.machines[1, 1:], view.pairs[1, 1:], view.pairs[1, :, 1:]):
        assert not padded.any()
    for padded in (view.fits[1, 1:], view.seen[1, 1:], view.speed[1, 1:]):
        assert not padded.any()
    assert view.jobs[0].all()


@pytest.mark.parametrize("experienced", [False, True])
def test_compiled_or_not_the_same_is_seen(experienced: bool) -> None:
    """Along an episode in which the oldest job that fits always goes first."""
    known = experience_row(gathered([past_jobs(WorkloadSettings())]), Design(experienced=experienced))
    cluster = find_cluster("das-small")
    tables = make_tables(draw_workload(WorkloadSettings(jobs=60, load=1.5), gpus=32, seed=3), cluster)
    state = new_state(tables, slots=64)
    state.scalar[SEED], state.scalar[TIME_LIMIT] = 3, NEVER
    row = replay.row_of(state, tables)
    rows = [row] if WITHOUT_COMPILER else np.array([row])
    playing = stepping.Playing(
        status=np.zeros(1, np.int64),
        seen=empty_view(SMALL, 1, 9),
        slots=np.zeros((1, 8), np.int64),
        outcomes=stepping.new_outcomes(1),
        experience=known,
    )
    again, own_slots = empty_view(SMALL, 1, 9), np.zeros(8, np.int64)
    choices = np.array([[0, *range(9)]])
    replay.ask_engine(rows[0], replay.BEGIN, 0, 0, np.zeros(0, np.int64), 0)
    stepping.go_on(rows[0], playing, 0)
    looked = crowded = 0
    while playing.status[0] == events.DECIDE:
        snapshot = looking.look(state, tables)
        count = look(snapshot, again, 0, own_slots, known)
        assert own_slots.tolist() == playing.slots[0].tolist()
        for compiled, plain in zip(playing.seen, again, strict=True):
            np.testing.assert_allclose(compiled, plain, rtol=1e-6, atol=1e-7)
        assert again.fits[0, :count].tolist() == [gang_fits(snapshot, job) for job in own_slots[:count]]
        looked, crowded = looked + 1, crowded + (len(snapshot.pending) > 8)
        choices[0, 0] = int(again.fits[0].argmax())
        stepping.step_choices(rows, playing, choices, 0, 1)
    assert playing.status[0] == events.FINISHED
    assert looked == 60
    assert again.jobs[0, 0, JOB_FACTS.index("expected duration")] > 0 or not experienced
    assert crowded > 0
