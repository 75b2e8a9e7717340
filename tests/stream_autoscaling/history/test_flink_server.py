"""A job from a running JobManager: watched over a while, and what servers do that do not help."""

from typing import Any

import pytest
from tests.loopback_server import serving
from tests.stream_autoscaling.history.flink_answers import checkpoint_details, checkpoints, counting_job

from trimtab.core.errors import HistoryError
from trimtab.stream_autoscaling.history.flink import import_flink


class FakeJobManager:
    """Answers like Flink's; time passes while the importer sleeps."""

    def __init__(self, jobs: dict[str, str]) -> None:
        self.job = counting_job()
        self.jobs = jobs
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.job.now_s += seconds

    def __call__(self, path: str) -> Any:
        if path == "/jobs/overview":
            return {"jobs": [{"jid": j, "name": j, "state": state} for j, state in self.jobs.items()]}
        if path == "/jobs/a1":
            return self.job.details()
        if path == "/jobs/a1/checkpoints":
            return checkpoints(30_000_000)
        if path == "/jobs/a1/checkpoints/details/9":
            return checkpoint_details({"v2": 30_000_000})
        return 404


def test_a_job_manager_is_watched() -> None:
    manager = FakeJobManager({"a1": "RUNNING", "old": "FINISHED"})
    with serving(manager) as address:
        job, report = import_flink(address + "/", samples=4, every_s=5.0, sleep=manager.sleep)
    assert job.vertices[2].service_ms == pytest.approx(7)
    assert job.vertices[2].state_mb == 30
    assert manager.slept == [5.0, 5.0, 5.0]
    assert report.read["pairs of samples"] == 3
    # Flink before 2.3 has no history of rescales.
    assert report.dropped == {"/jobs/<id>/rescales/history, which the server would not give (404)": 1}


@pytest.mark.parametrize(
    ("jobs", "options", "said"),
    [
        ({}, {}, "no job runs there"),
        ({"a1": "RUNNING", "b2": "RUNNING"}, {}, r"several jobs run there: a1 \(a1\), b2 \(b2\); choose one"),
        ({}, {"job": "zz"}, "refused with 404"),
        ({}, {"samples": 1}, "at least two are needed"),
    ],
)
def test_a_job_manager_that_does_not_help(jobs: dict, options: dict, said: str) -> None:
    manager = FakeJobManager(jobs)
    with serving(manager) as address, pytest.raises(HistoryError, match=said):
        import_flink(address, sleep=manager.sleep, **options)


def test_other_servers() -> None:
    with serving(lambda path: []) as address, pytest.raises(HistoryError, match="not a JobManager"):
        import_flink(address)
    with serving(lambda path: {}) as address, pytest.raises(HistoryError, match="not Flink's answer"):
        import_flink(address, job="a1", sleep=lambda seconds: None)
    with pytest.raises(HistoryError, match="no answer"):
        import_flink(address, timeout_s=2)


def test_a_checkpoint_that_is_not_given() -> None:
    manager = FakeJobManager({"a1": "RUNNING"})

    def answering(path: str) -> Any:
        return 500 if "details" in path else manager(path)

    with serving(answering) as address:
        job, report = import_flink(address, samples=2, sleep=manager.sleep)
    assert job.vertices[2].state_mb == 30
    assert report.dropped["details of a checkpoint, which the server would not give (500)"] == 1


@pytest.mark.parametrize("missed", [{0}, {2}, {1, 2, 4}])
def test_a_sample_that_is_not_given_costs_no_watch(missed: set[int]) -> None:
    manager = FakeJobManager({"a1": "RUNNING"})

    def answering(path: str) -> Any:
        return 500 if path == "/jobs/a1" and len(manager.slept) in missed else manager(path)

    with serving(answering) as address:
        job, report = import_flink(address, samples=6, every_s=5.0, sleep=manager.sleep)
    assert job.vertices[2].service_ms == pytest.approx(7)
    assert report.dropped["sample, which the server would not give (500)"] == len(missed)
    assert report.read["answers"] == 6 - len(missed)
    assert report.read["pairs of samples"] == 5 - len(missed)


@pytest.mark.parametrize(("samples", "code", "asked"), [(13, 503, 5), (2, 500, 2), (13, 404, 3)])
def test_a_server_that_gives_no_more_samples_is_left(samples: int, code: int, asked: int) -> None:
    """After the third refusal in a row, or the first that says the job is gone."""
    manager = FakeJobManager({"a1": "RUNNING"})
    found = 2 if samples > 2 else 0

    def answering(path: str) -> Any:
        return code if path == "/jobs/a1" and len(manager.slept) >= found else manager(path)

    with serving(answering) as address, pytest.raises(HistoryError, match=f"jobs/a1: refused with {code}"):
        import_flink(address, samples=samples, every_s=5.0, sleep=manager.sleep)
    assert len(manager.slept) == asked - 1


@pytest.mark.parametrize(
    ("completed", "state_mb"), [({"state_size": 5_000_000}, 5.0), ({"id": "9", "state_size": 1}, 30.0)]
)
def test_a_checkpoint_without_a_plain_number(completed: dict, state_mb: float) -> None:
    manager = FakeJobManager({"a1": "RUNNING"})

    def answering(path: str) -> Any:
        told = {"counts": {}, "latest": {"completed": completed}}
        return told if path.endswith("checkpoints") else manager(path)

    with serving(answering) as address:
        job, _ = import_flink(address, samples=2, sleep=manager.sleep)
    assert job.vertices[2].state_mb == state_mb


def test_a_checkpoint_that_is_none() -> None:
    manager = FakeJobManager({"a1": "RUNNING"})

    def answering(path: str) -> Any:
        return {"counts": {}, "latest": {"completed": "x"}} if "checkpoints" in path else manager(path)

    with serving(answering) as address, pytest.raises(HistoryError, match="a damaged answer about checkp"):
        import_flink(address, samples=2, sleep=manager.sleep)


def test_a_number_in_place_of_the_id_of_a_job() -> None:
    overview = {"jobs": [{"jid": 7, "name": "seven", "state": "RUNNING"}]}

    def answering(path: str) -> Any:
        return overview if path == "/jobs/overview" else 404

    with serving(answering) as address, pytest.raises(HistoryError, match="jobs/7: refused with 404"):
        import_flink(address)


@pytest.mark.parametrize("every_s", [0.0, float("nan"), float("inf")])
def test_samples_need_some_time_between_them(every_s: float) -> None:
    manager = FakeJobManager({"a1": "RUNNING"})
    with serving(manager) as address, pytest.raises(HistoryError, match="at least two are needed, some time"):
        import_flink(address, every_s=every_s, sleep=manager.sleep)
