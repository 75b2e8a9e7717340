"""Tuned settings of rules, kept with what they were tuned on.

A tuned value belongs to one workload on one cluster: it is found again only for exactly those.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from trimtab.benchmark.suite import Scenario, Suite
from trimtab.core.errors import SettingsError

__all__ = ["TunedEntry", "TunedValues", "shipped_tuned_values"]

FORMAT, VERSION = "trimtab-tuned", 1


@dataclass(frozen=True)
class TunedEntry:
    """The best settings found for one rule on one scenario."""

    policy: str
    values: Mapping[str, float]
    score: float  # mean of the wing's measure on the training seeds
    training_seeds: int
    suite: str
    scenario: str
    workload: Mapping[str, Any]
    cluster: Mapping[str, Any]

    @property
    def key(self) -> tuple[str, str]:
        return self.policy, _ground(self.workload, self.cluster)


class TunedValues:
    """Entries by rule, workload and cluster."""

    def __init__(self, entries: Iterable[TunedEntry] = ()) -> None:
        self._entries = {entry.key: entry for entry in entries}

    @property
    def entries(self) -> tuple[TunedEntry, ...]:
        return tuple(self._entries.values())

    def find(self, policy: str, suite: Suite, scenario: Scenario) -> TunedEntry | None:
        """The entry for exactly this workload and cluster."""
        return self._entries.get((policy, _ground(*suite.wing.ground(suite, scenario))))

    def with_entries(self, entries: Iterable[TunedEntry]) -> TunedValues:
        """These and others; a newer entry takes the place of an older one."""
        return TunedValues([*self.entries, *entries])

    def as_json(self) -> str:
        content = {
            "format": FORMAT,
            "version": VERSION,
            "entries": [asdict(entry) for entry in self.entries],
        }
        return json.dumps(content, indent=1, ensure_ascii=False) + "\n"

    def save(self, path: Path) -> None:
        """Write the file whole or not at all."""
        partial = path.with_name(path.name + ".partial")
        partial.write_text(self.as_json(), encoding="utf-8")
        partial.replace(path)

    @classmethod
    def load(cls, path: Path) -> TunedValues:
        """Read a file written by `trimtab tune`."""
        try:
            return cls.from_json(path.read_text(encoding="utf-8"), str(path))
        except (OSError, UnicodeDecodeError):
            raise SettingsError(f"{path}: cannot be read; `trimtab tune --out` writes such files") from None

    @classmethod
    def from_json(cls, text: str, source: str) -> TunedValues:
        """Read entries; refuses a file of another kind."""
        try:
            content = json.loads(text)
            if content["format"] != FORMAT or content["version"] != VERSION:
                raise ValueError
            return cls(TunedEntry(**entry) for entry in content["entries"])
        except (ValueError, KeyError, TypeError):
            raise SettingsError(
                f"{source}: not a file of tuned values (version {VERSION}); `trimtab tune --out` writes them"
            ) from None


def shipped_tuned_values() -> TunedValues:
    """The tuned values that come with trimtab, one set for each of its suites."""
    source = files("trimtab.benchmark").joinpath("data", "tuned.json")
    return TunedValues.from_json(source.read_text(encoding="utf-8"), "tuned.json")


def _ground(workload: Mapping[str, Any], cluster: Mapping[str, Any]) -> str:
    return json.dumps([workload, cluster], sort_keys=True)
