"""Curves over time, of wings whose episodes are intervals of the same length: means of a few, as steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from trimtab.benchmark.report.content import Curve
from trimtab.core.errors import TrimtabError

__all__ = [
    "MOST_POINTS",
    "TimedEpisode",
    "about_bins",
    "curve",
    "curves",
    "first_of_each_policy",
    "refuse_other_times",
    "seeds_told",
    "shares_below",
    "time_label",
]

MOST_POINTS = 144
"""Of one curve: ten minutes each of a day. Several policies by the minute are a thicket."""
DISTRIBUTION_POINTS = 500


class TimedEpisode(Protocol):
    """Intervals of one length, one after the other."""

    @property
    def policy(self) -> str: ...
    @property
    def seed(self) -> int: ...
    @property
    def interval_s(self) -> float: ...
    @property
    def start_s(self) -> float: ...
    @property
    def rewards(self) -> NDArray[np.float64]: ...


EpisodeOf = TypeVar("EpisodeOf", bound=TimedEpisode)


def first_of_each_policy(episodes: Sequence[EpisodeOf]) -> list[EpisodeOf]:
    """What charts over time show, in the order in which the policies come."""
    return list({episode.policy: episode for episode in reversed(episodes)}.values())[::-1]


def refuse_other_times(shown: Sequence[TimedEpisode]) -> None:
    """Episodes that are not of the same time cannot be laid over each other."""
    first, *others = shown
    for other in others:
        if (other.start_s, other.interval_s, len(other.rewards)) != (
            first.start_s,
            first.interval_s,
            len(first.rewards),
        ):
            raise TrimtabError(
                f"the episodes of {first.policy} and {other.policy} are not of the same time; "
                "run every policy on the same trace"
            )


def seeds_told(episodes: Sequence[TimedEpisode]) -> str:
    """The seeds as a fact: all of them while they are few."""
    seeds = sorted({episode.seed for episode in episodes})
    if len(seeds) > 6:
        return f"{len(seeds)} from {seeds[0]} to {seeds[-1]}"
    return ", ".join(map(str, seeds))


def curves(shown: Sequence[EpisodeOf], values: Callable[[EpisodeOf], NDArray[np.float64]]) -> list[Curve]:
    """A line for each policy."""
    return [curve(episode, episode.policy, values(episode)) for episode in shown]


def curve(episode: TimedEpisode, name: str, values: NDArray[np.float64]) -> Curve:
    """Steps from the beginning of the episode to its end; a value that stays is one step.

    What is not known (NaN) does not count; where a whole step is unknown, the last one goes on.
    """
    size = _bin_size(episode)
    begins = np.arange(0, len(values), size)
    known = np.isfinite(values)
    amounts = np.add.reduceat(known.astype(np.float64), begins)
    level = np.add.reduceat(np.where(known, values, 0.0), begins) / np.maximum(amounts, 1)
    level = _last_known(level, amounts > 0)
    kept = np.append(True, np.diff(level) != 0)
    x = np.append(begins[kept], len(values)) * episode.interval_s * 1000
    y = np.append(level[kept], level[-1])
    return Curve(name, np.rint(x).astype(np.int64), y)


def _last_known(level: NDArray[np.float64], known: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Unknown steps repeat the last that was known; before the first there is 0."""
    places = np.maximum.accumulate(np.where(known, np.arange(len(level)), -1))
    return np.where(places >= 0, level[np.maximum(places, 0)], 0.0)


def shares_below(policy: str, values: NDArray[np.float64]) -> Curve:
    """Share of the values (in thousandths, at least 1) at or below each; of many, evenly spaced ranks."""
    ordered = np.sort(values)
    count = len(ordered)
    ranks = np.unique(np.linspace(0, count - 1, min(count, DISTRIBUTION_POINTS)).round().astype(np.int64))
    # Rounded up: a value just above a limit stays above it.
    x = np.maximum(np.ceil(1000 * ordered[ranks]), 1).astype(np.int64)
    return Curve(policy, x, (ranks + 1) / count)


def about_bins(episode: TimedEpisode) -> str:
    """What a reader must know of the means, or nothing."""
    size = _bin_size(episode)
    if size == 1:
        return ""
    return f" Shown are means of {size} intervals, {size * episode.interval_s / 60:g} min."


def time_label(episode: TimedEpisode) -> str:
    """When the time axis begins."""
    day, minute = divmod(round(episode.start_s / 60), 1440)
    return f"time since {minute // 60:02d}:{minute % 60:02d} of day {day}"


def _bin_size(episode: TimedEpisode) -> int:
    return -(-len(episode.rewards) // MOST_POINTS)
