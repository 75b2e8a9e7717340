"""Situations that were looked at ahead, kept to be learned from again and again, by any number of agents.

A look ahead costs far more than a step of gradient descent, and what it finds does not depend on who asks.
So what several actions would have earned (see `weighing`) is collected once and saved; agents of different
designs, or seeds, then learn from the same lessons. Those of one collection have the same shapes.
"""

import json
import zipfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.core.errors import SettingsError, TrimtabError
from trimtab.core.named_files import digests_of, with_names
from trimtab.core.randomness import integers, split
from trimtab.core.settings import Settings
from trimtab.learning.rollouts import Rollout
from trimtab.learning.weighing import ALTERNATIVES

__all__ = ["Lessons", "collected_with", "refuse_other_lessons"]

_TOLD = "collected with"


class Lessons:
    """Observations with alternatives and what they earn, one row each.

    >>> lessons = Lessons(
    ...     {
    ...         "alternatives": np.zeros((3, 2, 1)),
    ...         "offered": np.ones((3, 2), bool),
    ...         "gains": np.zeros((3, 2)),
    ...         "seen": np.arange(3),
    ...     }
    ... )
    >>> len(lessons), lessons.drawn(seed=1, shape=(4, 5)).observation["seen"].shape
    (3, (4, 5))
    """

    def __init__(
        self, observations: Mapping[str, NDArray[Any]], *, told: Mapping[str, str] | None = None
    ) -> None:
        """`told` says with which settings they were collected (`collected_with`)."""
        missing = [name for name in ALTERNATIVES if name not in observations]
        if missing:
            raise TrimtabError(f"lessons without {', '.join(missing)}; collect them anew")
        self.observations = dict(observations)
        self.told = dict(told or {})

    @staticmethod
    def joined(parts: Sequence["Lessons"]) -> "Lessons":
        """All of several collections with the same shapes."""
        names = parts[0].observations
        return Lessons({name: np.concatenate([one.observations[name] for one in parts]) for name in names})

    def __len__(self) -> int:
        return len(self.observations["gains"])

    def drawn(self, *, seed: int, shape: tuple[int, int]) -> Rollout:
        """So many lessons, drawn with replacement, as if they had just been played: [time, environments]."""
        places = (np.arange(shape[0])[:, None], np.arange(shape[1])[None])
        picks = integers(split(seed, "lessons"), *places, high=len(self))
        nothing = np.zeros(shape, np.float32)
        action = np.zeros((*shape, self.observations["alternatives"].shape[-1]), np.int32)
        return Rollout(
            observation={name: rows[picks] for name, rows in self.observations.items()},  # pyright: ignore[reportArgumentType]
            action=action,  # pyright: ignore[reportArgumentType]
            log_prob=nothing,  # pyright: ignore[reportArgumentType]
            value=nothing,  # pyright: ignore[reportArgumentType]
            last_value=nothing[0],  # pyright: ignore[reportArgumentType]
            rewards=nothing,
            elapsed_s=nothing,
            ended=np.zeros(shape, bool),
            valid=np.ones(shape, bool),
        )

    def save(self, path: Path) -> None:
        """Write one file, whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial.npz")
        told = {_TOLD: np.array(json.dumps(self.told))}
        np.savez(partial, allow_pickle=False, **self.observations, **told)
        partial.replace(path)

    @staticmethod
    def load(path: Path) -> "Lessons":
        """Read what `save` wrote."""
        try:
            with path.open("rb") as file, np.load(file) as kept:
                told = json.loads(str(kept[_TOLD])) if _TOLD in kept.files else {}
                return Lessons({name: kept[name] for name in kept.files if name != _TOLD}, told=told)
        except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
            raise TrimtabError(f"{path}: no lessons ({error}); collect them anew") from None


def collected_with(settings: Settings, fields: Collection[str]) -> dict[str, str]:
    """The settings that decide what lessons tell, as texts; a dot leads into a part of the settings.

    What counts of a file is what is in it, not its name.
    """
    told, plain = {}, settings.model_dump(mode="json")
    plain = with_names(plain, digests_of(plain))
    for field in sorted(fields):
        value: Any = plain
        for name in field.split("."):
            value = value[name]
        told[field] = json.dumps(value, sort_keys=True)
    return told


def refuse_other_lessons(path: Path, had: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    """Lessons that a run finds beside its folder must be its own; others are asked for by name."""
    other = [name for name, text in wanted.items() if had.get(name) != text]
    if other:
        raise SettingsError(
            f"{path}: lessons of other settings ({', '.join(other)}); remove {path.parent}, choose another "
            f"folder for the run, or set lessons_from = {path.parent} to learn from them all the same"
        )
