"""Plain CSV, Helios, the Standard Workload Format and openb: numbers by hand, and every fault."""

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from trimtab.core.errors import HistoryError
from trimtab.gpu_scheduling.cluster import Cluster
from trimtab.gpu_scheduling.history.gpu_jobs_csv import import_gpu_jobs_csv
from trimtab.gpu_scheduling.history.helios_cluster_log import import_helios_cluster_log
from trimtab.gpu_scheduling.history.openb_2023 import import_openb_2023, write_openb_machines
from trimtab.gpu_scheduling.history.standard_workload_format import import_standard_workload_format
from trimtab.gpu_scheduling.workload import load_workload, save_workload
from trimtab.gpu_scheduling.workload.clusters import TRACE_TYPES

JOBS = "id,arrival_s,duration_s,gpus,user,task\na,100,60,1,ann,worker\nb,90,30.5,8,bob,worker2\n"


def written(folder: Path, text: str, name: str = "jobs.csv") -> str:
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return str(path)


def test_a_plain_csv(tmp_path: Path) -> None:
    jobs, report = import_gpu_jobs_csv(written(tmp_path, JOBS, "jobs.csv.gz"))
    assert jobs.ids == ("b", "a")
    assert jobs.arrival_ms.tolist() == [0, 10_000]
    assert jobs.duration_ms.tolist() == [30_500, 60_000]
    # A number of GPUs alone: instances of one GPU.
    assert (jobs.instances.tolist(), jobs.gpu_milli.tolist()) == ([8, 1], [1000, 1000])
    assert report.read == {"rows": 2, "jobs": 2}


def test_other_names_dates_nodes_and_parts(tmp_path: Path) -> None:
    text = (
        "timestamp,service_sec,NUM_GPUS,node_num,gpu_type\n"
        "2017-10-09 07:01:55,66.0,16,2,tesla-v100\n"
        "2017-10-09 07:01:50,10,0.25,,\n\n"
        "2017-10-09 07:01:53,10,2.5,1,rtx3090|P100\n"
    )
    jobs, report = import_gpu_jobs_csv(written(tmp_path, text))
    assert jobs.arrival_ms.tolist() == [0, 3000, 5000]
    # A quarter; 2.5 GPUs are rounded up to three; 8 on each of two nodes.
    assert jobs.instances.tolist() == [1, 3, 2]
    assert jobs.gpu_milli.tolist() == [250, 1000, 8000]
    assert jobs.type_names == ("P100", "RTX3090", "V100")
    assert jobs.allowed_types.tolist() == [0, 0b011, 0b100]
    assert any("'RTX3090' has no known speed; declare it in gpu_types" in line for line in report.assumptions)
    assert report.filled["jobs of one GPU and a part: rounded up to whole GPUs"] == 1


def test_a_part_above_one_gpu_is_rounded_up_and_told(tmp_path: Path) -> None:
    jobs, report = import_gpu_jobs_csv(written(tmp_path, "arrival_s,duration_s,gpus\n0,9,1.5\n0,9,0.5\n"))
    assert jobs.gpus.tolist() == [2.0, 0.5]
    assert report.filled == {"jobs of one GPU and a part: rounded up to whole GPUs": 1}


def test_a_quoted_cell_may_hold_commas(tmp_path: Path) -> None:
    jobs, _ = import_gpu_jobs_csv(written(tmp_path, 'name,arrival_s,duration_s,gpus\n"bert, large",0,9,1\n'))
    assert jobs.job_count == 1


def test_a_column_that_stands_there_twice(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="two columns are called 'gpus' in its first line; rename or"):
        import_gpu_jobs_csv(written(tmp_path, "arrival_s,duration_s,gpus,GPUs\n0,60,1,2\n"))


def test_names_of_files_in_a_folder_may_be_capitals(tmp_path: Path) -> None:
    (tmp_path / "JOBS.CSV").write_text("arrival_s,duration_s,gpus\n0,60,1\n")
    jobs, _ = import_gpu_jobs_csv(str(tmp_path))
    assert jobs.job_count == 1


def test_a_column_of_another_name(tmp_path: Path) -> None:
    text = "came,ran,width\n5,7,2\n"
    jobs, _ = import_gpu_jobs_csv(
        written(tmp_path, text), arrival_column="came", duration_column="ran", gpus_column="width"
    )
    assert (jobs.duration_ms.tolist(), jobs.gpus.tolist()) == ([7000], [2.0])
    with pytest.raises(HistoryError, match=r"no column for gpus \(wide\); it has came, ran, width"):
        import_gpu_jobs_csv(
            written(tmp_path, text), arrival_column="came", duration_column="ran", gpus_column="wide"
        )


def test_a_workload_comes_back_from_its_file(tmp_path: Path) -> None:
    jobs, _ = import_gpu_jobs_csv(written(tmp_path, JOBS))
    save_workload(jobs, tmp_path / "my.workload")
    again = load_workload(tmp_path / "my.workload")
    assert again.ids == jobs.ids
    assert again.gpu_ms.tolist() == jobs.gpu_ms.tolist()
    assert again.provenance == jobs.provenance


@pytest.mark.parametrize(
    ("row", "said", "lost"),
    [
        (
            "c,5,-3,1,ann,x",
            r"line 4: .* ends before it starts \(it takes -3.0 s\)",
            "jobs that end before they start",
        ),
        (
            "c,-5,3,1,ann,x",
            "line 4: .* arrives at -5.0 s, before the start",
            "jobs that arrive before the start",
        ),
        ("a,5,3,1,ann,x", "line 4: job 'a' stands there twice", "jobs with the id of another"),
        ("c,5,nan,1,ann,x", "line 4: no number in duration_s", "jobs with unknown numbers"),
        ("c,5,3,,ann,x", "line 4: no number in gpus", "jobs with unknown numbers"),
        ("c,5,3,-2,ann,x", "line 4: -2.0 GPUs", "jobs with a negative number of GPUs"),
        (
            "c,5,3,1e18,ann,x",
            r"line 4: gpus is 1e\+18, more than any cluster has",
            "jobs larger than any cluster",
        ),
        ("c,2024-05-01,3,1,ann,x", "line 4: arrival_s is '2024-05-01', a date among numbers", "rows"),
        ("c,5,three,1,ann,x", "line 4: duration_s is 'three', which is no number", "rows"),
        ("c,5,3,1,ann", "line 4: 5 cells where 6 are expected", "rows"),
        ('c,5,3,1,"ann,x"', "line 4: 5 cells where 6 are expected", "rows"),
        (
            "c,1714550000000,3,1,ann,x",
            "line 4: .* arrives at 1714550000000.0 s, after the year 3000; times are in seconds",
            "jobs that arrive after the year 3000",
        ),
        (
            "c,5,600000000,1,ann,x",
            "line 4: a job of 600000000.0 s; durations are in seconds",
            "jobs of more than ten years",
        ),
    ],
)
def test_damaged_rows_are_named_or_counted(row: str, said: str, lost: str, tmp_path: Path) -> None:
    path = written(tmp_path, f"{JOBS}{row}\n")
    with pytest.raises(HistoryError, match=said) as refusal:
        import_gpu_jobs_csv(path)
    assert "\n" not in str(refusal.value)
    assert path in str(refusal.value)
    jobs, report = import_gpu_jobs_csv(path, keep_going=True)
    assert jobs.job_count == 2
    assert report.lost == {lost: 1}


def test_a_history_that_may_be_in_milliseconds_says_so(tmp_path: Path) -> None:
    # Ten minutes and a quarter of an hour; the median, 750,000 "seconds", would be 8.7 days.
    long = "arrival_s,duration_s,gpus\n0,600000,4\n9,900000,2\n"
    _, report = import_gpu_jobs_csv(written(tmp_path, long))
    said = "durations are seconds, though half of the jobs take more than 8.7 days; if they are milliseconds"
    assert any(line.startswith(said) for line in report.assumptions)
    _, report = import_gpu_jobs_csv(written(tmp_path, JOBS))
    assert not any("milliseconds" in line for line in report.assumptions)


def test_sound_rows_of_no_use_are_counted(tmp_path: Path) -> None:
    jobs, report = import_gpu_jobs_csv(written(tmp_path, f"{JOBS}c,5,0,1,ann,x\nd,5,9,0,ann,x\n"))
    assert jobs.job_count == 2
    assert report.dropped == {"job that took no time": 1, "job without GPUs": 1}


IMPORTERS: list[Callable] = [
    import_gpu_jobs_csv,
    import_helios_cluster_log,
    import_openb_2023,
    import_standard_workload_format,
]


@pytest.mark.parametrize("importer", IMPORTERS)
def test_files_that_cannot_be_read(importer: Callable, tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="no such file"):
        importer(str(tmp_path / "nowhere.csv"))
    with pytest.raises(HistoryError, match=" in it; "):
        importer(str(tmp_path))
    with pytest.raises(HistoryError, match=r"is empty|no jobs in it"):
        importer(written(tmp_path, ""))
    with pytest.raises(HistoryError, match=r"no column|numbers where 18|no rows"):
        importer(written(tmp_path, "some,thing\n1,2\n"))


def test_a_file_cut_short(tmp_path: Path) -> None:
    rows = "".join(f"{n},{n},60,{1 + n % 3}\n" for n in range(5000))
    packed = gzip.compress(f"id,arrival_s,duration_s,gpus\n{rows}".encode())
    path = tmp_path / "jobs.csv.gz"
    path.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(HistoryError, match=r"cannot be read to its end .*--keep-going"):
        import_gpu_jobs_csv(str(path))
    jobs, report = import_gpu_jobs_csv(str(path), keep_going=True)
    assert 500 < jobs.job_count < 5000
    assert report.lost == {"files cut short": 1}
    # The row at the cut is not taken for a whole one.
    assert set(jobs.duration_ms.tolist()) == {60_000}


# --- Helios ------------------------------------------------------------------------------------------

HELIOS = """\
job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
1,uA,vc1,1,4,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:11,2020-06-09 18:51:11,600,10
2,uA,vc1,16,32,2,FAILED,2020-06-09 18:41:31,2020-06-09 18:41:31,2020-06-09 18:42:01,30,0
3,uB,vc2,0,1,1,COMPLETED,2020-06-09 18:41:28,2020-06-09 18:41:28,2020-06-17 14:15:21,675233,0
4,uB,vc2,8,1,1,CANCELLED,2020-06-09 18:41:41,,,0,0
5,uB,vc2,8,8,1,TIMEOUT,2020-06-09 18:41:51,2020-06-09 18:41:51,2020-06-09 18:42:51,60,0
6,uB,vc2,8,8,1,RUNNING,2020-06-09 18:41:52,2020-06-09 18:41:52,,60,0
"""


def test_helios(tmp_path: Path) -> None:
    written(tmp_path, HELIOS, "cluster_log.csv")
    jobs, report = import_helios_cluster_log(str(tmp_path))
    assert jobs.ids == ("1", "2", "5")
    assert jobs.arrival_ms.tolist() == [0, 30_000, 50_000]
    assert jobs.duration_ms.tolist() == [600_000, 30_000, 60_000]
    assert jobs.instances.tolist() == [1, 2, 1]
    assert jobs.gpu_milli.tolist() == [1000, 8000, 8000]
    assert jobs.cpu_milli.tolist() == [4000, 16_000, 8000]
    assert report.dropped == {
        "job that still runs": 1,
        "job without GPUs": 1,
        "job that never started": 1,
    }
    only, report = import_helios_cluster_log(str(tmp_path), vc="vc1", only_completed=True)
    assert only.ids == ("1",)
    assert report.dropped["job of another virtual cluster than vc1"] == 4
    assert report.dropped["job that did not complete"] == 1


def test_helios_what_is_not_told_is_neither_complete_nor_of_the_virtual_cluster(tmp_path: Path) -> None:
    untold = HELIOS.replace("2,uA,vc1,16,32,2,FAILED", "2,uA,,16,32,2,")
    path = written(tmp_path, untold, "cluster_log.csv")
    assert import_helios_cluster_log(path, vc="vc1")[0].ids == ("1",)
    assert import_helios_cluster_log(path, only_completed=True)[0].ids == ("1",)
    path = written(tmp_path, untold.replace("state", "status"), "cluster_log.csv")
    with pytest.raises(HistoryError, match="no column 'state'"):
        import_helios_cluster_log(path, only_completed=True)


def test_a_column_of_models_that_is_something_else(tmp_path: Path) -> None:
    """Models are bits of a word: 63 of them there may be."""
    rows = [f"{place},60,1,box{place:02}" for place in range(64)]
    head = "arrival_s,duration_s,gpus,gpu_type"
    jobs, _ = import_gpu_jobs_csv(written(tmp_path, "\n".join([head, *rows[:63]])))
    assert jobs.allowed_types[-1] == 1 << 62
    with pytest.raises(HistoryError, match="64 GPU models such as 'BOX00' and 'BOX63'") as refusal:
        import_gpu_jobs_csv(written(tmp_path, "\n".join([head, *rows])))
    assert "\n" not in str(refusal.value)


def test_helios_submitted_after_it_started(tmp_path: Path) -> None:
    path = written(
        tmp_path, HELIOS.replace("2020-06-09 18:41:31", "2020-06-09 19:00:00", 1), "cluster_log.csv"
    )
    jobs, report = import_helios_cluster_log(path)
    assert jobs.arrival_ms.tolist() == [0, 30_000, 50_000]
    assert report.filled == {"jobs submitted after they started: they come when they start": 1}


def test_helios_that_ends_before_it_starts(tmp_path: Path) -> None:
    path = written(tmp_path, HELIOS.replace("18:51:11,600", "18:31:11,600"), "cluster_log.csv")
    with pytest.raises(HistoryError, match=r"line 2: the job ends before it starts \(it takes -600.0 s\)"):
        import_helios_cluster_log(path)


# --- Standard Workload Format ------------------------------------------------------------------------

SWF = """\
; Version: 2.2
; UnixStartTime: 0
1 0 5 100 8 -1 2048 8 3600 -1 1 3 1 7 1 1 -1 -1
2 10 5 50 -1 -1 -1 4 3600 1024 0 3 1 8 1 1 -1 -1
3 12 -1 -1 4 -1 -1 4 3600 -1 5 4 1 8 1 1 -1 -1
4 13 1 9 -1 -1 -1 -1 3600 -1 1 4 1 8 1 1 -1 -1
5 14 1 9 2 -1 -1 2 3600 -1 2 4 1 8 1 1 -1 -1
6 15 1 9 2 -1 -1 2 3600 -1 1 4 1 -1 1 1 -1 -1
"""


def test_processors_become_gpus(tmp_path: Path) -> None:
    path = written(tmp_path, SWF, "log.swf.gz")
    jobs, report = import_standard_workload_format(path)
    assert jobs.ids == ("1", "2", "6")
    assert jobs.arrival_ms.tolist() == [0, 10_000, 15_000]
    assert jobs.duration_ms.tolist() == [100_000, 50_000, 9000]
    # What was given; if that is not known, what was asked for.
    assert jobs.gpus.tolist() == [8.0, 4.0, 2.0]
    assert jobs.memory_mib.tolist() == [2, 1, 0]
    assert len(set(jobs.group.tolist())) == 3
    assert report.dropped == {
        "part of a job's life": 1,
        "job that never started, or still runs": 1,
        "job without processors": 1,
    }
    assert any("every processor is taken for one" in line for line in report.assumptions)
    wide, _ = import_standard_workload_format(path, processors_per_gpu=3, only_completed=True)
    assert wide.ids == ("1", "6")
    assert wide.gpus.tolist() == [3.0, 1.0]
    # Eight processors with three GPUs, rounded up.
    assert wide.cpu_milli.tolist() == [2667, 2000]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("7 1 2 3", "line 9: 4 numbers where 18 are expected"),
        (SWF.splitlines()[2].replace("100", "ten"), "line 9: could not convert"),
        (SWF.splitlines()[2].replace("100", "nan"), "line 9: a number that is not finite"),
        (SWF.splitlines()[2], "line 9: job '1' stands there twice"),
        (SWF.splitlines()[2].replace("1 0 5", "7 -4 5", 1), "line 9: the job arrives at -4.0 s"),
    ],
)
def test_damaged_lines_of_the_format(line: str, said: str, tmp_path: Path) -> None:
    path = written(tmp_path, f"{SWF}{line}\n", "log.swf")
    with pytest.raises(HistoryError, match=said):
        import_standard_workload_format(path)
    jobs, report = import_standard_workload_format(path, keep_going=True)
    assert jobs.job_count == 3
    assert sum(report.lost.values()) == 1


def test_processors_per_gpu_must_be_positive(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="0 processors per GPU; give a number above 0"):
        import_standard_workload_format(written(tmp_path, SWF), processors_per_gpu=0)


# --- openb -------------------------------------------------------------------------------------------

PODS = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
p0,12000,16384,1,460,,LS,Running,100,500,120
p1,6000,12288,4,1000,V100M16|V100M32,BE,Failed,90,95,91
p2,6000,12288,0,0,,LS,Running,100,500,120
p3,6000,12288,8,1000,,LS,Pending,200,300,
"""


def test_openb_pods(tmp_path: Path) -> None:
    path = written(tmp_path, PODS, "openb_pod_list_default.csv")
    jobs, report = import_openb_2023(str(tmp_path))
    assert jobs.ids == ("p1", "p0")
    assert jobs.arrival_ms.tolist() == [0, 10_000]
    assert jobs.duration_ms.tolist() == [4000, 380_000]
    # A pod lives on one node.
    assert (jobs.instances.tolist(), jobs.gpu_milli.tolist()) == ([1, 1], [4000, 460])
    assert jobs.cpu_milli.tolist() == [6000, 12_000]
    assert jobs.memory_mib.tolist() == [12_288, 16_384]
    assert jobs.type_names == ("V100M16", "V100M32")
    assert jobs.allowed_types.tolist() == [3, 0]
    assert report.dropped == {"pod without GPUs": 1, "pod that was never scheduled": 1}
    assert report.lines()[0] == path
    every, report = import_openb_2023(path, keep_pending=True)
    assert every.duration_ms.tolist() == [4000, 380_000, 100_000]


def test_openb_has_several_lists(tmp_path: Path) -> None:
    for name in ("cpu050", "default"):
        written(tmp_path, PODS, f"openb_pod_list_{name}.csv")
    said = r"2 files in it fit \(openb_pod_list_cpu050.csv, openb_pod_list_default.csv\); name one of them"
    with pytest.raises(HistoryError, match=said):
        import_openb_2023(str(tmp_path))


def test_openb_pods_created_after_they_were_scheduled(tmp_path: Path) -> None:
    jobs, report = import_openb_2023(written(tmp_path, PODS.replace("90,95,91", "94,95,91")))
    assert jobs.arrival_ms.tolist() == [0, 9000]
    assert report.filled == {"jobs submitted after they started: they come when they start": 1}


def test_openb_lists_without_times(tmp_path: Path) -> None:
    text = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np0,1,1,1,500\np1,1,1,2,1000\n"
    jobs, report = import_openb_2023(written(tmp_path, text), stay_s=60)
    assert jobs.arrival_ms.tolist() == [0, 1000]
    assert jobs.duration_ms.tolist() == [60_000, 60_000]
    assert sum(report.filled.values()) == 2
    with pytest.raises(HistoryError, match="no column 'deletion_time'"):
        import_openb_2023(written(tmp_path, PODS.replace("deletion_time", "end")))


NODES = "sn,cpu_milli,memory_mib,gpu,model\nn0,32000,262144,0,\nn1,96000,393216,8,G2\nn2,8000,61440,1,P100\n"


def test_openb_machines(tmp_path: Path) -> None:
    out = tmp_path / "machines.csv"
    report = write_openb_machines(written(tmp_path, NODES), out)
    table = Cluster(table=str(out), gpu_types=TRACE_TYPES).machine_table
    assert table.names == ("n1", "n2")
    assert table.gpus.tolist() == [8, 1]
    assert table.speed.tolist() == [1.2, 0.76]
    assert table.cpu_milli.tolist() == [96_000, 8000]
    assert table.memory_mib.tolist() == [393_216, 61_440]
    assert table.rack.tolist() == [0, 1]
    assert report.dropped == {"machine without GPUs": 1}


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("n1,1,1,2,P100", "line 5: machine 'n1' stands there twice"),
        ("n3,1,1,2,", "line 5: a machine with GPUs of no model"),
        ("n3,1,1,1.5,P100", "line 5: 1.5 GPUs on a machine"),
    ],
)
def test_damaged_machines(row: str, said: str, tmp_path: Path) -> None:
    path = written(tmp_path, f"{NODES}{row}\n")
    with pytest.raises(HistoryError, match=said):
        write_openb_machines(path, tmp_path / "machines.csv")
    report = write_openb_machines(path, tmp_path / "machines.csv", keep_going=True)
    assert (report.read["machines"], report.lost["rows"]) == (2, 1)
    with pytest.raises(HistoryError, match="no machine with GPUs in it"):
        write_openb_machines(written(tmp_path, "\n".join(NODES.split("\n")[:2])), tmp_path / "machines.csv")


def test_jobs_of_a_plain_csv_may_be_called_jobs(tmp_path: Path) -> None:
    lines = "job,arrival_s,duration_s,gpus,colour\na,0,100,2,red\n{},5,50,1,blue\n"
    _, report = import_gpu_jobs_csv(written(tmp_path, lines.format("b"), "jobs.csv"))
    assert "jobs are told apart by job" in report.assumptions
    assert "nothing else matters: not read are the columns colour" in report.assumptions
    with pytest.raises(HistoryError, match="line 3: job 'a' stands there twice"):
        import_gpu_jobs_csv(written(tmp_path, lines.format("a"), "twice.csv"))
