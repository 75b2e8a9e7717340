"""The compact scheduler as one row of numbers: where training starts, what a bundle holds, its policy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from trimtab.core.bundle import Bundle
from trimtab.core.errors import BundleError
from trimtab.dag_scheduling.decima.compact_rule import (
    HIDDEN,
    IDLE_FEATURES,
    JOB_FEATURES,
    SIZE,
    STAGE_FEATURES,
    compact,
    part,
)
from trimtab.dag_scheduling.heuristics import Rule
from trimtab.dag_scheduling.problem import Action, Snapshot

__all__ = [
    "BOTH",
    "KIND",
    "WING",
    "CompactRule",
    "Manner",
    "compact_bundle",
    "compact_policy",
    "first_numbers",
    "widths",
]

WING, KIND = "dag_scheduling", "decima-compact"

Floats = NDArray[np.float64]
Manner = Literal["shortest", "shared", "packed", "both", "both-packed"]
"""Where training starts: at capped SRPT, at equal shares, or at capped SRPT that wastes little memory.

The last two have two sets of numbers, for batches and for streams.
"""
BOTH: dict[Manner, tuple[Manner, Manner]] = {
    "both": ("shortest", "shared"),
    "both-packed": ("packed", "packed"),
}

FEATURES = {"job": list(JOB_FEATURES), "stage": list(STAGE_FEATURES), "idle": list(IDLE_FEATURES)}
IDLE_MEMORY = "memory left idle"
OF_MEMORY = (
    IDLE_MEMORY,
    "few executors fit",
    "work left that few executors fit",
    "few executors fit the stage",
)
"""Features that say nothing where all executors are alike; their numbers would wander in training."""
STEEP = 3.0
"""How many units of score a factor e of remaining work is worth at the start."""
FIRST: dict[Manner, dict[str, dict[str, float]]] = {
    "shortest": {
        "order": {"work left": -2 * STEEP, "source of the free executors": 12.0},
        "cap": {"usual": math.log(0.15 / 50) + 0.65 * 5.5, "total work": 0.65 * 1.5},
        "stage": {"runnable": 20.0, "longest path below, in work": 1.0},
        "idle": {"usual": -32.0},
        "beyond": {"": 14.0},
    },
    "shared": {
        "order": {"source of the free executors": 2.0},
        "cap": {"usual": -2.0, "jobs": -1.0, "total work against the others": 0.1},
        "stage": {"runnable": 20.0, "longest path below, in work": 1.0},
        "idle": {"usual": -13.0},
        "share": {"": 1.0},
        "beyond": {"": 8.0},
    },
    "packed": {
        "order": {
            "work left": -2 * STEEP,
            "source of the free executors": 1.2 * STEEP,
            "stage is runnable": 0.7 * STEEP,
            IDLE_MEMORY: -4.0 * STEEP,
        },
        "cap": {"usual": math.log(0.1 / 50) + 0.67 * 5.5, "total work": 0.67 * 1.5},
        "stage": {"runnable": 0.7 * STEEP, "longest path below, in work": 0.3, IDLE_MEMORY: -4.0 * STEEP},
        "idle": {"usual": -32.0},
        "beyond": {"": 14.0},
    },
}
"""The rules that training begins at, by part and feature; what is not named is 0."""
WIDER = 3.0
"""At the start the second cap is so many e-foldings above the first: as good as none."""
NAMES: dict[str, tuple[str, ...]] = {
    "order": JOB_FEATURES,
    "cap": JOB_FEATURES,
    "wider": JOB_FEATURES,
    "stage": STAGE_FEATURES,
    "idle": IDLE_FEATURES,
}

READ_OFTEN = (
    "class_memory",
    "jobs",
    "arrival_ms",
    "first_stage",
    "stage_count",
    "executors",
    "incoming",
    "tasks",
    "unstarted",
    "running",
    "demand",
    "runnable",
    "schedulable",
    "task_ms",
    "memory",
    "profile_stage",
    "slowdown",
    "child_offset",
    "child",
    "scratch",
)
"""Arrays of a snapshot."""


@dataclass(frozen=True)
class CompactRule(Rule):
    """A rule with learned numbers in place of settings.

    >>> CompactRule("mine", compact, numbers=(0.5,)).values
    (0.5,)
    """

    numbers: tuple[float, ...] = ()

    @property
    def values(self) -> tuple[float, ...]:
        return self.numbers

    def decide(self, snapshot: Snapshot) -> Action:
        """As any rule; lists take a third of the time of arrays where nothing is compiled."""
        listed = {name: getattr(snapshot, name).tolist() for name in READ_OFTEN}
        return self.function(snapshot._replace(**listed), self.numbers)  # pyright: ignore[reportArgumentType]


def first_numbers(manner: Manner, seed: int) -> Floats:
    """Where training starts: at a rule, plus hidden units that say nothing.

    >>> first_numbers("shared", seed=0)[part("beyond")]
    array([8.])
    """
    if manner in BOTH:
        return np.concatenate([first_numbers(one, seed) for one in BOTH[manner]])
    numbers = np.zeros(SIZE)
    for name, told in FIRST[manner].items():
        numbers[part(name)] = [told.get(feature, 0.0) for feature in NAMES.get(name, ("",))]
    numbers[part("wider")][0] = WIDER
    numbers[part("waves")] = 0.9
    hidden = np.random.default_rng(seed).normal(0.0, 0.5, (HIDDEN, len(JOB_FEATURES)))
    if manner != "packed":
        hidden[:, _of_memory(JOB_FEATURES)] = 0.0
    numbers[part("hidden")] = hidden.ravel()
    return numbers


def widths(manner: Manner) -> Floats:
    """How far each number may usefully move in training; 0: it stays, as does what enters hidden units."""
    if manner in BOTH:
        return np.concatenate([widths(one) for one in BOTH[manner]])
    width = np.zeros(SIZE)
    for name, usual in {
        "order": 0.7,
        "order of hidden": 0.7,
        "cap": 0.2,
        "cap of hidden": 0.2,
        "wider": 0.2,
        "stage": 0.3,
        "idle": 1.0,
        "share": 0.3,
        "beyond": 1.5,
        "waves": 0.4,
    }.items():
        width[part(name)] = usual
        if name in NAMES and manner != "packed":
            width[part(name)][_of_memory(NAMES[name])] = 0.0
    width[part("wider")][0] = 0.5
    width[part("stage")][0] = 1.0
    return width


def _of_memory(names: tuple[str, ...]) -> list[int]:
    return [place for place, name in enumerate(names) if name in OF_MEMORY]


def rule_of(numbers: Floats, name: str = "compact") -> CompactRule:
    """The policy that a row of numbers stands for."""
    return CompactRule(name, compact, numbers=tuple(numbers.tolist()))


def compact_bundle(
    name: str, numbers: Floats, *, trained: Mapping[str, Any], scores: Mapping[str, Any]
) -> Bundle:
    """A bundle of learned numbers."""
    manifest = {
        "settings": {"hidden": HIDDEN},
        "features": FEATURES,
        "trained": dict(trained),
        "scores": dict(scores),
    }
    return Bundle(name, WING, KIND, manifest, {"numbers": np.asarray(numbers, np.float64)})


def compact_policy(bundle: Bundle) -> CompactRule:
    """The policy of a bundle, or a line that says why it cannot be played."""
    if bundle.kind != KIND:
        raise BundleError(
            f"{bundle.name}: a bundle of kind {bundle.kind!r}; one of kind {KIND!r} is needed here"
        )
    if bundle.manifest["features"] != FEATURES or bundle.manifest["settings"].get("hidden") != HIDDEN:
        raise BundleError(f"{bundle.name}: it sees other features than this version; train it again")
    numbers = bundle.tensors.get("numbers")
    if numbers is None or numbers.shape not in ((SIZE,), (2 * SIZE,)):
        raise BundleError(f"{bundle.name}: its numbers are not those of its features; copy it again")
    return rule_of(numbers, bundle.name)
