"""`trimtab import`: your history becomes a workload, a rate trace or a job."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from trimtab.cli.terminal import JsonFlag, Switch, change_of, print_json

__all__ = ["import_history"]


def import_history(
    source: str,
    path: str,
    /,
    *,
    out: Path,
    keep_going: Switch = False,
    set: Annotated[list[str] | None, Parameter(negative=())] = None,
    json: JsonFlag = False,
) -> None:
    """Read a history and write a file that `simulate`, `compare` and `train` take.

    Parameters
    ----------
    source:
        Kind of history: spark, spark-server, alibaba-2018, wave-profile (workloads of jobs); common-log,
        csv-counts, prometheus (rate traces), flink (a streaming job); ...
    path:
        File, folder or address of the history.
    out:
        File to write, such as my.workload, my.trace or my-job.json.
    keep_going:
        Import what is sound from a damaged history, and say how much was lost.
    set:
        An option of the source, such as fill=interpolate; may be given several times.
    """
    from trimtab.core.errors import HistoryError

    importer = _importer(source)
    options = _options(source, importer, set or [])
    if not out.parent.is_dir():
        raise HistoryError(f"{out}: the folder {out.parent} does not exist; make it first")
    made, report = importer(path, keep_going=keep_going, **options)
    facts, told = _save(made, out)
    if json:
        print_json({**facts, **report.as_dict()})
        return
    print("\n".join([*report.lines(), "", *told]))


def _importer(source: str) -> Callable[..., Any]:
    """Look the source up in every wing."""
    from trimtab.core.errors import RegistryError
    from trimtab.dag_scheduling.history import HISTORY as OF_JOBS
    from trimtab.stream_autoscaling.history import HISTORY as OF_STREAMS

    for known in (OF_JOBS, OF_STREAMS):
        if source in known:
            return known.load(source)
    names = [*OF_JOBS, *OF_STREAMS]
    close = difflib.get_close_matches(source, names, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    raise RegistryError(f"no history {source!r}; {hint}known: {', '.join(names)}")


def _options(source: str, importer: Callable[..., Any], words: list[str]) -> dict[str, Any]:
    from trimtab.core.errors import SettingsError

    # What the verb itself gives, and what only tests and Python callers can.
    hidden = ("keep_going", "sleep")
    known = [
        name
        for name, parameter in inspect.signature(importer).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and name not in hidden
    ]
    options = dict(map(change_of, words))
    for name in options:
        if name not in known:
            told = f"it has {', '.join(known)}" if known else "it has none"
            raise SettingsError(f"--set {name}: {source} has no such option; {told}")
    return options


def _save(made: Any, out: Path) -> tuple[dict[str, Any], list[str]]:
    """Write what came of it; facts for JSON, and lines that say what to do next."""
    from trimtab.dag_scheduling.workload import Workload, save_workload
    from trimtab.stream_autoscaling.job import Job, save_job
    from trimtab.stream_autoscaling.workload.traces import save_trace

    if isinstance(made, Workload):
        save_workload(made, out)
        work_s = made.work_ms / 1000.0
        return {"workload": str(out), "jobs": made.job_count}, [
            f"{out}: {made.job_count:,} jobs, {made.task_count:,} tasks, {work_s:,.0f} executor-s",
            f"next: trimtab simulate dag --workload {out} --policy fair --draw gantt.png",
            f"      trimtab compare dag/batch --workload {out}    (batches drawn from these jobs)",
            f"      trimtab compare dag/batch --workload {out} --arrivals trace    (jobs as they came)",
        ]
    if isinstance(made, Job):
        save_job(made, out)
        return {"job": str(out), "vertices": len(made.vertices)}, [
            f"{out}: {len(made.vertices)} vertices, {len(made.edges)} edges, usually "
            f"{made.usual_rate:,.0f} records/s",
            f"next: trimtab simulate stream --job {out} --policy flink --draw day.png",
            f"      trimtab compare stream/jobs --job {out}",
        ]
    save_trace(made, out)
    days = made.length_s / 86_400
    return {"trace": str(out), "steps": len(made.rates), "days": days}, [
        f"{out}: {len(made.rates):,} steps of {made.step_s:g} s, {days:.1f} days, mean "
        f"{made.rates.mean():,.1f} and at most {made.rates.max():,.1f} records/s",
        f"next: trimtab simulate stream --trace {out} --policy flink --draw day.png",
        f"      trimtab compare stream/jobs --trace {out}",
    ]
