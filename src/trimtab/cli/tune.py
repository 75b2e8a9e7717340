"""`trimtab tune`: the best self of every rule, on training seeds only."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from trimtab.cli.terminal import (
    JsonFlag,
    cores,
    print_json,
    progress_bar,
    remark,
    say_if_compiling,
    split_policies,
    table_of,
)

if TYPE_CHECKING:
    from trimtab.benchmark.suites import DagSuite
    from trimtab.benchmark.tune import Tuning

__all__ = ["tune"]


def tune(
    wing: Literal["dag"],
    /,
    *,
    suite: str = "dag/batch",
    policies: str | None = None,
    training_seeds: int | None = None,
    workload: str | None = None,
    jobs: int | None = None,
    executors: int | None = None,
    arrivals: Literal["batch", "poisson", "trace"] | None = None,
    load: float | None = None,
    settings: Path | None = None,
    out: Path | None = None,
    processes: int | None = None,
    seed: int | None = None,
    json: JsonFlag = False,
) -> None:
    """Find the settings at which each rule does best; test episodes are never played.

    Parameters
    ----------
    wing:
        What is scheduled: dag.
    suite:
        Suite to tune for.
    policies:
        Rules separated by commas (default: all that have something to tune).
    training_seeds:
        Episodes each candidate is judged by.
    workload:
        Name or workload file instead of the suite's own.
    jobs:
        Jobs per episode.
    executors:
        Size of the cluster.
    arrivals:
        All at once, a Poisson stream, or the times in the file.
    load:
        One load instead of the suite's sweep.
    settings:
        TOML file with fields of the suite.
    out:
        File of tuned values; new values are added to those in it. For `trimtab compare --tuned`.
    processes:
        Processes to use (default: one per core).
    seed:
        Another number for the suite; training episodes stay the same.
    """
    from trimtab.benchmark.tuned import TunedValues
    from trimtab.cli.asking import suite_settings
    from trimtab.dag_scheduling.workload.presets import find_source

    asked = suite_settings(
        suite, settings=settings, workload=workload, jobs=jobs, executors=executors,
        arrivals=arrivals, load=load, seed=seed, training_seeds=training_seeds,
    )  # fmt: skip
    find_source(asked.workload.name)
    before = TunedValues.load(out) if out is not None and out.exists() else TunedValues()
    tunings = _tune_all(asked, suite, policies, processes or cores(), quiet=json)
    if out is not None:
        before.with_entries(tuning.entry for tuning in tunings).save(out)
        remark(f"tuned values in {out}")
    if json:
        print_json([_plain(tuning) for tuning in tunings])
        return
    rows = [
        [
            tuning.scenario.name or suite,
            tuning.policy,
            _told(tuning.usual.values),
            f"{tuning.usual.mean_jct_s:.1f}",
            _told(tuning.best.values),
            f"{tuning.best.mean_jct_s:.1f}",
            str(len(tuning.trials)),
        ]
        for tuning in tunings
    ]
    heads = ["scenario", "policy", "usual", "mean JCT, s", "best", "mean JCT, s", "tried"]
    print(table_of(heads, rows))
    print(f"\nOn {asked.training_seeds} training seeds; compare judges by others.")


def _tune_all(
    asked: DagSuite, suite: str, policies: str | None, processes: int, *, quiet: bool
) -> list[Tuning]:
    from trimtab.benchmark.playing import Workers
    from trimtab.benchmark.tune import check_tunable, tunable_policies
    from trimtab.benchmark.tune import tune as run

    names = tunable_policies() if policies is None else split_policies(policies)
    for name in names:
        check_tunable(name)
    say_if_compiling(names)
    tunings: list[Tuning] = []
    with progress_bar("tuning", quiet=quiet) as show, Workers(processes) as workers:
        pairs = [(scenario, name) for scenario in asked.scenarios() for name in names]
        for done, (scenario, name) in enumerate(pairs):
            show(done, len(pairs))
            tunings.append(run(name, asked, scenario, suite_name=suite, workers=workers))
    return tunings


def _told(values: dict[str, float]) -> str:
    return ",".join(f"{name}={value:g}" for name, value in values.items())


def _plain(tuning: Tuning) -> dict[str, object]:
    return {
        "policy": tuning.policy,
        "scenario": tuning.scenario.name,
        "usual": {"values": tuning.usual.values, "mean_jct_s": tuning.usual.mean_jct_s},
        "best": {"values": tuning.best.values, "mean_jct_s": tuning.best.mean_jct_s},
        "trials": [{"values": trial.values, "mean_jct_s": trial.mean_jct_s} for trial in tuning.trials],
    }
