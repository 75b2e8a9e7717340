"""Stream autoscaling in a report: how late records were, what was spent on them, how often jobs restarted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trimtab.benchmark.report.content import Curve, CurvesSection, Reference, Section
from trimtab.benchmark.report.over_time import (
    about_bins,
    curve,
    curves,
    first_of_each_policy,
    refuse_other_times,
    seeds_told,
    shares_below,
    time_label,
)
from trimtab.core.errors import TrimtabError
from trimtab.stream_autoscaling.episode import Episode, left_scale

__all__ = ["stream_facts", "stream_sections"]

ARRIVALS = "arrivals"
DAY_S = 86_400
SEEN = 0.05
"""Lines that are so far apart are told from each other."""
UNITS = ((1e6, "million records"), (1e3, "thousand records"), (1.0, "records"))


def stream_sections(episodes: Sequence[Episode]) -> list[Section]:
    """The charts of a report, from one or more episodes per policy.

    The distribution of latencies is pooled over all episodes. The charts over time show the first episode of
    each policy; these must be of the same job and time.
    """
    if not episodes:
        return []
    shown = _shown(episodes)
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
    shown = _shown(episodes)
    first = shown[0]
    days = sum(len(episode.rewards) * episode.interval_s for episode in episodes) / DAY_S
    return {
        "Job": first.job,
        "Vertices": f"{len(first.vertex_names):,}",
        "Limit of latency": f"{first.slo_s:g} s",
        "Interval": f"{first.interval_s:g} s",
        "Policies": f"{len(shown):,}",
        "Episodes": f"{len(episodes):,}",
        "Seeds": seeds_told(episodes),
        "Days simulated": f"{days:,.1f}",
        "Decisions": f"{sum(len(episode.rewards) for episode in episodes):,}",
    }


def _shown(episodes: Sequence[Episode]) -> list[Episode]:
    """The first episode of each policy, refused where they cannot be laid over each other."""
    first, *others = shown = first_of_each_policy(episodes)
    for other in others:
        if other.vertex_names != first.vertex_names:
            raise TrimtabError(
                f"the episodes of {first.policy} and {other.policy} are of different jobs "
                f"({first.job} and {other.job}); report on each job by itself"
            )
    refuse_other_times(shown)
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
            shares_below(
                first.policy, np.concatenate([e.latency_s for e in episodes if e.policy == first.policy])
            )
            for first in shown
        ],
        y_percent=True,
        x_log=True,
        reference=Reference(f"limit {slo_s:g} s", 1000 * slo_s, upright=True),
    )


def _latency_over_time(shown: Sequence[Episode]) -> CurvesSection:
    slo_s = shown[0].slo_s
    return CurvesSection(
        key="latency",
        heading="Latency over time",
        text="Mean time of records from arrival to sink, in the first episode of each policy. Upwards every "
        "step is a tenfold." + about_bins(shown[0]),
        x_label=time_label(shown[0]),
        y_label="mean latency (s)",
        curves=curves(shown, lambda episode: episode.latency_s),
        decimals=2,
        y_log=True,
        reference=Reference(f"limit {slo_s:g} s", slo_s),
    )


def _slots_over_time(shown: Sequence[Episode]) -> CurvesSection:
    return CurvesSection(
        key="slots",
        heading="Slots over time",
        text="Slots that the job takes. The area under a line is what it costs to run."
        + about_bins(shown[0]),
        x_label=time_label(shown[0]),
        y_label="slots",
        curves=curves(shown, lambda episode: episode.slots.astype(np.float64)),
        decimals=1,
    )


def _restarts_over_time(shown: Sequence[Episode]) -> CurvesSection:
    counted: list[Curve] = []
    for episode in shown:
        at = np.flatnonzero(episode.rescaled)
        moments = np.concatenate([[0], at, [len(episode.rewards)]]) * episode.interval_s * 1000
        level = np.append(np.arange(len(at) + 1), len(at)).astype(np.float64)
        counted.append(Curve(episode.policy, np.rint(moments).astype(np.int64), level))
    return CurvesSection(
        key="restarts",
        heading="Restarts so far",
        text="Every change of parallelism stops the whole job and starts it again. A flat line leaves the "
        "job alone.",
        x_label=time_label(shown[0]),
        y_label="restarts since the beginning",
        curves=counted,
    )


def _backlog_over_time(shown: Sequence[Episode]) -> CurvesSection:
    size, unit = _unit(max(float(episode.backlog.max()) for episode in shown))
    return CurvesSection(
        key="backlog",
        heading="Backlog over time",
        text="Records that have arrived and wait before the sources." + about_bins(shown[0]),
        x_label=time_label(shown[0]),
        y_label=unit,
        curves=curves(shown, lambda episode: episode.backlog / size),
        decimals=2,
    )


def _rates_over_time(shown: Sequence[Episode]) -> CurvesSection:
    scale = left_scale(shown)
    size, unit = _unit(max(float(episode.arrived.max()) for episode in shown))
    leaving = _leaving_share(shown)
    scaled = "" if scale == 1 else f" They are shown times {scale:g}, since fewer or more leave than arrive."
    if scale == 1 and abs(leaving - 1) > SEEN:
        scaled = f" Of this job {leaving:.2g} leave for each that was read, which alone sets the lines apart."
    arrivals = curve(shown[0], ARRIVALS, shown[0].arrived / size)
    served = [curve(episode, episode.policy, scale * episode.left / size) for episode in shown]
    return CurvesSection(
        key="rates",
        heading="What arrives and what comes out",
        text="Records per second that arrive, and that reach the sinks under each policy: below the arrivals "
        "while work piles up, above them while it is worked off." + scaled + about_bins(shown[0]),
        x_label=time_label(shown[0]),
        y_label=f"{unit} per second",
        curves=[*served, arrivals],
        decimals=2,
    )


def _leaving_share(shown: Sequence[Episode]) -> float:
    """Records that left over those that were read; 1 where none was read."""
    arrived = sum(float(episode.arrived.sum() * episode.interval_s) for episode in shown)
    read = arrived - sum(float(episode.backlog[-1]) for episode in shown)
    left = sum(float(episode.left.sum() * episode.interval_s) for episode in shown)
    return left / read if read > 0 else 1.0


def _unit(most: float) -> tuple[float, str]:
    """Numbers that fit beside an axis."""
    return next((size, name) for size, name in UNITS if most >= size or size == 1)
