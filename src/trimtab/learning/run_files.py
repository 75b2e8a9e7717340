"""What every kind of training keeps in its run folder, and refuses to mix up."""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from trimtab.core.bundle import Bundle
from trimtab.core.errors import SettingsError, TrimtabError
from trimtab.core.named_files import files_as_text, refuse_changed_files
from trimtab.core.run_folder import Clock, RunFolder
from trimtab.core.settings import Settings, load_settings, settings_as_toml
from trimtab.learning.checkpoints import save_tree

__all__ = [
    "BEST",
    "LAST",
    "START",
    "STATE",
    "forget_metrics_after",
    "keep_best",
    "metrics_until",
    "refuse_non_finite",
    "refuse_other_settings",
    "run_to_train",
    "whole_settings",
]

BEST = "checkpoint-best.safetensors"
LAST = "checkpoint-last.safetensors"
START = "start.json"
STATE = "state-last.safetensors"


def whole_settings(asked_for: str, settings: Settings, start: Bundle | None = None) -> dict[str, str]:
    """Texts for a new run folder: all that was asked for, in a file of that name, and what files it names.

    Also, for whoever packs the policy later, the name of the one it began from.
    """
    began = {} if start is None else {START: json.dumps({"began_from": start.name}) + "\n"}
    return {asked_for: settings_as_toml(settings), **files_as_text(settings), **began}


@contextmanager
def run_to_train(
    folder: str | Path,
    settings: Settings,
    *,
    clock: Clock,
    resume: bool,
    describe: Callable[[], Mapping[str, Any]],
    texts: Mapping[str, str] | None = None,
    device: str = "",
) -> Iterator[RunFolder]:
    """The folder of a training, new or to go on with, for this process alone.

    A new one that is refused before its first iteration is removed: there would be nothing to go on with.
    So is one that ends in any way before its first state is there, which alone tells what it began from.
    """
    if resume:
        run = RunFolder.open(folder, clock=clock)
        with run.alone():
            refuse_other_settings(run, settings)
            refuse_changed_files(run)
            _refuse_incomplete(run)
            yield run
        return
    run = RunFolder.create(folder, clock=clock, settings=settings, device=device)
    with run.kept_with(STATE), run.kept_with("metrics.jsonl", failing=TrimtabError), run.alone():
        run.write_json("task.json", describe())
        for name, text in (texts or {}).items():
            run.write_text(name, text)
        yield run


def keep_best(
    run: RunFolder, parameters: Any, scores: Mapping[str, float], *, iteration: int, best: float
) -> tuple[dict[str, float], float]:
    """Keep the parameters if no score was lower; the scores as metrics, and the lowest so far."""
    score = float(scores["score"])
    way_out = "validate on other workloads"
    refuse_non_finite(run, {"score": score}, iteration=iteration, way_out=way_out)
    if score < best:
        best = score
        save_tree(run.path / BEST, parameters, {"iteration": str(iteration), "score": repr(score)})
    return {name if name == "score" else f"score/{name}": x for name, x in scores.items()}, best


def refuse_non_finite(run: RunFolder, metrics: Mapping[str, float], *, iteration: int, way_out: str) -> None:
    """End a run that has left the numbers, and say what is left of it."""
    wrong = next((name for name, value in metrics.items() if not math.isfinite(value)), None)
    if wrong is None:
        return
    kept = run.path / LAST
    left = f"the last good checkpoint is {kept}" if kept.exists() else "no checkpoint was written yet"
    raise TrimtabError(f"iteration {iteration}: {wrong} is {metrics[wrong]}; {left}; {way_out}")


def forget_metrics_after(run: RunFolder, iteration: int) -> None:
    """Drop the lines of iterations that are to be done again; those of all before must be there."""
    lines = metrics_until(run, iteration)
    if lines or (run.path / "metrics.jsonl").exists():
        run.write_text("metrics.jsonl", "".join(json.dumps(line) + "\n" for line in lines))


def metrics_until(run: RunFolder, iteration: int) -> list[dict[str, Any]]:
    """The lines of all iterations a run has come to, or a refusal where one was lost.

    What is known of the best policy, and how long all took, is told by these lines alone.
    """
    lines = [line for line in run.read_metrics() if line["iteration"] <= iteration]
    lost = set(range(1, iteration + 1)) - {line["iteration"] for line in lines}
    if lost:
        raise TrimtabError(
            f"{run.path / 'metrics.jsonl'}: no line of iteration {min(lost)}, though the run came to "
            f"{iteration}; put it back as it was, or start a new run"
        )
    return lines


def _refuse_incomplete(run: RunFolder) -> None:
    """A run goes on from its state, and its policy is packed at the end with what it was trained on."""
    if not (run.path / STATE).is_file():
        raise TrimtabError(f"{run.path}: this run has no {STATE} to go on from; start a new run")
    run.read_json("task.json")


def refuse_other_settings(run: RunFolder, settings: Settings) -> None:
    """A run goes on as it began; only its time may be extended."""
    before = load_settings(type(settings), run.path / "settings.toml")
    for name in type(settings).model_fields:
        was, now = getattr(before, name), getattr(settings, name)
        if was != now and name != "minutes":
            raise SettingsError(
                f"{run.path}: began with {name} = {was} and cannot go on with {now}; "
                "start a new run, or leave its settings alone"
            )
