"""Which stages make a job and what waits for what, worked out by hand."""

import gzip
from pathlib import Path
from typing import Any

import pytest
from tests.dag_scheduling.history.spark_log_writer import Log, stage, two_stage_log
from tests.dag_scheduling.history.workload_view import names_of, stages_of

from trimtab.core.errors import HistoryError
from trimtab.core.import_report import ImportReport
from trimtab.dag_scheduling.history.spark_event_log import import_spark
from trimtab.dag_scheduling.workload import Workload


def imported(log: Log, folder: Path, *, keep_going: bool = False) -> tuple[Workload, ImportReport]:
    path = log.write(folder / "app-1")
    return import_spark(str(path), keep_going=keep_going, extrapolate=False)


def log_with_executor(**fields: Any) -> Log:
    return Log(**fields).executor("1")


def test_one_query_is_one_job_with_its_dag(tmp_path: Path) -> None:
    workload, report = imported(two_stage_log(), tmp_path)
    assert names_of(workload) == ["etl-sql0"]
    assert stages_of(workload) == {"stage 0": (2, []), "stage 1": (1, ["stage 0"])}
    assert workload.arrival_ms.tolist() == [0]
    assert report.read["tasks"] == 3
    assert report.is_complete


def test_a_job_outside_sql_stands_alone_and_arrivals_count_from_the_first(tmp_path: Path) -> None:
    log = (
        log_with_executor()
        .job(0, stage(0, 1), at=500)
        .task(0, 0, "1", 600, 700, shuffle=False)
        .job_end(0, at=700)
        .sql(3, at=2000)
        .job(1, stage(1, 1), at=2600, sql=3)
        .task(1, 0, "1", 2700, 2800, shuffle=False)
        .job_end(1, at=2800)
        .sql_end(3, at=2900)
        .end()
    )
    workload, _ = imported(log, tmp_path)
    assert names_of(workload) == ["etl-job0", "etl-sql3"]
    assert workload.arrival_ms.tolist() == [0, 1500]


def order_by_log() -> Log:
    """A sampling job (stages 0, 1), then the real one, with stage 0 again as skipped stage 2."""
    return (
        log_with_executor()
        .sql(0, at=0)
        .job(0, stage(0, 1, rdd=7), stage(1, 1, (0,)), at=10, sql=0)
        .task(0, 0, "1", 20, 120)
        .task(1, 0, "1", 120, 150, shuffle=False)
        .job_end(0, at=150)
        .job(1, stage(2, 1, rdd=7), stage(3, 1, (2,)), stage(4, 1, (3,)), at=160, sql=0)
        .task(3, 0, "1", 170, 270)
        .task(4, 0, "1", 270, 300, shuffle=False)
        .job_end(1, at=300)
        .sql_end(0, at=310)
        .end()
    )


def test_a_skipped_stage_stands_for_the_one_that_wrote_its_shuffle(tmp_path: Path) -> None:
    workload, report = imported(order_by_log(), tmp_path)
    assert stages_of(workload) == {
        "stage 0": (1, []),
        "stage 1": (1, ["stage 0"]),
        # From stage 0 by its shuffle output, from stage 1 because the driver waited for the sample.
        "stage 3": (1, ["stage 0", "stage 1"]),
        "stage 4": (1, ["stage 3"]),
    }
    assert not report.dropped


def test_a_result_stage_over_the_same_data_did_not_write_the_shuffle(tmp_path: Path) -> None:
    """`rdd.count()` runs over data set 7 without writing a shuffle; it is no producer of it."""
    log = (
        log_with_executor()
        .sql(0, at=0)
        .job(0, stage(0, 1, rdd=7), at=10, sql=0)
        .task(0, 0, "1", 20, 30, shuffle=False)
        .job(1, stage(1, 1, rdd=7), stage(2, 1, (1,)), at=15, sql=0)
        .task(2, 0, "1", 30, 40, shuffle=False)
        .job_end(0, at=50)
        .job_end(1, at=50)
        .sql_end(0, at=60)
        .end()
    )
    workload, report = imported(log, tmp_path)
    assert stages_of(workload) == {"stage 0": (1, []), "stage 2": (1, [])}
    assert report.dropped["dependency on the shuffle output of another query"] == 1


def test_shuffle_output_of_another_query_is_no_dependency(tmp_path: Path) -> None:
    log = (
        log_with_executor()
        .job(0, stage(0, 1, rdd=7), stage(1, 1, (0,)), at=0)
        .task(0, 0, "1", 0, 10)
        .task(1, 0, "1", 10, 20, shuffle=False)
        .job_end(0, at=20)
        .job(1, stage(2, 1, rdd=7), stage(3, 1, (2,)), at=30)
        .task(3, 0, "1", 30, 40, shuffle=False)
        .job_end(1, at=40)
        .end()
    )
    workload, report = imported(log, tmp_path)
    assert stages_of(workload, job=1) == {"stage 3": (1, [])}
    assert report.dropped["dependency on the shuffle output of another query"] == 1


def test_jobs_that_overlap_are_not_chained(tmp_path: Path) -> None:
    """Adaptive execution: two map jobs at once, then a job that reads both of their outputs."""
    log = (
        log_with_executor()
        .sql(0, at=0)
        .job(0, stage(0, 1, rdd=5), at=10, sql=0)
        .job(1, stage(1, 1, rdd=6), at=11, sql=0)
        .task(0, 0, "1", 20, 120)
        .job_end(0, at=120)
        .task(1, 0, "1", 120, 150)
        .job_end(1, at=150)
        .job(2, stage(2, 1, rdd=5), stage(3, 1, rdd=6), stage(4, 1, (2, 3)), at=160, sql=0)
        .task(4, 0, "1", 170, 270, shuffle=False)
        .job_end(2, at=270)
        .sql_end(0, at=280)
        .end()
    )
    workload, _ = imported(log, tmp_path)
    assert stages_of(workload) == {
        "stage 0": (1, []),
        "stage 1": (1, []),
        "stage 4": (1, ["stage 0", "stage 1"]),
    }


def test_a_broadcast_job_holds_up_the_job_after_it_but_is_named_once(tmp_path: Path) -> None:
    """Jobs in a row without a shuffle between them: 2 waits for 1 only, which waits for 0."""
    log = log_with_executor().sql(0, at=0)
    for number in range(3):
        at = 100 * number
        log.job(number, stage(number, 1), at=at, sql=0)
        log.task(number, 0, "1", at + 10, at + 50, shuffle=False).job_end(number, at=at + 50)
    workload, _ = imported(log.sql_end(0, at=400).end(), tmp_path)
    assert stages_of(workload) == {
        "stage 0": (1, []),
        "stage 1": (1, ["stage 0"]),
        "stage 2": (1, ["stage 1"]),
    }


@pytest.mark.parametrize("as_property", [True, False])
def test_subexecutions_belong_to_their_root(as_property: bool, tmp_path: Path) -> None:
    root = 0 if as_property else None
    log = (
        log_with_executor()
        .sql(0, at=0)
        .sql(1, at=5, root=0)
        .job(0, stage(0, 1), at=10, sql=1, root=root)
        .task(0, 0, "1", 20, 30, shuffle=False)
        .job_end(0, at=30)
        .job(1, stage(1, 1), at=40, sql=0, root=root)
        .task(1, 0, "1", 50, 60, shuffle=False)
        .job_end(1, at=60)
        .sql_end(1, at=35)
        .sql_end(0, at=70)
        .end()
    )
    workload, report = imported(log, tmp_path)
    assert stages_of(workload) == {"stage 0": (1, []), "stage 1": (1, ["stage 0"])}
    assert not report.dropped


def test_an_empty_stage_passes_its_dependency_on(tmp_path: Path) -> None:
    log = (
        log_with_executor()
        .job(0, stage(0, 1), stage(1, 0, (0,)), stage(2, 1, (1,)), at=0)
        .task(0, 0, "1", 0, 10)
        .task(2, 0, "1", 10, 20, shuffle=False)
        .job_end(0, at=20)
        .end()
    )
    workload, _ = imported(log, tmp_path)
    assert stages_of(workload) == {"stage 0": (1, []), "stage 2": (1, ["stage 0"])}


def test_failed_and_unfinished_queries_are_left_out_and_counted(tmp_path: Path) -> None:
    log = two_stage_log()
    log.events.pop()
    log.sql(1, at=6000).job(1, stage(10, 1), at=6000, sql=1).job_end(1, at=6100, ok=False)
    log.sql_end(1, at=6200, error="boom")
    log.job(2, stage(11, 1), at=6300).job_end(2, at=6400, ok=False)
    log.sql(2, at=6500).job(3, stage(12, 1), at=6500, sql=2)
    log.sql(3, at=6600).sql_end(3, at=6700)
    workload, report = imported(log, tmp_path)
    assert names_of(workload) == ["etl-sql0"]
    assert report.dropped == {
        "end of an application (still running, or killed)": 1,
        "SQL command that started no Spark job": 1,
        "query failed": 2,
        "query not finished": 1,
    }


def test_a_cancelled_job_does_not_spoil_a_query_that_succeeded(tmp_path: Path) -> None:
    """Adaptive execution cancels a job it no longer needs."""
    log = (
        log_with_executor()
        .sql(0, at=0)
        .job(0, stage(0, 2), at=10, sql=0)
        .task(0, 0, "1", 10, 20)
        .job_end(0, at=30, ok=False)
        .job(1, stage(1, 1), at=40, sql=0)
        .task(1, 0, "1", 40, 50, shuffle=False)
        .job_end(1, at=50)
        .sql_end(0, at=60)
        .end()
    )
    workload, report = imported(log, tmp_path)
    assert stages_of(workload) == {"stage 1": (1, [])}
    assert report.dropped["cancelled or failed job inside a successful query"] == 1


def test_before_spark_3_4_a_failed_job_means_a_failed_query(tmp_path: Path) -> None:
    log = two_stage_log(spark="3.2.1")
    log.sql(1, at=6000).job(1, stage(5, 1), at=6000, sql=1).job_end(1, at=6100, ok=False)
    log.sql_end(1, at=6200)
    workload, report = imported(log, tmp_path)
    assert names_of(workload) == ["etl-sql0"]
    assert report.dropped["query failed"] == 1


def test_a_stage_that_two_queries_share_belongs_to_the_first(tmp_path: Path) -> None:
    """Two jobs at once over the same shuffle: Spark runs its stage once, under one number."""
    log = (
        log_with_executor()
        .job(0, stage(0, 1), stage(1, 1, (0,)), at=0)
        .job(1, stage(0, 1), stage(2, 1, (0,)), at=1)
        .task(0, 0, "1", 5, 10)
        .task(1, 0, "1", 10, 20, shuffle=False)
        .task(2, 0, "1", 20, 30, shuffle=False)
        .job_end(0, at=20)
        .job_end(1, at=30)
        .end()
    )
    workload, report = imported(log, tmp_path)
    assert stages_of(workload, 0) == {"stage 0": (1, []), "stage 1": (1, ["stage 0"])}
    assert stages_of(workload, 1) == {"stage 2": (1, [])}
    assert report.read["tasks"] == 3


def test_jobs_without_an_end_or_without_tasks_are_counted(tmp_path: Path) -> None:
    log = two_stage_log().job(1, stage(8, 1), at=7000)
    log.job(2, stage(9, 0), at=7100).job_end(2, at=7200)
    log.task(77, 0, "1", 7000, 7010)
    workload, report = imported(log, tmp_path)
    assert names_of(workload) == ["etl-sql0"]
    assert report.dropped == {
        "query not finished": 1,
        "query of which no task ran": 1,
        "task of a stage that no job announced": 1,
    }


def test_stages_that_wait_for_one_another_are_refused(tmp_path: Path) -> None:
    log = (
        two_stage_log()
        .job(1, stage(5, 1, (6,)), stage(6, 1, (5,)), at=7000)
        .task(5, 0, "1", 7000, 7100)
        .task(6, 0, "1", 7100, 7200)
        .job_end(1, at=7200)
    )
    with pytest.raises(HistoryError, match=r"app-1: job1: stages 5, 6 wait .* --keep-going"):
        imported(log, tmp_path)
    workload, report = imported(log, tmp_path, keep_going=True)
    assert names_of(workload) == ["etl-sql0"]
    assert report.lost["queries with stages that wait for one another"] == 1


def test_applications_of_the_same_name_keep_apart(tmp_path: Path) -> None:
    two_stage_log(application_id="app-1").write(tmp_path / "a")
    two_stage_log(application_id="app-2").write(tmp_path / "b")
    # A second attempt of the same application.
    two_stage_log(application_id="app-2", start_ms=60_000).write(tmp_path / "c")
    workload, _ = import_spark(str(tmp_path))
    assert names_of(workload) == ["etl-app-1-sql0", "etl-app-2-sql0", "etl-app-2-sql0#2"]


def test_an_application_counts_once_however_often_its_log_is_there(tmp_path: Path) -> None:
    log = two_stage_log()
    log.write(tmp_path / "app-1")
    log.write(tmp_path / "backup" / "app-1")
    (tmp_path / "app-1.gz").write_bytes(gzip.compress(log.data))
    workload, report = import_spark(str(tmp_path))
    assert names_of(workload) == ["etl-sql0"]
    assert report.read["applications"] == 1
    assert report.dropped == {"log of an application that was read already": 2}


def test_logs_of_one_application_that_differ_are_refused(tmp_path: Path) -> None:
    """Which of the two is right cannot be told; by name, the whole one comes first here."""
    two_stage_log().write(tmp_path / "app-1")
    half = two_stage_log()
    half.events = half.events[:6]
    half.write(tmp_path / "app-1.inprogress")
    said = r"app-1\.inprogress: the same application as in .*app-1, but the two .* --keep-going"
    with pytest.raises(HistoryError, match=said):
        import_spark(str(tmp_path))
    workload, report = import_spark(str(tmp_path), keep_going=True)
    assert stages_of(workload) == {"stage 0": (2, []), "stage 1": (1, ["stage 0"])}
    assert report.dropped["log of an application that was read already"] == 1
