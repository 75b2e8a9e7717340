"""Recorded wave profiles: cleaning by hand, the published file against its published statistics."""

import gzip
import json
from importlib import resources
from pathlib import Path

import pytest
from tests.dag_scheduling.history.workload_view import stages_of

from trimtab.core.errors import HistoryError, WorkloadError
from trimtab.dag_scheduling.history.wave_profile import import_wave_profile, read_wave_profile
from trimtab.dag_scheduling.workload import build_profile

STAGE = {
    "fresh": {"10": [900, 900], "2": [800]},
    "first_wave": {"10": [900, 900], "2": [800, 300, 300], "40": [800, 70]},
    "rest_wave": {"10": [100], "2": [10, 20]},
}


def profile(**job: object) -> list[dict[str, object]]:
    return [{"query": 5, "size_gb": 10, "edges": [[0, 1]], "stages": [STAGE, STAGE]} | job]


def written(content: object, folder: Path) -> Path:
    path = folder / "profile.json.gz"
    path.write_bytes(gzip.compress(json.dumps(content).encode()))
    return path


def test_fresh_tasks_leave_the_first_wave_and_gaps_are_filled_from_below(tmp_path: Path) -> None:
    (job,) = read_wave_profile(written(profile(), tmp_path))
    stage = job.stages[1]
    assert job.name == "tpch-q5-10g"
    assert stage.parents == [0]
    # The first key in the file is 10: 2 first-wave tasks and 1 later one.
    assert stage.tasks == 3
    assert stage.fresh == {10: [900, 900], 2: [800]}
    assert stage.first_wave == {2: [300, 300], 10: [300, 300], 40: [800, 70]}
    assert stage.later_wave == {10: [100], 2: [10, 20]}


def test_our_own_format_names_jobs_and_tasks(tmp_path: Path) -> None:
    stages = [STAGE | {"tasks": 8, "name": "scan"}, STAGE | {"tasks": 1, "name": "sum"}]
    jobs = profile(name="tpch-q5-0.1g", size_gb=0.1, stages=stages)
    content = {"format": "trimtab-wave-profile", "version": 1, "jobs": jobs}
    workload, report = import_wave_profile(str(written(content, tmp_path)))
    assert stages_of(workload) == {"scan": (8, []), "sum": (1, ["scan"])}
    assert workload.profile.names == ("tpch-q5-0.1g",)
    assert workload.profile.points.tolist() == [2, 5, 10, 20, 40, 50, 60, 80, 100]
    assert any("no arrivals" in line for line in report.assumptions)
    plain, _ = import_wave_profile(str(written(content, tmp_path)), extrapolate=False)
    assert plain.profile.points.tolist() == [2, 10, 40]


def test_work_is_counted_at_recorded_durations(tmp_path: Path) -> None:
    waves = {"fresh": {"2": [300]}, "first_wave": {"2": [300, 100]}, "rest_wave": {}}
    content = profile(edges=[], stages=[waves | {"tasks": 3}])
    workload, _ = import_wave_profile(str(written(content, tmp_path)))
    assert workload.work_ms == 3 * 200


def test_a_recording_of_several_sizes_is_imported_as_it_was_written() -> None:
    recorded = resources.files("trimtab.dag_scheduling") / "data" / "tpch_recorded.json.gz"
    workload, _ = import_wave_profile(str(recorded))
    assert workload.job_count == 2 * 22
    assert workload.profile.names[:3] == ("q1-0.1g", "q1-0.4g", "q2-0.1g")
    assert import_wave_profile(str(recorded), sizes_gb=[0.4])[0].profile.names[:2] == ("q1", "q2")


def test_jobs_of_one_name_and_size_are_refused(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="'tpch-q5-10g' appears twice"):
        import_wave_profile(str(written(profile() + profile(), tmp_path)))


def test_no_executor_points_are_refused(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="executor points"):
        import_wave_profile(str(written(profile(), tmp_path)), executor_points=[])


def test_sizes_can_be_chosen(tmp_path: Path) -> None:
    path = written(profile() + profile(size_gb=2), tmp_path)
    assert [job.name for job in read_wave_profile(path, sizes_gb=[2])] == ["tpch-q5-2g"]
    with pytest.raises(HistoryError, match="no job of size 3 GB or 4 GB"):
        read_wave_profile(path, sizes_gb=[3, 4])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"format": "other"}, "format 'other'"),
        ({"format": "trimtab-wave-profile", "version": 2}, "version 2"),
        ({"format": "trimtab-wave-profile", "version": 1}, "a list of jobs"),
        (3, "a list of jobs"),
        ([], "no job"),
        ([{"query": 1}], "job 0 cannot be used"),
        (profile(edges=[[0, 7]]), "job 0 cannot be used"),
        (profile(edges=[[-1, 0]]), "edge from -1"),
        (profile(stages=[STAGE | {"fresh": {"2": [0.1]}}, STAGE]), "0.1 ms, where a whole number"),
        (profile(stages=[STAGE | {"fresh": {"2": ["80"]}}, STAGE]), "'80' ms, where a whole number"),
        (profile(stages=[STAGE | {"tasks": 4.5}, STAGE]), "4.5 tasks, where a whole number"),
        (profile(stages=[STAGE | {"tasks": True}, STAGE]), "True tasks, where a whole number"),
        (profile(stages=[STAGE | {"frsh": {"2": [80]}}, STAGE]), "unknown field 'frsh'; there are fresh"),
        (profile(edgse=[]), "unknown field 'edgse'; there are name"),
    ],
)
def test_other_content_is_refused(content: object, said: str, tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=said):
        read_wave_profile(written(content, tmp_path))


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="No such file"):
        read_wave_profile(tmp_path / "nowhere.json")
    for content in (b"\x00\x01", b"[{", gzip.compress(b"[]")[:-3]):
        (tmp_path / "bad.json").write_bytes(content)
        with pytest.raises(HistoryError, match="not a JSON profile"):
            read_wave_profile(tmp_path / "bad.json")


def test_a_damaged_job_is_left_out_when_asked(tmp_path: Path) -> None:
    path = written([{"query": 1}, *profile()], tmp_path)
    workload, report = import_wave_profile(str(path), keep_going=True)
    assert workload.job_count == 1
    assert report.lost == {"jobs": 1}


@pytest.mark.parametrize(
    ("job", "said"),
    [
        ({"edges": [[0, 1], [1, 0]]}, "has a cycle"),
        ({"stages": [STAGE | {"rest_wave": {"10": [-5]}}], "edges": []}, "a task of -5 ms"),
        ({"stages": [{"fresh": {}, "first_wave": {}, "rest_wave": {}}], "edges": []}, "0 tasks"),
    ],
)
def test_impossible_jobs_are_refused_or_left_out(job: dict[str, object], said: str, tmp_path: Path) -> None:
    path = written(profile(size_gb=2) + profile(**job), tmp_path)
    with pytest.raises(HistoryError, match=rf"profile.json.gz: .*{said}.*--keep-going"):
        import_wave_profile(str(path))
    workload, report = import_wave_profile(str(path), keep_going=True)
    assert workload.profile.names == ("tpch-q5-2g",)
    assert report.lost == {"jobs": 1}


def test_the_published_profiles_have_their_published_statistics(shared_data: Path) -> None:
    """Stages and tasks per job as counted independently from the original files."""
    path = shared_data / "tpch_spark_profile" / "profiles.json.gz"
    if not path.exists():
        pytest.skip("the published profiles are not here")
    jobs = read_wave_profile(path)
    for size, tasks in {2: (13, 912, 1844), 10: (59, 963, 1992), 100: (594, 1575, 3717)}.items():
        counted = build_profile([job for job in jobs if job.name.endswith(f"-{size}g")])
        assert len(counted.names) == 22
        assert round(counted.stage_count.mean(), 1) == 9.2
        assert (counted.stage_count.min(), counted.stage_count.max()) == (2, 18)
        found = counted.task_count
        assert (found.min(), round(found.mean()), found.max()) == tasks
    names = [job.name for job in jobs]
    assert (names[0], names[22], names[26], len(names)) == (
        *("tpch-q1-2g", "tpch-q1-5g", "tpch-q5-5g"),
        154,
    )
