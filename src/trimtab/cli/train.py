"""`trimtab train`: a policy of your own, for your own workload."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from trimtab.cli.targets import check_new_folder
from trimtab.cli.terminal import (
    JsonFlag,
    Switch,
    change_of,
    command_line,
    now,
    print_json,
    refuse_said_twice,
    remark,
    table_of,
)
from trimtab.cli.wings import WingName

if TYPE_CHECKING:
    from trimtab.cli.trainers import Families, Trainer
    from trimtab.core.bundle import Bundle
    from trimtab.learning.training import Progress

__all__ = ["train"]


def train(
    wing: WingName = "dag",
    /,
    *,
    preset: str | None = None,
    workload: str | None = None,
    cluster: str | None = None,
    job: str | None = None,
    app: str | None = None,
    trace: str | None = None,
    mean_rate: float | None = None,
    out: Path | None = None,
    resume: Path | None = None,
    start_from: Annotated[str | None, Parameter(name=["--start-from", "--from"])] = None,
    set: Annotated[list[str] | None, Parameter(negative=())] = None,
    minutes: float | None = None,
    seed: int | None = None,
    presets: Switch = False,
    json: JsonFlag = False,
) -> None:
    """Train a policy into a run folder, and say how to judge it on unseen workloads.

    Parameters
    ----------
    wing:
        What is decided: dag or gpu (a scheduler of stages, of training jobs), stream or pod (an autoscaler of
        streaming jobs, of services).
    preset:
        Name of a preset, or TOML file with settings (default: decima-tpch-batch; stream: sure;
        pod: aware; gpu: das-gang).
    workload:
        dag, gpu: name or workload file to train on instead of the preset's.
    cluster:
        gpu: clusters to practise on instead of the preset's: names, machines x GPUs such as 64x8, or CSVs of
        machines, separated by commas.
    job:
        stream: jobs to train on, by name or file, separated by commas.
    app:
        pod: services to train on, by name or file, separated by commas.
    trace:
        stream, pod: name or trace file of what arrives.
    mean_rate:
        stream, pod: records or requests per second on average (default: a trace file keeps its rates).
    out:
        Run folder to make (default: runs/PRESET, then runs/PRESET-2, ...).
    resume:
        Run folder of a run that was stopped, to go on exactly where it was.
    start_from:
        Trained policy to begin from: its name, bundle or run folder.
    set:
        Any setting, such as training.iterations=50; may be given several times.
    minutes:
        Stop at the first checkpoint after this long (default: run to the end).
    seed:
        Another number gives another run of the same training.
    presets:
        List the presets and stop.
    """
    from trimtab.cli.trainers import PRESET_FOLDERS, presets_of, trainer_of

    if presets:
        _list_presets(presets_of(wing), json)
        if not json:
            others = ", ".join(name for name in PRESET_FOLDERS if name != wing)
            print(f"\nThese are of {wing}; of {others}: trimtab train WING --presets")
        return
    _need_jax()
    trainer = trainer_of(wing, preset=preset, resume=resume)
    rate = None if mean_rate is None else str(mean_rate)
    grounds = {"workload": workload, "cluster": cluster, "job": job, "app": app, "trace": trace}
    grounds["mean-rate"] = rate
    numbers = {"minutes": minutes, "seed": seed}
    asked = _settings(trainer, preset, resume, grounds, numbers, set or [])
    folder = resume or out or _next_folder(Path(preset or trainer.usual_preset).stem)
    _refuse(trainer, asked, folder, resume=resume, out=out, start_from=start_from)
    start = _start(trainer, start_from)
    kept = None if resume is None else _finished(trainer, asked, folder, quiet=json)
    bundle = kept or _train(trainer, asked, folder, start, resume=resume is not None, quiet=json)
    _tell(trainer, asked, folder, bundle, anew=kept is None, json=json)


def _need_jax() -> None:
    from trimtab.core.errors import TrimtabError

    missing = [name for name in ("jax", "optax") if find_spec(name) is None]
    if missing:
        raise TrimtabError(
            f"training needs {' and '.join(missing)}; in the checkout of trimtab, pip install '.[train]'"
        )


def _list_presets(presets: Families, json: bool) -> None:
    rows = [[name, presets.sentence(name)] for name in presets.names()]
    if json:
        print_json([{"name": name, "description": text} for name, text in rows])
        return
    print(table_of(["preset", "what it trains"], rows))


# --- what is asked for -----------------------------------------------------------------------------


def _flag_of(field: str, written: Mapping[str, str]) -> str:
    """The flags that set a field, its table or parts of it; all flags where none of them did."""
    found = [
        flag
        for name, flag in written.items()
        if f"{name}.".startswith(f"{field}.") or f"{field}.".startswith(f"{name}.")
    ]
    return " ".join(found or written.values())


def _settings(
    trainer: Trainer,
    preset: str | None,
    resume: Path | None,
    grounds: Mapping[str, str | None],
    numbers: Mapping[str, float | None],
    words: Sequence[str],
) -> Any:
    """Lay flags over the preset, or over the settings of the run that is continued."""
    from trimtab.core.settings import load_settings

    begun = None if resume is None else _begun(trainer, resume)
    kept = begun if preset is None else None
    named = trainer.usual_preset if preset is None else preset
    base = trainer.presets.load(named) if kept is None else kept
    plain = base.model_dump(mode="json")
    if kept is not None:
        # The time that was given belonged to the session that is over.
        plain["training"]["minutes"] = 0
    written = trainer.put_flags(plain, _given(trainer, grounds))
    for flag, value in numbers.items():
        if value is not None:
            field = trainer.seed_field if flag == "seed" else f"training.{flag}"
            _put(plain, field, value, f"--{flag} {value}")
            written[field] = f"--{flag} {value}"
    refuse_said_twice(written, words)
    for word in words:
        name, value = change_of(word)
        _put(plain, name, value, f"--set {word}")
        written[name] = f"--set {word}"
    asked = load_settings(trainer.settings, None, plain, given_as=lambda field: _flag_of(field, written))
    if kept is None:
        asked = trainer.fitted(asked, base, written)
    if begun is not None and resume is not None:
        _refuse_other_settings(resume, begun, asked)
        asked = _with_its_files(resume, asked)
    return asked


def _given(trainer: Trainer, grounds: Mapping[str, str | None]) -> dict[str, str]:
    """The flags that were given; those of another wing are refused."""
    from trimtab.core.errors import SettingsError

    given = {flag: value for flag, value in grounds.items() if value is not None}
    for flag in given:
        if flag not in trainer.flags:
            told = ", ".join(f"--{name}" for name in trainer.flags)
            raise SettingsError(f"--{flag}: train {trainer.wing} has no such flag; it has {told}")
    return given


def _put(within: Any, name: str, value: Any, flag: str) -> None:
    """Set a field by its dotted name; ``courses.0.teacher`` counts into a list.

    Names that do not exist are set too: the settings refuse them, with the nearest one that does.
    """
    step, more, rest = name.partition(".")
    place: Any = _counted(within, step, flag) if isinstance(within, list) else step
    if not more:
        within[place] = value
        return
    inner = within[place] if isinstance(within, list) else within.get(place)
    if not isinstance(inner, dict | list):
        inner = within[place] = {}
    _put(inner, rest, value, flag)


def _counted(within: list[Any], step: str, flag: str) -> int:
    from trimtab.core.errors import SettingsError

    if not step.isdecimal() or int(step) >= len(within):
        raise SettingsError(f"{flag}: {step!r} counts into a list; use 0 to {len(within) - 1}")
    return int(step)


def _begun(trainer: Trainer, run: Path) -> Any:
    from trimtab.core.errors import TrimtabError
    from trimtab.core.run_folder import RunFolder
    from trimtab.core.settings import load_settings

    folder = RunFolder.open(run, clock=now)
    if not (run / trainer.asked_for).is_file():
        raise TrimtabError(
            f"{run}: no training of {trainer.wing} to go on with (no {trainer.asked_for}); start a new run"
        )
    with folder.alone():
        return load_settings(trainer.settings, run / trainer.asked_for)


def _with_its_files(run: Path, asked: Any) -> Any:
    """The settings of a run with the files it began with, wherever they lie from here."""
    from trimtab.core.named_files import refuse_changed_files, with_names
    from trimtab.core.run_folder import RunFolder

    places = refuse_changed_files(RunFolder.open(run, clock=now))
    return type(asked).model_validate(with_names(asked.model_dump(mode="json"), places))


def _refuse_other_settings(run: Path, begun: Any, asked: Any) -> None:
    from trimtab.core.errors import SettingsError

    before, after = _flat(begun.model_dump(mode="json")), _flat(asked.model_dump(mode="json"))
    for name in [*before, *after]:
        if before.get(name) != after.get(name) and name != "training.minutes":
            raise SettingsError(
                f"{run}: began with {name} = {before.get(name)} and cannot go on with {after.get(name)}; "
                "leave its settings alone, or start a new run"
            )


def _flat(value: Any, way: str = "") -> dict[str, Any]:
    """Every single value with its dotted name."""
    if not isinstance(value, dict | list):
        return {way: value}
    steps = value.items() if isinstance(value, dict) else enumerate(value)
    found: dict[str, Any] = {}
    for step, inner in steps:
        found |= _flat(inner, f"{way}.{step}".removeprefix("."))
    return found


def _next_folder(label: str) -> Path:
    number = 1
    while True:
        path = Path("runs") / (label if number == 1 else f"{label}-{number}")
        if not path.exists():
            return path
        number += 1


def _refuse(
    trainer: Trainer,
    asked: Any,
    folder: Path,
    *,
    resume: Path | None,
    out: Path | None,
    start_from: str | None,
) -> None:
    """Find what cannot work before minutes are spent on compiling."""
    from trimtab.core.errors import TrimtabError

    if resume is not None and out is not None:
        raise TrimtabError("--out makes a new run, --resume goes on with an old one; give one of the two")
    if resume is not None and start_from is not None:
        raise TrimtabError(
            "--start-from begins a new run, --resume goes on with an old one; give one of the two"
        )
    if resume is None:
        if folder.exists():
            raise TrimtabError(
                f"{folder}: exists; choose another --out, or go on with --resume {shlex.quote(str(folder))}"
            )
        check_new_folder(folder)
    trainer.check(asked)


def _start(trainer: Trainer, text: str | None) -> Bundle | None:
    from trimtab.core.bundle import load_bundle

    return None if text is None else load_bundle(trainer.find_bundle(text))


# --- the run ---------------------------------------------------------------------------------------


def _train(
    trainer: Trainer, asked: Any, folder: Path, start: Bundle | None, *, resume: bool, quiet: bool
) -> Path:
    if not quiet:
        if left_out := trainer.left_out(asked):
            remark(left_out)
        remark("compiling the engine and the network; this takes a minute or two")
        if getattr(asked, "lessons", 0) and not asked.lessons_from and not resume:
            rounds = f" in each of {asked.lessons_rounds} rounds" if asked.lessons_rounds > 1 else ""
            remark(
                f"collecting {asked.lessons:,} {trainer.lessons_words}{rounds} first, which takes minutes or "
                "hours and shows nothing; later runs can share them"
            )
    try:
        with _training_bar(asked, quiet=quiet) as show:
            return trainer.train(
                asked, folder, name=folder.name, clock=now, progress=show, resume=resume, start=start
            )
    except KeyboardInterrupt:
        if folder.exists():
            words = ["trimtab", "train", trainer.wing, "--resume", str(folder)]
            remark(f"go on with: {shlex.join(words)}")
            _keep_best(trainer, folder)
        elif Path(f"{folder}-lessons").exists():
            remark(f"whole rounds of lessons are kept; go on with the same command and --out {folder}")
        raise


def _keep_best(trainer: Trainer, folder: Path) -> None:
    """Pack the best policy so far, if one was validated; who went on and stops again may have to redo it."""
    from trimtab.core.errors import TrimtabError
    from trimtab.core.run_folder import RunFolder
    from trimtab.learning.run_files import BEST

    if not (folder / BEST).is_file():
        return
    try:
        run = RunFolder.open(folder, clock=now)
        remark(f"the best policy so far: {trainer.save_bundle_of_run(run, folder.name)}")
    except TrimtabError as error:
        remark(str(error))


def _finished(trainer: Trainer, asked: Any, folder: Path, *, quiet: bool) -> Path | None:
    """The bundle of a run that has nothing left to do."""
    from trimtab.core.run_folder import RunFolder
    from trimtab.learning.run_files import metrics_until
    from trimtab.learning.runs import is_finished

    run = RunFolder.open(folder, clock=now)
    if not is_finished(run, asked.training):
        return None
    metrics_until(run, asked.training.total_iterations)
    if not quiet:
        remark(
            f"{folder}: already finished ({asked.training.total_iterations} iterations); "
            f"begin a new run from its policy with --start-from {shlex.quote(str(folder))}"
        )
    return trainer.save_bundle_of_run(run, folder.name)


@contextmanager
def _training_bar(asked: Any, *, quiet: bool) -> Iterator[Progress]:
    """Iterations, score, rate and time left: a bar for people, a line per score for a log file."""
    if quiet or not sys.stderr.isatty():

        def tell(done: int, total: int, score: float | None, rate: float, left_s: float) -> None:
            if score is not None and not quiet:
                told = f"score {score:.3f}, {rate:,.0f} decisions/s, {left_s / 60:.0f} min left"
                remark(f"iteration {done} of {total}: {told}")

        yield tell
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("training"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[told]}"),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        place = bar.add_task("training", total=asked.training.total_iterations, told="compiling")
        scores = ["none yet"]

        def show(done: int, total: int, score: float | None, rate: float, left_s: float) -> None:
            if score is not None:
                scores[0] = f"{score:.3f}"
            minutes, seconds = divmod(round(left_s), 60)
            told = f"score {scores[0]}  {rate:,.0f} decisions/s  {minutes}:{seconds:02d} left"
            bar.update(place, completed=done, total=total, told=told)

        yield show


# --- what came of it -------------------------------------------------------------------------------


def _tell(trainer: Trainer, asked: Any, folder: Path, bundle: Path, *, anew: bool, json: bool) -> None:
    """Say where the policy is and how good; a report of what was there before stays as it is."""
    from trimtab.benchmark.report.training import write_training_report
    from trimtab.core.bundle import load_bundle
    from trimtab.core.run_folder import RunFolder

    run = RunFolder.open(folder, clock=now)
    done = int(run.read_metrics()[-1]["iteration"])
    finished = done == asked.training.total_iterations
    made = load_bundle(bundle)
    score = float(made.manifest["scores"][trainer.score_name])
    at_iteration = int(made.manifest["scores"]["at iteration"])
    report = folder / "report.html"
    if anew or not report.is_file():
        write_training_report(report, run.read_metrics(), name=folder.name, command=command_line())
    judge = trainer.judge(asked, folder)
    if json:
        print_json(
            {
                "run_folder": str(folder),
                "bundle": str(bundle),
                "report": str(report),
                "score": score,
                "at_iteration": at_iteration,
                "iterations": done,
                "finished": finished,
                "compare": judge,
            }
        )
        return
    print(f"bundle: {bundle}")
    print(f"score:  {score:.3f} {trainer.score_words}, at iteration {at_iteration}")
    print(f"curves: {report}")
    if not finished:
        place = shlex.quote(str(folder))
        print(f"{done} of {asked.training.total_iterations} iterations; go on with --resume {place}")
    print("\nJudge it on unseen workloads:")
    for command in judge:
        print(f"  {command}")
