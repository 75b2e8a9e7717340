"""`trimtab import`: your history becomes a workload, a rate trace, a job or an application."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from trimtab.cli.terminal import JsonFlag, Switch, change_of, print_json

__all__ = ["import_history", "options_of"]


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
        csv-counts, prometheus, azure-functions (rate traces), flink (a streaming job), azure-profile (an
        application); slurm-sacct, swf, kubernetes-pods, gpu-jobs-csv, helios, philly, openb-2023,
        alibaba-pai-2020 (workloads of training jobs); ...
    path:
        File, folder or address of the history.
    out:
        File to write, such as my.workload, my.trace, my-job.json or my-app.toml.
    keep_going:
        Import what is sound from a damaged history, and say how much was lost.
    set:
        An option of the source, such as fill=interpolate; may be given several times.
    """
    from trimtab.core.errors import HistoryError

    importer = _importer(source)
    options = options_of(source, importer, set or [])
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
    from trimtab.gpu_scheduling.history import HISTORY as OF_GPUS
    from trimtab.pod_autoscaling.history import HISTORY as OF_PODS
    from trimtab.stream_autoscaling.history import HISTORY as OF_STREAMS

    # What streams and pods both have (logs, counts, Prometheus) is the same for both.
    for known in (OF_JOBS, OF_STREAMS, OF_PODS, OF_GPUS):
        if source in known:
            return known.load(source)
    names = list(dict.fromkeys([*OF_JOBS, *OF_STREAMS, *OF_PODS, *OF_GPUS]))
    close = difflib.get_close_matches(source, names, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    raise RegistryError(f"no history {source!r}; {hint}known: {', '.join(names)}")


def options_of(source: str, importer: Callable[..., Any], words: list[str]) -> dict[str, Any]:
    """Options of ``--set name=value`` words; one that the importer does not have is refused."""
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
    from trimtab.gpu_scheduling.workload import Workload as GpuWorkload
    from trimtab.gpu_scheduling.workload import save_workload as save_gpu_workload
    from trimtab.pod_autoscaling.application import Application
    from trimtab.pod_autoscaling.workload.applications import save_application
    from trimtab.rates.traces import rate_told, save_trace
    from trimtab.stream_autoscaling.job import Job, save_job

    if isinstance(made, Workload):
        save_workload(made, out)
        work_s = made.work_ms / 1000.0
        return {"workload": str(out), "jobs": made.job_count}, [
            f"{out}: {made.job_count:,} jobs, {made.task_count:,} tasks, {work_s:,.0f} executor-s",
            f"next: trimtab simulate dag --workload {out} --policy fair --draw gantt.png",
            f"      trimtab compare dag/batch --workload {out}    (batches drawn from these jobs)",
            f"      trimtab compare dag/batch --workload {out} --arrivals trace    (jobs as they came)",
        ]
    if isinstance(made, GpuWorkload):
        save_gpu_workload(made, out)
        days = (int(made.arrival_ms[-1]) - int(made.arrival_ms[0])) / 86_400_000
        return {"workload": str(out), "jobs": made.job_count, "days": days}, [
            f"{out}: {made.job_count:,} jobs in {days:.1f} days, at most {made.gpus.max():g} GPUs, "
            f"{made.gpu_ms.sum() / 3_600_000:,.0f} GPU-hours",
            f"next: trimtab simulate gpu --workload {out} --cluster 64x8 --policy fifo --draw gpus.png",
            f"      trimtab compare gpu/das-small --workload {out} --cluster 64x8    (streams of these jobs)",
            f"      trimtab compare gpu/das-small --workload {out} --cluster 64x8 --arrivals trace    "
            "(jobs as they came)",
        ]
    if isinstance(made, Job):
        save_job(made, out)
        return {"job": str(out), "vertices": len(made.vertices)}, [
            f"{out}: {len(made.vertices)} vertices, {len(made.edges)} edges, usually "
            f"{rate_told(made.usual_rate)} records/s",
            f"next: trimtab simulate stream --job {out} --policy flink --draw day.png",
            f"      trimtab compare stream/jobs --job {out}",
        ]
    if isinstance(made, Application):
        save_application(made, out)
        return {"application": str(out), "segments": len(made.segments)}, [
            f"{out}: {1000 * made.cpu_s:.3g} ms of work and {1000 * made.io_s:.3g} ms of waiting a request, "
            f"{made.memory_mib:.3g} MiB a pod",
            f"next: trimtab simulate pod --app {out} --policy hpa --draw hour.png",
        ]
    save_trace(made, out)
    days = made.length_s / 86_400
    return {"trace": str(out), "steps": len(made.rates), "days": days}, [
        f"{out}: {len(made.rates):,} steps of {made.step_s:g} s, {days:.1f} days, mean "
        f"{rate_told(made.rates.mean())} and at most {rate_told(made.rates.max())} per second",
        f"next: trimtab simulate stream --trace {out} --load 0.5 --policy flink --draw day.png    "
        "(as records, scaled to an embedded job; with --job my-job.json and no --load as they are)",
        f"      trimtab compare stream/jobs --trace {out} --load 0.5",
        f"      trimtab simulate pod --trace {out} --policy hpa --draw hour.png    (as requests)",
    ]
