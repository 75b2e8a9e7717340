"""`trimtab import`: your history becomes a workload, a rate trace, a job or an application."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

from cyclopts import Parameter

from trimtab.cli.targets import check_file
from trimtab.cli.terminal import JsonFlag, Switch, change_of, print_json, span

if TYPE_CHECKING:
    from trimtab.gpu_scheduling.cluster import GpuType
    from trimtab.gpu_scheduling.workload import Workload as GpuWorkload
    from trimtab.rates.traces import RateTrace

__all__ = ["check_target", "import_history", "options_of"]

MACHINES = "machines.csv"
"""What a table of machines is called in next steps."""


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
        csv-counts, prometheus, flink-rates, azure-functions (rate traces), flink (a streaming job),
        azure-profile (an application); slurm-sacct, swf, kubernetes-pods, gpu-jobs-csv, helios, philly,
        openb-2023, alibaba-pai-2020 (workloads of training jobs); ...
    path:
        File, folder or address of the history.
    out:
        File to write, such as my.workload, my.trace, my-job.json or my-app.toml.
    keep_going:
        Import what is sound from a damaged history, and say how much was lost.
    set:
        An option of the source, such as fill=interpolate; may be given several times.
    """
    importer = _importer(source)
    options = options_of(source, importer, set or [])
    check_target(out, path)
    made, report = importer(path, keep_going=keep_going, **options)
    facts, told = _save(made, out)
    if json:
        print_json({**facts, **report.as_dict()})
        return
    print("\n".join([*report.lines(), "", *told]))


def check_target(out: Path, history: str) -> None:
    """Refuse to write where no file can be, or over the history itself; and to read what is no file."""
    from trimtab.core.errors import HistoryError
    from trimtab.rates.reading import refuse_pipe

    refuse_pipe(Path(history))
    check_file(out)
    if out.exists() and Path(history).exists() and out.samefile(history):
        raise HistoryError(f"{out}: is the history itself; name another file to write")


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
    """Options of ``--set name=value`` words, each of the type that the importer's signature wants."""
    from trimtab.core.errors import SettingsError
    from trimtab.core.settings import load_settings, settings_of_keywords

    if not words:
        return {}
    # What the verb itself gives, and what only tests and Python callers can.
    model = settings_of_keywords(importer, but=("keep_going", "sleep"))
    known = model.model_fields
    options: dict[str, Any] = {}
    for word in words:
        name, value = change_of(word)
        if name not in known:
            told = f"it has {', '.join(known)}" if known else "it has none"
            raise SettingsError(f"--set {name}: {source} has no such option; {told}")
        wanted = known[name].annotation
        if str in (wanted, *get_args(wanted)) and not isinstance(value, str):
            # The partition 42 is a name, not a number.
            value = word.partition("=")[2].strip()
        options[name] = value
    checked = load_settings(model, None, options, given_as=lambda field: "--set")
    return {name: getattr(checked, name) for name in options}


def _save(made: Any, out: Path) -> tuple[dict[str, Any], list[str]]:
    """Write what came of it; facts for JSON, and lines that say what to do next."""
    from trimtab.dag_scheduling.workload import Workload, save_workload
    from trimtab.dag_scheduling.workload.presets import SHORTEST_STRETCH, stretch_jobs
    from trimtab.gpu_scheduling.workload import Workload as GpuWorkload
    from trimtab.gpu_scheduling.workload import save_workload as save_gpu_workload
    from trimtab.pod_autoscaling.application import Application
    from trimtab.pod_autoscaling.workload.applications import save_application
    from trimtab.rates.traces import rate_told, save_trace
    from trimtab.stream_autoscaling.job import Job, save_job

    file = shlex.quote(str(out))
    if isinstance(made, Workload):
        save_workload(made, out)
        work_s = made.work_ms / 1000.0
        lines = [
            f"{out}: {made.job_count:,} jobs, {made.task_count:,} tasks, {work_s:,.0f} executor-s",
            f"next: trimtab simulate dag --workload {file} --policy fair --draw gantt.png",
            f"      trimtab compare dag/batch --workload {file}    (batches drawn from these jobs)",
            f"      trimtab compare dag/batch --workload {file} --arrivals trace    (jobs as they came)",
        ]
        is_long = stretch_jobs(made) >= SHORTEST_STRETCH
        return {"workload": str(out), "jobs": made.job_count}, lines if is_long else lines[:-1]
    if isinstance(made, GpuWorkload):
        save_gpu_workload(made, out)
        days = (int(made.arrival_ms[-1]) - int(made.arrival_ms[0])) / 86_400_000
        gpu_hours = float(made.gpu_ms.sum()) / 3_600_000
        return {"workload": str(out), "jobs": made.job_count, "days": days}, [
            f"{out}: {made.job_count:,} jobs in {span(86_400 * days)}, at most {made.gpus.max():g} GPUs, "
            f"{gpu_hours:,.{0 if gpu_hours >= 10 else 2}f} GPU-hours",
            *_gpu_steps(made, file),
        ]
    if isinstance(made, Job):
        save_job(made, out)
        return {"job": str(out), "vertices": len(made.vertices)}, [
            f"{out}: {len(made.vertices)} vertices, {len(made.edges)} edges, usually "
            f"{rate_told(made.usual_rate)} records/s",
            f"next: trimtab simulate stream --job {file} --policy flink --draw day.png",
            f"      trimtab compare stream/jobs --job {file}",
        ]
    if isinstance(made, Application):
        save_application(made, out)
        return {"application": str(out), "segments": len(made.segments)}, [
            f"{out}: {1000 * made.cpu_s:.3g} ms of work and {1000 * made.io_s:.3g} ms of waiting a request, "
            f"{made.memory_mib:.3g} MiB a pod",
            f"next: trimtab simulate pod --app {file} --policy hpa --draw hour.png",
        ]
    save_trace(made, out)
    days = made.length_s / 86_400
    return {"trace": str(out), "steps": len(made.rates), "days": days}, [
        f"{out}: {len(made.rates):,} steps of {made.step_s:g} s, {span(86_400 * days)}, mean "
        f"{rate_told(made.rates.mean())} and at most {rate_told(made.rates.max())} per second",
        *_trace_steps(made, file),
    ]


def _trace_steps(made: RateTrace, file: str) -> list[str]:
    """What to do next with a trace; streams are played in whole days, and judged by days of their own."""
    from trimtab.rates.parts import LEAST_DAYS, whole_days

    first, last = whole_days(made)
    steps = [f"trimtab simulate pod --trace {file} --policy hpa --draw hour.png    (as requests)"]
    if last - first >= LEAST_DAYS:
        steps.insert(0, f"trimtab compare stream/jobs --trace {file} --load 0.5")
    if last > first:
        steps.insert(
            0,
            f"trimtab simulate stream --trace {file} --load 0.5 --policy flink --draw day.png    "
            "(as records, scaled to an embedded job; with --job my-job.json and no --load as they are)",
        )
    if last - first < LEAST_DAYS:
        steps.append(
            f"({last - first} whole days, from midnight to midnight: `simulate stream` needs 1, "
            f"`compare stream/jobs` {LEAST_DAYS})"
        )
    return [f"next: {steps[0]}", *(f"      {step}" for step in steps[1:])]


def _gpu_steps(made: GpuWorkload, file: str) -> list[str]:
    """What to do next with training jobs, on machines that have the GPU models they ask for."""
    from trimtab.core.settings import toml_value
    from trimtab.gpu_scheduling.cluster import TYPES, GpuType
    from trimtab.gpu_scheduling.workload.clusters import TRACE_TYPES

    asked = [name for bit, name in enumerate(made.type_names) if (made.allowed_types >> bit & 1).any()]
    known = {one.name for one in (*TYPES, *TRACE_TYPES)}
    unknown = [GpuType(name=name) for name in asked if name not in known]
    cluster = _cluster_for(made, asked, unknown)
    steps, simulate, compare = list[str](), f"--cluster {cluster}", f"--cluster {cluster}"
    if cluster == MACHINES:
        models = f"; jobs ask for {', '.join(asked)}" if asked else ""
        steps.append(f"list your machines in {MACHINES}, with columns machine,gpus,gpu_type{models}")
    if unknown:
        types = toml_value([one.model_dump() for one in unknown])
        declared = shlex.quote(f"gpu_types = {types}")
        steps.append(f"echo {declared} > gpus.toml    (put in their speeds beside a V100's, their prices)")
        simulate += " --settings gpus.toml"
        compare += f" --set {shlex.quote(f'cluster.gpu_types={types}')}"
    steps += [
        f"trimtab simulate gpu --workload {file} {simulate} --policy fifo --draw gpus.png",
        f"trimtab compare gpu/das-small --workload {file} {compare}    (streams of these jobs)",
        f"trimtab compare gpu/das-small --workload {file} {compare} --arrivals trace    (jobs as they came)",
    ]
    return [f"next: {steps[0]}", *(f"      {step}" for step in steps[1:])]


def _cluster_for(made: GpuWorkload, models: Sequence[str], unknown: Sequence[GpuType]) -> str:
    """64 equal machines that can run all jobs but those larger than all of them, or else a table."""
    from trimtab.gpu_scheduling.simulator.tables import misfits
    from trimtab.gpu_scheduling.workload.clusters import find_cluster

    gpus = max(8, int(made.gpu_milli.max()) // 1000)
    if gpus <= 64:
        for name in (f"64x{gpus}", *(f"64x{gpus}x{model}" for model in models)):
            cluster = find_cluster(name, unknown)
            total = cluster.machine_table.gpus.sum()
            if (made.gpus[misfits(made, cluster)] > total).all():
                return name
    return MACHINES
