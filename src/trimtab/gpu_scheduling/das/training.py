"""Train the compact agents from settings to a bundle."""

from __future__ import annotations

from typing import Any

from trimtab.core.bundle import Bundle
from trimtab.gpu_scheduling.das.compact import compact_bundle
from trimtab.gpu_scheduling.das.task import DasSettings, DasTask, experience_of
from trimtab.learning.evolved_bundle import EvolvedBundle
from trimtab.learning.runs import BestOfRun

__all__ = ["DAS"]


def _packed(name: str, best: BestOfRun, **told: Any) -> Bundle:
    experience = experience_of(DasSettings.model_validate(best.task))
    preemptive = bool(best.task["preemptive"])
    return compact_bundle(name, best.parameters["numbers"], experience, preemptive=preemptive, **told)


DAS = EvolvedBundle(DasTask, _packed, "das.toml", "completion time (times fee) over the rule's")
