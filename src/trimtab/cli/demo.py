"""`trimtab demo`: two minutes from nothing to an answer."""

from __future__ import annotations

from pathlib import Path

from trimtab.cli.terminal import (
    JsonFlag,
    command_line,
    cores,
    now,
    print_json,
    progress_bar,
    remark,
    say_if_compiling,
)

__all__ = ["demo"]

LEARNED = "decima-tpch-batch"


def demo(
    *,
    out: Path | None = None,
    workload: str | None = None,
    seeds: int = 40,
    seed: int = 0,
    processes: int | None = None,
    json: JsonFlag = False,
) -> None:
    """Compare every rule, and a trained policy, on a batch of TPC-H jobs; say which would serve best.

    Parameters
    ----------
    out:
        Run folder to make (default: runs/demo, then runs/demo-2, ...).
    workload:
        Another workload than the embedded one.
    seeds:
        Test episodes of each policy.
    seed:
        Another number gives other test episodes.
    processes:
        Processes to use (default: one per core).
    """
    from trimtab.benchmark.compare import compare
    from trimtab.benchmark.results import write_results
    from trimtab.benchmark.tables import as_plain
    from trimtab.benchmark.tuned import shipped_tuned_values
    from trimtab.cli.asking import SuiteFlags, check_names
    from trimtab.cli.compare import print_tables
    from trimtab.core.run_folder import RunFolder
    from trimtab.dag_scheduling.policies import POLICIES, PREFIX

    asked = SuiteFlags(workload=workload, seed=seed).suite("dag/batch", seeds=seeds)
    if PREFIX + LEARNED in POLICIES:
        asked = asked.model_copy(update={"policies": (*asked.policies, LEARNED)})
    tuned = shipped_tuned_values()
    check_names(asked, tuned)
    folder = (
        RunFolder.create_next("runs", "demo", clock=now, settings=asked)
        if out is None
        else RunFolder.create(out, clock=now, settings=asked)
    )
    say_if_compiling(asked.wing, asked.policies)
    with progress_bar("playing every policy on the same jobs", quiet=json) as show:
        comparison = compare(
            asked, tuned=tuned, processes=processes or cores(), progress=show, name="dag/batch"
        )
    files = write_results(
        folder, comparison, command=command_line(), policies=asked.policies, tuned=tuned,
        began=f"{now():%Y-%m-%d}",
    )  # fmt: skip
    sentence = asked.wing.answer(comparison, comparison.results[0])
    if json:
        print_json(
            {**as_plain(comparison, episodes=False), "answer": sentence, "run_folder": str(folder.path)}
        )
        return
    print_tables(comparison)
    print(f"\n{sentence}\n")
    remark(f"wrote {', '.join(files)} into {folder.path}")
    print(f"Open {folder.path / 'report.html'} in a browser: Gantt charts of the same jobs under each.")
    print("Bring your own history:  trimtab import spark EVENT_LOGS --out my.workload")
    print("                         trimtab compare dag/batch --workload my.workload")
