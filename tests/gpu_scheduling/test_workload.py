"""Training jobs as arrays: what they refuse, choose and keep on disk."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trimtab.core.errors import WorkloadError
from trimtab.gpu_scheduling.workload import load_workload, make_workload, save_workload
from trimtab.gpu_scheduling.workload.jobs import Workload


def some(**changes: object) -> Workload:
    told = {"duration_ms": [4000, 2000, 1000], "gpus": [1, 8, 2], "ids": ["a", "b", "c"]}
    return make_workload([0, 500, 900], **{**told, **changes})


def test_gpu_time_is_instances_times_gpus_times_duration() -> None:
    jobs = make_workload([0, 0], duration_ms=[1000, 3000], instances=[2, 1], gpu_milli=[4000, 250])
    assert jobs.gpus.tolist() == [8.0, 0.25]
    assert jobs.gpu_ms.tolist() == [8000.0, 750.0]


def test_jobs_are_sorted_with_all_that_belongs_to_them() -> None:
    jobs = make_workload([9, 1, 5], duration_ms=[90, 10, 50], gpus=[9, 1, 5], ids=["x", "y", "z"])
    assert jobs.arrival_ms.tolist() == [1, 5, 9]
    assert jobs.duration_ms.tolist() == [10, 50, 90]
    assert jobs.gpus.tolist() == [1, 5, 9]
    assert jobs.ids == ("y", "z", "x")


def test_a_span_of_time_is_retimed() -> None:
    part = some().between(400, 1000)
    assert part.ids == ("b", "c")
    assert part.arrival_ms.tolist() == [100, 500]
    assert part.provenance.settings["start_ms"] == 400
    with pytest.raises(WorkloadError, match="no jobs are left of 3"):
        some().between(5000, 6000)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"duration_ms": [0, 1, 1]}, "job a: duration_ms is 0, at least 1 is needed"),
        ({"gpus": [1, 0, 1]}, "job b: instances is 0, at least 1"),
        ({"gpus": None, "gpu_milli": [1, 0, 1]}, "job b: gpu_milli is 0, at least 1"),
        ({"gpus": None, "gpu_milli": [1, 1500, 1]}, "job b: 1500 thousandths of a GPU; above 1000"),
        ({"cpu_milli": -1}, "cpu_milli is -1"),
        ({"sensitivity": [1.0, -0.1, 1.0]}, "job b: sensitivity is -0.1"),
        ({"communication": float("nan")}, "communication is not a number"),
        ({"duration_ms": [1.0, float("nan"), 1.0]}, "NaN where a whole number is needed"),
        ({"kind": 1}, "kind 1 of 1 does not exist"),
        ({"allowed_types": 2, "type_names": ["V100"]}, "a GPU model is allowed that has no name"),
        ({"ids": ["a", "b", "a"]}, "job 'a' stands there twice"),
    ],
)
def test_bad_jobs_are_refused_by_name(changes: dict[str, object], said: str) -> None:
    with pytest.raises(WorkloadError, match=said) as refusal:
        some(**changes)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"gpus": [2, 1.5]}, "job 1: gpus is 1.5"),
        ({"gpus": 0.5}, "job 0: gpus is 0.5"),
        ({"instances": [1.0, 2.5]}, "job 1: instances is 2.5"),
        ({"gpu_milli": [250, 333.3]}, "job 1: gpu_milli is 333.3"),
    ],
)
def test_parts_of_what_is_whole_are_not_cut_off(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(WorkloadError, match=rf"jobs: {said}, and a whole number is needed") as refusal:
        make_workload([0, 1], duration_ms=1000, **asked)
    assert "\n" not in str(refusal.value)
    assert make_workload([0, 1], duration_ms=1000, gpus=[2.0, 1.0]).gpus.tolist() == [2.0, 1.0]


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"duration_ms": [1, 2, 3]}, r"2 jobs but an array of shape \(3,\); give a number for every job"),
        ({"instances": [1, 2, 3]}, r"2 jobs but an array of shape \(3,\)"),
        ({"ids": ["a"]}, "2 jobs but 1 ids"),
        ({"ids": ["a", "b", "c"]}, "2 jobs but 3 ids"),
        ({"kind_speed": [[0.0]]}, "kind_speed has a speed that is not above 0"),
        ({"kind_speed": [[-1.0]]}, "kind_speed has a speed that is not above 0"),
        ({"kind_speed": [[np.inf]]}, "kind_speed has a speed that is not above 0"),
        ({"kind_speed": [[1.0, 2.0]]}, r"kind_speed has the shape \(1, 2\), not \(1, 1\)"),
        ({"kind_speed": [1.0]}, r"kind_speed has the shape \(1,\), not \(1, 1\)"),
    ],
)
def test_what_does_not_go_together_is_refused(told: dict[str, Any], said: str) -> None:
    with pytest.raises(WorkloadError, match=said) as refusal:
        make_workload([0, 1], **{"duration_ms": 1000, "type_names": ["V100"], **told})
    assert "\n" not in str(refusal.value)


def test_jobs_before_the_start_and_no_jobs() -> None:
    with pytest.raises(WorkloadError, match="job 0: arrives at -5 ms, before 0"):
        make_workload([-5], duration_ms=1, gpus=1)
    with pytest.raises(WorkloadError, match="no jobs"):
        make_workload([], duration_ms=[], gpus=[])
    with pytest.raises(WorkloadError, match="job b: arrives before the job ahead of it"):
        some().arriving(np.array([0, -1, 5]))


def test_a_file_keeps_everything(tmp_path: Path) -> None:
    jobs = some(
        allowed_types=[1, 3, 0],
        type_names=["V100", "T4"],
        kind=[0, 1, 0],
        kind_names=["bert", "resnet"],
        kind_speed=[[1.0, 0.4], [1.0, np.nan]],
        communication=[0.1, 0.2, 0.0],
        settings={"unknown": ["sensitivity"]},
    )
    save_workload(jobs, tmp_path / "my.workload")
    again = load_workload(tmp_path / "my.workload")
    for name, value in vars(jobs).items():
        if isinstance(value, np.ndarray):
            assert np.array_equal(getattr(again, name), value, equal_nan=value.dtype.kind == "f"), name
            assert getattr(again, name).dtype == value.dtype
        else:
            assert getattr(again, name) == value


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="no such file"):
        load_workload(tmp_path / "missing.workload")
    path = tmp_path / "bad.workload"
    path.write_bytes(b"something else")
    with pytest.raises(WorkloadError, match="not a workload file"):
        load_workload(path)
    save_workload(some(), path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(WorkloadError, match="not a workload file"):
        load_workload(path)


def test_a_workload_of_another_wing_is_refused(tmp_path: Path) -> None:
    from trimtab.dag_scheduling.workload import save_workload as save_dag_workload
    from trimtab.dag_scheduling.workload.tiny import tiny_workload

    save_dag_workload(tiny_workload("chain"), tmp_path / "dag.workload")
    with pytest.raises(WorkloadError, match="holds a dag workload, where a gpu workload is wanted"):
        load_workload(tmp_path / "dag.workload")
