"""What `trimtab train` must know of a wing; `train_dag.py` and its like tell it of each."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from trimtab.core.settings import Presets

__all__ = ["Asked", "Families", "Trainer", "presets_of", "trainer_of"]

PRESET_FOLDERS = {
    "dag": ("trimtab.dag_scheduling.decima", ("presets", "compact_presets")),
    "stream": ("trimtab.stream_autoscaling.sure", ("presets", "compact_presets")),
    "pod": ("trimtab.pod_autoscaling.aware", ("presets",)),
    "gpu": ("trimtab.gpu_scheduling.das", ("presets", "network_presets")),
}
"""Where the presets of each wing lie, so that they can be listed without what training needs."""


@dataclass(frozen=True)
class Trainer:
    """A wing that learns, as a value."""

    wing: str
    presets: Presets[Any] | Families
    usual_preset: str
    settings: type[Any]
    """Of a whole run; they have `training`."""
    asked_for: str
    """The file in a run folder that keeps them."""
    score_name: str
    """What a manifest calls the score of its run."""
    score_words: str
    """The same in a sentence, after the number."""
    flags: tuple[str, ...]
    """Flags that say what to train on; the others are refused."""
    put_flags: Callable[[dict[str, Any], Mapping[str, str]], dict[str, str]]
    """Write such flags into plain settings; gives the fields that were set, and the flag of each."""
    check: Callable[[Any], None]
    """Refuse early what cannot work."""
    train: Callable[..., Path]
    save_bundle_of_run: Callable[..., Path]
    find_bundle: Callable[[str], Path]
    judge: Callable[[Any, Path], list[str]]
    """Commands that compare the policy of a run with rules."""
    seed_field: str = "training.seed"
    lessons_words: str = "lessons"
    """What is collected before training, where anything is."""
    fitted: Callable[[Any, Any, Collection[str]], Any] = lambda asked, preset, written: asked
    """Settings that follow from others, unless the preset or a flag sets them."""
    left_out: Callable[[Any], str] = lambda asked: ""
    """What is not trained on though it is there, in a line."""


@dataclass(frozen=True)
class Families:
    """Presets of several kinds of settings in one list; a settings file is read as one of the first kind."""

    kinds: tuple[Presets[Any], ...]

    def names(self) -> list[str]:
        """The presets of all kinds."""
        return sorted(name for kind in self.kinds for name in kind.names())

    def sentence(self, name: str) -> str:
        """What a preset is for."""
        return self._kind_of(name).sentence(name)

    def load(self, name: str, changes: Mapping[str, Any] | None = None) -> Any:
        """Read a preset by name, or a settings file by path."""
        return self._kind_of(name).load(name, changes)

    def _kind_of(self, name: str) -> Presets[Any]:
        from trimtab.core.errors import SettingsError

        if name.endswith(".toml"):
            return self.kinds[0]
        for kind in self.kinds:
            if name in kind.names():
                return kind
        raise SettingsError(f"no preset {name!r}; there are {', '.join(self.names())}, or give a .toml file")


class Asked(NamedTuple):
    """One of two kinds of training that a wing has."""

    presets: Presets[Any]
    file: str
    """Which holds the settings of such a run."""
    settings: type[Any]

    def meant(self, preset: str | None, resume: Path | None, *, otherwise: type[Any]) -> bool:
        """Whether this kind is asked for, as the run or the preset tells; files by fields only it has."""
        if resume is not None:
            return (resume / self.file).is_file()
        if preset is None or not preset.endswith(".toml"):
            return preset in self.presets.names()
        try:
            content = tomllib.loads(Path(preset).read_text(encoding="utf-8-sig"))
        except (OSError, ValueError):
            return False  # what is wrong with the file is told where settings are read
        inner = content.get("training")
        told = {*content, *(f"training.{name}" for name in (inner if isinstance(inner, dict) else ()))}
        own, others = _field_names(self.settings), _field_names(otherwise)
        return len(told & (own - others)) > len(told & (others - own))


def _field_names(settings: type[Any]) -> set[str]:
    """The fields of a run's settings, and those of its training."""
    training: Any = settings.model_fields["training"].annotation
    return {*settings.model_fields, *(f"training.{name}" for name in training.model_fields)}


def presets_of(wing: str) -> Families:
    """The presets of a wing, to be listed."""
    from trimtab.core.settings import Presets, Settings

    package, folders = PRESET_FOLDERS[wing]
    return Families(tuple(Presets(package, Settings, folder) for folder in folders))


def trainer_of(wing: str, *, preset: str | None = None, resume: Path | None = None) -> Trainer:
    """The trainer of a wing; imports what training needs.

    Where a wing has several, `preset` (a name or a file) or the run to `resume` says which is meant.
    """
    if wing == "gpu":
        from trimtab.cli.train_gpu import gpu_trainer

        return gpu_trainer(preset, resume)
    if wing == "dag":
        from trimtab.cli.train_dag import dag_trainer

        return dag_trainer(preset, resume)
    if wing == "stream":
        from trimtab.cli.train_stream import stream_trainer

        return stream_trainer(preset, resume)
    from trimtab.cli.train_pod import pod_trainer

    return pod_trainer()
