"""What a guard remembers from tick to tick: plain arrays, one row per environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.control.evidence import Flags, Floats, Integers
from trimtab.control.guard_settings import GuardSettings
from trimtab.core.errors import BundleError

__all__ = ["GuardState", "fresh_state", "state_from_arrays"]

# "Never": long ago by any setting, and far from overflowing when it is counted up once a tick.
NEVER = 1 << 40


class GuardState(NamedTuple):
    """What a guard remembers. Save ``state._asdict()``; `state_from_arrays` makes it a state again."""

    ids: Integers  # [E]: what the draws of the canary go by; the same after a restart
    tick: Integers  # [E]: decisions made so far
    # the past
    action: Floats  # [E, K]: decided last; NaN before the first decision
    would: Floats  # [E, K]: what the policy would have now, had it acted (in shadow: all along)
    asked: Floats  # [E, W, K]: in quanta: what was asked for by who acted, a ring of the stabilisation window
    direction: NDArray[np.int8]  # [E, K]: of the last change
    since_change: Integers  # [E, K]: ticks since then
    stale_ticks: Integers  # [E]: on end without fresh data
    # recovery
    bad: Floats  # [E, B]: violations, a ring of the long burn window
    total: Floats  # [E, B]: requests
    slow_ticks: Integers  # [E]: on end far above the latency limit
    good_ticks: Integers  # [E]: on end within latency and budget, while recovering
    recovering: Flags  # [E]
    # record
    usual_share: Floats  # [E]: sum of violating shares while the heuristic acted alone
    usual_ticks: Floats  # [E]: and over how many ticks
    since_other: Integers  # [E]: ticks since something else than the heuristic's answer was done
    given: (
        Floats  # [E, B]: share of the heuristic's amounts the policy gave, a ring of the ticks it answers for
    )
    balance: Floats  # [E]: credit, in ticks of the heuristic's usual violations
    offences: Integers  # [E]: how often it was overdrawn and not forgiven yet
    suspended: Integers  # [E]: ticks that are left of a suspension
    clean_ticks: Integers  # [E]: acted since the last offence
    leash: Floats  # [E]: share of the heuristic's amounts that the policy may leave out
    at_leash: Flags  # [E]: the policy acted last, near the end of its leash


def fresh_state(settings: GuardSettings, environments: int, ids: Sequence[int] | None = None) -> GuardState:
    """The state before the first decision."""
    kinds, (burn_ticks, _) = len(settings.dimensions), settings.burn_ticks
    zeros, never = np.zeros(environments, np.int64), np.full(environments, NEVER, np.int64)
    return GuardState(
        ids=np.arange(environments, dtype=np.int64) if ids is None else np.asarray(ids, np.int64),
        tick=zeros,
        action=np.full((environments, kinds), np.nan),
        would=np.full((environments, kinds), np.nan),
        asked=np.zeros((environments, settings.window_ticks, kinds)),
        direction=np.zeros((environments, kinds), np.int8),
        since_change=np.full((environments, kinds), NEVER, np.int64),
        stale_ticks=zeros,
        bad=np.zeros((environments, burn_ticks)),
        total=np.zeros((environments, burn_ticks)),
        slow_ticks=zeros,
        good_ticks=zeros,
        recovering=np.zeros(environments, bool),
        usual_share=np.zeros(environments),
        usual_ticks=np.zeros(environments),
        since_other=never,
        given=np.ones((environments, settings.record.blame_ticks)),
        balance=np.full(environments, settings.record.patience_ticks),
        offences=zeros,
        suspended=zeros,
        clean_ticks=zeros,
        leash=np.full(environments, settings.comparison.leash_start),
        at_leash=np.zeros(environments, bool),
    )


def state_from_arrays(settings: GuardSettings, arrays: Mapping[str, NDArray[Any]]) -> GuardState:
    """A saved state; refused where it is not one of a guard with these settings, or has lost numbers.

    >>> from trimtab.control.guard_settings import Dimension
    >>> settings = GuardSettings(dimensions=(Dimension(name="replicas", most=20),))
    >>> saved = fresh_state(settings, 2)._asdict()
    >>> state_from_arrays(settings, saved).leash
    array([0.1, 0.1])
    >>> state_from_arrays(settings, {**saved, "leash": np.zeros(3)})
    Traceback (most recent call last):
    trimtab.core.errors.BundleError: guard state: leash has shape (3,), not (2,); begin afresh
    """
    names = set(GuardState._fields)
    if names != set(arrays):
        odd = sorted(names ^ set(arrays))[0]
        raise BundleError(f"guard state: {odd} is {'missing' if odd in names else 'unknown'}; begin afresh")
    model = fresh_state(settings, len(np.atleast_1d(arrays["ids"])))
    for name, like in model._asdict().items():
        if np.shape(arrays[name]) != like.shape:
            raise BundleError(
                f"guard state: {name} has shape {np.shape(arrays[name])}, not {like.shape}; begin afresh"
            )
    return GuardState(**{name: _numbers(name, arrays[name], like) for name, like in model._asdict().items()})


def _numbers(name: str, saved: NDArray[Any], like: NDArray[Any]) -> NDArray[Any]:
    """As the state has them. A leash that is no number, say, would make every action one that is none."""
    try:
        numbers = np.asarray(saved, np.float64)
        whole = like.dtype.kind == "f" or bool((numbers == np.floor(numbers)).all())
    except (TypeError, ValueError, OverflowError):
        numbers, whole = np.array(np.inf), False
    # Only what was decided may be unknown: before the first decision.
    known = np.isfinite(numbers) | (np.isnan(numbers) & (name in ("action", "would")))
    if not (whole and known.all()):
        raise BundleError(f"guard state: {name} has a value that is no such number; begin afresh")
    return np.asarray(saved, like.dtype)
