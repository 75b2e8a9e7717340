"""`trimtab demo`: two minutes from nothing to an answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from trimtab.cli.asking import SuiteFlags, check_names
from trimtab.cli.targets import check_new_folder
from trimtab.cli.terminal import (
    JsonFlag,
    Processes,
    command_line,
    cores,
    now,
    print_json,
    progress_bar,
    remark,
    say_if_compiling,
)
from trimtab.cli.wings import WingName

__all__ = ["demo"]


@dataclass(frozen=True)
class _Demo:
    suite: str
    seeds: int
    flags: SuiteFlags
    learned: tuple[str, ...]
    """Trained policies that join if they come with the package."""
    pictures: str
    next_steps: tuple[str, ...]


DEMOS = {
    "dag": _Demo(
        "dag/batch",
        40,
        SuiteFlags(),
        ("decima-tpch-batch", "compact-tpch"),
        "Gantt charts of the same jobs under each",
        (
            "Bring your own history:  trimtab import spark EVENT_LOGS --out my.workload",
            "                         trimtab compare dag/batch --workload my.workload",
        ),
    ),
    "stream": _Demo(
        "stream/jobs",
        5,
        SuiteFlags(job="small-1"),
        ("sure-compact", "sure"),
        "a day of the same job under each",
        (
            "Bring your own history:  trimtab import common-log ACCESS_LOG --out my.trace",
            "                         trimtab compare stream/jobs --job small-1 --trace my.trace --load 0.5",
        ),
    ),
    "pod": _Demo(
        "pod/services",
        6,
        SuiteFlags(app="thumbnails"),
        ("aware",),
        "two hours of the same service under each",
        (
            "Bring your own history:  trimtab fit-profile METRICS.csv --out my-app.toml",
            "                         trimtab import common-log ACCESS_LOG --out my.trace",
            "                         trimtab compare pod/services --app my-app.toml --trace my.trace",
        ),
    ),
    "gpu": _Demo(
        "gpu/das-small",
        10,
        SuiteFlags(),
        ("das",),
        "who held which GPU under each",
        (
            "Bring your own history:  trimtab import slurm-sacct SACCT.txt --out my.workload",
            "                         trimtab compare gpu/das-small --workload my.workload --cluster 64x8",
        ),
    ),
}
# What `--workload` names in each wing.
GROUNDS = {"dag": "workload", "stream": "job", "pod": "app", "gpu": "workload"}


def demo(
    wing: WingName = "dag",
    /,
    *,
    out: Path | None = None,
    workload: str | None = None,
    seeds: int | None = None,
    seed: int = 0,
    processes: Processes = None,
    json: JsonFlag = False,
) -> None:
    """Compare every rule, and trained policies, on an embedded workload; say which would serve best.

    Parameters
    ----------
    wing:
        dag: a batch of TPC-H jobs on a cluster; stream: a day of a streaming job; pod: hours of a service;
        gpu: weeks of training jobs.
    out:
        Run folder to make (default: runs/demo, then runs/demo-2, ...).
    workload:
        dag, gpu: another workload than the embedded one; stream: another job; pod: another service.
    seeds:
        Test episodes of each policy (default 40; stream: 5; pod: 6; gpu: 10).
    seed:
        Another number gives other test episodes.
    processes:
        Processes to use (default: one per core).
    """
    from trimtab.benchmark.compare import compare
    from trimtab.benchmark.results import write_results
    from trimtab.benchmark.tables import as_plain
    from trimtab.benchmark.tuned import shipped_tuned_values
    from trimtab.cli.compare import print_tables
    from trimtab.core.run_folder import RunFolder

    check_new_folder(out)
    shown = DEMOS[wing]
    ground = {GROUNDS[wing]: workload} if workload else {}
    asked = replace(shown.flags, seed=seed, **ground).suite(
        shown.suite, seeds=shown.seeds if seeds is None else seeds
    )
    known = asked.wing.policy_names()
    learned = [one for one in shown.learned if f"{wing}/{one}" in known and one not in asked.policies]
    asked = asked.model_copy(update={"policies": (*asked.policies, *learned)})
    tuned = shipped_tuned_values()
    check_names(asked, tuned)
    folder = (
        RunFolder.create_next("runs", "demo" if wing == "dag" else f"demo-{wing}", clock=now, settings=asked)
        if out is None
        else RunFolder.create(out, clock=now, settings=asked)
    )
    with folder.kept_with("results.json"):
        say_if_compiling(asked.wing, asked.policies)
        with progress_bar("playing every policy on the same workloads", quiet=json) as show:
            comparison = compare(
                asked, tuned=tuned, processes=processes or cores(), progress=show, name=shown.suite
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
    print(f"Open {folder.path / 'report.html'} in a browser: {shown.pictures}.")
    for step in shown.next_steps:
        print(step)
