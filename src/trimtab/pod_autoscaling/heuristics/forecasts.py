"""What rate to prepare for, from the last few minutes alone."""

from __future__ import annotations

import numpy as np

from trimtab.pod_autoscaling.heuristics.measures import latest, slope
from trimtab.pod_autoscaling.problem import Flags, Floats, Integers

__all__ = ["proven_forecast", "trend_forecast"]

_TREND_INTERVALS = 4
_LONGEST = 8
# A way of forecasting counts when it could be tried so often; before, so much per deviation is added.
_LEAST_TRIED, _UNTRIED = 4, 0.1
# A rise of four times the usual change, and of a tenth at least, begins a rush: it goes on until the next
# decision has taken effect. But what more than doubles within an interval is a spike, and does not go on so:
# from 50 over 60 to 85, from 50 over 100 to 150, from 50 over 500 to 550.
_RUSH, _LEAST_RUSH, _RUSH_GOES_ON = 4.0, 0.1, 2.5


def trend_forecast(
    rate: Floats, counts: Flags, interval_s: float, *, horizon_s: float, deviations: float
) -> Floats:
    """The last rate, a rise of the last four intervals drawn out, and some deviations of its changes, [E].

    Falls are not drawn out: to be too early costs late requests, to be late costs a few core-minutes. NaN
    where nobody knows.

    >>> rate, all_known = np.array([[100.0, 110.0, 120.0, 130.0]]), np.ones((1, 4), bool)
    >>> trend_forecast(rate, all_known, 15.0, horizon_s=30.0, deviations=1.0).tolist()  # changes do not vary
    [150.0]
    """
    rate, counts = rate[:, -_TREND_INTERVALS:], counts[:, -_TREND_INTERVALS:]
    rise = np.maximum(slope(rate, counts, interval_s), 0.0)
    both = counts[:, 1:] & counts[:, :-1]
    changes = np.where(both, rate[:, 1:] - rate[:, :-1], 0.0)
    number = np.maximum(both.sum(1), 1)
    middle = changes.sum(1) / number
    spread = np.sqrt((np.where(both, changes - middle[:, None], 0.0) ** 2).sum(1) / number)
    return latest(rate, counts) + rise * horizon_s + deviations * spread


def proven_forecast(rate: Floats, counts: Flags, *, deviations: float) -> Floats:
    """The higher rate of the next two intervals, such that it is seldom more, [E]; NaN where nobody knows.

    A decision is made when an interval is over and takes effect in the midst of the next, so the next two
    matter. Five ways to forecast are tried on the past: means of the last 1, 2, 4 and 8 intervals, and the
    trend of the last four. What was the mean and the deviation of what each fell short by? The way that
    needs the least on top is taken, and that much is added: a rate that wanders is followed, noise is
    averaged away. The beginning of a rush is drawn out whatever was proven: nothing of the past is like it.

    >>> rate, all_known = np.full((1, 20), 300.0), np.ones((1, 20), bool)
    >>> proven_forecast(rate, all_known, deviations=2.5).tolist()
    [300.0]
    >>> rate[0, -1] = 400.0
    >>> proven_forecast(rate, all_known, deviations=2.5).tolist()
    [650.0]
    """
    seen, lived = _filled(rate, counts)
    ways = _forecasts(seen, lived)
    came = np.maximum(seen[:, 1:-1], seen[:, 2:])
    tried = (lived[:, :-2] > 0) & counts[:, 1:-1] & counts[:, 2:]
    number = tried.sum(1)
    times = np.maximum(number, 1)
    short = (came - ways[:, :, :-2]) * tried
    middle = short.sum(2) / times
    spread = np.sqrt(np.maximum((short * short).sum(2) / times - middle * middle, 0.0))
    needed = np.maximum((ways[:, :, -1] + middle + deviations * spread).min(0), 0.0)
    untried = (1 + _UNTRIED * deviations) * seen[:, -1]
    found = np.maximum(np.where(number >= _LEAST_TRIED, needed, untried), _rushing(seen, lived))
    return np.where(lived[:, -1] > 0, found, np.nan)


def _rushing(seen: Floats, lived: Integers) -> Floats:
    """The rate that a rush leads to which has just begun, [E]; 0 where none has."""
    changes = np.where(lived[:, :-1] > 0, np.diff(seen, axis=1), 0.0)
    usual = np.sqrt((changes[:, :-1] ** 2).sum(1) / np.maximum(lived[:, -1] - 2, 1))
    rise, before = changes[:, -1], seen[:, -2]
    begun = (lived[:, -1] > _LONGEST) & (rise > np.maximum(_RUSH * usual, _LEAST_RUSH * before))
    return np.where(begun, seen[:, -1] + np.minimum(_RUSH_GOES_ON * rise, before), 0.0)


def _filled(rate: Floats, counts: Flags) -> tuple[Floats, Integers]:
    """Rates with gaps filled by the last that was known, 0 before, and intervals since the first, [E, L]."""
    places = np.maximum.accumulate(np.where(counts, np.arange(counts.shape[1]), -1), axis=1)
    begun = places >= 0
    filled = np.take_along_axis(rate, np.maximum(places, 0), axis=1)
    return np.where(begun, filled, 0.0), np.cumsum(begun, 1, dtype=np.int64)


def _forecasts(seen: Floats, lived: Integers) -> Floats:
    """What each way foretold after every interval, [5, E, L]; means are of what there was so far."""
    size, length = seen.shape
    before = _LONGEST + 1
    total = np.zeros((size, before + length))
    np.cumsum(seen, 1, out=total[:, before:])
    number = np.maximum(lived, 1)

    def mean_of(count: int) -> Floats:
        come = total[:, before:] - total[:, before - count : before - count + length]
        return come / np.minimum(number, count)

    pair, four = mean_of(2), mean_of(4)
    # From the middle of the last two to that of the next two it is as far as from that of the two before.
    trend = np.maximum(3 * pair - 2 * four, 0.0)
    return np.stack([seen, pair, four, mean_of(8), trend])
