"""Recording TPC-H: the log reader on a hand-made log, the waves as laws, the shipped profile."""

import gzip
import json
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.dag_scheduling import recording
from trimtab.dag_scheduling.recording import RecordingError, build_profile
from trimtab.dag_scheduling.recording.application_log import (
    RecordedStage,
    RecordedTask,
    read_application,
)
from trimtab.dag_scheduling.recording.summary import summary_tables
from trimtab.dag_scheduling.recording.wave_profile import WAVES, tasks_by_wave, write_profile

Event = dict[str, Any]


def stage(
    stage_id: int, rdd: int, tasks: int, parents: list[int], *, scan: bool = False, codegen: int = 0
) -> Event:
    first = {
        "RDD ID": rdd - 1,
        "Name": "FileScanRDD" if scan else "ShuffledRowRDD",
        "Scope": json.dumps({"id": f"plan_{rdd}", "name": f"WholeStageCodegen ({codegen or rdd})"}),
    }
    return {
        "Stage ID": stage_id,
        "Parent IDs": parents,
        "Number of Tasks": tasks,
        "RDD Info": [first, {"RDD ID": rdd, "Name": "MapPartitionsRDD"}],
    }


def job(number: int, *stages: Event, submitted_ms: int, ended_ms: int, query: str = "8") -> list[Event]:
    return [
        {
            "Event": "SparkListenerJobStart",
            "Job ID": number,
            "Submission Time": submitted_ms,
            "Stage IDs": [each["Stage ID"] for each in stages],
            "Stage Infos": list(stages),
            "Properties": {"spark.sql.execution.id": query},
        },
        {"Event": "SparkListenerJobEnd", "Job ID": number, "Completion Time": ended_ms},
    ]


def task(stage_id: int, executor: str, launch_ms: int, finish_ms: int, *, reason: str = "Success") -> Event:
    return {
        "Event": "SparkListenerTaskEnd",
        "Stage ID": stage_id,
        "Task End Reason": {"Reason": reason},
        "Task Info": {
            "Executor ID": executor,
            "Launch Time": launch_ms,
            "Finish Time": finish_ms,
        },
        "Task Metrics": {
            "Executor CPU Time": 9_000_000,
            "Executor Deserialize CPU Time": 1_000_000,
            "Shuffle Read Metrics": {"Remote Bytes Read": 30, "Local Bytes Read": 12},
        },
    }


def sorting_query() -> list[Event]:
    """Scan, aggregate, sort: the sort samples in a first job, then lists the scan as skipped.

    executor 0   |--scan 500--|scan 100| |agg 200|            |out 10|
    executor 1   |---scan 600---|        |agg 30|  |sort 90|sort 30|
    """
    scan_node = {
        "nodeName": "Scan parquet ",
        "metrics": [
            {"name": "number of output rows", "accumulatorId": 11},
            {"name": "size of files read", "accumulatorId": 12},
        ],
        "children": [],
    }
    sql = "org.apache.spark.sql.execution.ui."
    return [
        {"Event": "SparkListenerApplicationStart", "Timestamp": 100},
        {"Event": "SparkListenerExecutorAdded", "Timestamp": 700},
        {"Event": "SparkListenerExecutorAdded", "Timestamp": 800},
        {
            "Event": f"{sql}SparkListenerSQLExecutionStart",
            "sparkPlanInfo": {"nodeName": "Sort", "metrics": [], "children": [scan_node]},
        },
        {"Event": f"{sql}SparkListenerDriverAccumUpdates", "accumUpdates": [[12, 4096]]},
        *job(
            0,
            stage(0, 3, 3, [], scan=True),
            stage(1, 8, 2, [0]),
            submitted_ms=1000,
            ended_ms=2000,
        ),
        task(0, "0", 1000, 1500),
        task(0, "1", 1010, 1610),
        task(0, "0", 1500, 1600),
        {
            "Event": "SparkListenerStageCompleted",
            "Stage Info": {"Stage ID": 0, "Accumulables": [{"ID": 11}]},
        },
        task(1, "0", 1620, 1820),
        task(1, "1", 1630, 1640, reason="ExecutorLostFailure"),
        task(1, "1", 1650, 1680),
        *job(
            1,
            stage(2, 3, 3, [], scan=True),
            stage(3, 9, 2, [2]),
            stage(4, 12, 1, [3]),
            submitted_ms=2100,
            ended_ms=3000,
        ),
        task(3, "1", 2100, 2190),
        task(3, "1", 2190, 2220),
        task(4, "0", 2300, 2310),
    ]


def write_log(path: Path, events: list[Event]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(json.dumps(event) for event in events))
    return path


def recording_folder(folder: Path, **logs: list[Event]) -> Path:
    for name, events in logs.items():
        write_log(folder / "logs" / f"{name.replace('p', '.')}.json", events)
    (folder / "recording.json").write_text('{"spark_version": "4.3.0"}')
    return folder


def test_skipped_stages_stand_for_the_stage_that_ran_and_jobs_are_chained(tmp_path: Path) -> None:
    application = read_application(write_log(tmp_path / "log", sorting_query()))
    assert [each.kind for each in application.stages] == ["scan", "shuffle", "shuffle", "shuffle"]
    # 0 scan, 1 sampling, 2 sort, 3 output: sort reads the scan and waits for the sampling job.
    assert application.edges == [[0, 1], [0, 2], [1, 2], [2, 3]]
    assert application.executors_ready_ms - application.started_ms == 700
    assert application.last_job_ended_ms - application.first_job_ms == 2000


def test_waves_of_the_hand_made_log(tmp_path: Path) -> None:
    profile = build_profile(recording_folder(tmp_path, q07_sf0p1_executors2=sorting_query()))
    (only,) = profile["jobs"]
    assert (only["name"], only["query"], only["size_gb"]) == ("q7", 7, 0.1)
    seen = [[each[wave]["2"] for wave in WAVES] for each in only["stages"]]
    assert seen == [
        [[500, 600], [], [100]],
        [[], [200, 30], []],
        [[], [90], [30]],
        [[], [10], []],
    ]
    assert [each["tasks"] for each in only["stages"]] == [3, 2, 2, 1]
    assert [each["input_bytes"] for each in only["stages"]] == [4096, 0, 0, 0]
    assert [each["shuffle_read_bytes"] for each in only["stages"]] == [126, 84, 84, 42]
    cpu_ms = [[each["cpu_ms"][wave]["2"] for wave in WAVES] for each in only["stages"]]
    assert cpu_ms == [[20, 0, 10], [0, 20, 0], [0, 10, 10], [0, 10, 0]]
    assert profile["recorded"]["spark_version"] == "4.3.0"
    assert profile["recorded"]["date"] == "1970-01-01"


def test_jobs_that_overlap_in_time_do_not_wait_for_each_other(tmp_path: Path) -> None:
    head = sorting_query()[:3]
    events = [
        *head,
        *job(0, stage(0, 3, 1, [], scan=True), submitted_ms=1000, ended_ms=2000),
        *job(1, stage(1, 6, 1, [], scan=True), submitted_ms=1500, ended_ms=2500),
        *job(2, stage(2, 9, 1, []), submitted_ms=2600, ended_ms=2700),
        task(0, "0", 1000, 2000),
        task(1, "1", 1500, 2500),
        task(2, "0", 2600, 2700),
    ]
    application = read_application(write_log(tmp_path / "log", events))
    assert application.edges == [[0, 2], [1, 2]]


def test_a_stage_without_tasks_passes_its_parents_on(tmp_path: Path) -> None:
    events = [
        *sorting_query()[:3],
        *job(
            0,
            stage(0, 3, 1, [], scan=True),
            stage(1, 6, 0, [0]),
            stage(2, 9, 1, [1]),
            submitted_ms=1000,
            ended_ms=2000,
        ),
        task(0, "0", 1000, 1500),
        task(2, "0", 1500, 2000),
    ]
    assert read_application(write_log(tmp_path / "log", events)).edges == [[0, 1]]


def test_stages_are_ordered_by_plan_not_by_racing_ids(tmp_path: Path) -> None:
    """Two branches under one join; in the second run their stage and RDD ids are swapped."""

    def run(first_rdd: int, second_rdd: int) -> list[str]:
        events = [
            *sorting_query()[:3],
            *job(
                0,
                stage(0, first_rdd, 1, [], scan=True, codegen=1),
                stage(1, second_rdd, 2, [], scan=True, codegen=10),
                stage(2, 20, 1, [0, 1]),
                submitted_ms=1000,
                ended_ms=2000,
            ),
            task(0, "0", 1000, 1500),
            task(1, "0", 1500, 1600),
            task(1, "0", 1600, 1700),
            task(2, "0", 1700, 2000),
        ]
        application = read_application(write_log(tmp_path / "log", events))
        return [each.operators for each in application.stages]

    expected = [f"WholeStageCodegen ({number})" for number in (1, 10, 20)]
    assert run(3, 6) == run(6, 3) == expected


@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 500), st.integers(1, 90))),
        min_size=1,
        max_size=4,
    )
)
def test_every_task_is_in_one_wave(stages: list[list[tuple[str, int, int]]]) -> None:
    recorded = tuple(
        RecordedStage(
            operators="Exchange",
            kind="shuffle",
            parents=(),
            tasks=tuple(RecordedTask(e, start, start + length, 1.0, 0) for e, start, length in each),
            input_bytes=0,
        )
        for each in stages
    )
    waves = tasks_by_wave(recorded)
    assert [sum(len(each[wave]) for wave in WAVES) for each in waves] == [len(s) for s in stages]
    executors = {executor for each in stages for executor, _, _ in each}
    assert sum(len(each["fresh"]) for each in waves) == len(executors)
    for each, tasks in zip(waves, stages, strict=True):
        executors_here = {executor for executor, _, _ in tasks}
        assert len(each["fresh"]) + len(each["first_wave"]) == len(executors_here)


def test_a_run_with_another_dag_is_reported_and_left_out(tmp_path: Path) -> None:
    other = [
        *sorting_query()[:3],
        *job(0, stage(0, 3, 1, [], scan=True), submitted_ms=1000, ended_ms=2000),
        task(0, "0", 1000, 1500),
    ]
    folder = recording_folder(tmp_path, q01_sf0p1_executors1=sorting_query(), q01_sf0p1_executors4=other)
    lines: list[str] = []
    (only,) = build_profile(folder, report=lines.append)["jobs"]
    assert lines == ["q1 at 0.1: 4 executors made another DAG; left out"]
    assert list(only["stages"][0]["fresh"]) == ["1"]


def test_the_profile_file_is_the_same_bytes_each_time(tmp_path: Path) -> None:
    write_profile({"b": [1, 2], "a": 0.1}, tmp_path / "one" / "first.json.gz")
    write_profile({"a": 0.1, "b": [1, 2]}, tmp_path / "second.json.gz")
    content = (tmp_path / "second.json.gz").read_bytes()
    assert (tmp_path / "one" / "first.json.gz").read_bytes() == content
    assert gzip.decompress(content) == b'{"a":0.1,"b":[1,2]}'


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([], "expected the jobs of one SQL query, found 0"),
        (
            [
                *job(0, stage(0, 3, 1, []), submitted_ms=1, ended_ms=2),
                *job(1, stage(1, 6, 1, []), submitted_ms=3, ended_ms=4, query="9"),
            ],
            "expected the jobs of one SQL query, found 2",
        ),
        (job(0, stage(0, 3, 1, []), submitted_ms=1, ended_ms=2)[:1], "job 0 never ended"),
        (
            [*job(0, stage(0, 3, 2, []), submitted_ms=1, ended_ms=2), task(0, "0", 1, 2)],
            "stage 0 has 1 successful tasks of 2",
        ),
        (
            [*job(0, stage(0, 3, 1, []), submitted_ms=1, ended_ms=2), task(0, "0", 1, 2)],
            "no SparkListenerApplicationStart event",
        ),
    ],
)
def test_a_log_that_is_not_ours_is_refused(tmp_path: Path, events: list[Event], message: str) -> None:
    with pytest.raises(RecordingError, match=message):
        read_application(write_log(tmp_path / "log", events))


def test_a_folder_without_logs_or_provenance_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="no event logs yet"):
        build_profile(tmp_path)
    folder = recording_folder(tmp_path, q01_sf0p1_executors1=sorting_query())
    (folder / "recording.json").unlink()
    with pytest.raises(RecordingError, match=r"recording\.json is missing"):
        build_profile(folder)
    write_log(folder / "logs" / "quite_other.json", [])
    with pytest.raises(RecordingError, match=r"quite_other\.json: not a name trimtab gives"):
        build_profile(folder)


def shipped_profile() -> dict[str, Any]:
    data = resources.files("trimtab.dag_scheduling") / "data" / "tpch_recorded.json.gz"
    return json.loads(gzip.decompress(data.read_bytes()))


def test_the_shipped_profile_is_complete() -> None:
    profile = shipped_profile()
    assert (profile["format"], profile["version"]) == ("trimtab-wave-profile", 1)
    assert {each["query"] for each in profile["jobs"]} == set(range(1, 23))
    for each in profile["jobs"]:
        assert all(parent < child for parent, child in each["edges"])
        for recorded in each["stages"]:
            counts = recorded["first_wave"].keys()
            assert counts
            for count in counts:
                assert sum(len(recorded[wave][count]) for wave in WAVES) == recorded["tasks"]


def test_the_summary_counts_by_hand(tmp_path: Path) -> None:
    """Work of the hand-made log: 1200 + 230 + 120 + 10 ms = 1.6 s; CPU 8 tasks of 10 ms."""
    tables = summary_tables(build_profile(recording_folder(tmp_path, q07_sf0p1_executors2=sorting_query())))
    assert "| 7 | 4 | 8 | 1.6 |" in tables
    assert "| 0.1 | 2 | scan | 550 | 10 | 2 |  |  | 0 | 100 | 10 | 1 |" in tables
    assert "| 0.1 | 2 | shuffle |  |  | 0 | 82 | 10 | 4 | 30 | 10 | 1 |" in tables
    assert "| 0.1 | 2 | 1 | 0.7 | 2.0 | 2 | 0 | 19.50 |" in tables
    assert "Growth" not in tables


def test_growth_is_an_exponent_of_size(tmp_path: Path) -> None:
    """Twice the input at twice the size and the same tasks: exponents 1 and 0."""
    larger = json.loads(json.dumps(sorting_query()).replace("4096", "8192"))
    folder = recording_folder(tmp_path, q07_sf0p1_executors2=sorting_query(), q07_sf0p2_executors2=larger)
    tables = summary_tables(build_profile(folder))
    # Every task of the hand-made log reads 42 bytes from shuffles: (8192 + 126) / (4096 + 126).
    assert "| scan | bytes read | 1.97 | 0.98 |" in tables
    assert "| scan | tasks | 1.00 | 0.00 |" in tables


def test_the_tables_of_the_document_come_from_the_shipped_profile() -> None:
    document = Path(__file__).parents[2] / "docs" / "recording-tpch.md"
    assert summary_tables(shipped_profile()) in document.read_text(encoding="utf-8")


def test_public_names() -> None:
    assert all(hasattr(recording, name) for name in recording.__all__)
