"""Where jobs would start by straight paths from facts to scores alone, and how fast they would be there.

The facts are those of the compact agents (see `scoring`), worked out from a view, and so are the first
weights: one for calm moments and one for crowded ones. A gang goes on one machine, on several of one rack or
on several anywhere, whichever is best; where that is has a bonus, because networks rank machines one by one,
and only so the machines of a gang find together. On numpy or JAX.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from trimtab.gpu_scheduling.das.compact import FIRST_PLACES
from trimtab.gpu_scheduling.das.scoring import MOODS
from trimtab.gpu_scheduling.das.view import JOB_FACTS, MACHINE_FACTS, PAIR_FACTS, View
from trimtab.networks.layers import Array, Parameters

__all__ = ["ENOUGH", "PLACE_FACTS", "Places", "by_mood", "gpus_of", "in_this_mood", "new_places"]
__all__ += ["usual_places"]

SHARP_FACTS = (
    "speed alone",
    "speed x GPUs",
    "crowd",
    "crowd x GPUs free",
    "crowd x sensitivity",
    "GPUs left free",
    "filled exactly",
    "whole gang",
)
"""Of a job on a machine; the last is what the gang saves by being on one machine."""
PLACE_FACTS = ("speed there", "spread out")
"""Of a job: log of its speed where it would start over the best there is for it, and whether that means
several machines."""
SHARPNESS = 8.0
"""How many times the logarithms of desirabilities scores are at first: the more, the surer."""
FIRST_BONUS = 3.0
"""Added to the scores of the machines where a job would start."""
ENOUGH = 1 - 1e-6
"""Room that adds up to this is room for the whole gang: thirds do not add up to 1."""
_NEARLY = 1 - 1e-3
"""The same for differences of long sums."""
ACROSS_RACKS = 2.0
"""How many times the loss by being spread counts across racks (what is usual, see `Cluster`)."""
_ROOM, _ALONE = PAIR_FACTS.index("room"), PAIR_FACTS.index("speed alone")
_CROWD = PAIR_FACTS.index("crowd")
_SLOWEST, _LOWEST = np.float32(-3.0), np.float32(-1e6)


class Places(NamedTuple):
    """Of each job, whether its gang fits now or not; of one that does not, `facts` mean nothing."""

    scores: Array  # [b, W, M]
    chosen: Array  # [b, W, M]: 1 where it would start
    facts: Array  # [b, W, 2]: see `PLACE_FACTS`


def new_places() -> Parameters:
    """Weights that begin as those of the compact agents."""
    first = [{"whole gang": 1.0, **weights} for weights in FIRST_PLACES]
    return {"skip": SHARPNESS * by_mood(SHARP_FACTS, first), "usual_place": np.float32(FIRST_BONUS)}


def by_mood(names: Sequence[str], told: Sequence[Mapping[str, float]]) -> Array:
    """Weights [names, moods]; those not told are 0.

    >>> by_mood(("a", "b"), ({"a": 1.0}, {"b": 2.0})).tolist()
    [[1.0, 0.0], [0.0, 2.0]]
    """
    return np.array([[weights.get(name, 0.0) for weights in told] for name in names], np.float32)


def in_this_mood(of_moods: Array, facts: Array, waits: Array, real: Array, xp: Any) -> Array:
    """The last axis has a number for each of `MOODS`; choose by how many jobs wait (see `scoring.mood`)."""
    waiting = xp.expm1(5 * xp.where(waits, facts[..., JOB_FACTS.index("jobs waiting")], 0).max(-1))
    crowded = 4 * waiting > real.sum(-1) + np.float32(0.1)
    crowded = crowded.reshape(-1, *([1] * (of_moods.ndim - 2)))
    return xp.where(crowded, of_moods[..., MOODS.index("crowded")], of_moods[..., MOODS.index("calm")])


def gpus_of(facts: Array, xp: Any) -> Array:
    """GPUs of each job, at least a thousandth; of rows without a job, anything finite."""
    told = xp.minimum(5 * facts[..., JOB_FACTS.index("GPUs")], 30)
    return xp.maximum(xp.exp2(told) - 1, np.float32(1e-3))


def usual_places(actor: Parameters, view: View, xp: Any) -> Places:
    """Where every job in the window would start, and how fast it would be."""
    facts, real = view.jobs, view.real[:, None, :]
    room = xp.where(real, view.pairs[..., _ROOM], 0)
    alone = view.pairs[..., _ALONE]
    crowd = xp.log1p(xp.maximum(view.pairs[..., _CROWD], 0))
    spread, far = _loss_by_spreading(facts, xp), _loss_by_spreading(facts, xp, ACROSS_RACKS)
    of_moods = _sharp_facts(view, room, crowd, spread, xp) @ actor["skip"]
    scores = in_this_mood(of_moods, facts, view.waits, view.real, xp)
    able = xp.where(room > 0, scores, _LOWEST)
    near, machine = _best_in_a_rack(able, room, view.rack, xp)
    anywhere = _least_needed(able, room, xp)
    in_rack = near >= xp.maximum(anywhere - np.float32(SHARPNESS) * (far - spread), _LOWEST / 2)
    whole = in_rack & (xp.take_along_axis(room, machine[..., None], axis=-1)[..., 0] >= ENOUGH)
    rack = xp.take_along_axis(view.rack, machine, axis=-1)[..., None]
    here = xp.arange(room.shape[-1]) == machine[..., None]
    chosen = xp.where(
        in_rack[..., None],
        (view.rack[:, None, :] == rack) & (able >= near[..., None]),
        able >= xp.maximum(anywhere, _LOWEST / 2)[..., None],
    )
    chosen = xp.where(whole[..., None], here, chosen)
    lost = xp.where(whole, 0, xp.where(in_rack, spread, far))
    slowest = xp.where(chosen, alone - crowd, 1).min(-1)
    several = facts[..., JOB_FACTS.index("needs several machines")]
    best = xp.where(real, alone, _SLOWEST).max(-1) - spread * several
    there = xp.maximum(xp.minimum(slowest - lost - best, 1), _SLOWEST)
    told = xp.stack([there, (~whole).astype(there.dtype)], axis=-1)
    return Places(scores, chosen.astype(scores.dtype), told)


def _sharp_facts(view: View, room: Array, crowd: Array, spread: Array, xp: Any) -> Array:
    """`SHARP_FACTS` [b, W, M, facts]."""
    facts = view.jobs
    gpus = gpus_of(facts, xp)[..., None]
    sensitivity = 2 * facts[..., JOB_FACTS.index("sensitivity"), None] - 1
    free = facts[..., JOB_FACTS.index("GPUs free"), None]
    machine_gpus = xp.maximum(8 * view.machines[..., MACHINE_FACTS.index("GPUs")], 1)[:, None]
    share_free = view.machines[..., MACHINE_FACTS.index("share free")][:, None]
    alone = view.pairs[..., _ALONE]
    left = share_free - xp.minimum(room, 1) * gpus / machine_gpus
    derived = [
        alone,
        alone * xp.log2(gpus),
        crowd,
        crowd * free,
        crowd * sensitivity,
        left,
        (left < 1e-4).astype(left.dtype),
        xp.where(room >= ENOUGH, spread[..., None], 0),
    ]
    return xp.stack(derived, axis=-1)


def _loss_by_spreading(facts: Array, xp: Any, weight: float = 1.0) -> Array:
    """Log of how much slower each job is on several machines."""
    told = xp.minimum(facts[..., JOB_FACTS.index("communication")], np.float32(0.99))
    return xp.log1p(np.float32(0.1 * weight) * told / (1 - told))


def _least_needed(scores: Array, room: Array, xp: Any) -> Array:
    """The lowest score of the machines with the highest scores that have room for the gang together."""
    order = xp.argsort(-scores, axis=-1, stable=True)
    filled = xp.cumsum(xp.take_along_axis(room, order, axis=-1), axis=-1)
    last = xp.argmax(filled >= _NEARLY, axis=-1)[..., None]
    found = xp.take_along_axis(xp.take_along_axis(scores, order, axis=-1), last, axis=-1)[..., 0]
    return xp.where(filled[..., -1] >= _NEARLY, found, _LOWEST)


def _best_in_a_rack(scores: Array, room: Array, rack: Array, xp: Any) -> tuple[Array, Array]:
    """The same for machines of one rack, the best there is, and the machine that has this score."""
    order = xp.argsort(-scores, axis=-1, stable=True)
    racks = xp.take_along_axis(xp.broadcast_to(rack[:, None, :], room.shape), order, axis=-1)
    # By rack, and within each from the highest score down.
    again = xp.argsort(racks, axis=-1, stable=True)
    order, racks = (xp.take_along_axis(one, again, axis=-1) for one in (order, racks))
    sorted_room = xp.take_along_axis(room, order, axis=-1)
    filled = xp.cumsum(sorted_room, axis=-1)
    first = xp.ones_like(racks[..., :1], dtype=bool)
    begins = xp.concatenate([first, racks[..., 1:] != racks[..., :-1]], axis=-1)
    before = xp.maximum.accumulate(xp.where(begins, filled - sorted_room, 0), axis=-1)
    able = (filled - before >= _NEARLY) & (sorted_room > 0)
    found = xp.where(able, xp.take_along_axis(scores, order, axis=-1), _LOWEST)
    place = xp.argmax(found, axis=-1)[..., None]
    best = xp.take_along_axis(found, place, axis=-1)[..., 0]
    return best, xp.take_along_axis(order, place, axis=-1)[..., 0]
