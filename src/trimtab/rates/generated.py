"""Rate traces made up from published statistics, so that everything runs with no outside file.

Every trace is a pure function of a seed and a number of days; a longer one begins like a shorter one. Each
seed is another stretch of the same world: the same hours of the day are busy, the weather differs.
"""

from __future__ import annotations

import numpy as np

from trimtab.core.errors import WorkloadError
from trimtab.core.randomness import integers, split, uniform
from trimtab.rates.chance import TURN, dispersed, interpolated, normal, wandering
from trimtab.rates.traces import DAY_S, Floats, Provenance, RateTrace

__all__ = [
    "clarknet_like",
    "flat",
    "sine",
    "steps",
    "twitter_like",
    "worldcup_like",
]

MOST_DAYS = 366
MINUTES = 1440


def clarknet_like(seed: int = 0, days: int = 14, *, first_weekday: int | None = None) -> RateTrace:
    """Requests of an access provider's web server: busy afternoons, quiet weekends, noisy minutes.

    Fitted to ClarkNet-HTTP of the Internet Traffic Archive (two weeks of 1995, the trace of the SURE paper):
    a mean of 166 requests a minute, 5th, 50th and 95th percentile 56, 157 and 306, at most 472.

    Day 0 is a Monday with `first_weekday` 0; without it every seed begins on another day of the week, so that
    the last days of a trace, where policies are tested, are not always a weekend.

    >>> trace = clarknet_like(seed=1)
    >>> trace.days, trace.step_s
    (14, 60.0)
    """
    minute = _steps_of(days, MINUTES)
    hour = (minute % MINUTES) / 60
    if first_weekday is None:
        first_weekday = int(integers(split(seed, "weekday"), 0, high=7))
    weekend = (minute // MINUTES + first_weekday) % 7 >= 5
    usual = np.where(weekend, _harmonics(hour, CLARKNET_WEEKEND), _harmonics(hour, CLARKNET_WEEKDAY))
    today = np.exp(0.05 * normal(split(seed, "days"), minute // MINUTES))
    weather = np.exp(_hourly(split(seed, "hours"), len(minute), persistence=0.75, deviation=0.07))
    mean = CLARKNET_LEVEL * usual * today * weather
    counts = dispersed(mean, CLARKNET_DISPERSION, wandering(split(seed, "minutes"), len(minute), 0.33))
    return _trace("clarknet-like", np.maximum(counts, 1.0) / 60, 60.0, seed, days)


CLARKNET_LEVEL = 164.0
"""Requests per minute; the weather adds 1 %, the exponential of a normal being skewed."""
CLARKNET_WEEKDAY = (1.115, -0.272, -0.473, 0.117, 0.029, 0.024, 0.048)
CLARKNET_WEEKEND = (0.770, 0.040, -0.283, 0.114, 0.049, 0.029, 0.052)
"""Mean, then cosine and sine of one, two and three turns a day; the real hours are within 5 % of the mean."""
CLARKNET_DISPERSION = 9.6
"""Variance over mean of the counts of a minute, the same at every hour (9.2 to 10.0): pages come with their
pictures. Counts of independent requests would have 1."""


def worldcup_like(seed: int = 0, days: int = 14) -> RateTrace:
    """Requests of the 1998 World Cup's web site: a wave for every match, up to nine times the mean.

    Fitted to the 28 days of matches in the Internet Traffic Archive's logs (Arlitt and Jin, 1998): 5th, 50th
    and 95th percentile at 0.31, 0.65 and 3.3 of the mean, at most 8.8.
    """
    minute = _steps_of(days, MINUTES)
    hour = (minute % MINUTES) / 60
    usual = 0.50 * (1 + 0.5 * np.cos(TURN * (hour - 16) / 24))
    interest = np.exp(_hourly(split(seed, "interest"), len(minute), persistence=0.97, deviation=0.16))
    rate = usual * interest * (1 + _matches(seed, minute, days))
    noise = np.exp(0.04 * wandering(split(seed, "minutes"), len(minute), 0.6))
    return _trace("worldcup-like", WORLDCUP_MEAN * rate * noise, 60.0, seed, days)


WORLDCUP_MEAN = 400.0
"""Per second, about."""
MATCH_HOURS = ((14.5, 0.8, 3.8), (19.0, 0.75, 3.4))
"""Kick-off, chance that there is a match, and its median height over what is usual then."""
REST_DAY_CHANCE = 0.3


def _matches(seed: int, minute: np.ndarray, days: int) -> Floats:
    """How much the matches add to what is usual; people come in the hour before and leave within one."""
    added = np.zeros(len(minute))
    for day in range(days):
        if uniform(split(seed, "rest"), day) < REST_DAY_CHANCE:
            continue
        for number, (kick_off, chance, height) in enumerate(MATCH_HOURS):
            if uniform(split(seed, "match"), day, number) >= chance:
                continue
            size = height * np.exp(0.22 * float(normal(split(seed, "size"), day, number)))
            # Within four hours before and eight after it all is said: e^(-240/12) is nothing.
            start = day * MINUTES + int(60 * kick_off)
            first, last = max(0, start - 240), min(len(minute), start + 480)
            since = minute[first:last] - start
            rise = 1 / (1 + np.exp(-(since - 10) / 12))
            fall = 1 / (1 + np.exp((since - 115) / 14))
            # Viewers look things up at half-time and at the end.
            half_time = 0.3 * np.exp(-(((since - 55) / 9) ** 2)) + 0.35 * np.exp(-(((since - 110) / 12) ** 2))
            added[first:last] += size * (rise * fall + half_time)
    return added


def twitter_like(seed: int = 0, days: int = 14) -> RateTrace:
    """A public message stream: an even level, and a dozen times a day four times as much within a minute.

    Fitted to three weeks of Twitter's sampled stream of 2021: 5th, 50th and 95th percentile at 0.64, 0.80
    and 2.7 of the mean, at most 4.9. Scheduled messages all go out at full and half hours.
    """
    step = _steps_of(days, DAY_S // 10)
    hour = (step % (DAY_S // 10)) / 360
    usual = 0.79 * (1 + 0.17 * np.cos(TURN * (hour - 8) / 24))
    level = usual * np.exp(
        _hourly(split(seed, "level"), len(step), persistence=0.8, deviation=0.08, per_hour=360)
    )
    rate = level + _rushes(seed, step, days)
    noise = np.exp(0.03 * wandering(split(seed, "noise"), len(step), 0.3))
    return _trace("twitter-like", TWITTER_MEAN * rate * noise, 10.0, seed, days)


TWITTER_MEAN = 63.6
RUSH_CHANCE = 0.26
"""For each half hour: 12.5 a day."""


def _rushes(seed: int, step: np.ndarray, days: int) -> Floats:
    """Up within a minute, a few minutes at the top, gone after a quarter of an hour."""
    added = np.zeros(len(step))
    slots = np.flatnonzero(uniform(split(seed, "rush"), np.arange(48 * days)) < RUSH_CHANCE)
    heights = 2.4 * np.exp(0.15 * normal(split(seed, "height"), slots))
    tops_s = 180 + 390 * uniform(split(seed, "top"), slots)
    for slot, height, top_s in zip(slots.tolist(), heights, tops_s, strict=True):
        first = slot * 180
        since_s = 10.0 * np.arange(len(step[first : first + 180]))
        wave = np.minimum(since_s / 60, 1) * np.exp(-np.maximum(since_s - top_s, 0) / 180)
        added[first : first + 180] += height * wave
    return added


def steps(seed: int = 0, days: int = 14) -> RateTrace:
    """Levels that last 1 to 4 hours and differ by up to a factor of six."""
    minute = _steps_of(days, MINUTES)
    ids = np.arange(24 * days + 1)
    ends = np.cumsum(np.round(60 + 180 * uniform(split(seed, "length"), ids)))
    level = 40 * 6 ** uniform(split(seed, "level"), ids)
    return _trace("steps", level[np.searchsorted(ends, minute, side="right")], 60.0, seed, days)


def sine(seed: int = 0, days: int = 14) -> RateTrace:
    """One wave a day, from 40 to 160 % of the mean, its top at 15 h; every seed is the same."""
    hour = _steps_of(days, MINUTES) / 60
    return _trace("sine", 100 * (1 + 0.6 * np.cos(TURN * (hour - 15) / 24)), 60.0, seed, days)


def flat(seed: int = 0, days: int = 14) -> RateTrace:
    """Always the same; every seed is the same."""
    return _trace("flat", np.full(len(_steps_of(days, MINUTES)), 100.0), 60.0, seed, days)


def _trace(name: str, rates: Floats, step_s: float, seed: int, days: int) -> RateTrace:
    return RateTrace(rates, step_s, Provenance(name, {"seed": seed, "days": days}))


def _steps_of(days: int, per_day: int) -> np.ndarray:
    if not 1 <= days <= MOST_DAYS:
        raise WorkloadError(f"a generated trace of {days} days; ask for 1 to {MOST_DAYS}")
    return np.arange(days * per_day)


def _harmonics(hour: Floats, weights: tuple[float, ...]) -> Floats:
    mean, *waves = weights
    total = np.full(len(hour), mean)
    for number, (cosine, sine_) in enumerate(zip(waves[::2], waves[1::2], strict=True), start=1):
        angle = TURN * number * hour / 24
        total += cosine * np.cos(angle) + sine_ * np.sin(angle)
    return total


def _hourly(seed: int, count: int, *, persistence: float, deviation: float, per_hour: int = 60) -> Floats:
    return interpolated(seed, count, persistence, every=per_hour, deviation=deviation)
