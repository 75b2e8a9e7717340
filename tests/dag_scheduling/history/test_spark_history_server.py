"""The history server over loopback: event logs when it gives them, tables when it does not."""

import io
import json
import socket
import threading
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.dag_scheduling.history.spark_log_writer import START, two_stage_log
from tests.dag_scheduling.history.workload_view import durations_of, names_of, stages_of
from tests.loopback_server import HALF_A_HEAD, PROMISE, trickling

from trimtab.core.errors import HistoryError
from trimtab.dag_scheduling.history.spark_history_server import import_spark_server
from trimtab.dag_scheduling.workload import FIRST_WAVE, FRESH, LATER_WAVE

APPLICATION = "/api/v1/applications/app-1"


def moment(ms: int) -> str:
    """A time as Spark's interface writes it."""
    when = datetime.fromtimestamp((START + ms) / 1000, UTC)
    return when.strftime("%Y-%m-%dT%H:%M:%S.") + f"{(START + ms) % 1000:03d}GMT"


class FakeServer:
    """Answers of a history server by path; a page is cut from a list by `offset` and `length`."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.asked: list[str] = []
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                fake.asked.append(self.path)
                parts = urlsplit(self.path)
                answer = fake.answers.get(parts.path)
                if answer is None:
                    self.send_error(404, "unknown")
                    return
                if isinstance(answer, int):
                    self.send_error(answer, "refused")
                    return
                query = parse_qs(parts.query)
                if isinstance(answer, list) and "offset" in query:
                    offset = int(query["offset"][0])
                    answer = answer[offset : offset + int(query["length"][0])]
                body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def stage_row(stage_id: int, tasks: int, submitted: int, completed: int) -> dict[str, Any]:
    return {
        "status": "COMPLETE",
        "stageId": stage_id,
        "attemptId": 0,
        "numTasks": tasks,
        "submissionTime": moment(submitted),
        "completionTime": moment(completed),
        "shuffleWriteRecords": 5,
        "rddIds": [100 + stage_id],
    }


def task_row(index: int, executor: str, launch: int, duration: int, **other: Any) -> dict[str, Any]:
    return {
        "taskId": index,
        "index": index,
        "attempt": 0,
        "partitionId": index,
        "launchTime": moment(launch),
        "duration": duration,
        "executorId": executor,
        "status": "SUCCESS",
        "speculative": False,
    } | other


def executor_row(name: str, cores: int) -> dict[str, Any]:
    return {"id": name, "totalCores": cores, "maxTasks": cores, "addTime": moment(0)}


def recorded_tables() -> dict[str, Any]:
    """One SQL query: stages 0 and 1 at once, 2 after both, 3 after 2; stage 9 was skipped."""
    jobs = {
        "jobId": 0,
        "submissionTime": moment(1100),
        "completionTime": moment(9000),
        "stageIds": [9, 3, 2, 1, 0],
        "status": "SUCCEEDED",
    }
    sql = {
        "id": 4,
        "status": "COMPLETED",
        "submissionTime": moment(1000),
        "duration": 8100,
        "runningJobIds": [],
        "successJobIds": [0],
        "failedJobIds": [],
        "rootExecutionId": 4,
    }
    skipped = {"status": "SKIPPED", "stageId": 9, "attemptId": 0, "numTasks": 7}
    return {
        "/api/v1/applications": [
            {"id": "app-1", "name": "etl", "attempts": [{"completed": True, "attemptId": ""}]}
        ],
        f"{APPLICATION}/jobs": [jobs],
        f"{APPLICATION}/sql": [sql],
        f"{APPLICATION}/allexecutors": [
            executor_row("driver", 0),
            executor_row("1", 1),
            executor_row("2", 1),
        ],
        f"{APPLICATION}/stages": [
            stage_row(3, 1, 7010, 9000),
            stage_row(2, 1, 5010, 7000),
            stage_row(1, 1, 1200, 5000),
            stage_row(0, 1, 1200, 3000),
            skipped,
        ],
        f"{APPLICATION}/stages/0/0/taskList": [task_row(0, "1", 2000, 1000)],
        f"{APPLICATION}/stages/1/0/taskList": [task_row(0, "2", 2000, 3000)],
        f"{APPLICATION}/stages/2/0/taskList": [
            task_row(0, "1", 5020, 60, status="FAILED"),
            task_row(0, "1", 5100, 1900),
            task_row(1, "1", 5100, 10, status="RUNNING"),
        ],
        f"{APPLICATION}/stages/3/0/taskList": [task_row(0, "2", 7010, 1990)],
    }


def zipped_log(**fields: Any) -> bytes:
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w") as archive:
        archive.writestr("app-1", two_stage_log(**fields).data)
    return memory.getvalue()


@pytest.fixture
def server() -> Iterator[FakeServer]:
    fake = FakeServer()
    yield fake
    fake.close()


def test_event_logs_are_preferred(server: FakeServer) -> None:
    server.answers = recorded_tables() | {f"{APPLICATION}/logs": zipped_log()}
    workload, report = import_spark_server(server.url + "/history/app-1/jobs/")
    assert stages_of(workload) == {"stage 0": (2, []), "stage 1": (1, ["stage 0"])}
    assert server.asked == ["/api/v1/applications?limit=100", f"{APPLICATION}/logs"]
    assert not report.dropped


@pytest.mark.parametrize("refusal", [404, 503, b"no zip at all"])
def test_tables_are_read_where_logs_are_refused(server: FakeServer, refusal: Any) -> None:
    server.answers = recorded_tables() | {f"{APPLICATION}/logs": refusal}
    workload, report = import_spark_server(server.url, extrapolate=False)
    assert names_of(workload) == ["etl-sql4"]
    assert stages_of(workload) == {
        "stage 0": (1, []),
        "stage 1": (1, []),
        "stage 2": (1, ["stage 0", "stage 1"]),
        "stage 3": (1, ["stage 2"]),
    }
    assert durations_of(workload, "stage 0", FRESH) == {2: [1000]}
    assert durations_of(workload, "stage 2", FIRST_WAVE) == {}
    assert durations_of(workload, "stage 2", LATER_WAVE) == {2: [1900]}
    assert report.dropped["failed task attempt"] == 1
    assert any("would not give" in reason for reason in report.dropped)
    assert any("had completed when it was submitted" in line for line in report.assumptions)


def test_long_task_lists_come_in_pages(server: FakeServer) -> None:
    server.answers = recorded_tables()
    long = [task_row(index, "1", 2000 + index, 1) for index in range(2500)]
    server.answers[f"{APPLICATION}/stages/0/0/taskList"] = long
    workload, _ = import_spark_server(server.url)
    assert stages_of(workload)["stage 0"] == (2500, [])
    pages = [path for path in server.asked if "stages/0/0" in path]
    assert [path.split("offset=")[1].split("&")[0] for path in pages] == ["0", "1000", "2000"]


def test_without_sql_tables_a_job_stands_alone(server: FakeServer) -> None:
    server.answers = recorded_tables()
    del server.answers[f"{APPLICATION}/sql"]
    assert names_of(import_spark_server(server.url)[0]) == ["etl-job0"]


def test_attempts_of_an_application_have_their_own_logs(server: FakeServer) -> None:
    attempts = [{"attemptId": "1", "completed": True}, {"attemptId": "2", "completed": True}]
    server.answers = {
        "/api/v1/applications": [{"id": "app-1", "name": "etl", "attempts": attempts}],
        f"{APPLICATION}/1/logs": zipped_log(),
        f"{APPLICATION}/2/logs": zipped_log(start_ms=60_000),
    }
    assert import_spark_server(server.url)[0].job_count == 2


def test_one_application_can_be_chosen_and_the_limit_is_told(server: FakeServer) -> None:
    server.answers = recorded_tables() | {f"{APPLICATION}/logs": zipped_log()}
    assert import_spark_server(server.url, application="app-1")[0].job_count == 1
    _, report = import_spark_server(server.url, limit=1)
    assert any("newest 1 applications" in line for line in report.assumptions)
    with pytest.raises(HistoryError, match="limit = 0: ask for at least one"):
        import_spark_server(server.url, limit=0)
    with pytest.raises(HistoryError, match="no application app-7 on this server"):
        import_spark_server(server.url, application="app-7")


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ({}, "refused with 404"),
        ({"/api/v1/applications": 500}, "refused with 500"),
        ({"/api/v1/applications": b"<html>hello</html>"}, "not JSON"),
        ({"/api/v1/applications": {"a": 1}}, "not a table"),
        ({"/api/v1/applications": [{"a": 1}]}, "not Spark's applications"),
        ({"/api/v1/applications": []}, "no application on this server"),
        (recorded_tables() | {f"{APPLICATION}/jobs": [{"jobId": "x"}]}, "tables are not Spark's"),
        (recorded_tables() | {f"{APPLICATION}/stages": [{"stageId": 1e999, "status": ""}]}, "not Spark's"),
        (recorded_tables() | {f"{APPLICATION}/jobs": b"garbage"}, "not JSON"),
        (recorded_tables() | {f"{APPLICATION}/jobs": b"[" * 100_000}, "not JSON"),
        (recorded_tables() | {f"{APPLICATION}/jobs": []}, "no finished query"),
        # Without them stage 1 would be missing, or the query fall apart into its jobs.
        (recorded_tables() | {f"{APPLICATION}/stages/1/0/taskList": 500}, "1/0/taskList.*refused with 500"),
        (recorded_tables() | {f"{APPLICATION}/sql": 503}, "refused with 503"),
    ],
)
def test_nonsense_is_refused_in_one_line(server: FakeServer, answers: Any, said: str) -> None:
    server.answers = answers
    with pytest.raises(HistoryError, match=said) as refusal:
        import_spark_server(server.url)
    assert "\n" not in str(refusal.value)
    assert "127.0.0.1" in str(refusal.value)


def test_a_server_that_falls_silent_is_refused_in_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:

        def begin_an_answer() -> None:
            connection, _ = silent.accept()
            with connection:
                connection.recv(10_000)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n[{")
                connection.recv(1)  # until the other side gives up

        thread = threading.Thread(target=begin_an_answer)
        thread.start()
        with pytest.raises(HistoryError, match=r"no answer \(not whole after 0.2 s\); give the address"):
            import_spark_server(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout_s=0.2)
        thread.join()


@pytest.mark.parametrize("head", [PROMISE, HALF_A_HEAD])
def test_a_table_that_trickles_is_given_up(head: bytes) -> None:
    with (
        trickling(b" ", head=head) as url,
        pytest.raises(HistoryError, match=r"no answer \(not whole after 0.3 s\)"),
    ):
        import_spark_server(url, timeout_s=0.3)


def test_a_dead_server_is_refused_in_one_line() -> None:
    fake = FakeServer()
    fake.close()
    with pytest.raises(HistoryError, match=r"no answer \(.*refused.*\); give the address"):
        import_spark_server(fake.url, timeout_s=2)
    with pytest.raises(HistoryError, match="not an address"):
        import_spark_server("localhost:18080")


def test_an_address_or_a_wait_that_is_none_is_refused_in_one_line() -> None:
    with pytest.raises(HistoryError, match=r"not an address \(Invalid IPv6 URL\)"):
        import_spark_server("http://[::1")
    for timeout_s in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(HistoryError, match=r"timeout_s = .*; give more than 0 s, a day at most"):
            import_spark_server("http://127.0.0.1:1", timeout_s=timeout_s)
