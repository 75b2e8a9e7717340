"""`trimtab import`: your history becomes a workload."""

from __future__ import annotations

from pathlib import Path

from trimtab.cli.terminal import JsonFlag, Switch, print_json

__all__ = ["import_history"]


def import_history(
    source: str,
    path: str,
    /,
    *,
    out: Path,
    keep_going: Switch = False,
    json: JsonFlag = False,
) -> None:
    """Read a history and write a workload file.

    Parameters
    ----------
    source:
        Kind of history: spark, spark-server, alibaba-2018, wave-profile, ...
    path:
        File, folder or address of the history.
    out:
        Workload file to write, such as my.workload.
    keep_going:
        Import what is sound from a damaged history, and say how much was lost.
    """
    from trimtab.core.errors import HistoryError
    from trimtab.dag_scheduling.history import HISTORY
    from trimtab.dag_scheduling.workload import save_workload

    importer = HISTORY.load(source)
    if not out.parent.is_dir():
        raise HistoryError(f"{out}: the folder {out.parent} does not exist; make it first")
    workload, report = importer(path, keep_going=keep_going)
    save_workload(workload, out)
    if json:
        print_json({"workload": str(out), "jobs": workload.job_count, **report.as_dict()})
        return
    print("\n".join(report.lines()))
    work_s = workload.work_ms / 1000.0
    print(f"\n{out}: {workload.job_count:,} jobs, {workload.task_count:,} tasks, {work_s:,.0f} executor-s")
    print(f"next: trimtab simulate dag --workload {out} --policy fair --draw gantt.png")
    print(f"      trimtab compare dag/batch --workload {out}    (batches drawn from these jobs)")
    print(f"      trimtab compare dag/batch --workload {out} --arrivals trace    (jobs as they came)")
