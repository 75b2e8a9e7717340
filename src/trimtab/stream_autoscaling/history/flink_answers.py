"""Answers of Flink's REST interface: sorted out of a folder, or collected from a JobManager."""

from __future__ import annotations

import http
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlsplit

from trimtab.core.errors import HistoryError
from trimtab.core.import_report import ImportReport
from trimtab.rates.reading import fetch_json, is_address, lines_of, load_json

__all__ = ["WAY_OUT", "Answers", "answers_of"]

WAY_OUT = "save several answers of /jobs/<id> in a folder, or give the address of a JobManager"
PATIENCE = 3
"""Samples in a row that a server may fail to give."""
Answer = Mapping[str, Any]


@dataclass
class Answers:
    """What was found, by kind; job details in the order of their time."""

    details: list[Answer] = field(default_factory=list)
    checkpoints: list[Answer] = field(default_factory=list)
    checkpoint_details: list[Answer] = field(default_factory=list)
    rescales: list[Answer] = field(default_factory=list)

    def sort_in(self, answer: Any) -> bool:
        """Put an answer where it belongs; False if it is of another kind."""
        if isinstance(answer, list) and answer and all(_is_rescale(one) for one in answer):
            self.rescales += answer
        elif not isinstance(answer, Mapping):
            return False
        elif isinstance(answer.get("vertices"), list) and "plan" in answer:
            self.details.append(answer)
        elif _is_rescale(answer):
            self.rescales.append(answer)
        elif "counts" in answer and "latest" in answer:
            self.checkpoints.append(answer)
        elif isinstance(answer.get("tasks"), Mapping) and "state_size" in answer:
            self.checkpoint_details.append(answer)
        else:
            return False
        return True


def _is_rescale(answer: Any) -> bool:
    return isinstance(answer, Mapping) and "schedulerStates" in answer and "terminalState" in answer


def answers_of(
    source: str,
    *,
    keep_going: bool,
    job: str | None,
    samples: int,
    every_s: float,
    timeout_s: float,
    sleep: Callable[[float], None],
    report: ImportReport,
) -> Answers:
    """Saved answers, or those of a JobManager that is watched for a while."""
    if not is_address(source):
        return read_folder(Path(source), job=job, keep_going=keep_going, report=report)
    return ask(
        source, job=job, samples=samples, every_s=every_s, timeout_s=timeout_s, sleep=sleep, report=report
    )


def read_folder(path: Path, *, job: str | None, keep_going: bool, report: ImportReport) -> Answers:
    """Sort all JSON files of a folder (or one file), one answer each, or one a line in `.jsonl`."""
    answers = Answers()
    for answer in _saved(path, keep_going=keep_going, report=report):
        if not answers.sort_in(answer):
            report.drop("answer of another kind")
        report.count("answers")
    of_jobs = {str(answer.get("jid")) for answer in answers.details}
    if job is None and len(of_jobs) > 1:
        raise HistoryError(
            f"{path}: answers of several jobs ({', '.join(sorted(of_jobs))}); choose one (job)"
        )
    answers.details = [answer for answer in answers.details if job in (None, answer.get("jid"))]
    if not answers.details:
        wanted = f"job {job}" if job else "any job"
        raise HistoryError(f"{path}: no answer of /jobs/<id> about {wanted}; {WAY_OUT}")
    try:
        answers.details.sort(key=lambda answer: float(answer.get("now", 0)))
    except (TypeError, ValueError, OverflowError) as problem:
        raise HistoryError(f"{path}: an answer about a job tells no time ({problem}); remove it") from None
    return answers


def _saved(path: Path, *, keep_going: bool, report: ImportReport) -> Iterator[Any]:
    if not path.exists():
        raise HistoryError(f"{path}: no such folder; {WAY_OUT}")
    files = sorted(path.rglob("*.[jJ][sS][oO][nN]*")) if path.is_dir() else [path]
    for file in files:
        try:
            if ".jsonl" in file.name.lower():
                for number, line in enumerate(lines_of(file, keep_going=keep_going, report=report), start=1):
                    if line.strip():
                        yield _parsed(line, file, number)
            else:
                yield load_json(file, way_out=WAY_OUT)
        except HistoryError:
            if not keep_going:
                raise
            report.lose("files that are not JSON")


def _parsed(line: bytes, file: Path, number: int) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as problem:
        raise HistoryError(f"{file}: line {number} is not JSON ({problem}); {WAY_OUT}") from None


def ask(
    address: str,
    *,
    job: str | None,
    samples: int,
    every_s: float,
    timeout_s: float,
    sleep: Callable[[float], None],
    report: ImportReport,
) -> Answers:
    """Watch a running job for a while."""
    if samples < 2 or not 0 < every_s < math.inf:
        raise HistoryError(
            f"{address}: {samples} samples every {every_s:g} s; at least two are needed, some time apart"
        )
    parts = urlsplit(address)
    base = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"

    def get(path: str) -> Any:
        return fetch_json(base + path, timeout_s=timeout_s, way_out=WAY_OUT)

    answers = Answers()
    try:
        chosen = quote(job or _running_job(get("/jobs/overview"), address))
        for answer in _watched(lambda: get(f"/jobs/{chosen}"), samples, every_s, sleep=sleep, report=report):
            if not answers.sort_in(answer):
                raise HistoryError(f"{base}/jobs/{chosen}: not Flink's answer about a job; {WAY_OUT}")
    except HTTPError as refusal:
        raise HistoryError(
            f"{refusal.url}: refused with {refusal.code} {refusal.reason}; {WAY_OUT}"
        ) from None
    for path in ("checkpoints", "rescales/history"):
        try:
            answers.sort_in(get(f"/jobs/{chosen}/{path}"))
        except HTTPError as refusal:
            report.drop(f"/jobs/<id>/{path}, which the server would not give ({refusal.code})")
    _ask_checkpoint(answers, get, chosen, report)
    return answers


def _watched(
    get: Callable[[], Any],
    samples: int,
    every_s: float,
    *,
    sleep: Callable[[float], None],
    report: ImportReport,
) -> Iterator[Any]:
    """Ask so many times; a server that fails now and then costs a sample, one that goes on failing all."""
    refused = 0
    for number in range(samples):
        if number:
            sleep(every_s)
        try:
            answer = get()
        except HTTPError as refusal:
            refused += 1
            if refusal.code < http.HTTPStatus.INTERNAL_SERVER_ERROR or refused == min(PATIENCE, samples):
                raise
            report.drop(f"sample, which the server would not give ({refusal.code})")
            continue
        refused = 0
        report.count("answers")
        yield answer


def _running_job(overview: Any, address: str) -> str:
    try:
        running = {str(row["jid"]): row["name"] for row in overview["jobs"] if row["state"] == "RUNNING"}
    except (KeyError, TypeError):
        raise HistoryError(f"{address}: not a JobManager of Flink; {WAY_OUT}") from None
    if len(running) == 1:
        return next(iter(running))
    if not running:
        raise HistoryError(f"{address}: no job runs there; start one first")
    listed = ", ".join(f"{identity} ({name})" for identity, name in running.items())
    raise HistoryError(f"{address}: several jobs run there: {listed}; choose one (job)")


def _ask_checkpoint(answers: Answers, get: Callable[[str], Any], job: str, report: ImportReport) -> None:
    """State by vertex, if there is a completed checkpoint."""
    latest = answers.checkpoints[-1].get("latest") if answers.checkpoints else None
    completed = latest.get("completed") if isinstance(latest, Mapping) else None
    if not isinstance(completed, Mapping) or "id" not in completed:
        return
    try:
        answers.sort_in(get(f"/jobs/{job}/checkpoints/details/{quote(str(completed['id']))}"))
    except HTTPError as refusal:
        report.drop(f"details of a checkpoint, which the server would not give ({refusal.code})")
