"""Stream autoscaling in a report: how late records were, what was spent on them, how often jobs restarted."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from trimtab.benchmark.report.content import Curve, CurvesSection, Reference, Section
from trimtab.core.errors import TrimtabError
from trimtab.stream_autoscaling.episode import Episode, left_scale

__all__ = ["stream_facts", "stream_sections"]

ARRIVALS = "arrivals"
DAY_S = 86_400
# Of one curve over time: ten minutes each of a day. Several policies by the minute are a thicket.
MOST_POINTS = 144
DISTRIBUTION_POINTS = 500
UNITS = ((1e6, "million records"), (1e3, "thousand records"), (1.0, "records"))


def stream_sections(episodes: Sequence[Episode]) -> list[Section]:
    """The charts of a report, from one or more episodes per policy.

    The distribution of latencies is pooled over all episodes. The charts over time show the first episode of
    each policy; these must be of the same job and time.
    """
    if not episodes:
        return []
    shown = _first_of_each_policy(episodes)
    return [
        _latencies(episodes, shown),
        _latency_over_time(shown),
        _slots_over_time(shown),
        _restarts_over_time(shown),
        _backlog_over_time(shown),
        _rates_over_time(shown),
    ]


def stream_facts(episodes: Sequence[Episode]) -> dict[str, str]:
    """What was simulated, in a few facts."""
    if not episodes:
        return {}
    shown = _first_of_each_policy(episodes)
    first = shown[0]
    seeds = sorted({episode.seed for episode in episodes})
    days = sum(len(episode.rewards) * episode.interval_s for episode in episodes) / DAY_S
    return {
        "Job": first.job,
        "Vertices": f"{len(first.vertex_names):,}",
        "Limit of latency": f"{first.slo_s:g} s",
        "Interval": f"{first.interval_s:g} s",
        "Policies": f"{len(shown):,}",
        "Episodes": f"{len(episodes):,}",
        "Seeds": f"{len(seeds)} from {seeds[0]} to {seeds[-1]}"
        if len(seeds) > 6
        else ", ".join(map(str, seeds)),
        "Days simulated": f"{days:,.1f}",
        "Decisions": f"{sum(len(episode.rewards) for episode in episodes):,}",
    }


def _first_of_each_policy(episodes: Sequence[Episode]) -> list[Episode]:
    shown = list({episode.policy: episode for episode in reversed(episodes)}.values())[::-1]
    first = shown[0]
    for episode in shown[1:]:
        if episode.vertex_names != first.vertex_names:
            raise TrimtabError(
                f"the episodes of {first.policy} and {episode.policy} are of different jobs "
                f"({first.job} and {episode.job}); report on each job by itself"
            )
        if (episode.start_s, episode.interval_s, len(episode.rewards)) != (
            first.start_s,
            first.interval_s,
            len(first.rewards),
        ):
            raise TrimtabError(
                f"the episodes of {first.policy} and {episode.policy} are not of the same time; "
                "run every policy on the same trace"
            )
    return shown


# --- the charts -------------------------------------------------------------------------------


def _latencies(episodes: Sequence[Episode], shown: Sequence[Episode]) -> CurvesSection:
    slo_s = shown[0].slo_s
    return CurvesSection(
        key="latencies",
        heading="How late records are",
        text="Share of the time in which the mean latency is below a value, over all episodes. A line "
        "further up and to the left is better; what it lacks of 100 % at the limit is time too late.",
        x_label="mean latency of an interval",
        y_label="share of the time",
        curves=[
            _distribution(first.policy, [e.latency_s for e in episodes if e.policy == first.policy])
            for first in shown
        ],
        y_percent=True,
        x_log=True,
        reference=Reference(f"limit {slo_s:g} s", 1000 * slo_s, upright=True),
    )


def _distribution(policy: str, latency_s: Sequence[NDArray[np.float64]]) -> Curve:
    """Share of intervals at or below a latency; of many intervals, evenly spaced ranks."""
    ordered = np.sort(np.concatenate(latency_s))
    count = len(ordered)
    ranks = np.unique(np.linspace(0, count - 1, min(count, DISTRIBUTION_POINTS)).round().astype(np.int64))
    # Rounded up: a latency just above the limit stays above it.
    x_ms = np.maximum(np.ceil(1000 * ordered[ranks]), 1).astype(np.int64)
    return Curve(policy, x_ms, (ranks + 1) / count)


def _latency_over_time(shown: Sequence[Episode]) -> CurvesSection:
    slo_s = shown[0].slo_s
    return CurvesSection(
        key="latency",
        heading="Latency over time",
        text="Mean time of records from arrival to sink, in the first episode of each policy. Upwards every "
        "step is a tenfold." + _about_bins(shown[0]),
        x_label=_time_label(shown[0]),
        y_label="mean latency (s)",
        curves=_curves(shown, lambda episode: episode.latency_s),
        decimals=2,
        y_log=True,
        reference=Reference(f"limit {slo_s:g} s", slo_s),
    )


def _slots_over_time(shown: Sequence[Episode]) -> CurvesSection:
    return CurvesSection(
        key="slots",
        heading="Slots over time",
        text="Slots that the job takes. The area under a line is what it costs to run."
        + _about_bins(shown[0]),
        x_label=_time_label(shown[0]),
        y_label="slots",
        curves=_curves(shown, lambda episode: episode.slots.astype(np.float64)),
        decimals=1,
    )


def _restarts_over_time(shown: Sequence[Episode]) -> CurvesSection:
    curves = []
    for episode in shown:
        at = np.flatnonzero(episode.rescaled)
        moments = np.concatenate([[0], at, [len(episode.rewards)]]) * episode.interval_s * 1000
        level = np.append(np.arange(len(at) + 1), len(at)).astype(np.float64)
        curves.append(Curve(episode.policy, np.rint(moments).astype(np.int64), level))
    return CurvesSection(
        key="restarts",
        heading="Restarts so far",
        text="Every change of parallelism stops the whole job and starts it again. A flat line leaves the "
        "job alone.",
        x_label=_time_label(shown[0]),
        y_label="restarts since the beginning",
        curves=curves,
    )


def _backlog_over_time(shown: Sequence[Episode]) -> CurvesSection:
    size, unit = _unit(max(float(episode.backlog.max()) for episode in shown))
    return CurvesSection(
        key="backlog",
        heading="Backlog over time",
        text="Records that have arrived and wait before the sources." + _about_bins(shown[0]),
        x_label=_time_label(shown[0]),
        y_label=unit,
        curves=_curves(shown, lambda episode: episode.backlog / size),
        decimals=2,
    )


def _rates_over_time(shown: Sequence[Episode]) -> CurvesSection:
    scale = left_scale(shown)
    size, unit = _unit(max(float(episode.arrived.max()) for episode in shown))
    scaled = "" if scale == 1 else f" They are shown times {scale:g}, since fewer or more leave than arrive."
    arrivals = _curve(shown[0], ARRIVALS, shown[0].arrived / size)
    served = [_curve(episode, episode.policy, scale * episode.left / size) for episode in shown]
    return CurvesSection(
        key="rates",
        heading="What arrives and what comes out",
        text="Records per second that arrive, and that reach the sinks under each policy: below the arrivals "
        "while work piles up, above them while it is worked off." + scaled + _about_bins(shown[0]),
        x_label=_time_label(shown[0]),
        y_label=f"{unit} per second",
        curves=[*served, arrivals],
        decimals=2,
    )


# --- curves over time -------------------------------------------------------------------------


def _curves(shown: Sequence[Episode], values: Callable[[Episode], NDArray[np.float64]]) -> list[Curve]:
    return [_curve(episode, episode.policy, values(episode)) for episode in shown]


def _curve(episode: Episode, name: str, values: NDArray[np.float64]) -> Curve:
    """Steps from the beginning of the episode to its end; a value that stays is one step."""
    size = _bin_size(episode)
    begins = np.arange(0, len(values), size)
    level = np.add.reduceat(values, begins) / np.diff(np.append(begins, len(values)))
    kept = np.append(True, np.diff(level) != 0)
    x = np.append(begins[kept], len(values)) * episode.interval_s * 1000
    y = np.append(level[kept], level[-1])
    return Curve(name, np.rint(x).astype(np.int64), y)


def _bin_size(episode: Episode) -> int:
    return -(-len(episode.rewards) // MOST_POINTS)


def _about_bins(episode: Episode) -> str:
    size = _bin_size(episode)
    if size == 1:
        return ""
    return f" Shown are means of {size} intervals, {size * episode.interval_s / 60:g} min."


def _time_label(episode: Episode) -> str:
    day, minute = divmod(round(episode.start_s / 60), 1440)
    return f"time since {minute // 60:02d}:{minute % 60:02d} of day {day}"


def _unit(most: float) -> tuple[float, str]:
    """Numbers that fit beside an axis."""
    return next((size, name) for size, name in UNITS if most >= size or size == 1)
