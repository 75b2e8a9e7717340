"""Rates made up from measured statistics, second by second, so that everything runs with no outside file.

Every shape is a pure function of a seed and a span of seconds, with a mean of 1 in the long run: an hour of
day 12 can be made without the days before it. Each seed is another world of the same kind, such as another
service with another weather.

Three shapes have the statistics of the hour-long traces of Autothrottle (Wang et al., NSDI 2024), in which a
day is squeezed into an hour; `azure_like` those of the busier functions of Azure's trace of 2019 (Shahrad et
al., ATC 2020).
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from trimtab.core.errors import WorkloadError
from trimtab.core.randomness import integers, split, uniform
from trimtab.rates.chance import TURN, interpolated, normal, wandering
from trimtab.rates.traces import Floats

__all__ = ["azure_like", "bursty", "constant", "diurnal", "flash_crowd", "noisy", "steps"]

HOUR_S = 3600
MINUTE_S = 60


def diurnal(seed: int, first_s: int, count: int, *, cycle_s: int = HOUR_S) -> Floats:
    """A wave per hour, as if a day were squeezed into it; `cycle_s` gives it another length.

    Autothrottle's two have amplitudes of 0.33 and 0.59, tops after 26 and 33 of 60 minutes, a second wave of
    0.11 and 0.13 of the first that sharpens the top, and noise of 3 to 5 % that lasts for half a minute.

    >>> hour = diurnal(1, 0, 3600)
    >>> bool(0.3 < hour.min() < 0.8 < 1.2 < hour.max() < 1.9)
    True
    """
    if not 60 <= cycle_s <= 366 * 86_400:
        raise WorkloadError(f"diurnal: waves of {cycle_s} s; give 60 s to 366 days")
    second = first_s + np.arange(count)
    usual = AMPLITUDE[0] * (AMPLITUDE[1] / AMPLITUDE[0]) ** uniform(split(seed, "amplitude"), 0)
    # Waves differ a little; from one to the next each keeps half of the difference.
    change = interpolated(split(seed, "waves"), count, 0.5, every=cycle_s, deviation=0.07, first=first_s)
    top = TOP_SHARE + 0.06 * (2 * uniform(split(seed, "top"), 0) - 1)
    angle = TURN * (second / cycle_s - top)
    wave = np.cos(angle) + 0.12 * np.cos(2 * angle)
    noise = interpolated(split(seed, "noise"), count, 0.65, every=30, deviation=0.042, first=first_s)
    return (1 + usual * (1 + change) * wave) * np.exp(noise - 0.0006)


AMPLITUDE = (0.32, 0.62)
"""At most 0.62 x (1 + 4 x 0.07) = 0.8: with the second wave the lowest is at 0.3, never below 0."""
TOP_SHARE = 0.49


def noisy(seed: int, first_s: int, count: int) -> Floats:
    """A level that drifts within half an hour, and seconds that jump by 5 %.

    Autothrottle's has a deviation of 19 %: 13 % of the level, 13 % of the seconds, of which 0.9 are kept from
    one to the next and 0.44 after five.
    """
    # In the long run the level's deviation is 0.2; an hour of it sees the 0.13 that were measured in an hour.
    level = interpolated(split(seed, "level"), count, 0.85, every=300, deviation=0.2, first=first_s)
    seconds = wandering(split(seed, "seconds"), count, 0.88, first=first_s)
    return np.exp(level - 0.019) * np.maximum(1 + 0.131 * seconds, 0.1)


def bursty(seed: int, first_s: int, count: int) -> Floats:
    """A restless level, and once an hour a quarter of an hour of three times as much.

    Autothrottle's has a level of 0.74 with a deviation of 18 %, whose ups and downs take four minutes, and a
    burst up to 2.43 that rises and falls within 8 minutes each; percentiles 5, 50, 95 are 0.55, 0.80, 2.27.
    """
    level = interpolated(split(seed, "level"), count, 0.35, every=120, deviation=0.23, first=first_s)
    # A burst is a cosine's hill: half of 1.65 for 1100 s in 3600 s are 0.252.
    rates = 0.748 * np.exp(level - 0.021)
    for hour in range(first_s // HOUR_S, (first_s + count - 1) // HOUR_S + 1):
        middle_s = hour * HOUR_S + 650 + 2300 * float(uniform(split(seed, "middle"), hour))
        length_s = 950 + 300 * float(uniform(split(seed, "length"), hour))
        height = 1.65 * np.exp(0.15 * float(normal(split(seed, "height"), hour)) - 0.011)
        span = _within(first_s, count, middle_s - length_s / 2, middle_s + length_s / 2)
        angle = TURN * (first_s + np.arange(count)[span] - middle_s) / length_s
        rates[span] += height * (1 + np.cos(angle)) / 2
    return rates


def _within(first_s: int, count: int, begin_s: float, end_s: float) -> slice:
    """The places of a span of seconds that lie from `begin_s` to `end_s`."""
    low, high = (int(np.clip(np.ceil(moment - first_s), 0, count)) for moment in (begin_s, end_s))
    return slice(low, high)


def flash_crowd(seed: int, first_s: int, count: int) -> Floats:
    """An even level; in most hours suddenly, within half a minute, four to six times as much.

    The rushes of Twitter's stream of 2021 are as high, last as long (3 to 10 minutes at the top, and a decay
    of 3 minutes) and rise within a minute, but come every two hours.
    """
    level = interpolated(split(seed, "level"), count, 0.8, every=600, deviation=0.08, first=first_s)
    # Rushes bring 0.8 x 2.6 x (375 - 35 / 2 + 180) s in 3600 s: 0.31.
    rates = 0.69 * np.exp(level - 0.003)
    # What began in the hour before may not be over; 30 minutes after the beginning 0.1 % is left.
    for hour in range(max(0, (first_s - 1800) // HOUR_S), (first_s + count - 1) // HOUR_S + 1):
        if uniform(split(seed, "rush"), hour) >= RUSH_CHANCE:
            continue
        start_s = hour * HOUR_S + HOUR_S * float(uniform(split(seed, "start"), hour))
        rise_s = 20 + 30 * float(uniform(split(seed, "rise"), hour))
        top_s = 180 + 390 * float(uniform(split(seed, "duration"), hour))
        height = 2.6 * np.exp(0.2 * float(normal(split(seed, "height"), hour)) - 0.02)
        span = _within(first_s, count, start_s, start_s + 1800)
        since_s = first_s + np.arange(count)[span] - start_s
        fading = np.exp(-np.maximum(since_s - top_s, 0) / 180)
        rates[span] += height * np.minimum(since_s / rise_s, 1) * fading
    return rates


RUSH_CHANCE = 0.8


def steps(seed: int, first_s: int, count: int) -> Floats:
    """Levels that last 5 to 25 minutes and differ by up to a factor of four."""
    slot = np.arange(first_s // STEP_S - 1, (first_s + count) // STEP_S + 2)
    begins = STEP_S * (slot + (uniform(split(seed, "begin"), slot) - 0.5) * 2 / 3)
    level = 4 ** uniform(split(seed, "level"), slot) / FOURFOLD_MEAN
    return level[np.searchsorted(begins, first_s + np.arange(count), side="right") - 1]


STEP_S = 900
FOURFOLD_MEAN = 3 / np.log(4)
"""Mean of 4 to the power of a number between 0 and 1."""


def azure_like(seed: int, first_s: int, count: int) -> Floats:
    """Minutes of a function of Azure's: every seed is another, from a clockwork to short rushes of a timer.

    Their coefficients of variation have the quartiles 0.04, 0.26 and 0.72 of the 91 functions with a call a
    minute or more, of 500 sampled from the trace. Those above 0.5 are on and off, half of them by a timer
    of 5 to 60 minutes; the others vary from minute to minute.
    """
    luck = float(uniform(split(seed, "variation"), 0))
    variation = float(np.exp(np.interp(luck, VARIATION_SHARES, np.log(VARIATIONS))))
    minute = first_s // MINUTE_S
    minutes = (first_s + count - 1) // MINUTE_S + 1 - minute
    make = (
        _restless if variation <= ON_AND_OFF else _timer if uniform(split(seed, "kind"), 0) < 0.5 else _rushes
    )
    return make(seed, minute, minutes, variation)[(first_s + np.arange(count)) // MINUTE_S - minute]


VARIATION_SHARES = (0.0, 0.25, 0.5, 0.75, 0.95, 1.0)
VARIATIONS = (0.005, 0.04, 0.26, 0.72, 2.2, 3.0)
"""The real 95th percentile is 3.3, of functions that are idle for nine minutes out of ten."""
ON_AND_OFF = 0.5
PERIODS_MIN = (5, 10, 15, 30, 60)
REST = 0.05
"""Of the mean, while a function that works now and then does not."""


def _restless(seed: int, minute: int, minutes: int, variation: float) -> Floats:
    """Lognormal minutes; from one to the next 0 to 0.5 of the difference from the mean is kept."""
    persistence = 0.5 * float(uniform(split(seed, "persistence"), 0)) ** 2
    spread = np.sqrt(np.log1p(variation**2))
    draws = wandering(split(seed, "minutes"), minutes, persistence, first=minute)
    return np.exp(spread * draws - spread**2 / 2)


def _timer(seed: int, minute: int, minutes: int, variation: float) -> Floats:
    """Work for the first part of every period, next to nothing in the rest.

    On for a share p and off otherwise, the variation is sqrt((1 - p) / p), so p = 1 / (1 + variation^2).
    """
    share = 1 / (1 + variation**2)
    # A period has whole minutes of work, so it must be long enough to have the share about right.
    fitting = [period for period in PERIODS_MIN if period * share > 1.5] or [PERIODS_MIN[-1]]
    period = fitting[int(integers(split(seed, "period"), 0, high=len(fitting)))]
    busy = min(max(round(period * share), 1), period - 1)
    offset = int(integers(split(seed, "offset"), 0, high=period))
    number = minute + np.arange(minutes) + offset
    size = np.exp(0.15 * normal(split(seed, "size"), number // period) - 0.011)
    return np.where(number % period < busy, _while_on(busy / period) * size, REST)


def _rushes(seed: int, minute: int, minutes: int, variation: float) -> Floats:
    """The same without a clock: on in minutes that nobody foresees, often two or three in a row."""
    share = 1 / (1 + variation**2)
    draws = wandering(split(seed, "minutes"), minutes, 0.4, first=minute)
    return np.where(draws > NormalDist().inv_cdf(1 - share), _while_on(share), REST)


def _while_on(share: float) -> float:
    return (1 - REST * (1 - share)) / share


def constant(seed: int, first_s: int, count: int) -> Floats:
    """Always the same; every seed is the same."""
    return np.ones(count)
