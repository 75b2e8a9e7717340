"""The compact agents as one row of numbers: where training starts, what a bundle holds, its policy."""

from __future__ import annotations

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
    ScoredRule,
    learned_order,
    learned_patience,
    learned_place,
    order_size,
)
from trimtab.gpu_scheduling.heuristics import disciplines

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
CALM, CROWDED = range(len(MOODS))
LARGEST_MARGIN, LARGEST_MINUTES = 50.0, 120.0


def first_numbers(*, preemptive: bool, seed: int) -> Floats:
    """Where training starts: at what experience alone would do, plus hidden units that say nothing yet.

    That is least GPU time expected first: GPUs times the mean time left of such jobs or, where jobs may be
    stopped, times their quick rest. The score is the logarithm of the priority.
    """
    features = len(JOB_FEATURES)
    order = np.zeros(order_size())
    order[JOB_FEATURES.index("gpus")] = 4.0 * np.log(2.0)
    order[JOB_FEATURES.index("quick rest expected" if preemptive else "rest expected")] = 10.0
    hidden = order[features:].reshape(HIDDEN, features + 2)
    luck = np.random.default_rng(seed)
    hidden[:, :features] = luck.normal(0.0, 0.7, (HIDDEN, features))
    hidden[:, features] = luck.normal(0.0, 0.3, HIDDEN)
    # Margin, minutes before a job may be displaced; log of the gain for which it moves, minutes before that.
    rest = [0.25, 1.0, 0.05, 5.0] if preemptive else _first_demands()
    return np.concatenate([order, _first_places(preemptive=preemptive), rest])


def _first_places(*, preemptive: bool) -> Floats:
    """As the rule `fast`, and crowds matter more where there is a choice.

    Where jobs stay where they are, fast machines are for those on one GPU while it is calm: a gang holds up
    to 16 of them and hardly cares.
    """
    places = np.zeros((len(MOODS), len(MACHINE_FEATURES)))
    places[:, MACHINE_FEATURES.index("speed alone")] = 1.0
    places[:, MACHINE_FEATURES.index("crowd")] = -3.0 if preemptive else -1.0
    places[:, MACHINE_FEATURES.index("crowd x GPUs free")] = 0.0 if preemptive else -4.0
    places[:, MACHINE_FEATURES.index("GPUs left free")] = -0.35
    if not preemptive:
        places[CALM, MACHINE_FEATURES.index("speed alone")] = 3.0
        places[CALM, MACHINE_FEATURES.index("speed x GPUs")] = -0.65
    return places.ravel()


def _first_demands() -> Floats:
    """In a crowd as the rule `patient` with its usual setting.

    While it is calm, a job on one GPU waits for 0.76 of full speed, so for no slow machine; a gang of 16 for
    0.62 of it.
    """
    demands = np.zeros((len(MOODS), len(DEMAND_FEATURES)))
    demands[CROWDED, DEMAND_FEATURES.index("usual")] = np.log(0.65)
    demands[CALM, DEMAND_FEATURES.index("usual")] = -0.28
    demands[CALM, DEMAND_FEATURES.index("gpus")] = -0.2
    return demands.ravel()


def widths(*, preemptive: bool) -> Floats:
    """How far each number may usefully move in training; 0: it stays as it is.

    What enters hidden units does and, without preemption, the numbers for calm moments: a search among noisy
    episodes leaves such a start sooner than it finds a better one.
    """
    features = len(JOB_FEATURES)
    order = np.ones(order_size())
    order[features:].reshape(HIDDEN, features + 2)[:, : features + 1] = 0.0
    places = np.full((len(MOODS), len(MACHINE_FEATURES)), 0.5)
    demands = np.full((len(MOODS), len(DEMAND_FEATURES)), 0.2)
    if not preemptive:
        places[CALM] = demands[CALM] = 0.0
    rest = np.array([0.5, 0.5, 0.05, 2.0]) if preemptive else demands.ravel()
    return np.concatenate([order, places.ravel(), rest])


def rule_of(numbers: Floats, experience: Experience, *, preemptive: bool, name: str = "das") -> ScoredRule:
    """The policy that a row of numbers stands for.

    >>> from trimtab.gpu_scheduling.das.experience import no_experience
    >>> rule_of(first_numbers(preemptive=True, seed=0), no_experience(), preemptive=True).timed
    True
    """
    order, place, rest = np.split(numbers, [order_size(), order_size() + PLACE_SIZE])
    if preemptive:
        margin, run, gain, stay = np.abs(rest)
        run_s, stay_s = (MINUTE_S * min(minutes, LARGEST_MINUTES) for minutes in (run, stay))
        rest = np.array([min(margin, LARGEST_MARGIN), run_s, np.exp(min(gain, 1.0)), max(stay_s, MINUTE_S)])
    return ScoredRule(
        name,
        learned_order,
        learned_place,
        disciplines.preemptive if preemptive else learned_patience,
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
