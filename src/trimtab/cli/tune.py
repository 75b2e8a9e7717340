"""`trimtab tune`: the best self of every rule, on training seeds only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trimtab.cli.asking import USUAL_SUITE, SuiteFlags
from trimtab.cli.targets import check_file
from trimtab.cli.terminal import (
    JsonFlag,
    Processes,
    cores,
    print_json,
    progress_bar,
    remark,
    say_if_compiling,
    split_policies,
    table_of,
)
from trimtab.cli.wings import SuiteName, WingName

if TYPE_CHECKING:
    from trimtab.benchmark.suite import Suite
    from trimtab.benchmark.tune import Tuning

__all__ = ["tune"]

USUAL = {"dag": "dag/batch", "stream": "stream/jobs", "pod": "pod/services", "gpu": "gpu/das-small"}


def tune(
    wing: WingName,
    /,
    *,
    suite: SuiteName | None = None,
    policies: str | None = None,
    training_seeds: int | None = None,
    changes: SuiteFlags = USUAL_SUITE,
    out: Path | None = None,
    processes: Processes = None,
    json: JsonFlag = False,
) -> None:
    """Find the settings at which each rule does best; test episodes are never played.

    Parameters
    ----------
    wing:
        What is decided: dag, stream, pod or gpu.
    suite:
        Suite to tune for (default: dag/batch, stream/jobs, pod/services or gpu/das-small).
    policies:
        Rules separated by commas (default: all that have something to tune).
    training_seeds:
        Episodes each candidate is judged by.
    out:
        File of tuned values; new values are added to those in it. For `trimtab compare --tuned`.
    processes:
        Processes to use (default: one per core).
    """
    from trimtab.benchmark.tuned import TunedValues

    check_file(out)
    name = suite or USUAL[wing]
    _refuse_other_wing(wing, name)
    named = None if policies is None else tuple(split_policies(policies))
    asked = changes.suite(name, training_seeds=training_seeds, policies=named)
    asked.check()
    before = TunedValues.load(out) if out is not None and out.exists() else TunedValues()

    def keep(done: Sequence[Tuning]) -> None:
        """Hours may lie between the first rule and the last: what is found is kept at once."""
        if out is not None:
            before.with_entries(tuning.entry for tuning in done).save(out)

    tunings = _tune_all(asked, name, named, processes or cores(), keep, quiet=json)
    if out is not None:
        remark(f"tuned values in {out}")
    if json:
        print_json([_plain(tuning, asked.wing.measure) for tuning in tunings])
        return
    rows = [
        [
            tuning.scenario.name or name,
            tuning.policy,
            _told(tuning.usual.values),
            _score(tuning.usual.score),
            _told(tuning.best.values),
            _score(tuning.best.score),
            str(len(tuning.trials)),
        ]
        for tuning in tunings
    ]
    measure = asked.wing.measure
    heads = ["scenario", "policy", "usual", measure, "best", measure, "tried"]
    print(table_of(heads, rows))
    print(f"\nOn {asked.training_seeds} training seeds; compare judges by others.")


def _tune_all(
    asked: Suite,
    suite: str,
    policies: Sequence[str] | None,
    processes: int,
    keep: Callable[[Sequence[Tuning]], None],
    *,
    quiet: bool,
) -> list[Tuning]:
    from trimtab.benchmark.playing import Workers
    from trimtab.benchmark.tune import check_tunable, tunable_policies
    from trimtab.benchmark.tune import tune as run

    wing = asked.wing
    names = policies or [name for name in tunable_policies(wing) if asked.admits(wing.make_policy(name))]
    for name in names:
        check_tunable(wing, name)
    say_if_compiling(asked.wing, names)
    tunings: list[Tuning] = []
    with progress_bar("tuning", quiet=quiet) as show, Workers(processes) as workers:
        pairs = [(scenario, name) for scenario in asked.scenarios() for name in names]
        for done, (scenario, name) in enumerate(pairs):
            show(done, len(pairs))
            tunings.append(run(name, asked, scenario, suite_name=suite, workers=workers))
            keep(tunings)
    return tunings


def _score(value: float) -> str:
    """Costs of streams lie below 1 and differ in the third digit."""
    from trimtab.benchmark.numbers import as_number, as_three_digits

    return as_three_digits(value) if value < 1 else as_number(value)


def _told(values: dict[str, float]) -> str:
    return ",".join(f"{name}={value:g}" for name, value in values.items())


def _plain(tuning: Tuning, measure: str) -> dict[str, object]:
    return {
        "policy": tuning.policy,
        "scenario": tuning.scenario.name,
        "usual": {"values": tuning.usual.values, measure: tuning.usual.score},
        "best": {"values": tuning.best.values, measure: tuning.best.score},
        "trials": [{"values": trial.values, measure: trial.score} for trial in tuning.trials],
    }


def _refuse_other_wing(wing: str, suite: str) -> None:
    from trimtab.core.errors import SettingsError

    if not suite.startswith(f"{wing}/"):
        raise SettingsError(f"--suite {suite}: is not of {wing}; name one that begins with {wing}/")
