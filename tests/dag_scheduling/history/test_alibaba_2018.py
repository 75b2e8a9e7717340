"""The Alibaba trace of 2018: names to DAGs, and every reason to leave a job out."""

import gzip
from pathlib import Path

import pytest
from tests.dag_scheduling.history.workload_view import durations_of, names_of, stages_of

from trimtab.core.errors import HistoryError
from trimtab.dag_scheduling.history.alibaba_2018 import import_alibaba_2018
from trimtab.dag_scheduling.workload import LATER_WAVE

# task_name,instance_num,job_name,task_type,status,start_time,end_time,plan_cpu,plan_mem
ORIGINAL = """\
M1,10,j_2,1,Terminated,200,230,100.0,0.5
R2_1,5,j_2,1,Terminated,230,240,100.0,0.25
J3_1_2_Stg4,1,j_2,1,Terminated,240,240,50.0,
task_Nzg3ODAw==,4,j_1,2,Terminated,150,152,100.0,0.1
MergeTask,2,j_1,2,Terminated,160,162,100.0,0.1
M1,3,failed,1,Failed,170,180,100.0,0.1
R2_1,3,missing,1,Terminated,170,180,100.0,0.1
M1,3,negative,1,Terminated,180,170,100.0,0.1
M1,,counted,1,Terminated,180,190,100.0,0.1
M1,3,outside,1,Terminated,0,190,100.0,0.1
M1_2,3,cycle,1,Terminated,180,190,100.0,0.1
R2_1,3,cycle,1,Terminated,180,190,100.0,0.1
M1,3,twice,1,Terminated,180,190,100.0,0.1
R1,3,twice,1,Terminated,180,190,100.0,0.1
M1,3,cut,1,Terminated,180,190,100.0,0.1
J30_1_2_,3,cut,1,Terminated,180,190,100.0,0.1
M1_1,3,itself,1,Terminated,180,190,100.0,0.1
"""


def written(text: str, folder: Path, name: str = "batch_task.csv") -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


@pytest.mark.parametrize("name", ["batch_task.csv", "batch_task.csv.gz"])
def test_the_original_layout(name: str, tmp_path: Path) -> None:
    written(ORIGINAL, tmp_path, name)
    workload, report = import_alibaba_2018(str(tmp_path))
    assert names_of(workload) == ["j_1", "j_2"]
    assert workload.arrival_ms.tolist() == [0, 50_000]
    assert stages_of(workload, 0) == {"task_Nzg3ODAw==": (4, []), "MergeTask": (2, [])}
    assert stages_of(workload, 1) == {
        "M1": (10, []),
        "R2_1": (5, ["M1"]),
        "J3_1_2_Stg4": (1, ["M1", "R2_1"]),
    }
    assert durations_of(workload, "M1", LATER_WAVE, 1) == {1: [30_000]}
    # The clock ticks in seconds: 240 to 240 is half a second.
    assert durations_of(workload, "J3_1_2_Stg4", LATER_WAVE, 1) == {1: [500]}
    template = list(workload.profile.names).index("j_2")
    first = workload.profile.stage_offset[template]
    assert workload.profile.memory[first : first + 3].tolist() == [1.0, 0.5, 0.0]
    assert report.dropped == {
        "job: a task has status Failed": 1,
        "job: a task waits for one that is not in the trace": 1,
        "job: a task ends before it starts": 1,
        "job: a task has no number of instances": 1,
        "job: a task started or ended outside the trace": 1,
        "job: tasks wait for one another": 2,
        "job: two tasks of the same number": 1,
        "job: a task's name is cut off": 1,
    }
    assert report.read["lines"] == 17
    assert any("whole task" in line for line in report.assumptions)


def test_a_header_with_subsets_and_mean_durations(tmp_path: Path) -> None:
    text = (
        "subset,job,task,instances,start_time,end_time,mean_instance_duration,plan_mem\n"
        "a,j_1,M1,2,10,20,7.5,0.2\nb,j_1,M1,3,10,20,,nan\n"
    )
    path = written(text, tmp_path)
    workload, _ = import_alibaba_2018(str(path))
    assert names_of(workload) == ["a-j_1", "b-j_1"]
    assert durations_of(workload, "M1", LATER_WAVE, 0) == {1: [7500]}
    assert durations_of(workload, "M1", LATER_WAVE, 1) == {1: [10_000]}
    only, _ = import_alibaba_2018(str(path), subset="b")
    assert names_of(only) == ["b-j_1"]


def test_where_a_mean_is_missing_the_span_is_filled_in(tmp_path: Path) -> None:
    text = "job,task,instances,start_time,end_time,mean_instance_duration\n"
    rows = ("j_1,M1,2,10,20,7.5", "j_2,M1,3,10,20,NaN", "j_3,M1,3,10,20,-1")
    workload, report = import_alibaba_2018(str(written(text + "\n".join(rows) + "\n", tmp_path)))
    found = [durations_of(workload, "M1", LATER_WAVE, job)[1] for job in range(3)]
    assert found == [[7500], [10_000], [10_000]]
    assert report.filled == {"mean durations of instances, from the spans": 2}


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("quoted", ["rows", "all"])
def test_quotes_and_a_byte_order_mark_are_no_part_of_the_text(mark: str, quoted: str, tmp_path: Path) -> None:
    header = "task,instances,job,start_time,end_time"
    rows = ('"M1",10,"j_1",200,230', '"R2_1",5,"j_1",230,240')
    if quoted == "all":
        header = ",".join(f'"{name}"' for name in header.split(","))
    for name in ("batch_task.csv", "batch_task.csv.gz"):
        path = written(mark + "\n".join((header, *rows)) + "\n", tmp_path, name)
        workload, _ = import_alibaba_2018(str(path))
        assert names_of(workload) == ["j_1"]
        assert stages_of(workload) == {"M1": (10, []), "R2_1": (5, ["M1"])}


def test_impossible_numbers_leave_their_job_out(tmp_path: Path) -> None:
    text = (
        "job,task,instances,start_time,end_time,mean_instance_duration\n"
        "sound,M1,2,10,20,1\nwide,M1,99999999999,10,20,1\nlong,M1,2,10,20,9e9\nms,M1,2,10,9999999999,\n"
    )
    workload, report = import_alibaba_2018(str(written(text, tmp_path)))
    assert names_of(workload) == ["sound"]
    assert report.dropped == {
        "job: a task has more than 10,000,000 instances": 1,
        "job: a task takes more than 24 days": 2,
    }


def test_infinity_is_not_a_number(tmp_path: Path) -> None:
    text = "job,task,instances,start_time,end_time,mean_instance_duration\n"
    path = written(text + "j_1,M1,2,10,20,1\nj_2,M1,2,10,20,inf\n", tmp_path)
    with pytest.raises(HistoryError, match="line 3 holds something other than numbers"):
        import_alibaba_2018(str(path))
    workload, report = import_alibaba_2018(str(path), keep_going=True)
    assert (names_of(workload), report.lost) == (["j_1"], {"lines": 1})


def test_a_subset_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="has no column subset to look for 'a' in"):
        import_alibaba_2018(str(written(ORIGINAL, tmp_path)), subset="a")
    text = "subset,job,task,instances,start_time,end_time\na,j_1,M1,2,10,20\n"
    with pytest.raises(HistoryError, match="no job in subset 'b'; name another"):
        import_alibaba_2018(str(written(text, tmp_path)), subset="b")


def test_the_first_jobs_by_time_can_be_taken(tmp_path: Path) -> None:
    workload, report = import_alibaba_2018(str(written(ORIGINAL, tmp_path)), max_jobs=1)
    assert names_of(workload) == ["j_1"]
    assert report.dropped == {"job beyond max_jobs": 10}


@pytest.mark.parametrize("max_jobs", [0, -1])
def test_fewer_than_one_job_is_refused(max_jobs: int, tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=f"max_jobs = {max_jobs}: at least one"):
        import_alibaba_2018(str(written(ORIGINAL, tmp_path)), max_jobs=max_jobs)


@pytest.mark.parametrize("points", [[], [0, 5]])
def test_impossible_executor_points_are_refused(points: list[int], tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="executor points"):
        import_alibaba_2018(str(written(ORIGINAL, tmp_path)), extrapolate=True, executor_points=points)


def test_extrapolation_starts_at_one_wave(tmp_path: Path) -> None:
    """Ten instances at once are a recording with ten executors; with fewer they are faster."""
    path = written("M1,10,j_1,1,Terminated,100,200,100.0,0.1\n", tmp_path)
    workload, report = import_alibaba_2018(str(path), extrapolate=True, executor_points=(5, 10, 20))
    found = durations_of(workload, "M1", LATER_WAVE)
    assert found[10] == [100_000]
    assert found[5][0] < 100_000 < found[20][0]
    assert any("published" in line for line in report.assumptions)


def test_garbled_numbers_are_named_or_counted(tmp_path: Path) -> None:
    path = written(
        ORIGINAL.replace("R2_1,5,j_2", "R2_1,5,j_2", 1) + "M1,3,j_9,1,Terminated,abc,5,1,1\n",
        tmp_path,
    )
    with pytest.raises(HistoryError, match=r"batch_task.csv: line 18 .*--keep-going"):
        import_alibaba_2018(str(path))
    workload, report = import_alibaba_2018(str(path), keep_going=True)
    assert names_of(workload) == ["j_1", "j_2"]
    assert report.lost == {"lines": 1}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("a,b,c\n", "3 columns, batch_task.csv has 9"),
        ("M1,3,j_1,1,Failed,1,2,1,1\n", r"no usable job in it \(1 x job: a task has status Failed"),
        ("M1,3,j_1,1,Failed,1,2,1,1\nM1,3,j_1,1,Failed,1,2,1,1,9,9,9\n", "not a CSV of tasks"),
    ],
)
def test_other_files_are_refused(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=said) as refusal:
        import_alibaba_2018(str(written(text, tmp_path)))
    assert "\n" not in str(refusal.value)


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="no such file"):
        import_alibaba_2018(str(tmp_path / "nowhere.csv"))
    with pytest.raises(HistoryError, match=r"no batch_task\*\.csv\* in it; name batch_task\.csv"):
        import_alibaba_2018(str(tmp_path))
    (tmp_path / "batch_task.csv.gz").write_bytes(gzip.compress(ORIGINAL.encode())[:30])
    with pytest.raises(HistoryError, match="cannot be read"):
        import_alibaba_2018(str(tmp_path))
    (tmp_path / "batch_task.csv").write_bytes(bytes(range(128, 256)) * 9)
    with pytest.raises(HistoryError, match=r"2 files in it fit \(batch_task.csv, batch_task.csv.gz\)"):
        import_alibaba_2018(str(tmp_path))
    with pytest.raises(HistoryError, match="cannot be read"):
        import_alibaba_2018(str(tmp_path / "batch_task.csv"))


def test_the_sample_of_real_jobs(shared_data: Path) -> None:
    """6,600 random jobs; the source counts 4,931 with fewer than 5 tasks."""
    path = shared_data / "alibaba2018_dags" / "batch_task_dags.csv.gz"
    if not path.exists():
        pytest.skip("the sample of the Alibaba trace is not here")
    workload, report = import_alibaba_2018(str(path), subset="random6600")
    left_out = sum(report.dropped.values())
    assert workload.job_count + left_out == 6600
    assert left_out <= 20
    assert abs((workload.profile.stage_count < 5).sum() - 4931) <= left_out
    assert workload.profile.stage_count.max() == 72
