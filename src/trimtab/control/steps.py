"""The steps of the guard: each takes the wish so far and returns what it leaves of it, and why.

All amounts are [E, K] in quanta; all codes are [E, K] of `Reason`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trimtab.control.evidence import Evidence, Flags, Floats, Integers, Needs
from trimtab.control.guard_settings import GuardSettings
from trimtab.control.limits import (
    Measure,
    PaceLimits,
    cut_to_cost,
    nearest,
    pace_limits,
    raised_to_capacity,
    slowed,
    whole_bounds,
)
from trimtab.control.reasons import Reason
from trimtab.control.record import Judgement
from trimtab.control.state import GuardState
from trimtab.core.errors import ActionError

__all__ = [
    "Frame",
    "Instruments",
    "affordable",
    "as_floats",
    "compare",
    "frame_of",
    "pace",
    "project",
    "satisfy",
    "validate",
]

Codes: TypeAlias = NDArray[np.int8]
Stepped: TypeAlias = tuple[Floats, Codes]


class Instruments:
    """What a guard makes of its settings once: arrays by dimension, and the two measures."""

    def __init__(self, settings: GuardSettings, capacity: Measure | None, cost: Measure | None) -> None:
        dimensions = settings.dimensions
        self.settings = settings
        self.capacity, self.cost = capacity, cost
        self.quantum = np.array([one.quantum for one in dimensions])
        self.up_factor = np.array([one.up_factor for one in dimensions])
        self.down_factor = np.array([one.down_factor for one in dimensions])
        self.canary_factor = np.array([one.canary_factor for one in dimensions])
        self.canary_quanta = np.array([one.canary_quanta for one in dimensions])
        self.joint: Flags = np.array([one.joint for one in dimensions]) & (capacity is not None)
        self.order: Integers = np.flatnonzero(self.joint)

    def in_units(self, amounts: Floats) -> Floats:
        """Amounts in the units of the dimensions."""
        return amounts * self.quantum

    def raised(self, amounts: Floats, needed: Floats, most: Floats) -> Floats:
        """Raised until the joint capacity is there; as it is where the wing has no such thing."""
        if self.capacity is None:
            return amounts
        return raised_to_capacity(
            amounts, needed, most, capacity=self.capacity, order=self.order, quantum=self.quantum
        )

    def shares(self, amounts: Floats, heuristic: Floats) -> Floats:
        """How much of the heuristic's there is, [E]: in the dimension, or joint capacity, that has least."""
        own = np.where(heuristic > 0, amounts / np.where(heuristic > 0, heuristic, 1.0), 1.0)
        least = own[:, ~self.joint].min(axis=1, initial=np.inf)
        if self.capacity is None:
            return least
        has, asked = self.capacity(self.in_units(amounts)), self.capacity(self.in_units(heuristic))
        return np.minimum(least, np.where(asked > 0, has / np.where(asked > 0, asked, 1.0), 1.0))


@dataclass(frozen=True)
class Frame:
    """One tick, in quanta: what there is, what may be, what must be, what the heuristic asks for."""

    low: Floats
    high: Floats
    floor: Floats  # least safe values, whole, never below `low`; may be above `high`
    capacity: Floats  # [E], in units
    there: Floats  # what there is; need not be whole
    stays: Floats  # the nearest to it that is allowed
    current: Floats  # where the policy starts from: what there is; in shadow, what it would have by now
    heuristic: Floats  # as `stays` where it is unusable
    usable: Flags  # [E]: the heuristic's answer is one
    limits: PaceLimits


def frame_of(tools: Instruments, state: GuardState, heuristic: Floats, needs: Needs) -> Frame:
    """Check what the caller brings, and count it in quanta."""
    shape = state.action.shape
    for name, value in (("heuristic", heuristic), *needs._asdict().items()):
        expected = shape[:1] if name == "capacity" else shape
        if value.shape != expected:
            raise ActionError(
                f"{name} has shape {value.shape}, not {expected} as the guard began; mend the call"
            )
    low, high = whole_bounds(needs.least, needs.most, tools.quantum)
    there = np.where(np.isnan(needs.current), state.action, needs.current)
    if not np.isfinite(there).all():
        row = int(np.argwhere(~np.isfinite(there))[0, 0])
        raise ActionError(
            f"environment {row}: neither what it has now nor an earlier decision is known; read the present "
            "values from the system first"
        )
    there = np.maximum(there / tools.quantum, 0.0)
    current = there
    if tools.settings.mode == "shadow":
        current = np.where(np.isnan(state.would), there, state.would / tools.quantum)
    usable: Flags = np.all(np.isfinite(heuristic), axis=1)
    answer = np.where(usable[:, None], np.where(usable[:, None], heuristic, 0.0) / tools.quantum, there)
    answer = nearest(answer, low, high)
    # Not where the heuristic trades one joint dimension for another: new replicas are not there at once.
    goes_down = np.all(~tools.joint | (answer <= np.ceil(current)), axis=1)
    return Frame(
        low,
        high,
        floor=np.maximum(np.ceil(np.nan_to_num(needs.floor, posinf=np.inf) / tools.quantum - 1e-9), low),
        capacity=np.nan_to_num(needs.capacity, posinf=np.inf),
        there=there,
        stays=nearest(there, low, high),
        current=current,
        heuristic=answer,
        usable=usable,
        limits=pace_limits(current, answer, goes_down, tools.up_factor, tools.down_factor),
    )


def validate(tools: Instruments, frame: Frame, proposal: Any, evidence: Evidence) -> Stepped:
    """Take the policy's answer, or the heuristic's where that cannot be used; not whole yet."""
    shape = frame.low.shape
    codes = np.zeros(shape, np.int8)
    answer = as_floats(proposal)
    if answer is None or answer.shape != shape:
        codes[:] = Reason.NO_ANSWER if proposal is None else Reason.WRONG_SHAPE
        return frame.heuristic, codes
    limit = tools.settings.freshness.stale_windows * tools.settings.interval_s
    codes[~(np.abs(evidence.proposal_age_s) <= limit)] = Reason.EXPIRED
    codes[(answer < 0).any(axis=1)] = Reason.NEGATIVE
    codes[~np.isfinite(answer).all(axis=1)] = Reason.NOT_FINITE
    usable = codes == 0
    # 1e308 cores are infinitely many hundredths: no reason to warn, the bounds come next.
    with np.errstate(over="ignore"):
        quanta = np.where(usable, answer, 0.0) / tools.quantum
    return np.where(usable, quanta, frame.heuristic), codes


def as_floats(proposal: Any) -> Floats | None:
    """An array, or None where it cannot be made one: whatever a policy answers, the guard goes on."""
    try:
        return np.asarray(proposal, np.float64)
    except Exception:
        return None


def project(frame: Frame, wish: Floats) -> Stepped:
    """To whole quanta within the bounds."""
    amounts = nearest(wish, frame.low, frame.high)
    codes = np.where(np.abs(amounts - wish) > 1e-6, Reason.ROUNDED, Reason.NONE).astype(np.int8)
    codes[amounts > np.floor(wish + 0.5)] = Reason.BELOW_BOUND
    codes[amounts < np.floor(wish + 0.5)] = Reason.ABOVE_BOUND
    return amounts, codes


def satisfy(tools: Instruments, frame: Frame, wish: Floats) -> Stepped:
    """Never below what present usage and traffic need, as far as the bounds allow."""
    own = np.clip(np.maximum(wish, frame.floor), frame.low, frame.high)
    codes = np.where(own > wish, Reason.USAGE, Reason.NONE).astype(np.int8)
    amounts = tools.raised(own, frame.capacity, frame.high)
    codes[amounts > own] = Reason.CAPACITY
    codes[frame.floor > frame.high] = Reason.OUT_OF_REACH
    if tools.capacity is not None:
        enough = tools.capacity(tools.in_units(amounts)) >= frame.capacity * (1 - 1e-9)
        codes[~enough[:, None] & tools.joint] = Reason.OUT_OF_REACH
    return amounts, codes


def compare(
    tools: Instruments, frame: Frame, state: GuardState, judgement: Judgement, wish: Floats
) -> Stepped:
    """Not too dear, in canary mode not far from the heuristic, and not below it beyond the leash.

    Raising comes last: money and shape give way to safety. Nothing is raised faster than the pace allows.
    """
    amounts = affordable(tools, frame, wish, np.minimum(wish, frame.heuristic))
    codes = np.where(amounts != wish, Reason.COST, Reason.NONE).astype(np.int8)
    if tools.settings.mode == "canary":
        low, high = _box(tools, frame)
        boxed = np.clip(amounts, low, high)
        codes[boxed != amounts] = Reason.BOX
        amounts = boxed
    kept = np.where(judgement.strained, 1.0, 1.0 - state.leash)
    most = np.clip(frame.limits.highest, frame.low, frame.high)
    own = np.where(tools.joint, amounts, np.maximum(amounts, np.ceil(frame.heuristic * kept[:, None] - 1e-9)))
    own = np.maximum(np.minimum(own, most), amounts)
    if tools.capacity is not None:
        # What is beyond the pace will not be there: it makes up for nothing that is missing elsewhere.
        asked = tools.capacity(tools.in_units(frame.heuristic)) * kept
        own = np.maximum(own, tools.raised(np.minimum(own, most), asked, most))
    why = np.where(judgement.strained, Reason.STRAINED, Reason.LEASH).astype(np.int8)
    codes = np.where(own > amounts, why[:, None], codes)
    return own, codes


def affordable(tools: Instruments, frame: Frame, amounts: Floats, towards: Floats) -> Floats:
    """Cut to what the policy may cost; without a measure of cost, every dimension has the limit."""
    limit = tools.settings.comparison.cost_limit
    if tools.cost is None:
        most = np.maximum(np.floor(frame.heuristic * limit + 1e-9), towards)
        return np.minimum(amounts, most)
    ceiling = tools.cost(tools.in_units(frame.heuristic)) * limit
    return cut_to_cost(amounts, towards, ceiling, cost=tools.cost, quantum=tools.quantum)


def _box(tools: Instruments, frame: Frame) -> tuple[Floats, Floats]:
    middle, factor, quanta = frame.heuristic, tools.canary_factor, tools.canary_quanta
    low = np.minimum(np.ceil(middle / factor - 1e-9), middle - quanta)
    high = np.maximum(np.floor(middle * factor + 1e-9), middle + quanta)
    return np.clip(low, frame.low, frame.high), np.clip(high, frame.low, frame.high)


def pace(tools: Instruments, frame: Frame, state: GuardState, wish: Floats) -> Stepped:
    """So far in one tick, down no lower than lately asked for, no turning round at once; and not too dear.

    The window keeps the largest wish of each dimension, and together these may cost more than any one wish
    did; what is beyond the limit goes at once, though no faster than the pace.
    """
    flip_ticks = tools.settings.pace.flip_ticks
    recent = state.since_change < flip_ticks
    window = state.asked.copy()
    window[np.arange(len(wish)), state.tick % window.shape[1]] = wish
    first = np.where((state.tick[:, None] == 0) & (window.shape[1] > 1), np.ceil(frame.current), 0.0)
    result = slowed(
        wish,
        frame.current,
        frame.limits,
        most_asked=np.maximum(window.max(axis=1), first),
        turned_down=recent & (state.direction < 0),
        turned_up=recent & (state.direction > 0),
    )
    codes = np.zeros(wish.shape, np.int8)
    codes[result.too_fast_up], codes[result.too_fast_down] = Reason.TOO_FAST_UP, Reason.TOO_FAST_DOWN
    codes[result.stabilised], codes[result.flip] = Reason.STABILISED, Reason.FLIP
    amounts = np.clip(result.amounts, frame.low, frame.high)
    cheaper = np.maximum(np.minimum(amounts, wish), np.minimum(amounts, frame.limits.lowest))
    cut = affordable(tools, frame, amounts, cheaper)
    codes[cut < amounts] = Reason.COST
    return cut, codes
