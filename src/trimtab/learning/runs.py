"""What a training run left in its folder: whether it is done, and its best policy with its history."""

from dataclasses import asdict, dataclass
from typing import Any

from trimtab.core.bundle import load_tensors, unflatten
from trimtab.core.errors import SettingsError, TrimtabError
from trimtab.core.named_files import found_files, with_names
from trimtab.core.run_folder import RunFolder
from trimtab.learning.run_files import BEST, START, STATE
from trimtab.learning.settings import TrainingSettings

__all__ = ["BestOfRun", "best_of_run", "is_finished", "refuse_other_network"]

_PREFIX = "score/"


@dataclass(frozen=True)
class BestOfRun:
    """The best checkpoint so far."""

    parameters: Any
    score: float
    iteration: int
    measured: dict[str, float]
    """What was measured together with the score."""
    task: dict[str, Any]
    """What was trained on, as the task described it."""
    history: dict[str, Any]
    """What it began from, iterations, decisions, seconds, processor, device and versions, for a manifest."""


def is_finished(run: RunFolder, settings: TrainingSettings) -> bool:
    """Whether a run has no iteration left."""
    return _came_to(run) == settings.total_iterations


def _came_to(run: RunFolder) -> int | None:
    """The iteration a run would go on from, if it can."""
    if not (run.path / STATE).is_file():
        return None
    _, notes = load_tensors(run.path / STATE)
    return int(notes["iteration"])


def best_of_run(run: RunFolder) -> BestOfRun:
    """Read the best checkpoint of a run, or say that there is none yet."""
    if not (run.path / BEST).is_file():
        raise TrimtabError(f"{run.path}: no validated checkpoint yet; let it train further with --resume")
    tensors, notes = load_tensors(run.path / BEST)
    metrics, machine = run.read_metrics(), run.read_json("machine.json")
    iteration = int(notes["iteration"])
    measured = next((line for line in metrics if line["iteration"] == iteration), None)
    if measured is None:
        again = iteration > (_came_to(run) or 0)
        lost = "put metrics.jsonl back as it was, or start a new run"
        raise TrimtabError(
            f"{run.path}: its best checkpoint is of iteration {iteration}, which is not among its metrics; "
            f"{'let it train further with --resume' if again else lost}"
        )
    return BestOfRun(
        parameters=unflatten(tensors),
        score=float(notes["score"]),
        iteration=iteration,
        measured={
            key.removeprefix(_PREFIX): value for key, value in measured.items() if key.startswith(_PREFIX)
        },
        task=with_names(run.read_json("task.json"), found_files(run)),
        history={
            **(run.read_json(START) if (run.path / START).is_file() else {}),
            "iterations": metrics[-1]["iteration"],
            "decisions": sum(line["decisions"] for line in metrics),
            "seconds": round(sum(line["seconds"] for line in metrics), 1),
            "processor": machine["processor"],
            **({"device": machine["device"]} if "device" in machine else {}),
            "versions": machine["versions"],
        },
    )


def refuse_other_network(name: str, had: Any, wanted: Any) -> None:
    """Refuse to begin from a bundle whose network is not the one to be trained; designs are dataclasses."""
    before, after = asdict(had), asdict(wanted)
    other = ", ".join(f"{field} = {before[field]}" for field in after if after[field] != before[field])
    if other:
        raise SettingsError(
            f"{name} has another network ({other}) than asked for; begin with the preset it was "
            "trained with, or set what makes the network alike"
        )
