"""The compact agents as one row of numbers: where training starts, what a bundle holds, its policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.core.bundle import Bundle
from trimtab.core.errors import BundleError
from trimtab.gpu_scheduling.das.experience import Experience
from trimtab.gpu_scheduling.das.scoring import (
    DEMAND_FEATURES,
    HIDDEN,
    JOB_FEATURES,
    MACHINE_FEATURES,
    MOODS,
    STOPPING_NUMBERS,
    ScoredRule,
    learned_order,
    learned_patience,
    learned_place,
    learned_preemption,
    order_size,
)

__all__ = ["KIND", "WING", "compact_bundle", "compact_policy", "first_numbers", "rule_of", "widths"]

WING, KIND = "gpu_scheduling", "das-compact"

Floats = NDArray[np.float64]

MINUTE_S = 60.0
FEATURES = {
    "job": list(JOB_FEATURES),
    "machine": list(MACHINE_FEATURES),
    "demand": list(DEMAND_FEATURES),
    "moods": list(MOODS),
}
PLACE_SIZE = len(MOODS) * len(MACHINE_FEATURES)
STOPPING_PLACE = {"speed alone": 1.0, "crowd": -3.0, "GPUs left free": -0.35}
"""As the rule `fast`."""
FIRST_PLACES = (
    {
        "speed alone": 3.0,
        "speed x GPUs": -0.65,
        "crowd": -3.0,
        "GPUs left free": -0.35,
    },
    {
        "speed alone": 1.2,
        "speed x GPUs": 0.45,
        "crowd": -1.1,
        "crowd x GPUs free": -4.0,
        "GPUs left free": -0.65,
        "filled exactly": 0.2,
        "crowd x sensitivity": -0.4,
    },
)
"""Of `MOODS`. Crowds of neighbours matter more where there is a choice. While it is calm, fast machines are
for jobs on one GPU, and the largest gangs hardly care."""
FIRST_DEMANDS = (
    {"usual": -0.32, "gpus": -0.2, "rest expected": 1.2, "communication": -0.05},
    {"usual": -0.5, "gpus": 0.15, "jobs waiting": -0.16, "time since it came": 0.13, "rest expected": 0.08},
)
"""While it is calm, a job of 50 minutes on one GPU waits for 0.73 of full speed, so for no slow machine, and
a gang of 16 for 0.59 of it. The longer a job will run, the more a good place is worth: a minute takes any,
ten hours want 0.98. In a crowd, gangs wait for more."""
STOPPING_DEMANDS = ({"usual": -0.25, "gpus": 0.71, "time since it came": -1.2}, {"usual": -3.0})
"""Where jobs may be moved later, gangs wait for some minutes, first for nearly full speed, soon for less: one
of 16 GPUs takes a slow machine after a quarter of an hour, when something falls free: until then, who was
tried is not tried again. In a crowd nobody waits for a place."""
LARGEST_MARGIN, LARGEST_MINUTES = 50.0, 120.0
LEAST_RUN_S = 10.0
"""A job that was started runs at least so long; at 0 two could displace each other within one moment."""


def first_numbers(*, preemptive: bool, seed: int) -> Floats:
    """Where training starts: at what experience and earlier searches say, plus hidden units that say nothing.

    Where jobs may be stopped, the least GPU time expected goes first: GPUs times the quick rest of such jobs.
    Else the least mean time left, however many GPUs, and less the longer a job has waited. The score is the
    logarithm of the priority.
    """
    features = len(JOB_FEATURES)
    order = np.zeros(order_size())
    first = {"gpus": 4.0 * np.log(2.0), "quick rest expected": 10.0}
    if not preemptive:
        first = {"rest expected": 10.0, "time waited": -2.0}
    for name, weight in first.items():
        order[JOB_FEATURES.index(name)] = weight
    hidden = order[features:].reshape(HIDDEN, features + 2)
    luck = np.random.default_rng(seed)
    hidden[:, :features] = luck.normal(0.0, 0.7, (HIDDEN, features))
    hidden[:, features] = luck.normal(0.0, 0.3, HIDDEN)
    if preemptive:
        places = [_weights(MACHINE_FEATURES, STOPPING_PLACE)] * len(MOODS)
        demands = [_weights(DEMAND_FEATURES, demand) for demand in STOPPING_DEMANDS]
        # Margin, minutes before a job may be displaced; log of the gain to move for, minutes before that.
        return np.concatenate([order, *places, [0.25, 1.0, 0.05, 5.0], *demands])
    places = [_weights(MACHINE_FEATURES, place) for place in FIRST_PLACES]
    demands = [_weights(DEMAND_FEATURES, demand) for demand in FIRST_DEMANDS]
    return np.concatenate([order, *places, *demands])


def _weights(features: tuple[str, ...], told: Mapping[str, float]) -> Floats:
    return np.array([told.get(name, 0.0) for name in features])


def widths(*, preemptive: bool) -> Floats:
    """How far each number may usefully move in training; 0: it stays, as does what enters hidden units."""
    features = len(JOB_FEATURES)
    order = np.ones(order_size())
    order[features:].reshape(HIDDEN, features + 2)[:, : features + 1] = 0.0
    places = np.full((len(MOODS), len(MACHINE_FEATURES)), 0.5)
    demands = np.full((len(MOODS), len(DEMAND_FEATURES)), 0.2)
    stopping = np.array([0.5, 0.5, 0.05, 2.0]) if preemptive else np.empty(0)
    return np.concatenate([order, places.ravel(), stopping, demands.ravel()])


def rule_of(numbers: Floats, experience: Experience, *, preemptive: bool, name: str = "das") -> ScoredRule:
    """The policy that a row of numbers stands for.

    >>> from trimtab.gpu_scheduling.das.experience import no_experience
    >>> rule_of(first_numbers(preemptive=True, seed=0), no_experience(), preemptive=True).timed
    True
    """
    order, place, rest = np.split(numbers, [order_size(), order_size() + PLACE_SIZE])
    if preemptive:
        margin, run, gain, stay = np.abs(rest[:STOPPING_NUMBERS])
        run_s, stay_s = (MINUTE_S * min(minutes, LARGEST_MINUTES) for minutes in (run, stay))
        margin, run_s = min(margin, LARGEST_MARGIN), max(run_s, LEAST_RUN_S)
        stopping = [margin, run_s, np.exp(min(gain, 1.0)), max(stay_s, MINUTE_S)]
        rest = np.concatenate([stopping, rest[STOPPING_NUMBERS:]])
    return ScoredRule(
        name,
        learned_order,
        learned_place,
        learned_preemption if preemptive else learned_patience,
        numbers=(tuple(order.tolist()), tuple(place.tolist()), tuple(rest.tolist())),
        experience=experience,
        timed=preemptive,
    )


def compact_bundle(
    name: str,
    numbers: Floats,
    experience: Experience,
    *,
    preemptive: bool,
    trained: dict[str, Any],
    scores: dict[str, Any],
) -> Bundle:
    """A bundle of learned numbers and what they rely on."""
    manifest = {
        "settings": {"preemptive": preemptive, "hidden": HIDDEN},
        "features": FEATURES,
        "trained": trained,
        "scores": scores,
    }
    tensors = {"numbers": numbers, **experience.tensors()}
    return Bundle(
        name, WING, KIND, manifest, {key: np.asarray(one, np.float64) for key, one in tensors.items()}
    )


def compact_policy(bundle: Bundle) -> ScoredRule:
    """The policy of a bundle, or a line that says why it cannot be played."""
    if bundle.kind != KIND:
        raise BundleError(
            f"{bundle.name}: a bundle of kind {bundle.kind!r}; one of kind {KIND!r} is needed here"
        )
    settings, features = bundle.manifest["settings"], bundle.manifest["features"]
    if features != FEATURES or settings.get("hidden") != HIDDEN:
        raise BundleError(f"{bundle.name}: its agents see other features than this version; train it again")
    numbers = bundle.tensors.get("numbers")
    preemptive = bool(settings["preemptive"])
    if numbers is None or numbers.shape != widths(preemptive=preemptive).shape:
        raise BundleError(f"{bundle.name}: its numbers are not those of its agents; copy it again")
    experience = Experience.from_tensors(bundle.tensors)
    if experience is None:
        raise BundleError(f"{bundle.name}: its experience is not whole; copy it again")
    return rule_of(numbers, experience, preemptive=preemptive, name=bundle.name)
