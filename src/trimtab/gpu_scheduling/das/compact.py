"""The compact agents as one row of numbers: where training starts, what a bundle holds, its policy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.core.bundle import Bundle
from trimtab.core.errors import BundleError
from trimtab.gpu_scheduling.das.scoring import (
    HIDDEN,
    JOB_FEATURES,
    MACHINE_FEATURES,
    ScoredRule,
    learned_order,
    learned_place,
    order_size,
)
from trimtab.gpu_scheduling.heuristics import disciplines

__all__ = ["KIND", "WING", "compact_bundle", "compact_policy", "first_numbers", "rule_of", "widths"]

WING, KIND = "gpu_scheduling", "das-compact"

Floats = NDArray[np.float64]

PATIENCE_UNIT_S = 60.0
"""The last number counts the least run time before a job may be displaced in minutes."""
LARGEST_MARGIN, LARGEST_MINUTES = 50.0, 120.0


def first_numbers(*, preemptive: bool, seed: int) -> Floats:
    """Where training starts: at the best rules, plus hidden units that say nothing yet.

    With preemption that is least attained service on fast machines (las+fast), without it fewest GPUs first
    (smallest+fast): a score of ``10 · log(1 + GPU-seconds) / 10`` or ``log(GPUs)``, whose exponential is the
    priority of the rule.
    """
    features = len(JOB_FEATURES)
    order = np.zeros(order_size())
    if preemptive:
        order[JOB_FEATURES.index("GPU time attained")] = 10.0
    else:
        order[JOB_FEATURES.index("gpus")] = 4.0 * np.log(2.0)
    hidden = order[features:].reshape(HIDDEN, features + 2)
    luck = np.random.default_rng(seed)
    hidden[:, :features] = luck.normal(0.0, 0.7, (HIDDEN, features))
    hidden[:, features] = luck.normal(0.0, 0.3, HIDDEN)
    place = np.zeros(len(MACHINE_FEATURES))
    place[MACHINE_FEATURES.index("speed alone")] = 1.0
    place[MACHINE_FEATURES.index("crowd")] = -2.0
    return np.concatenate([order, place, [1.0, 5.0] if preemptive else [0.0, 0.0]])


def widths(*, preemptive: bool) -> Floats:
    """How far each number may usefully move in training."""
    features = len(JOB_FEATURES)
    order = np.ones(order_size())
    order[features:].reshape(HIDDEN, features + 2)[:, : features + 1] = 0.3
    place = np.full(len(MACHINE_FEATURES), 0.3)
    return np.concatenate([order, place, np.full(2, 0.5 if preemptive else 0.0)])


def rule_of(numbers: Floats, *, preemptive: bool, name: str = "das") -> ScoredRule:
    """The policy that a row of numbers stands for.

    >>> rule_of(first_numbers(preemptive=True, seed=0), preemptive=True).timed
    True
    """
    order, place, rest = np.split(numbers, [order_size(), order_size() + len(MACHINE_FEATURES)])
    margin = min(abs(float(rest[0])), LARGEST_MARGIN)
    least_run_s = PATIENCE_UNIT_S * min(abs(float(rest[1])), LARGEST_MINUTES)
    return ScoredRule(
        name,
        learned_order,
        learned_place,
        disciplines.preemptive if preemptive else disciplines.backfill,
        numbers=(tuple(order.tolist()), tuple(place.tolist()), (margin, least_run_s)),
        timed=preemptive,
    )


def compact_bundle(
    name: str, numbers: Floats, *, preemptive: bool, trained: dict[str, Any], scores: dict[str, Any]
) -> Bundle:
    """A bundle of learned numbers."""
    manifest = {
        "settings": {"preemptive": preemptive, "hidden": HIDDEN},
        "features": {"job": list(JOB_FEATURES), "machine": list(MACHINE_FEATURES)},
        "trained": trained,
        "scores": scores,
    }
    return Bundle(name, WING, KIND, manifest, {"numbers": np.asarray(numbers, np.float64)})


def compact_policy(bundle: Bundle) -> ScoredRule:
    """The policy of a bundle, or a line that says why it cannot be played."""
    settings, features = bundle.manifest["settings"], bundle.manifest["features"]
    seen = {"job": list(JOB_FEATURES), "machine": list(MACHINE_FEATURES)}
    if features != seen or settings.get("hidden") != HIDDEN:
        raise BundleError(f"{bundle.name}: its agents see other features than this version; train it again")
    numbers = bundle.tensors.get("numbers")
    if numbers is None or numbers.shape != (order_size() + len(MACHINE_FEATURES) + 2,):
        raise BundleError(f"{bundle.name}: its numbers are not those of its agents; copy it again")
    return rule_of(numbers, preemptive=bool(settings["preemptive"]), name=bundle.name)
