"""Import from a Spark history server (or a running application's UI) over its REST interface.

Event logs are asked for first, because they hold everything. Where they are refused (the UI of a
running application has none to give) the DAG is derived from the order in which stages ran.
"""

from __future__ import annotations

import http
import http.client
import json
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit

from trimtab.core.errors import HistoryError
from trimtab.core.import_report import ImportReport
from trimtab.dag_scheduling.history.inflation import EXECUTOR_POINTS
from trimtab.dag_scheduling.history.spark_applications import workload_of_applications
from trimtab.dag_scheduling.history.spark_log_events import read_application
from trimtab.dag_scheduling.history.spark_log_files import find_application_logs
from trimtab.dag_scheduling.history.spark_records import Application
from trimtab.dag_scheduling.history.spark_rest_records import Table, application_from_rest
from trimtab.dag_scheduling.workload import Workload
from trimtab.rates.asking import open_address
from trimtab.rates.reading import check_wait

__all__ = ["import_spark_server"]

API = "/api/v1"
WAY_OUT = "give the address of a Spark history server, like http://localhost:18080"


def import_spark_server(
    url: str,
    *,
    keep_going: bool = False,
    application: str | None = None,
    limit: int = 100,
    timeout_s: float = 30.0,
    extrapolate: bool = True,
    executor_points: Sequence[int] = EXECUTOR_POINTS,
) -> tuple[Workload, ImportReport]:
    """Every finished query of the newest `limit` applications, or of one `application`."""
    if limit < 1:
        raise HistoryError(f"limit = {limit}: ask for at least one application")
    check_wait(url, timeout_s)
    report = ImportReport(url)
    server = _Server(_base(url), timeout_s)
    attempts = _attempts(server, application=application, limit=limit, report=report)
    workload = workload_of_applications(
        _read_attempts(server, attempts, keep_going=keep_going, report=report),
        source=f"spark-server {urlsplit(url).netloc}",
        keep_going=keep_going,
        extrapolate=extrapolate,
        executor_points=executor_points,
        report=report,
    )
    return workload, report


@dataclass(frozen=True)
class _Attempt:
    application_id: str
    name: str
    path: str
    """Below the API: an attempt has an id of its own only on clusters that retry applications."""
    ended: bool


@dataclass(frozen=True)
class _Server:
    base: str
    timeout_s: float

    def table(self, path: str) -> Table:
        """A table of the interface; HTTPError where the server refuses it."""
        return _table(self._json(path), self.base + path)

    def table_or_empty(self, path: str) -> Table:
        """A table that older versions or applications without SQL do not have."""
        try:
            return self.table(path)
        except HTTPError as refusal:
            if refusal.code != http.HTTPStatus.NOT_FOUND:
                raise
            return []

    def download(self, path: str, target: Path) -> None:
        """Store an answer in a file; HTTPError where the server refuses it.

        Logs may be of any size: once one has begun, only silence is bounded.
        """
        with self._open(path, only_silence=True) as answer, target.open("wb") as file:
            try:
                shutil.copyfileobj(answer, file, 1 << 20)
            except (OSError, http.client.HTTPException) as problem:
                raise self._dead(path, problem) from None

    def _json(self, path: str) -> Any:
        try:
            with self._open(path) as answer:
                return json.loads(answer.read())
        except HTTPError:
            raise
        except OSError as problem:
            raise self._dead(path, problem) from None
        except (ValueError, RecursionError, http.client.HTTPException) as problem:
            raise HistoryError(f"{self.base}{path}: the answer is not JSON ({problem}); {WAY_OUT}") from None

    def _open(self, path: str, *, only_silence: bool = False) -> http.client.HTTPResponse:
        try:
            return open_address(self.base + path, timeout_s=self.timeout_s, only_silence=only_silence)
        except HTTPError as refusal:
            refusal.close()
            raise
        except (URLError, OSError, http.client.HTTPException) as problem:
            raise self._dead(path, problem) from None

    def _dead(self, path: str, problem: Exception) -> HistoryError:
        reason = getattr(problem, "reason", None) or problem
        return HistoryError(f"{self.base}{path}: no answer ({reason}); {WAY_OUT}")


def _base(url: str) -> str:
    """The address of the interface, also from the address of one of its pages.

    >>> _base("http://localhost:18080/history/app-1/jobs/")
    'http://localhost:18080/api/v1'
    """
    try:
        parts = urlsplit(url)
    except ValueError as problem:
        raise HistoryError(f"{url}: not an address ({problem}); {WAY_OUT}") from None
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise HistoryError(f"{url}: not an address; {WAY_OUT}")
    path = parts.path.split(API)[0].split("/history/")[0].rstrip("/")
    return f"{parts.scheme}://{parts.netloc}{path}{API}"


def _table(answer: object, address: str) -> Table:
    if isinstance(answer, list) and all(isinstance(row, Mapping) for row in answer):
        return answer
    raise HistoryError(f"{address}: the answer is not a table; {WAY_OUT}")


def _attempts(
    server: _Server, *, application: str | None, limit: int, report: ImportReport
) -> list[_Attempt]:
    path = f"/applications?limit={limit}"
    try:
        table = server.table(path)
        if application is not None:
            table = [row for row in server.table("/applications") if row["id"] == application]
        elif len(table) == limit:
            report.assume(f"only the newest {limit} applications were asked for (limit)")
        attempts = [
            _Attempt(
                application_id=row["id"],
                name=row["name"],
                path="/".join(["/applications", quote(row["id"]), *_attempt_id(attempt)]),
                ended=bool(attempt.get("completed")),
            )
            for row in table
            for attempt in row["attempts"]
        ]
    except HTTPError as refusal:
        raise HistoryError(f"{server.base}{path}: {_said(refusal)}; {WAY_OUT}") from None
    except (KeyError, TypeError, AttributeError):
        raise HistoryError(f"{server.base}{path}: not Spark's applications; {WAY_OUT}") from None
    if not attempts:
        wanted = f"no application {application}" if application else "no application"
        raise HistoryError(f"{server.base}: {wanted} on this server; run one with event logs on")
    return attempts


def _attempt_id(attempt: Mapping[str, Any]) -> list[str]:
    return [quote(str(attempt["attemptId"]))] if attempt.get("attemptId") else []


def _said(refusal: HTTPError) -> str:
    return f"refused with {refusal.code} {refusal.reason}"


def _read_attempts(
    server: _Server, attempts: Sequence[_Attempt], *, keep_going: bool, report: ImportReport
) -> Iterator[Application]:
    for attempt in attempts:
        try:
            yield from _from_logs(server, attempt, keep_going=keep_going, report=report)
        except (HTTPError, zipfile.BadZipFile) as refusal:
            said = _said(refusal) if isinstance(refusal, HTTPError) else "not a zip"
            yield _from_tables(server, attempt, report=report, why=said)


def _from_logs(
    server: _Server, attempt: _Attempt, *, keep_going: bool, report: ImportReport
) -> list[Application]:
    path = f"{attempt.path}/logs"
    with tempfile.TemporaryDirectory(prefix="trimtab-") as folder:
        archive = Path(folder) / "logs.zip"
        server.download(path, archive)
        if not zipfile.is_zipfile(archive):
            raise zipfile.BadZipFile
        logs = find_application_logs(archive, report, label=server.base + path)
        return [read_application(log, keep_going=keep_going, report=report) for log in logs]


def _from_tables(server: _Server, attempt: _Attempt, *, report: ImportReport, why: str) -> Application:
    report.drop(f"event log the server would not give ({why})")
    report.assume(
        "without the event log, a stage waits for those stages of its job that had completed when "
        "it was submitted"
    )
    label = server.base + attempt.path
    try:
        return application_from_rest(
            label,
            attempt.application_id,
            attempt.name,
            ended=attempt.ended,
            ask=lambda table: server.table_or_empty(f"{attempt.path}/{table}"),
        )
    except HTTPError as refusal:
        raise HistoryError(f"{refusal.url}: {_said(refusal)}; ask again when the server is well") from None
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as problem:
        raise HistoryError(
            f"{label}: the tables are not Spark's ({type(problem).__name__}: {problem}); {WAY_OUT}"
        ) from None
