"""Workloads by name: arrivals, loads, filters, the split by time; and tiny cases with known answers."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from trimtab.core.errors import RegistryError, SettingsError, WorkloadError
from trimtab.core.settings import load_settings
from trimtab.gpu_scheduling.workload import Workload, make_workload, save_workload
from trimtab.gpu_scheduling.workload.clusters import find_cluster, usual_load
from trimtab.gpu_scheduling.workload.generated import GeneratedJobs
from trimtab.gpu_scheduling.workload.presets import (
    UNKNOWN,
    WORKLOADS,
    WorkloadSettings,
    described,
    draw_workload,
    filtered,
    find_source,
    mean_gap_ms,
    part_of,
    training_jobs,
    with_unknown_filled,
)
from trimtab.gpu_scheduling.workload.tiny import TINY, tiny_case, tiny_workload

MINUTE_MS = 60_000


def trace_file(folder: Path, jobs: int = 100, **told: object) -> str:
    """Job k comes after k seconds, takes 100 + k seconds, and is called j<k>."""
    places = np.arange(jobs)
    trace = make_workload(
        1000 * places,
        duration_ms=1000 * (100 + places),
        gpus=1 + places % 2,
        ids=[f"j{place}" for place in places],
        **told,
    )
    save_workload(trace, folder / "my.workload")
    return str(folder / "my.workload")


def test_every_name_is_described_and_loads() -> None:
    for name in WORKLOADS:
        assert described(name)
        assert find_source(name) is find_source(name.removeprefix("gpu/"))


def test_a_batch_is_the_same_for_every_policy_and_other_for_every_seed() -> None:
    settings = WorkloadSettings(jobs=30, arrivals="batch")
    first, again, other = (draw_workload(settings, gpus=32, seed=s) for s in (3, 3, 4))
    assert np.array_equal(first.duration_ms, again.duration_ms)
    assert not np.array_equal(first.duration_ms, other.duration_ms)
    assert (first.arrival_ms == 0).all()


def test_load_is_gpu_time_over_capacity() -> None:
    settings = WorkloadSettings(jobs=4000, load=0.5)
    world = GeneratedJobs(find_source("pai").statistics, 0, most_gpus=16, shortest_s=60)
    gap_ms = mean_gap_ms(world, settings, gpus=32)
    assert world.mean_gpu_ms / (gap_ms * 32) == pytest.approx(0.5)
    drawn = draw_workload(settings, gpus=32, seed=1)
    assert np.diff(drawn.arrival_ms).mean() == pytest.approx(gap_ms, rel=0.05)
    assert drawn.gpu_ms.sum() / (drawn.arrival_ms[-1] * 32) == pytest.approx(0.5, rel=0.15)
    # Without a pace: 0.76.
    assert mean_gap_ms(world, WorkloadSettings(), gpus=32) == pytest.approx(gap_ms * 0.5 / 0.76)
    assert mean_gap_ms(world, WorkloadSettings(mean_gap_s=25), gpus=32) == 25_000
    with pytest.raises(WorkloadError, match="a load on 0 GPUs"):
        mean_gap_ms(world, settings, gpus=0)


def test_the_same_jobs_come_to_all_three_sizes() -> None:
    drawn = []
    for name in ("das-small", "das-medium", "das-large"):
        gpus = float(find_cluster(name).machine_table.gpus.sum())
        drawn.append(draw_workload(WorkloadSettings(jobs=50, load=usual_load(name)), gpus=gpus, seed=5))
    for other in drawn[1:]:
        assert np.abs(other.arrival_ms - drawn[0].arrival_ms).max() <= 1
        assert np.array_equal(other.duration_ms, drawn[0].duration_ms)


def test_days_may_be_asked_for() -> None:
    settings = WorkloadSettings(jobs=3000, arrivals="daily", mean_gap_s=60)
    drawn = draw_workload(settings, gpus=1, seed=1)
    assert np.diff(drawn.arrival_ms).mean() == pytest.approx(60_000, rel=0.4)


def test_jobs_are_filtered_and_it_is_noted(tmp_path: Path) -> None:
    jobs = make_workload([0, 0, 0, 0], duration_ms=[59_999, 60_000, 90_000, 90_000], gpus=[1, 16, 17, 2])
    kept = filtered(jobs, most_gpus=16, shortest_s=60)
    assert kept.gpus.tolist() == [16.0, 2.0]
    assert kept.provenance.settings["left_out"] == 2
    assert filtered(jobs) is jobs
    with pytest.raises(WorkloadError, match=r"none of its 4 jobs take at least 1000 s \(.* up to 90 s\)"):
        filtered(jobs, shortest_s=1000)
    large = make_workload([0, 0], duration_ms=90_000, gpus=[32, 64], source="jobs.csv")
    said = r"jobs.csv: none of its 2 jobs have at most 8 GPUs .* \(GPUs from 32 on.* enlarge the cluster"
    with pytest.raises(WorkloadError, match=said):
        filtered(large, most_gpus=8)
    save_workload(jobs, tmp_path / "my.workload")
    settings = WorkloadSettings(name=str(tmp_path / "my.workload"), arrivals="trace")
    assert draw_workload(settings, gpus=4, seed=1).job_count == 2
    every = settings.model_copy(update={"most_gpus": None, "shortest_s": 0.0})
    assert draw_workload(every, gpus=4, seed=1).job_count == 4
    # Those left out are noted; those that are not there at all cannot be asked for.
    asked = settings.model_copy(update={"jobs": 4})
    assert draw_workload(asked, gpus=4, seed=1).provenance.settings["left_out"] == 2
    with pytest.raises(WorkloadError, match=r"^jobs = 5: .*my\.workload has 4; lower jobs, or use"):
        draw_workload(settings.model_copy(update={"jobs": 5}), gpus=4, seed=1)


def test_a_trace_is_split_by_time(tmp_path: Path) -> None:
    """Training episodes come from the first 70 % of the jobs, test episodes from the rest."""
    settings = WorkloadSettings(name=trace_file(tmp_path), jobs=10, arrivals="trace")
    for part, places in (("training", range(61)), ("test", range(70, 91))):
        starts = set()
        for seed in range(40):
            drawn = draw_workload(settings, gpus=5, seed=seed, part=part)
            start = int(drawn.ids[0][1:])
            assert start in places
            assert drawn.ids == tuple(f"j{start + k}" for k in range(10))
            assert drawn.arrival_ms.tolist() == [1000 * k for k in range(10)]
            starts.add(start)
        assert len(starts) > 5
    assert draw_workload(settings, gpus=5, seed=9).ids[0] == "j0"
    with pytest.raises(WorkloadError, match="test part has 30 of 100 jobs, an episode needs 40"):
        draw_workload(settings.model_copy(update={"jobs": 40}), gpus=5, seed=1, part="test")


@pytest.mark.parametrize("part", ["training", "test"])
def test_a_stream_of_a_trace_is_drawn_from_the_part(part: str, tmp_path: Path) -> None:
    settings = WorkloadSettings(name=trace_file(tmp_path), jobs=2000, load=0.8)
    drawn = draw_workload(settings, gpus=10, seed=2, part=part)
    seconds = set((drawn.duration_ms // 1000).tolist())
    assert seconds == (set(range(100, 170)) if part == "training" else set(range(170, 200)))
    # Work of a job, on average over the part, is what arrives in a mean gap at 0.8 of 10 GPUs.
    assert drawn.provenance.settings["mean_gap_ms"] == pytest.approx(
        part_of(find_source(settings.name), part).gpu_ms.mean() / 8
    )
    assert np.diff(drawn.arrival_ms).mean() == pytest.approx(
        drawn.provenance.settings["mean_gap_ms"], rel=0.1
    )
    assert drawn.ids == ()
    batch = draw_workload(WorkloadSettings(name=settings.name, jobs=5, arrivals="batch"), gpus=1, seed=1)
    assert (batch.job_count, batch.arrival_ms.max()) == (5, 0)


def test_training_is_never_empty_or_it_is_said(tmp_path: Path) -> None:
    trace = find_source(trace_file(tmp_path, jobs=1))
    assert isinstance(trace, Workload)
    assert training_jobs(trace) == 0
    with pytest.raises(WorkloadError, match="no job of 1 is for training"):
        part_of(trace, "training")


def test_what_a_history_does_not_tell_is_made_up_and_stays(tmp_path: Path) -> None:
    name = trace_file(tmp_path, settings={UNKNOWN: ["sensitivity", "communication"]})
    settings = WorkloadSettings(name=name, jobs=10, arrivals="trace")
    first = draw_workload(settings, gpus=1, seed=1)
    assert first.sensitivity.min() >= 0.5
    assert first.sensitivity.max() <= 1.5
    assert len(set(first.sensitivity)) > 5
    assert 0 <= first.communication.min() < first.communication.max() <= 0.1
    # The same job has the same numbers in another episode.
    other = next(
        drawn
        for seed in range(200)
        if "j9" in (drawn := draw_workload(settings, gpus=1, seed=seed, part="training")).ids
    )
    assert other.sensitivity[other.ids.index("j9")] == first.sensitivity[9]
    plain = settings.model_copy(update={"sensitivity_spread": 0.0, "communication": 0.0})
    assert set(draw_workload(plain, gpus=1, seed=1).sensitivity) == {1.0}


def test_what_is_told_is_left_alone() -> None:
    jobs = tiny_workload("consolidate")
    assert with_unknown_filled(jobs, sensitivity_spread=0.5, communication=0.1) is jobs


def test_variants() -> None:
    assert find_source("pai:3") is find_source("gpu/pai:3")
    tiny = find_source("tiny:gang")
    assert isinstance(tiny, Workload)
    assert tiny.provenance.source == "tiny gang"
    with pytest.raises(WorkloadError, match="the variant is a seed, such as pai:7"):
        find_source("pai:x")
    with pytest.raises(WorkloadError, match="no tiny workload 'gangs'; did you mean 'gang'"):
        find_source("tiny:gangs")


def test_unknown_names() -> None:
    with pytest.raises(
        RegistryError, match=r"did you mean 'gpu/philly-like'.*or the path of a \.workload file"
    ):
        find_source("philly-lik")
    with pytest.raises(WorkloadError, match="no such file"):
        find_source("missing.workload")
    with pytest.raises(
        WorkloadError, match="has no arrivals of its own; use arrivals = batch, poisson or daily"
    ):
        draw_workload(WorkloadSettings(arrivals="trace"), gpus=2, seed=0)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"load": 0.5, "mean_gap_s": 3.0}, "either mean_gap_s or load"),
        ({"arrivals": "batch", "load": 0.5}, "load belongs to arrivals = poisson or daily, not batch"),
        ({"arrivals": "trace", "mean_gap_s": 5}, "mean_gap_s belongs to arrivals"),
        ({"load": float("nan")}, "load = NaN"),
        ({"jobs": 0}, "jobs = 0"),
        ({"most_gpus": 0}, "most_gpus = 0"),
        ({"shortest_s": -1}, "shortest_s = -1"),
        ({"arrivals": "sometimes"}, "arrivals"),
        ({"job": 3}, "did you mean 'jobs'?"),
    ],
)
def test_bad_settings_name_the_field(flags: dict[str, object], said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(WorkloadSettings, None, flags)
    assert said in str(caught.value)


# --- tiny cases --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TINY)
def test_tiny_cases_are_complete(name: str) -> None:
    case = tiny_case(name)
    assert case.lesson
    settings = WorkloadSettings(name=f"tiny:{name}", arrivals="trace")
    jobs = draw_workload(settings, gpus=1, seed=0)
    assert jobs.job_count == len(case.jobs)
    machines = find_cluster(f"tiny:{name}").machine_table
    assert jobs.gpus.max() <= machines.gpus.sum()


def best_of_all_orders(name: str) -> float:
    """Try every order and machine for jobs that fit on one machine and all come at 0, without disturbance.

    A job starts when its GPUs are free; starting it later would only delay it and those behind.
    """
    case = tiny_case(name)
    machines = case.cluster.machine_table
    best = np.inf
    for order in itertools.permutations(range(len(case.jobs))):
        for places in itertools.product(range(len(machines.gpus)), repeat=len(order)):
            # When each GPU of each machine is free.
            free = [[0.0] * count for count in machines.gpus]
            total = 0.0
            for job, place in zip((case.jobs[k] for k in order), places, strict=True):
                if job.gpus > len(free[place]):
                    break
                free[place].sort()
                end = free[place][job.gpus - 1] + job.minutes / machines.speed[place]
                free[place][: job.gpus] = [end] * job.gpus
                total += end
            else:
                best = min(best, total)
    return best * MINUTE_MS / len(case.jobs)


@pytest.mark.parametrize("name", ["short-first", "gang", "fast-machine", "consolidate", "apart"])
def test_best_answers_by_trying_everything(name: str) -> None:
    assert tiny_case(name).best_mean_jct_ms == pytest.approx(best_of_all_orders(name))


def test_holding_back_pays() -> None:
    """Started at once the long job ends at 10 and the gang at 11: 20 in all; held back: 12 + 1."""
    case = tiny_case("hold")
    held, at_once = (12 + (2 - 1)) / 2, (10 + (11 - 1)) / 2
    assert case.best_mean_jct_ms == min(held, at_once) * MINUTE_MS
