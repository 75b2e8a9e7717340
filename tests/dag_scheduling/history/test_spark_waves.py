"""Which tasks count, in which wave, beside how many slots: worked out by hand."""

from pathlib import Path

import pytest
from tests.dag_scheduling.history.spark_log_writer import Log, stage, two_stage_log
from tests.dag_scheduling.history.workload_view import durations_of, stages_of

from trimtab.core.import_report import ImportReport
from trimtab.dag_scheduling.history.spark_event_log import import_spark
from trimtab.dag_scheduling.workload import FIRST_WAVE, FRESH, LATER_WAVE, Workload


def imported(log: Log, folder: Path) -> tuple[Workload, ImportReport]:
    return import_spark(str(log.end().write(folder / "app-1")), extrapolate=False)


def test_first_task_of_a_slot_is_fresh_then_first_of_the_stage_then_later(tmp_path: Path) -> None:
    log = (
        Log()
        .executor("1")
        .job(0, stage(0, 3), stage(1, 2, (0,)), at=0)
        .task(0, 0, "1", 0, 1000)
        .task(0, 1, "1", 1000, 1600)
        .task(0, 2, "1", 1600, 2100)
        .task(1, 0, "1", 2100, 2500, shuffle=False)
        .task(1, 1, "1", 2500, 2800, shuffle=False)
        .job_end(0, at=2800)
    )
    workload, _ = imported(log, tmp_path)
    assert durations_of(workload, "stage 0", FRESH) == {1: [1000]}
    assert durations_of(workload, "stage 0", FIRST_WAVE) == {}
    assert durations_of(workload, "stage 0", LATER_WAVE) == {1: [500, 600]}
    assert durations_of(workload, "stage 1", FRESH) == {}
    assert durations_of(workload, "stage 1", FIRST_WAVE) == {1: [400]}
    assert durations_of(workload, "stage 1", LATER_WAVE) == {1: [300]}


def test_fresh_is_once_per_application_not_per_query(tmp_path: Path) -> None:
    log = Log().executor("1")
    for number in (0, 1):
        at = 1000 * number
        log.job(number, stage(number, 1), at=at).task(number, 0, "1", at, at + 700, shuffle=False)
        log.job_end(number, at=at + 700)
    workload, _ = imported(log, tmp_path)
    assert durations_of(workload, "stage 0", FRESH, job=0) == {1: [700]}
    assert durations_of(workload, "stage 1", FIRST_WAVE, job=1) == {1: [700]}


@pytest.mark.parametrize(("task_cores", "slots"), [(1, 4), (2, 2)])
def test_an_executor_with_cores_has_slots(task_cores: int, slots: int, tmp_path: Path) -> None:
    log = Log().environment(spark__task__cpus=str(task_cores)).executor("1", cores=4)
    log.job(0, stage(0, 6), at=0)
    for index in range(6):
        wave = index // slots
        log.task(0, index, "1", 1000 * wave, 1000 * (wave + 1), shuffle=False)
    workload, _ = imported(log.job_end(0, at=9000), tmp_path)
    assert durations_of(workload, "stage 0", FRESH) == {slots: [1000] * slots}
    assert durations_of(workload, "stage 0", LATER_WAVE) == {slots: [1000] * (6 - slots)}


def test_a_task_launched_just_before_its_predecessor_is_written_off_uses_its_slot(
    tmp_path: Path,
) -> None:
    """Spark frees the slot some milliseconds before it notes the finish time."""
    log = Log().executor("1", cores=2).job(0, stage(0, 4), at=0)
    log.task(0, 0, "1", 0, 1000).task(0, 1, "1", 0, 1500)
    log.task(0, 2, "1", 995, 1800).task(0, 3, "1", 1498, 2000)
    workload, _ = imported(log.job_end(0, at=2000), tmp_path)
    assert durations_of(workload, "stage 0", FRESH) == {2: [1000, 1500]}
    assert durations_of(workload, "stage 0", LATER_WAVE) == {2: [502, 805]}


def test_durations_are_kept_by_the_slots_alive_at_launch(tmp_path: Path) -> None:
    log = (
        Log()
        .executor("1", cores=2, at=0)
        .job(0, stage(0, 3), at=0)
        .task(0, 0, "1", 10, 110)
        .executor("2", cores=3, at=500)
        .task(0, 1, "2", 600, 800)
        .executor_removed("2", at=1000)
        .task(0, 2, "1", 1100, 1400)
        .job_end(0, at=1400)
    )
    workload, _ = imported(log, tmp_path)
    assert durations_of(workload, "stage 0", FRESH) == {2: [100], 5: [200]}
    assert durations_of(workload, "stage 0", LATER_WAVE) == {2: [300]}


def test_an_executor_that_comes_back_is_fresh_again(tmp_path: Path) -> None:
    log = (
        Log()
        .executor("1")
        .job(0, stage(0, 2), at=0)
        .task(0, 0, "1", 0, 100)
        .executor_removed("1", at=150)
        .executor("1", at=200)
        .task(0, 1, "1", 210, 500)
        .job_end(0, at=500)
    )
    workload, _ = imported(log, tmp_path)
    assert durations_of(workload, "stage 0", FRESH) == {1: [100, 290]}


def test_a_task_may_end_after_its_executor_was_removed(tmp_path: Path) -> None:
    log = Log().executor("1").executor("2").job(0, stage(0, 2), at=0).task(0, 0, "1", 0, 100)
    log.executor_removed("1", at=150).task(0, 1, "1", 110, 140)
    workload, _ = imported(log.job_end(0, at=200), tmp_path)
    assert durations_of(workload, "stage 0", LATER_WAVE) == {2: [30]}


def test_task_cores_may_come_from_a_resource_profile(tmp_path: Path) -> None:
    log = Log()
    cores = {"cpus": {"Resource Name": "cpus", "Amount": 2.0}}
    log.events.append(
        {
            "Event": "SparkListenerResourceProfileAdded",
            "Resource Profile Id": 0,
            "Task Resource Requests": cores,
        }
    )
    log.executor("1", cores=8).job(0, stage(0, 1), at=0).task(0, 0, "1", 0, 100)
    workload, _ = imported(log.job_end(0, at=200), tmp_path)
    assert durations_of(workload, "stage 0", FRESH) == {4: [100]}


def test_an_executor_never_announced_is_there_from_its_first_task(tmp_path: Path) -> None:
    log = Log().environment(spark__executor__cores="2").job(0, stage(0, 1), at=0)
    workload, _ = imported(log.task(0, 0, "9", 0, 100).job_end(0, at=100), tmp_path)
    assert durations_of(workload, "stage 0", FRESH) == {2: [100]}


def test_failed_killed_and_speculative_attempts_count_once(tmp_path: Path) -> None:
    log = (
        Log()
        .executor("1")
        .executor("2")
        .job(0, stage(0, 3), at=0)
        .task(0, 0, "1", 0, 50, reason="ExceptionFailure")
        .task(0, 0, "1", 60, 160)
        .task(0, 1, "2", 0, 200, speculative=True)
        .task(0, 1, "1", 160, 210, reason="TaskKilled")
        .task(0, 2, "2", 200, 500)
        .task(0, 2, "1", 210, 505, speculative=True)
        .job_end(0, at=505)
    )
    workload, report = imported(log, tmp_path)
    assert stages_of(workload) == {"stage 0": (3, [])}
    # The failed attempt took the freshness of executor 1 with it.
    assert durations_of(workload, "stage 0", FRESH) == {2: [200]}
    assert durations_of(workload, "stage 0", LATER_WAVE) == {2: [100, 300]}
    assert report.dropped == {
        "failed task attempt": 1,
        "killed task attempt": 1,
        "speculative task copy": 1,
    }
    assert report.read["task attempts"] == 6


@pytest.mark.parametrize("spark", ["4.0.0", "3.2.1"])
def test_a_stage_retry_counts_each_partition_once(spark: str, tmp_path: Path) -> None:
    """Partition 1 failed; the retry numbers its tasks from 0 and repeats partition 0 as well."""
    log = (
        Log(spark=spark)
        .executor("1")
        .job(0, stage(0, 2), at=0)
        .task(0, 0, "1", 0, 100)
        .task(0, 1, "1", 100, 150, reason="FetchFailed")
        .task(0, 1, "1", 200, 450, attempt=1, index=0)
        .task(0, 0, "1", 450, 500, attempt=1, index=1)
        .job_end(0, at=500)
    )
    workload, report = imported(log, tmp_path)
    assert stages_of(workload) == {"stage 0": (2, [])}
    assert durations_of(workload, "stage 0", FRESH) == {1: [100]}
    assert durations_of(workload, "stage 0", LATER_WAVE) == {1: [250]}
    assert report.dropped["task attempt that repeated finished work"] == 1
    assert report.dropped["failed task attempt"] == 1


def test_tasks_without_an_end_count_like_the_others_of_their_stage(tmp_path: Path) -> None:
    """A busy Spark drops events: eight tasks were to run, three ends are in the log."""
    log = Log().executor("1").job(0, stage(0, 8), at=0)
    for number in range(3):
        log.task(0, number, "1", 100 * number, 100 * number + 100)
    workload, report = imported(log.job_end(0, at=900), tmp_path)
    assert stages_of(workload) == {"stage 0": (8, [])}
    assert workload.work_ms == 800
    assert report.filled == {"tasks without an end, like the others of their stage": 5}
    assert report.read["tasks"] == 8


def test_a_stage_of_which_some_output_existed_runs_fewer_tasks_than_announced(tmp_path: Path) -> None:
    log = (
        Log()
        .executor("1")
        .job(0, stage(0, 8), at=0)
        .submitted(0, 2)
        .task(0, 3, "1", 0, 100)
        .task(0, 5, "1", 100, 200, reason="FetchFailed")
        .submitted(0, 1, attempt=1)
        .task(0, 5, "1", 200, 300, attempt=1, index=0)
        .job_end(0, at=300)
    )
    workload, report = imported(log, tmp_path)
    assert stages_of(workload) == {"stage 0": (2, [])}
    assert not report.filled


def test_a_stage_that_ran_without_the_end_of_any_task_is_lost(tmp_path: Path) -> None:
    log = (
        Log()
        .executor("1")
        .job(0, stage(0, 4), stage(1, 1, (0,)), stage(2, 3), at=0)
        .submitted(0, 4)
        .submitted(1, 1)
        .submitted(2, 0)
        .task(1, 0, "1", 100, 200, shuffle=False)
        .job_end(0, at=200)
    )
    workload, report = imported(log, tmp_path)
    assert stages_of(workload) == {"stage 1": (1, [])}
    assert report.lost == {"stages that ran, but without the end of any task": 1}


def test_many_slot_counts_become_at_most_eight_log_spaced_points(tmp_path: Path) -> None:
    log = Log().job(0, stage(0, 64), at=0)
    for number in range(64):
        log.executor(str(number), at=100 * number)
        log.task(0, number, str(number), 100 * number + 1, 100 * number + 51, shuffle=False)
    workload, _ = imported(log.job_end(0, at=9000), tmp_path)
    found = durations_of(workload, "stage 0", FRESH)
    # 64 ** (k / 7) for k = 0..7, rounded.
    assert list(found) == [1, 2, 3, 6, 11, 20, 35, 64]
    assert sum(len(values) for values in found.values()) == 64


def test_with_extrapolation_every_stage_has_every_point(tmp_path: Path) -> None:
    path = two_stage_log().write(tmp_path / "app-1")
    workload, report = import_spark(str(path), executor_points=(5, 50))
    fresh = durations_of(workload, "stage 0", FRESH)
    assert list(fresh) == [2, 5, 50]
    assert fresh[2] == [1000, 3000]
    assert list(durations_of(workload, "stage 1", FIRST_WAVE)) == [2, 5, 50]
    # Published: with 50 executors 2.16 times the work of 5.
    assert fresh[50][0] / fresh[5][0] == pytest.approx(2.16, rel=0.03)
    assert any("published TPC-H statistics" in line for line in report.assumptions)
    # 1000, 3000 and 500 ms ran; what they might have taken elsewhere is no work.
    assert workload.work_ms == 4500
