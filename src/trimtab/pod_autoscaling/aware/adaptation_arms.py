"""Ways to begin on a service that is new, each trained beforehand on others or not; AWARE's comparison.

Who is compared, in AWARE's words:

``meta``           an encoder reads what the service did so far into a context, beside the state; trained on
                   ever new services.
``transfer``       TL: the same learner without the context, trained on one service: of several such learners
                   the one that does best on other services.
``transfer-plus``  TL+: that with numbers about the application in the state (`HAND_FEATURES`), which somebody
                   who knows it wrote down.
``pooled``         not in AWARE: without the context, but trained on all the services that ``meta`` was. What
                   it lacks is what contexts are good for; the rest of the difference is in the services.
``scratch``        begins with nothing.

On how many services AWARE's TL was trained its authors' slides and code do not tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.core.bundle import Bundle, flatten, load_bundle, unflatten
from trimtab.core.errors import BundleError
from trimtab.core.randomness import split
from trimtab.core.run_folder import Clock, RunFolder
from trimtab.learning.agent import Parameters
from trimtab.learning.off_policy import train_off_policy
from trimtab.learning.runs import best_of_run
from trimtab.learning.training import Progress
from trimtab.pod_autoscaling.aware.adaptation import (
    HAND_FEATURES,
    STATE,
    AdaptationTask,
    Episodes,
    Life,
    draw_lives,
    earned,
    live,
)
from trimtab.pod_autoscaling.aware.task import PRESETS, AwareSettings

__all__ = ["ARMS", "Arm", "fine_tuned", "load_arm", "pre_trained"]

WING, KIND = "pod_autoscaling", "adaptation"
_OTHERS = 32
"""Services that the learners of single services are compared on."""


@dataclass(frozen=True)
class Arm:
    """One way to begin on a service that is new."""

    name: str
    preset: str
    told: bool = False
    """Whether the state has `HAND_FEATURES`."""
    trained: bool = True
    """Whether it has seen other services before."""
    sources: bool = False
    """Whether each of several learners is trained on a service of its own, and the best of them taken."""


ARMS = {
    one.name: one
    for one in (
        Arm("meta", "meta"),
        Arm("transfer", "transfer", sources=True),
        Arm("transfer-plus", "transfer-plus", told=True, sources=True),
        Arm("pooled", "pooled"),
        Arm("scratch", "transfer", trained=False),
    )
}


def pre_trained(
    arm: Arm,
    folder: str | Path,
    *,
    clock: Clock,
    changes: dict[str, Any] | None = None,
    progress: Progress | None = None,
) -> Bundle:
    """Train an arm on the services for training; its best parameters, critics and all."""
    settings = PRESETS.load(arm.preset, changes)
    lives = _source_lives(settings) if arm.sources else ()
    task = AdaptationTask(settings, told=arm.told, lives=lives)
    result = train_off_policy(
        task, settings.training, folder, clock=clock, progress=progress, seed=settings.seed
    )
    best = best_of_run(RunFolder.open(folder, clock=clock))
    parameters, scores = best.parameters, {"validation": best.score, "at iteration": best.iteration}
    if arm.sources:
        parameters, scores = _best_source(arm, result.parameters, settings)
    manifest = {
        "settings": {"arm": arm.name, "asked": settings.model_dump(mode="json")},
        "features": {"state": list(STATE), "told": list(HAND_FEATURES) if arm.told else []},
        "trained": best.history,
        "scores": scores,
    }
    tensors = {key: np.asarray(one, np.float32) for key, one in flatten(parameters).items()}
    return Bundle(arm.name, WING, KIND, manifest, tensors)


def _source_lives(settings: AwareSettings) -> list[Life]:
    """Each learner's own service in all of its environments, at other hours in each."""
    members = settings.training.members
    seeds = [split(settings.seed, "source", number) for number in range(members)]
    return [
        replace(life, seed=split(life.seed, "copy", copy))
        for life in draw_lives(settings.ground, seeds, "training")
        for copy in range(settings.environments // members)
    ]


def _best_source(arm: Arm, learned: Parameters, settings: AwareSettings) -> tuple[Parameters, dict[str, Any]]:
    """Of several learners the one that earns most on services of other applications for training."""
    seeds = [split(settings.seed, "other", number) for number in range(_OTHERS)]
    lives = draw_lives(settings.ground, seeds, "training")
    single = settings.model_copy(update={"training": settings.training.model_copy(update={"members": 1})})
    task = AdaptationTask(single, told=arm.told, lives=lives)
    count = settings.training.members
    apart = [{name: _member(part, number) for name, part in learned.items()} for number in range(count)]
    found = [live(one, task, episodes=1).rewards.mean() for one in apart]
    best = int(np.argmax(found))
    return apart[best], {"source": best, "mean reward": float(found[best]), "of all": float(np.mean(found))}


def _member(tree: Any, number: int) -> Any:
    """The parameters of one of several learners."""
    if isinstance(tree, dict):
        return {name: _member(part, number) for name, part in tree.items()}
    if isinstance(tree, list | tuple):
        return [_member(part, number) for part in tree]
    return np.asarray(tree)[number]


def load_arm(path: str | Path, arm: Arm) -> tuple[Parameters, AwareSettings]:
    """What an arm learned, from the folder of its bundle, and the settings it was trained with."""
    bundle = load_bundle(path)
    features = {"state": list(STATE), "told": list(HAND_FEATURES) if arm.told else []}
    if (bundle.wing, bundle.kind, bundle.manifest["settings"].get("arm")) != (WING, KIND, arm.name):
        raise BundleError(f"{bundle.name}: not a bundle of {WING}/{KIND} for {arm.name}; pre-train that one")
    if bundle.manifest["features"] != features:
        raise BundleError(f"{bundle.name}: made for other features than this version's; pre-train it again")
    try:
        settings = AwareSettings.model_validate(bundle.manifest["settings"]["asked"])
    except ValueError:
        raise BundleError(f"{bundle.name}: its settings are of another version; pre-train it again") from None
    return unflatten(bundle.tensors), settings


def fine_tuned(
    arm: Arm,
    start: Parameters | None,
    settings: AwareSettings,
    lives: Sequence[Life],
    folder: str | Path,
    *,
    clock: Clock,
    seed: int = 0,
    progress: Progress | None = None,
) -> tuple[NDArray[np.float64], Episodes]:
    """One learner per service, side by side: mean reward of each episode, and what became of the services.

    An iteration is an episode, and there are as many members as services.
    """
    task = AdaptationTask(settings, told=arm.told, lives=lives)
    train_off_policy(task, settings.training, folder, clock=clock, progress=progress, seed=seed, start=start)
    rows = RunFolder.open(folder, clock=clock).read_metrics()
    return earned(np.array([row["member_rewards"] for row in rows])), task.episodes
