"""Train the compact scheduler from settings to a bundle."""

from __future__ import annotations

from typing import Any

from trimtab.core.bundle import Bundle
from trimtab.dag_scheduling.decima.compact import compact_bundle
from trimtab.dag_scheduling.decima.compact_task import CompactTask
from trimtab.learning.evolved_bundle import EvolvedBundle
from trimtab.learning.runs import BestOfRun

__all__ = ["COMPACT"]


def _packed(name: str, best: BestOfRun, **told: Any) -> Bundle:
    return compact_bundle(name, best.parameters["numbers"], **told)


COMPACT = EvolvedBundle(CompactTask, _packed, "compact.toml", "validation cost over the rule's")
