"""Autothrottle's tower: learns, minute by minute, which throttling a service's latency limit can bear.

A contextual bandit (Wang et al., NSDI 2024): the context is the rate of requests, the arms are throttle
targets, and the cost of a minute is what was allocated, if the latency limit held, or else 2 plus how far
it was missed, both scaled to 0 to 1 by what has been seen. The paper has an arm for each pair of targets,
one for busy services of an application and one for the rest; a single service needs one target. Its model
of costs is a small neural network, trained anew each minute; here it is a kernel mean over minutes with a
similar rate and a near target, which needs no training and no luck.
"""

from __future__ import annotations

import numpy as np

from trimtab.core.randomness import uniform
from trimtab.pod_autoscaling.problem import Flags, Floats, Integers

__all__ = ["TARGETS", "Tower", "costs", "predicted"]

TARGETS = np.array([0.0, 0.02, 0.04, 0.06, 0.1, 0.15, 0.2, 0.25, 0.3])

_FIRST = 4
_KEPT_MINUTES = 1440
# Rates within a fifth and the next target count about half; an arm with less weight than this is unknown.
_LOG_RATE_WIDTH, _ARM_WIDTH, _LEAST_WEIGHT = 0.2, 0.75, 0.3


def costs(latency_s: Floats, cores: Floats, slo_s: Floats, counts: Flags) -> Floats:
    """What each minute cost, [E, N]: 0 to 1 where the limit held, 2 to 3 where not; 0 where nothing counts.

    >>> latency_s, cores = np.array([[0.1, 0.1, 0.5, 0.9]]), np.array([[4.0, 8.0, 2.0, 1.0]])
    >>> costs(latency_s, cores, np.array([0.2]), np.ones((1, 4), bool)).tolist()
    [[0.0, 1.0, 2.0, 3.0]]
    """
    held = latency_s <= slo_s[:, None]
    good, bad = counts & held, counts & ~held
    return np.where(good, _scaled(cores, good), 0.0) + np.where(bad, 2 + _scaled(latency_s, bad), 0.0)


def _scaled(values: Floats, counts: Flags) -> Floats:
    """From the least (0) to the most (1) of those that count; 0.5 where they do not differ."""
    least = np.where(counts, values, np.inf).min(1, keepdims=True)
    most = np.where(counts, values, -np.inf).max(1, keepdims=True)
    differs = most > least
    with np.errstate(invalid="ignore"):
        shares = (values - least) / np.where(differs, most - least, 1.0)
    return np.where(differs, shares, 0.5)


def predicted(rate: Floats, rates: Floats, arms: Integers, cost: Floats, counts: Flags) -> Floats:
    """The cost of each arm at this rate, [E, arms]: the mean of like minutes; infinite without any."""
    away = np.log((rates + 1e-3) / (rate + 1e-3)[:, None]) / _LOG_RATE_WIDTH
    near = np.where(counts, np.exp(-0.5 * away**2), 0.0)
    steps = (arms[:, :, None] - np.arange(len(TARGETS))) / _ARM_WIDTH
    weights = near[:, :, None] * np.exp(-0.5 * steps**2)
    total = weights.sum(1)
    guess = (weights * cost[:, :, None]).sum(1) / np.maximum(total, 1e-12)
    return np.where(total >= _LEAST_WEIGHT, guess, np.inf)


class Tower:
    """The target of each service, moved once a minute."""

    def __init__(self, slo_s: Floats, *, explore: float, seed: int) -> None:
        size = len(slo_s)
        self._slo_s, self._explore, self._seed = slo_s, explore, seed
        self._arms = np.full(size, _FIRST)
        self._minute = np.full(size, -1, np.int64)
        self._lived = np.zeros(size, np.int64)  # minutes kept
        self._rates, self._latency_s, self._cores = (np.zeros((size, _KEPT_MINUTES)) for _ in range(3))
        self._tried = np.zeros((size, _KEPT_MINUTES), np.int64)

    def forget(self, rows: Flags) -> None:
        """Services that begin anew."""
        self._arms[rows], self._minute[rows], self._lived[rows] = _FIRST, -1, 0

    def targets(self, now_s: Floats, rate: Floats, latency_s: Floats, cores: Floats) -> Floats:
        """The throttle target of each service, [E], given its last minute (NaN: nobody knows)."""
        minute = (now_s // 60).astype(np.int64)
        turned = minute != self._minute
        # The minute in which a service is first seen was not spent under a target of ours.
        told = turned & (self._minute >= 0) & np.isfinite(rate) & np.isfinite(latency_s) & np.isfinite(cores)
        for row in np.flatnonzero(told):
            place = self._lived[row] % _KEPT_MINUTES
            self._rates[row, place], self._tried[row, place] = rate[row], self._arms[row]
            self._latency_s[row, place], self._cores[row, place] = latency_s[row], cores[row]
            self._lived[row] += 1
        self._minute = minute
        if told.any():
            self._arms = np.where(told, self._chosen(np.nan_to_num(rate), minute), self._arms)
        return TARGETS[self._arms]

    def _chosen(self, rate: Floats, minute: Integers) -> Integers:
        kept = min(int(self._lived.max()), _KEPT_MINUTES)
        counts = np.arange(kept) < self._lived[:, None]
        cost = costs(self._latency_s[:, :kept], self._cores[:, :kept], self._slo_s, counts)
        guess = predicted(rate, self._rates[:, :kept], self._tried[:, :kept], cost, counts)
        best = np.where(np.isfinite(guess).any(1), guess.argmin(1), self._arms)
        curious = uniform(self._seed, minute, 0) < self._explore
        aside = np.where(uniform(self._seed, minute, 1) < 0.5, -1, 1)
        # At either end there is one neighbour.
        aside = np.where(best == 0, 1, np.where(best == len(TARGETS) - 1, -1, aside))
        return best + np.where(curious, aside, 0)
