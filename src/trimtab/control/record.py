"""Judging a policy by its record: error budget, recovery, the account of violations, the leash.

Nobody knows what the heuristic would have suffered in the ticks in which the policy acted. What is known is
what it suffered when it acted alone (its *usual* violations), and how much less than it the policy gave. A
policy that gives no less is not worse; one that gives a share s of the capacity suffers some s^-8 times the
violations (HPA at 50, 70 and 80 %: s^-4 to s^-16), so of the violations in and shortly after ticks with
less, ``1 - s^8`` are put down to it.

**Account.** In every such tick its credit shrinks by ``what is put down to it / usual share`` and grows by
``tolerance``. Below zero the policy is suspended: for 20 ticks, then 40, 80, ..., and begins again with half
the credit it began with before. One that is always bad offends about log2(T / 20) times in T ticks, and
overdraws 40 + 20 + 10 + 5 + 5 + ... usual ticks in all: 9 % of a thousand ticks. With ``tolerance`` = 15 %,
and some for what a single tick can do beyond the credit, that keeps violations below 1.3 times the
heuristic's. ``tolerated_share`` loosens it where the objective matters and the heuristic is far better.

**Leash.** What a single tick can do is bounded by how far below the heuristic a policy may go. It begins
with 10 % and earns more only at the end of its leash: good ticks next to the heuristic prove nothing about
being far below it. An offence halves the leash.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trimtab.control.evidence import Evidence, Flags, Floats
from trimtab.control.guard_settings import GuardSettings, Record
from trimtab.control.state import GuardState
from trimtab.core.errors import ActionError

__all__ = ["Judgement", "judge", "usual_violations"]

# The prior counts as much as five minutes of a 15-s loop. The heuristic's record weighs half after another
# day of it alone; while a policy acts nothing fades.
_PRIOR_TICKS = 20.0
_MEMORY_TICKS = 5760.0


class Judgement(NamedTuple):
    """What the evidence of the last tick says, [E] each; for the steps, and for sentences."""

    share: Floats  # of requests that violated the objective; NaN if there were none, or nothing is known
    burn: Floats  # times too fast, in the window (long or short) where it is slower
    usual: Floats  # violating share of the heuristic alone
    strained: Flags  # latency above its limit
    offended: Flags  # overdrawn just now


def usual_violations(state: GuardState, record: Record) -> Floats:
    """Violating share of the heuristic acting alone, [E]: its mean so far, drawn to the prior at first."""
    seen = state.usual_share + record.prior_share * _PRIOR_TICKS
    return np.maximum(seen / (state.usual_ticks + _PRIOR_TICKS), record.tolerated_share)


def judge(settings: GuardSettings, state: GuardState, evidence: Evidence) -> tuple[GuardState, Judgement]:
    """Put the last tick on record; say what it means for this one."""
    if evidence.total.shape != state.tick.shape:
        raise ActionError(
            f"evidence for {len(evidence.total)} environments, not {len(state.tick)} as the guard began; "
            "mend the call"
        )
    # What is far ahead of the clock was told before the clock went back: nobody knows how old it is.
    fresh = np.abs(evidence.data_age_s) <= settings.freshness.stale_windows * settings.interval_s
    state = state._replace(stale_ticks=np.where(fresh, 0, state.stale_ticks + 1))
    known = fresh & (evidence.total > 0) & np.isfinite(evidence.total) & (evidence.bad >= 0)
    share = np.full(len(known), np.nan)
    np.divide(np.minimum(evidence.bad, evidence.total), evidence.total, out=share, where=known)
    ratio = np.where(fresh, evidence.latency_ratio, np.nan)
    state, burn = _recovery(settings, state, share, np.where(known, evidence.total, 0.0), ratio)
    state, usual, offended = _account(settings, state, share, ratio)
    strained = ratio > settings.comparison.strain_limit
    return state, Judgement(share, burn, usual, strained, offended)


def _recovery(
    settings: GuardSettings, state: GuardState, share: Floats, total: Floats, ratio: Floats
) -> tuple[GuardState, Floats]:
    """Trouble: the budget burns too fast in both windows, or latency is far too high for ticks on end."""
    recovery = settings.recovery
    bad, totals = state.bad.copy(), state.total.copy()
    rows, place = np.arange(len(share)), state.tick % bad.shape[1]
    bad[rows, place], totals[rows, place] = np.where(total > 0, share, 0.0) * total, total
    burn = _burn(settings, bad, totals, place)
    slow = ratio > recovery.slow_limit
    slow_ticks = np.where(slow, state.slow_ticks + 1, np.where(np.isnan(ratio), state.slow_ticks, 0))
    trouble = (burn > recovery.burn_limit) | (slow_ticks >= recovery.slow_ticks)
    unknown = np.isnan(ratio) & np.isnan(share)
    good = ~unknown & ~(ratio > 1) & ~(share > recovery.budget)
    good_ticks = np.where(
        trouble, 0, np.where(good, state.good_ticks + 1, np.where(unknown, state.good_ticks, 0))
    )
    recovering = trouble | (state.recovering & (good_ticks < recovery.good_ticks))
    return (
        state._replace(
            bad=bad,
            total=totals,
            slow_ticks=slow_ticks,
            good_ticks=np.where(recovering, good_ticks, 0),
            recovering=recovering,
        ),
        burn,
    )


def _burn(settings: GuardSettings, bad: Floats, total: Floats, place: np.ndarray) -> Floats:
    """The smaller of both burn rates: an hour not lived through yet counts as good, by present traffic."""
    long, short = settings.burn_ticks
    back = (place[:, None] - np.arange(short)) % long
    lived = np.maximum((total > 0).sum(axis=1), 1)
    usual_total = total.sum(axis=1) / lived
    rates = []
    for ticks, violations in ((long, bad), (short, np.take_along_axis(bad, back, axis=1))):
        expected = usual_total * ticks
        rates.append(violations.sum(axis=1) / np.where(expected > 0, expected, 1.0))
    return np.minimum(*rates) / settings.recovery.budget


def _account(
    settings: GuardSettings, state: GuardState, share: Floats, ratio: Floats
) -> tuple[GuardState, Floats, Flags]:
    record, comparison = settings.record, settings.comparison
    seen = ~np.isnan(share)
    alone = seen & (state.since_other >= record.blame_ticks)
    fading = np.where(alone, 0.5 ** (1 / _MEMORY_TICKS), 1.0)
    state = state._replace(
        usual_share=state.usual_share * fading + np.where(alone, share, 0.0),
        usual_ticks=state.usual_ticks * fading + alone,
    )
    usual = usual_violations(state, record)
    given = state.given.min(axis=1)
    blamed = seen & (given < 1) & (state.suspended == 0)
    excess = np.where(blamed, share, 0.0) * (1 - given**record.sensitivity)
    gain = np.where(blamed, record.tolerance - excess / usual, 0.0)
    balance = np.minimum(state.balance + gain, np.maximum(_credit(record, state.offences), state.balance))
    offended = blamed & (balance < 0)
    forgiven = (state.clean_ticks >= record.forgive_ticks) & (state.offences > 0) & ~offended
    offences = state.offences + offended - forgiven
    length = record.suspension_ticks * 2.0 ** np.minimum(state.offences, 40)
    good = state.at_leash & seen & (gain >= 0) & ~(ratio > 1)
    leash = np.minimum(state.leash + np.where(good, comparison.leash_growth, 0.0), 1.0)
    return (
        state._replace(
            balance=np.where(offended, _credit(record, offences), balance),
            offences=offences,
            suspended=np.where(
                offended,
                np.minimum(length, record.longest_suspension_ticks).astype(np.int64),
                np.maximum(state.suspended - 1, 0),
            ),
            clean_ticks=np.where(offended | forgiven, 0, state.clean_ticks),
            leash=np.where(offended, np.maximum(leash / 2, comparison.leash_start), leash),
        ),
        usual,
        offended,
    )


def _credit(record: Record, offences: np.ndarray) -> Floats:
    """Patience, halved by every offence; an eighth of it at least, or noise alone would suspend anybody."""
    return record.patience_ticks * np.maximum(0.5**offences, 0.125)
