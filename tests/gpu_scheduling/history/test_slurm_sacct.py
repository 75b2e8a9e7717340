"""Slurm's accounting: steps, arrays, heterogeneous jobs, resources in every spelling, and damage."""

import gzip
from pathlib import Path
from typing import Any

import pytest

from trimtab.core.errors import HistoryError
from trimtab.gpu_scheduling.history.slurm_sacct import import_slurm_sacct, tres

HEADER = "JobID|JobName|User|State|Submit|Start|End|Elapsed|NNodes|ReqTRES|AllocTRES"
ROWS = """\
10|train_1|ann|COMPLETED|2024-01-01T00:00:10|2024-01-01T00:01:00|2024-01-01T01:01:00|01:00:00|2|cpu=16,mem=64G,node=2,gres/gpu:v100=8|billing=16,cpu=16,gres/gpu:v100=8,gres/gpu=8,mem=64G,node=2
10.batch|batch||COMPLETED|2024-01-01T00:01:00|2024-01-01T00:01:00|2024-01-01T01:01:00|01:00:00|1||cpu=8,gres/gpu=4,mem=32G,node=1
10.0|python||COMPLETED|2024-01-01T00:01:00|2024-01-01T00:01:00|2024-01-01T01:01:00|01:00:00|2||cpu=16,gres/gpu=8,mem=64G,node=2
11_3|train_2|ann|FAILED|2024-01-01T00:00:00|2024-01-01T00:00:05|2024-01-02T02:03:09|1-02:03:04|1|cpu=4,mem=8000M,node=1,gres/gpu=1|cpu=4,gres/gpu=1,mem=8000M,node=1
12+0|pipe|bob|COMPLETED|2024-01-01T00:00:20|2024-01-01T00:00:30|2024-01-01T00:01:30|00:01:00|1|cpu=8,mem=16G,node=1,gres/gpu=2|cpu=8,gres/gpu=2,mem=16G,node=1
12+1|pipe|bob|COMPLETED|2024-01-01T00:00:20|2024-01-01T00:00:30|2024-01-01T00:01:20|00:00:50|3|cpu=24,mem=48G,node=3,gres/gpu=6|cpu=24,gres/gpu=6,mem=48G,node=3
13|odd|bob|CANCELLED+|2024-01-01T00:00:30|2024-01-01T00:00:40|2024-01-01T00:01:00|00:00:20|2||cpu=6,gres/gpu=3,mem=6G,node=2
14|cpu|bob|COMPLETED|2024-01-01T00:00:31|2024-01-01T00:00:40|2024-01-01T00:01:00|00:00:20|1|cpu=4|cpu=4,mem=6G,node=1
15|late|bob|RUNNING|2024-01-01T00:00:32|2024-01-01T00:00:40|Unknown|00:00:20|1||cpu=6,gres/gpu=3,node=1
16_[4-9%2]|later|bob|PENDING|2024-01-01T00:00:33|Unknown|Unknown|00:00:00|1|cpu=1,gres/gpu=1|
17|gone|bob|CANCELLED by 1000|2024-01-01T00:00:34|None|2024-01-01T00:01:00|00:00:00|1|cpu=1,gres/gpu=1|
18|blink|bob|FAILED|2024-01-01T00:00:35|2024-01-01T00:01:00|2024-01-01T00:01:00|00:00:00|1||cpu=1,gres/gpu=1,node=1
"""


def written(folder: Path, rows: str = ROWS, header: str = HEADER, name: str = "sacct.txt") -> str:
    path = folder / name
    text = f"{header}\n{rows}".encode()
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return str(path)


@pytest.mark.parametrize("name", ["sacct.txt", "sacct.txt.gz"])
def test_every_kind_of_job(name: str, tmp_path: Path) -> None:
    jobs, report = import_slurm_sacct(written(tmp_path, name=name))
    assert jobs.ids == ("11_3", "10", "12", "13")
    assert jobs.arrival_ms.tolist() == [0, 10_000, 20_000, 30_000]
    # 26 h 3 min 4 s; an hour; the longer of two parts; 20 s.
    assert jobs.duration_ms.tolist() == [93_784_000, 3_600_000, 60_000, 20_000]
    # Nodes of equal GPUs are instances; 3 GPUs on 2 nodes are three instances.
    assert jobs.instances.tolist() == [1, 2, 4, 3]
    assert jobs.gpu_milli.tolist() == [1000, 4000, 2000, 1000]
    assert jobs.cpu_milli.tolist() == [4000, 8000, 8000, 2000]
    assert jobs.memory_mib.tolist() == [8000, 32 * 1024, 16 * 1024, 2048]
    # Only job 10 asked for a model.
    assert jobs.type_names == ("V100",)
    assert jobs.allowed_types.tolist() == [0, 1, 0, 0]
    # train_1 and train_2 of ann are alike.
    assert jobs.user[0] == jobs.user[1] != jobs.user[2] == jobs.user[3]
    assert jobs.group[0] == jobs.group[1] != jobs.group[2] != jobs.group[3]
    assert report.dropped == {
        "step of a job": 2,
        "job without GPUs": 1,
        "job that still runs": 1,
        "job that never started": 2,
        "job that took no time": 1,
    }
    assert report.read["parts of heterogeneous jobs"] == 2
    assert report.filled == {"jobs whose GPUs are not even over their nodes: an instance is one GPU": 1}


def test_only_completed_and_one_partition(tmp_path: Path) -> None:
    jobs, report = import_slurm_sacct(written(tmp_path), only_completed=True)
    assert jobs.ids == ("10", "12")
    assert report.dropped["job that did not complete"] == 4
    header = "JobID|Partition|Submit|Elapsed|AllocTRES|"
    rows = "1|a|100|00:10|gres/gpu=1|\n2|b|110|01:10|gres/gpu:tesla_t4=2,gres/gpu:k80=1|\n"
    path = written(tmp_path, rows, header)
    one, report = import_slurm_sacct(path, partition="b")
    assert (one.ids, one.gpus.tolist(), one.duration_ms.tolist()) == (("2",), [3.0], [70_000])
    assert report.dropped == {"job of another partition": 1}
    # Models that were given, not asked for, are no demand.
    assert one.allowed_types.tolist() == [0]


def test_what_is_not_told_is_neither_complete_nor_of_the_partition(tmp_path: Path) -> None:
    rows = "1|a|COMPLETED|1|00:30|gres/gpu=1\n2|||1|00:30|gres/gpu=1\n"
    path = written(tmp_path, rows, "JobID|Partition|State|Submit|Elapsed|AllocTRES")
    jobs, report = import_slurm_sacct(path, partition="a")
    assert (jobs.ids, report.dropped) == (("1",), {"job of another partition": 1})
    jobs, report = import_slurm_sacct(path, only_completed=True)
    assert (jobs.ids, report.dropped) == (("1",), {"job that did not complete": 1})


def test_parts_of_different_shapes_are_single_gpus(tmp_path: Path) -> None:
    rows = "5+0|1|00:30|node=1,gres/gpu=4\n5+1|1|00:40|node=1,cpu=3\n5+2|1|00:40|node=1,gres/gpu=2\n"
    jobs, _ = import_slurm_sacct(written(tmp_path, rows, "JobID|Submit|Elapsed|AllocTRES"))
    assert (jobs.instances.tolist(), jobs.gpu_milli.tolist()) == ([6], [1000])


def test_a_part_without_gpus_does_not_spoil_the_shape(tmp_path: Path) -> None:
    rows = "5+0|1|00:30|node=2,gres/gpu=8\n5+1|1|00:40|node=1,cpu=3\n"
    jobs, _ = import_slurm_sacct(written(tmp_path, rows, "JobID|Submit|Elapsed|AllocTRES"))
    assert (jobs.instances.tolist(), jobs.gpu_milli.tolist()) == ([2], [4000])


def test_slices_are_noted() -> None:
    assert tres("gres/gpu:a100_1g.5gb=1,mem=1T,license=3") == {"gres/gpu:a100_1g.5gb": 1.0, "mem": 2.0**20}
    assert tres("cpu") is None
    assert tres("cpu=x") is None
    assert tres("cpu=2K") == {"cpu": 2048.0}
    assert tres("") == {}


@pytest.mark.parametrize(
    "header", ["JobID|Submit|Elapsed|NNodes|AllocTRES", "JobID|Submit|Elapsed|x|AllocTRES"]
)
def test_thousands_are_of_1024(header: str, tmp_path: Path) -> None:
    """Slurm divides by 1024 what it writes with a K: 1,536 GPUs on 128 nodes are 1.50K, 12 a node."""
    rows = "1|1|00:30|128|cpu=24K,gres/gpu=1.50K,mem=128T,node=128\n"
    jobs, report = import_slurm_sacct(written(tmp_path, rows, header))
    assert (jobs.instances.tolist(), jobs.gpu_milli.tolist()) == ([128], [12_000])
    assert (jobs.cpu_milli.tolist(), jobs.memory_mib.tolist()) == ([192_000], [1024 * 1024])
    assert not report.filled


def test_many_nodes_have_a_k_too(tmp_path: Path) -> None:
    jobs, _ = import_slurm_sacct(
        written(tmp_path, "1|1|00:30|1K|gres/gpu=8K\n", "JobID|Submit|Elapsed|NNodes|AllocTRES")
    )
    assert (jobs.instances.tolist(), jobs.gpu_milli.tolist()) == ([1024], [8000])


def test_a_broken_number_of_nodes_is_named_or_counted(tmp_path: Path) -> None:
    rows = "1|1|00:30|2|gres/gpu=2\n2|1|00:30|few|gres/gpu=2\n"
    path = written(tmp_path, rows, "JobID|Submit|Elapsed|NNodes|AllocTRES")
    with pytest.raises(HistoryError, match="line 3: NNodes is 'few', which is no number"):
        import_slurm_sacct(path)
    jobs, report = import_slurm_sacct(path, keep_going=True)
    assert (jobs.ids, report.lost) == (("1",), {"rows": 1})


GOOD = "1|2024-01-01T00:00:00|2024-01-01T00:00:05|2024-01-01T00:01:05|gres/gpu=1"
SHORT = "JobID|Submit|Start|End|AllocTRES"
NOON = "2024-01-01T12:00:00"
SPAN = f"{NOON}|2024-01-01T13:00:00"


@pytest.mark.parametrize(
    ("row", "said", "lost"),
    [
        (
            GOOD.replace("1|", "2|", 1).replace("00:01:05", "00:00:01"),
            "line 3: job '2' ends before it starts",
            "jobs that end before they start",
        ),
        (GOOD, "line 3: job '1' stands there twice", "jobs with the id of another"),
        ("2|soon|1|2|gres/gpu=1", "line 3: Submit is 'soon', which is no time", "rows"),
        (f"2|Unknown|{SPAN}|gres/gpu=1", "line 3: no time of submission", "rows"),
        (f"2|1704067200|{SPAN}|gres/gpu=1", "line 3: Submit is '1704067200', a number among dates", "rows"),
        (f"2|{NOON}|{SPAN}|gres/gpu=many", "line 3: 'gres/gpu=many' is no list of resources", "rows"),
        (
            f"2|{NOON}|{SPAN}|cpu=1e18,gres/gpu=1",
            r"line 3: cpus is 1e\+18, more than any cluster has",
            "jobs larger than any cluster",
        ),
        ("2|1|1|2|gres/gpu=1|7", "line 3: 6 cells where 5 are expected", "rows"),
        ("2|1|1", "line 3: 3 cells where 5 are expected", "rows"),
        # In such files a quotation mark is a letter of a name.
        ('2"|1|1', "line 3: 3 cells where 5 are expected", "rows"),
        ('2"|1|1|2|gres/gpu=1|7', "line 3: 6 cells where 5 are expected", "rows"),
        ("2|nan5|1|2|gres/gpu=1", "Submit is 'nan5'", "rows"),
        (
            f"2|{NOON}|{NOON}|2034-02-01T00:00:00|gres/gpu=1",
            "a job of 318254400.0 s",
            "jobs of more than ten years",
        ),
        (f"2|{NOON}|{NOON}|inf|gres/gpu=1", "no number in duration_s", "jobs with unknown numbers"),
    ],
)
def test_damage_is_named_or_counted(row: str, said: str, lost: str, tmp_path: Path) -> None:
    path = written(tmp_path, f"{GOOD}\n{row}\n", SHORT)
    with pytest.raises(HistoryError, match=said) as refusal:
        import_slurm_sacct(path)
    assert "\n" not in str(refusal.value)
    assert "sacct.txt, line 3" in str(refusal.value)
    assert "--keep-going" in str(refusal.value)
    jobs, report = import_slurm_sacct(path, keep_going=True)
    assert jobs.job_count == 1
    assert report.lost == {lost: 1}


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("JobName|Submit|Elapsed|AllocTRES|x", "no column 'JobID'"),
        ("JobID|Start|Elapsed|AllocTRES|x", "no column 'Submit'"),
        ("JobID|Submit|Elapsed|x|y", "neither AllocTRES nor ReqTRES"),
        ("JobID|Submit|Start|x|AllocTRES", "neither Elapsed nor Start and End"),
    ],
)
def test_columns_that_are_needed(header: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=said + r".*sacct -a -P"):
        import_slurm_sacct(written(tmp_path, GOOD, header))


def test_a_job_comes_no_later_than_it_starts(tmp_path: Path) -> None:
    rows = "1|500|100|160|gres/gpu=1\n2|90|100|130|gres/gpu=1\n3+0|400|130|160|gres/gpu=1\n"
    jobs, report = import_slurm_sacct(written(tmp_path, rows, SHORT))
    assert jobs.ids == ("2", "1", "3")
    assert jobs.arrival_ms.tolist() == [0, 10_000, 40_000]
    assert report.filled == {"jobs submitted after they started: they come when they start": 2}


def test_a_quotation_mark_in_a_name(tmp_path: Path) -> None:
    rows = '1|say "hi"|1|00:30|gres/gpu=1\n2|it"s|1|00:30|gres/gpu=1\n'
    jobs, _ = import_slurm_sacct(written(tmp_path, rows, "JobID|JobName|Submit|Elapsed|AllocTRES"))
    assert jobs.ids == ("1", "2")


def test_a_folder_with_several_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "february").mkdir()
    (tmp_path / ".hidden").touch()
    path = written(tmp_path, f"{GOOD}\n", SHORT, "2024-01.txt")
    _, report = import_slurm_sacct(str(tmp_path))
    assert report.lines()[0] == path
    for month in range(2, 7):
        written(tmp_path, f"{GOOD}\n", SHORT, f"2024-0{month}.txt")
    with pytest.raises(HistoryError) as refusal:
        import_slurm_sacct(str(tmp_path))
    names = "2024-01.txt, 2024-02.txt, 2024-03.txt, 2024-04.txt, ..."
    assert (
        str(refusal.value)
        == f"{tmp_path}: 6 files in it fit ({names}); name one of them, or move the others away"
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"partition": "gpuu"}, "2 x job of another partition"),
        ({"only_completed": True}, "1 x job that still runs, 1 x job that did not complete"),
    ],
)
def test_no_job_is_left(options: dict[str, Any], said: str, tmp_path: Path) -> None:
    header = "JobID|Partition|State|Submit|Elapsed|AllocTRES"
    rows = "1|gpu|RUNNING|1|00:30|gres/gpu=1\n2|gpu|FAILED|1|00:30|gres/gpu=1\n"
    with pytest.raises(HistoryError, match=rf"no usable job in it \({said}\)"):
        import_slurm_sacct(written(tmp_path, rows, header), **options)


def test_nothing_of_use(tmp_path: Path) -> None:
    path = written(tmp_path, "1|1|1|2|cpu=1\n", SHORT)
    with pytest.raises(HistoryError, match=r"no usable job in it \(1 x job without GPUs\)"):
        import_slurm_sacct(path)
    with pytest.raises(HistoryError, match="no rows in it"):
        import_slurm_sacct(written(tmp_path, "", SHORT))


def test_an_empty_folder_and_a_file_without_names(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="no file in it; export it with sacct"):
        import_slurm_sacct(str(tmp_path))
    same = "10|00:10:00|gres/gpu=1|gres/gpu=1\n"
    with pytest.raises(HistoryError, match="if that line names no columns, export it with sacct"):
        import_slurm_sacct(written(tmp_path, same, same.strip()))
