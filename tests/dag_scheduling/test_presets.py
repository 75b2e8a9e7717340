from pathlib import Path

import numpy as np
import pytest

from trimtab.core.errors import RegistryError, SettingsError, WorkloadError
from trimtab.core.settings import load_settings
from trimtab.dag_scheduling.workload import Profile, Workload, save_workload
from trimtab.dag_scheduling.workload.presets import (
    WORKLOADS,
    WorkloadSettings,
    described,
    draw_workload,
    find_source,
    mean_gap_ms,
    with_random_memory,
)
from trimtab.dag_scheduling.workload.tiny import tiny_workload


def stream(jobs: int = 400, **pace: float) -> WorkloadSettings:
    return load_settings(
        WorkloadSettings, None, {"name": "synthetic", "jobs": jobs, "arrivals": "poisson", **pace}
    )


def test_every_name_is_described() -> None:
    for name in WORKLOADS:
        assert described(name)


def test_a_batch_is_the_same_for_every_policy_and_other_for_every_seed() -> None:
    settings = WorkloadSettings(name="synthetic", jobs=30)
    first, again, other = (draw_workload(settings, executors=50, seed=s) for s in (3, 3, 4))
    assert np.array_equal(first.template, again.template)
    assert not np.array_equal(first.template, other.template)
    assert first.profile is other.profile
    assert (first.arrival_ms == 0).all()


def test_load_is_work_over_capacity() -> None:
    profile = find_source("synthetic")
    assert isinstance(profile, Profile)
    gap_ms = mean_gap_ms(profile, stream(load=0.8), executors=50)
    assert profile.work_ms.mean() / (gap_ms * 50) == pytest.approx(0.8)
    drawn = draw_workload(stream(jobs=4000, load=0.8), executors=50, seed=1)
    assert np.diff(drawn.arrival_ms).mean() == pytest.approx(gap_ms, rel=0.05)


def test_a_gap_may_be_given_in_seconds() -> None:
    profile = find_source("synthetic")
    assert isinstance(profile, Profile)
    assert mean_gap_ms(profile, stream(mean_gap_s=25), executors=50) == 25_000
    bare = stream(load=0.5).model_copy(update={"load": None})
    with pytest.raises(WorkloadError, match="needs mean_gap_s or load"):
        mean_gap_ms(profile, bare, executors=50)


def test_a_file_brings_its_own_arrivals(tmp_path: Path) -> None:
    path = tmp_path / "mine.workload"
    save_workload(tiny_workload("late-small"), path)
    trace = WorkloadSettings(name=str(path), arrivals="trace")
    drawn = draw_workload(trace, executors=2, seed=5)
    assert drawn.arrival_ms.tolist() == [0, 3000]
    first = draw_workload(trace.model_copy(update={"jobs": 1}), executors=2, seed=5)
    assert first.job_count == 1
    with pytest.raises(WorkloadError, match=r"^jobs = 3: .*mine\.workload has 2; lower jobs, or use"):
        draw_workload(trace.model_copy(update={"jobs": 3}), executors=2, seed=5)
    batch = draw_workload(WorkloadSettings(name=str(path), jobs=7), executors=2, seed=5)
    assert (batch.job_count, batch.arrival_ms.max()) == (7, 0)


def test_random_memory_reaches_every_stage() -> None:
    settings = WorkloadSettings(name="synthetic", random_memory=True)
    memory = draw_workload(settings, executors=8, seed=0).profile.memory
    assert memory.min() > 0
    assert memory.max() <= 1
    assert memory.mean() == pytest.approx(0.5, abs=0.03)
    profile = tiny_workload("chain").profile
    assert np.array_equal(with_random_memory(profile, 1).memory, with_random_memory(profile, 1).memory)
    tiny = draw_workload(
        WorkloadSettings(name="tiny:chain", arrivals="trace", random_memory=True), executors=2, seed=0
    )
    assert (tiny.profile.memory > 0).all()


def test_variants() -> None:
    assert find_source("synthetic:3") is find_source("dag/synthetic:3")
    tiny = find_source("tiny:chain")
    assert isinstance(tiny, Workload)
    assert tiny.provenance.source == "tiny chain"
    with pytest.raises(WorkloadError, match="the variant is a seed"):
        find_source("synthetic:x")
    with pytest.raises(WorkloadError, match="the variant is a seed"):
        find_source("synthetic:²")
    with pytest.raises(WorkloadError, match="'tpch' has no variants"):
        find_source("tpch:x")


def test_unknown_names() -> None:
    with pytest.raises(RegistryError, match="did you mean 'dag/synthetic'"):
        find_source("synthetik")
    with pytest.raises(WorkloadError, match="no such file"):
        find_source("missing.workload")
    with pytest.raises(WorkloadError, match="has no arrivals of its own"):
        draw_workload(WorkloadSettings(name="synthetic", arrivals="trace"), executors=2, seed=0)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"arrivals": "poisson"}, "needs either mean_gap_s or load"),
        ({"arrivals": "poisson", "load": 0.5, "mean_gap_s": 3.0}, "needs either"),
        ({"load": 0.5}, "load belongs to arrivals = poisson, not batch"),
        ({"arrivals": "poisson", "load": float("nan")}, "load = NaN"),
        ({"jobs": 0}, "jobs = 0"),
        ({"arrivals": "sometimes"}, "arrivals"),
        ({"job": 3}, "did you mean 'jobs'?"),
    ],
)
def test_bad_settings_name_the_field(flags: dict[str, object], said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(WorkloadSettings, None, flags)
    assert said in str(caught.value)


def test_a_trace_is_split_by_time(tmp_path):
    """Training episodes come from the first 70 % of the jobs, test episodes from the rest."""
    from trimtab.dag_scheduling.workload import poisson, save_workload
    from trimtab.dag_scheduling.workload.synthetic import synthetic_profile

    trace = poisson(synthetic_profile(0), jobs=100, mean_gap_ms=1000.0, seed=3)
    path = tmp_path / "my.workload"
    save_workload(trace, path)
    settings = WorkloadSettings(name=str(path), jobs=10, arrivals="trace")
    rows = [trace.template[start : start + 10].tolist() for start in range(91)]
    for part, places in (("training", range(61)), ("test", range(70, 91))):
        starts = set()
        for seed in range(40):
            drawn = draw_workload(settings, executors=5, seed=seed, part=part)
            start = rows.index(drawn.template.tolist())
            assert start in places
            assert drawn.arrival_ms[0] == 0
            starts.add(start)
        assert len(starts) > 5
    first = draw_workload(settings, executors=5, seed=9)
    assert first.template.tolist() == rows[0]
    with pytest.raises(WorkloadError, match="test part has 30 of 100 jobs, an episode needs 40"):
        draw_workload(settings.model_copy(update={"jobs": 40}), executors=5, seed=1, part="test")
