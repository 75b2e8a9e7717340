"""Alibaba's PAI from its raw tables, Philly's JSON, Kubernetes' pods; and the registry of all importers."""

import gzip
import inspect
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from trimtab.core.errors import HistoryError
from trimtab.gpu_scheduling.cluster import Cluster
from trimtab.gpu_scheduling.history import HISTORY
from trimtab.gpu_scheduling.history.alibaba_pai_2020 import import_alibaba_pai_2020, write_pai_machines
from trimtab.gpu_scheduling.history.kubernetes_pods import import_kubernetes_pods, quantity
from trimtab.gpu_scheduling.history.philly_json import import_philly_json
from trimtab.gpu_scheduling.workload.clusters import TRACE_TYPES

# job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type
TASKS = """\
j1,tensorflow,1.0,Terminated,1000.0,1100.0,600.0,29.296875,50.0,MISC
j2,worker,4.0,Failed,1200.0,1500.0,600.0,10.0,200.0,V100
j2,ps,1.0,Terminated,1200.0,1500.0,600.0,10.0,,
j3,worker,2.0,Running,1300.0,,600.0,10.0,100.0,V100
j4,worker,2.0,Terminated,,1350.0,600.0,10.0,100.0,V100
j5,worker,,Terminated,1300.0,1350.0,600.0,10.0,100.0,V100
j6,worker,1.0,Terminated,1400.0,1400.0,600.0,10.0,100.0,T4
j7,evaluator,1.0,Terminated,1400.0,1460.0,600.0,10.0,250.0,T4
"""
# job_name,inst_id,user,status,start_time,end_time
JOBS = """\
j1,i1,ann,Terminated,950.0,1100.0
j2,i2,ann,Terminated,1150.0,1500.0
"""
GROUPS = "i1,ann,,abc12,graphlearn\ni2,ann,,abc12,ctr\n"


def test_tasks_of_untold_status_or_submission(tmp_path: Path) -> None:
    (tmp_path / "pai_task_table.csv").write_text(TASKS.replace("Failed", ""))
    (tmp_path / "pai_job_table.csv").write_text(JOBS.replace("950.0", "").replace("1150.0", "soon"))
    jobs, report = import_alibaba_pai_2020(str(tmp_path / "pai_task_table.csv"))
    assert jobs.arrival_ms.tolist() == [0, 200_000, 400_000]
    assert report.filled["tasks of jobs whose submission is not told: they come when they start"] == 2
    jobs, _ = import_alibaba_pai_2020(str(tmp_path / "pai_task_table.csv"), only_completed=True)
    assert jobs.ids == ("j1/tensorflow", "j7/evaluator")


def test_tasks_alone(tmp_path: Path) -> None:
    (tmp_path / "pai_task_table.csv.gz").write_bytes(gzip.compress(TASKS.encode()))
    jobs, report = import_alibaba_pai_2020(str(tmp_path))
    assert jobs.ids == ("j1/tensorflow", "j2/worker", "j7/evaluator")
    assert jobs.arrival_ms.tolist() == [0, 200_000, 400_000]
    assert jobs.duration_ms.tolist() == [100_000, 300_000, 60_000]
    assert jobs.instances.tolist() == [1, 4, 1]
    # Half a GPU, two GPUs, and two and a half that become three.
    assert jobs.gpu_milli.tolist() == [500, 2000, 3000]
    assert jobs.cpu_milli.tolist() == [6000, 6000, 6000]
    assert jobs.memory_mib.tolist() == [30_000, 10_240, 10_240]
    assert jobs.allowed_types.tolist() == [0, 0, 0]
    assert report.dropped == {
        "task that still runs": 1,
        "task without GPUs": 1,
        "task without a number of instances": 1,
        "task that started or ended outside the trace": 1,
        "job that took no time": 1,
    }
    assert report.filled == {"jobs of one GPU and a part: rounded up to whole GPUs": 1}
    assert any("there is no pai_job_table" in line for line in report.assumptions)


def test_tables_beside_tell_submission_user_and_group(tmp_path: Path) -> None:
    for name, text in (("pai_task_table", TASKS), ("pai_job_table", JOBS), ("pai_group_tag_table", GROUPS)):
        (tmp_path / f"{name}.csv").write_text(text)
    jobs, report = import_alibaba_pai_2020(
        str(tmp_path / "pai_task_table.csv"), only_completed=True, keep_gpu_type=True
    )
    assert jobs.ids == ("j1/tensorflow", "j7/evaluator")
    assert jobs.arrival_ms.tolist() == [0, 450_000]
    assert jobs.type_names == ("MISC", "T4")
    # j6 and j7.
    assert report.filled["tasks of jobs that pai_job_table does not have"] == 2
    assert report.read["rows of pai_job_table"] == 2
    every, _ = import_alibaba_pai_2020(str(tmp_path))
    assert every.user.tolist() == [0, 0, 1]
    # The same tag, but another role.
    assert len(set(every.group.tolist())) == 3


def test_a_task_that_started_before_its_job_was_submitted(tmp_path: Path) -> None:
    (tmp_path / "pai_task_table.csv").write_text(TASKS)
    (tmp_path / "pai_job_table.csv").write_text(JOBS.replace("950.0", "1050.0"))
    jobs, report = import_alibaba_pai_2020(str(tmp_path))
    assert jobs.arrival_ms.tolist() == [0, 150_000, 400_000]
    assert report.filled["jobs submitted after they started: they come when they start"] == 1


def test_of_two_tables_beside_none_is_taken(tmp_path: Path) -> None:
    for name, text in (("pai_task_table", TASKS), ("pai_job_table", JOBS), ("pai_job_table_2", JOBS)):
        (tmp_path / f"{name}.csv").write_text(text)
    with pytest.raises(HistoryError, match=r"2 files in it fit \(pai_job_table.csv, pai_job_table_2.csv\)"):
        import_alibaba_pai_2020(str(tmp_path))


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("j9,worker,1,Terminated,1500,1400,1,1,100,T4", "line 9: the job ends before it starts"),
        ("j1,tensorflow,1,Terminated,1500,1600,1,1,100,T4", "line 9: job 'j1/tensorflow' stands there twice"),
        ("j9,worker,1,Terminated,-5,1600,1,1,100,T4", "line 9: the job arrives at -5.0 s"),
        ("j9,worker,one,Terminated,5,1600,1,1,100,T4", "line 9: inst_num is 'one'"),
        ("j9,worker,1,Terminated,5,1600", "line 9: 6 cells where 10 are expected"),
    ],
)
def test_damaged_tasks(row: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "pai_task_table.csv"
    path.write_text(f"{TASKS}{row}\n")
    with pytest.raises(HistoryError, match=said):
        import_alibaba_pai_2020(str(path))
    jobs, report = import_alibaba_pai_2020(str(path), keep_going=True)
    assert jobs.job_count == 3
    assert sum(report.lost.values()) == 1


def test_other_tables_are_refused(tmp_path: Path) -> None:
    (tmp_path / "pai_task_table.csv").write_text("a,b,c\n")
    with pytest.raises(HistoryError, match="3 columns where 10 are expected"):
        import_alibaba_pai_2020(str(tmp_path))


def test_machines_of_pai(tmp_path: Path) -> None:
    (tmp_path / "pai_machine_spec.csv").write_text("a,CPU,96,512,0\nb,MISC,96,512,8\nc,V100M32,96,384,8\n")
    report = write_pai_machines(str(tmp_path), tmp_path / "out.csv")
    table = Cluster(table=str(tmp_path / "out.csv"), gpu_types=TRACE_TYPES).machine_table
    assert (table.names, table.gpus.sum()) == (("b", "c"), 16)
    assert report.dropped == {"machine without GPUs": 1}


# --- Philly ------------------------------------------------------------------------------------------


def attempt(start: str | None, end: str | None, *gpus: int) -> dict[str, Any]:
    detail = [{"ip": f"m{n}", "gpus": [f"gpu{g}" for g in range(count)]} for n, count in enumerate(gpus)]
    return {"start_time": start, "end_time": end, "detail": detail}


def job(name: str, *attempts: dict[str, Any], status: str = "Pass", **other: Any) -> dict[str, Any]:
    told = {"status": status, "vc": "ee9e8c", "jobid": name, "attempts": list(attempts)}
    return {**told, "submitted_time": "2017-10-07 01:00:00", "user": "ce2f4c", **other}


PHILLY = [
    # Two attempts: 60 s and 120 s; eight GPUs on each of two machines in the larger one.
    job(
        "a",
        attempt("2017-10-07 01:01:00", "2017-10-07 01:02:00", 8),
        attempt("2017-10-07 02:00:00", "2017-10-07 02:02:00", 8, 8),
    ),
    # Uneven: 3 + 1; one attempt without times.
    job(
        "b",
        attempt(None, "2017-10-07 01:02:00", 3, 1),
        attempt("2017-10-07 01:01:00", "2017-10-07 01:01:30", 3, 1),
        status="Failed",
        submitted_time="2017-10-07 00:59:00",
    ),
    job("never"),
    job("running", attempt("2017-10-07 01:01:00", None, 1)),
    job("cpu", attempt("2017-10-07 01:01:00", "2017-10-07 01:01:30")),
]


def logged(folder: Path, jobs: Any, name: str = "cluster_job_log") -> str:
    text = json.dumps(jobs).encode()
    (folder / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return str(folder / name)


def test_philly(tmp_path: Path) -> None:
    jobs, report = import_philly_json(logged(tmp_path, PHILLY, "cluster_job_log.json.gz"))
    assert jobs.ids == ("b", "a")
    assert jobs.arrival_ms.tolist() == [0, 60_000]
    assert jobs.duration_ms.tolist() == [30_000, 180_000]
    assert jobs.instances.tolist() == [4, 2]
    assert jobs.gpu_milli.tolist() == [1000, 8000]
    assert report.dropped == {
        "attempt without times": 1,
        "job that never started": 1,
        "job that still runs": 1,
        "job without GPUs": 1,
    }
    passed, _ = import_philly_json(str(tmp_path), only_completed=True)
    assert passed.ids == ("a",)


def test_philly_submitted_after_it_started(tmp_path: Path) -> None:
    late = [PHILLY[0] | {"submitted_time": "2017-10-07 01:30:00"}, PHILLY[1]]
    jobs, report = import_philly_json(logged(tmp_path, late))
    assert jobs.arrival_ms.tolist() == [0, 120_000]
    assert report.filled == {"jobs submitted after they started: they come when they start": 1}


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ({"jobid": "x"}, "job 6: not a job of the log .*attempts"),
        (
            job("x", attempt("2017-10-07 01:01:00", "2017-10-07 01:00:00", 1)),
            "job 6: .*ends before it starts",
        ),
        (job("x", attempt("soon", "2017-10-07 01:00:00", 1)), "job 6: .*'soon' is no time"),
        (job("x", attempt("2017-10-07 01:01:00", "2017-10-07 01:02:00", 1), submitted_time="None"), "job 6"),
        (PHILLY[0], "line 6: job 'a' stands there twice"),
        (7, "job 6: not a job of the log"),
    ],
)
def test_damaged_jobs_of_philly(broken: Any, said: str, tmp_path: Path) -> None:
    path = logged(tmp_path, [*PHILLY, broken])
    with pytest.raises(HistoryError, match=said) as refusal:
        import_philly_json(path)
    assert "\n" not in str(refusal.value)
    jobs, report = import_philly_json(path, keep_going=True)
    assert jobs.job_count == 2
    assert sum(report.lost.values()) == 1


def test_other_json_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="not a list of jobs"):
        import_philly_json(logged(tmp_path, {"jobs": []}))
    with pytest.raises(HistoryError, match="no usable job"):
        import_philly_json(logged(tmp_path, []))
    (tmp_path / "half").write_text('[{"status":')
    with pytest.raises(HistoryError, match="half: not JSON"):
        import_philly_json(str(tmp_path / "half"))
    packed = gzip.compress(json.dumps(PHILLY * 50).encode())
    (tmp_path / "cut.gz").write_bytes(packed[:-30])
    with pytest.raises(HistoryError, match=r"cut\.gz: not JSON"):
        import_philly_json(str(tmp_path / "cut.gz"))


# --- pods --------------------------------------------------------------------------------------------

PODS = """\
name,namespace,owner,created,started,finished,gpus,cpu,memory,gpu_model,phase
bert-0,team,bert-7,2024-01-01T00:00:00Z,2024-01-01T00:01:00Z,2024-01-01T00:11:00Z,4,8,32Gi,A100|V100,Succeeded
bert-1,team,bert-7,2024-01-01T00:00:01Z,2024-01-01T00:01:10Z,2024-01-01T00:11:10Z,4,8,32Gi,A100|V100,Succeeded
launcher,team,bert-7,2024-01-01T00:00:00Z,2024-01-01T00:00:10Z,2024-01-01T00:12:00Z,0,500m,1Gi,,Succeeded
solo,team,,2024-01-01T00:00:30Z,2024-01-01T00:00:40Z,2024-01-01T00:00:50Z,0.5,500m,512Mi,,Failed
big,other,mixed,2024-01-01T00:00:40Z,2024-01-01T00:00:40Z,2024-01-01T00:01:40Z,2,1,1Gi,,Succeeded
small,other,mixed,2024-01-01T00:00:40Z,2024-01-01T00:00:40Z,2024-01-01T00:01:30Z,1,1,1Gi,,Succeeded
on,other,busy,2024-01-01T00:00:50Z,2024-01-01T00:00:51Z,,1,1,1Gi,,Running
off,other,waiting,2024-01-01T00:00:50Z,,,1,1,1Gi,,Pending
"""


NOON, ONE = "2024-01-01T12:00:00Z", "2024-01-01T13:00:00Z"


def test_pods_of_an_owner_are_a_gang(tmp_path: Path) -> None:
    path = tmp_path / "pods.csv"
    path.write_text(PODS)
    jobs, report = import_kubernetes_pods(str(path))
    assert jobs.ids[0] == "team/bert-7"
    assert jobs.arrival_ms.tolist() == [0, 30_000, 40_000]
    # From the first start to the last end of pods with GPUs.
    assert jobs.duration_ms.tolist() == [610_000, 10_000, 60_000]
    # Two pods of four GPUs; half a GPU; 2 + 1 GPUs.
    assert jobs.instances.tolist() == [2, 1, 3]
    assert jobs.gpu_milli.tolist() == [4000, 500, 1000]
    assert jobs.cpu_milli.tolist() == [8000, 500, 667]
    assert jobs.memory_mib.tolist() == [32_768, 512, 683]
    assert jobs.type_names == ("A100", "V100")
    assert jobs.allowed_types.tolist() == [3, 0, 0]
    assert report.dropped == {
        "pod without GPUs": 1,
        "job with a pod that never started": 1,
        "job with a pod that still runs": 1,
    }
    single, _ = import_kubernetes_pods(str(path), gangs=False, only_completed=True)
    assert single.gpus.tolist() == [4.0, 4.0, 2.0, 1.0]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (
            f"bert-0,team,bert-7,2024-01-01T00:00:00Z,{NOON},{NOON},4,8,32Gi,,",
            "line 10: pod 'bert-0' stands there twice",
        ),
        (f"x,team,,{NOON},{NOON},2024-01-01T11:59:00Z,1,1,1Gi,,", "line 10: pod 'x' ends before it starts"),
        (f"x,team,,{NOON},{NOON},{ONE},one,1,1Gi,,", "line 10: gpus is 'one', which is no quantity"),
        (f"x,team,,{NOON},{NOON},{ONE},1,1,lots,,", "line 10: memory is 'lots'"),
        (f",team,,{NOON},{NOON},{ONE},1,1,1Gi,,", "line 10: a pod without a name"),
        (f"x,team,,,{NOON},{ONE},1,1,1Gi,,", "line 10: no number in arrival_s"),
        (f"x,team,,60,{NOON},{ONE},1,1,1Gi,,", "line 10: created is '60', a number among dates"),
    ],
)
def test_damaged_pods(row: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "pods.csv"
    path.write_text(f"{PODS}{row}\n")
    with pytest.raises(HistoryError, match=said):
        import_kubernetes_pods(str(path))
    jobs, report = import_kubernetes_pods(str(path), keep_going=True)
    assert jobs.job_count == 3
    assert sum(report.lost.values()) == 1


def pods(folder: Path, *rows: str) -> str:
    path = folder / "pods.csv"
    path.write_text("\n".join(["name,namespace,owner,created,started,finished,gpus,gpu_model,phase", *rows]))
    return str(path)


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("1e3", 1000.0),
        ("1.5E9", 1.5e9),
        ("25E-2", 0.25),
        ("2E", 2e18),
        ("1Ei", 2.0**60),
        ("250000000n", 0.25),
        ("250000u", 0.25),
        (".5", 0.5),
        ("2.", 2.0),
        ("+4", 4.0),
        ("1e3m", None),
        ("1e", None),
        ("-1", None),
        (".", None),
        ("1e999", None),
        ("1mi", None),
    ],
)
def test_quantities_as_kubernetes_has_them(cell: str, value: float | None) -> None:
    assert quantity(cell) == (None if value is None else pytest.approx(value))


def test_pods_that_ran_one_after_another_are_jobs(tmp_path: Path) -> None:
    rows = [f"p{n},ns,set,{1000 * n},{1000 * n + 5},{1000 * n + 905},1,," for n in range(10)]
    jobs, report = import_kubernetes_pods(pods(tmp_path, *rows))
    assert jobs.ids[:2] == ("ns/set", "ns/set#2")
    assert (jobs.job_count, set(jobs.gpus.tolist()), set(jobs.duration_ms.tolist())) == (10, {1.0}, {900_000})
    assert jobs.arrival_ms.tolist() == [1_000_000 * n for n in range(10)]
    assert report.filled == {"jobs of an owner whose pods ran one after another: each run is a job": 10}


def test_pods_of_untold_phase_are_not_complete(tmp_path: Path) -> None:
    rows = "a,ns,i,0,5,65,4,,Succeeded", "b,ns,j,0,5,65,4,,"
    jobs, report = import_kubernetes_pods(pods(tmp_path, *rows), only_completed=True)
    assert (jobs.ids, report.dropped) == (("ns/i",), {"job with a pod that did not complete": 1})
    path = tmp_path / "pods.csv"
    path.write_text("name,created,started,finished,gpus\na,0,5,65,4\n")
    with pytest.raises(HistoryError, match="no column 'phase'"):
        import_kubernetes_pods(str(path), only_completed=True)


def test_a_retry_is_a_job_of_its_own(tmp_path: Path) -> None:
    retried = "a,ns,j,0,5,65,4,,Failed", "b,ns,j,70,75,675,4,,Succeeded"
    jobs, _ = import_kubernetes_pods(pods(tmp_path, *retried))
    assert (jobs.gpus.tolist(), jobs.duration_ms.tolist()) == ([4.0, 4.0], [60_000, 600_000])
    jobs, _ = import_kubernetes_pods(pods(tmp_path, *retried), only_completed=True)
    assert (jobs.ids, jobs.gpus.tolist()) == (("ns/j#2",), [4.0])
    # The retry still runs, or waits: what failed before held its GPUs all the same.
    for now in ("b,ns,j,70,75,,4,,Running", "b,ns,j,70,,,4,,Pending"):
        jobs, report = import_kubernetes_pods(pods(tmp_path, retried[0], now))
        assert (jobs.ids, jobs.duration_ms.tolist()) == (("ns/j",), [60_000])
        assert sum(report.dropped.values()) == 1


@pytest.mark.parametrize(
    ("waiting", "kept"),
    [
        ("w,ns,j,0,,,1,,Pending", ["b", "c"]),  # beside the first of three runs
        ("w,ns,j,30,,,1,,Pending", ["b", "c"]),  # created while it ran
        ("w,ns,j,0,,90,1,,Failed", ["b", "c"]),  # given up during the second
        ("w,ns,j,0,,4,1,,Failed", ["a", "b", "c"]),  # before anything ran
        ("w,ns,j,66,,,1,,Pending", ["a", "c"]),  # between two runs
        ("w,ns,j,400,,,1,,Pending", ["a", "b", "c"]),  # after all of them
    ],
)
def test_a_pod_that_never_started_spoils_one_run_at_most(
    tmp_path: Path, waiting: str, kept: list[str]
) -> None:
    rows = ["a,ns,j,1,5,65,1,,", "b,ns,j,70,75,100,1,,", "c,ns,j,200,205,300,1,,"]
    jobs, report = import_kubernetes_pods(pods(tmp_path, waiting, *rows))
    lasted = {"a": 60_000, "b": 25_000, "c": 95_000}
    assert jobs.duration_ms.tolist() == [lasted[name] for name in kept]
    assert report.dropped == {"job with a pod that never started": 1}


def test_a_worker_that_took_over_does_not_count_beside_the_other(tmp_path: Path) -> None:
    rows = ["a,ns,j,0,0,100,2,,", "b,ns,j,0,0,40,2,,Failed", "c,ns,j,41,45,100,2,,", "d,ns,j,0,0,0,2,,Failed"]
    jobs, report = import_kubernetes_pods(pods(tmp_path, *rows))
    assert (jobs.instances.tolist(), jobs.gpu_milli.tolist()) == ([2], [2000])
    assert jobs.duration_ms.tolist() == [100_000]
    told = "jobs with pods that took over from others: as large as when most GPUs were held"
    assert report.filled == {told: 1}


@given(
    spans=st.lists(
        st.tuples(st.integers(0, 20), st.integers(0, 6), st.sampled_from([1, 2, 4])), min_size=1, max_size=8
    )
)
def test_an_owner_is_never_larger_or_busier_than_its_pods(
    spans: list[tuple[int, int, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Counted second by second: the most GPUs held at once, and the seconds with any."""
    held = [sum(g for start, length, g in spans if start <= t < start + length) for t in range(30)]
    assume(any(held))
    rows = [f"p{n},ns,j,0,{start},{start + length},{g},," for n, (start, length, g) in enumerate(spans)]
    jobs, _ = import_kubernetes_pods(pods(tmp_path_factory.mktemp("pods"), *rows))
    assert jobs.gpus.max() == max(held)
    assert jobs.duration_ms.sum() == 1000 * sum(gpus > 0 for gpus in held)


def test_a_gang_whose_pods_ask_for_different_models(tmp_path: Path) -> None:
    rows = ["a,ns,j,0,0,9,4,V100,", "b,ns,j,0,0,9,4,P100|V100,", "c,ns,j,0,0,9,4,,", "d,ns,k,0,0,9,1,V100,"]
    jobs, report = import_kubernetes_pods(pods(tmp_path, *rows))
    assert jobs.type_names == ("P100", "V100")
    assert jobs.allowed_types.tolist() == [3, 2]
    assert report.filled == {"jobs whose pods ask for different GPU models: any of these will do": 1}


def test_a_model_that_is_not_of_the_reference_speed_is_told(tmp_path: Path) -> None:
    rows = ["a,ns,,0,0,60,1,NVIDIA-A100-SXM4-80GB,", "b,ns,,0,0,60,1,V100,", "c,ns,,0,0,60,1,,"]
    _, report = import_kubernetes_pods(pods(tmp_path, *rows))
    (told,) = [line for line in report.assumptions if "times the reference speed" in line]
    assert told.startswith("jobs that ask for A100 run there at 2.2 times the reference speed; if they were")
    assert told.endswith("declare A100 with speed 1 in gpu_types of the cluster")


def test_a_gang_of_different_parts_is_rounded_up_and_told(tmp_path: Path) -> None:
    jobs, report = import_kubernetes_pods(pods(tmp_path, "a,ns,j,0,0,9,1,,", "b,ns,j,0,0,9,0.5,,"))
    assert jobs.gpus.tolist() == [2.0]
    assert report.filled == {"jobs of one GPU and a part: rounded up to whole GPUs": 1}


def test_a_pod_created_after_it_started(tmp_path: Path) -> None:
    jobs, report = import_kubernetes_pods(pods(tmp_path, "a,ns,,100,5,65,1,,", "b,ns,,0,5,65,1,,"))
    assert jobs.arrival_ms.tolist() == [0, 5000]
    assert report.filled == {"jobs submitted after they started: they come when they start": 1}


@pytest.mark.parametrize(("sign", "told"), [(";", "semicolons"), ("\t", "tabs"), ("|", "bars")])
def test_other_separators_are_named(sign: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "pods.csv"
    path.write_text(PODS.replace(",", sign))
    with pytest.raises(HistoryError, match=f"its cells are separated by {told}; save it with commas"):
        import_kubernetes_pods(str(path))


def test_pods_without_needed_columns(tmp_path: Path) -> None:
    (tmp_path / "pods.csv").write_text("name,created,started,gpus\na,1,2,3\n")
    with pytest.raises(HistoryError, match=r"no column 'finished' .*give a CSV with columns"):
        import_kubernetes_pods(str(tmp_path))


# --- all of them -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HISTORY)
def test_every_importer_keeps_the_contract(name: str) -> None:
    importer = HISTORY.load(name)
    path, keep_going, *options = inspect.signature(importer).parameters.values()
    assert path.name == "path"
    assert (keep_going.name, keep_going.default) == ("keep_going", False)
    for option in options:
        assert option.kind is inspect.Parameter.KEYWORD_ONLY
        assert option.default is not inspect.Parameter.empty
    assert importer.__doc__
    with pytest.raises(HistoryError, match="no such file"):
        importer("nowhere/at-all.csv")
