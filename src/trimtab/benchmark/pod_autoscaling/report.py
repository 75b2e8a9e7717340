"""Pod autoscaling in a report: how late requests were, what was held for them, how often sizes changed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trimtab.benchmark.report.content import CurvesSection, Reference, Section
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
from trimtab.pod_autoscaling.episode import Episode
from trimtab.pod_autoscaling.problem import CPU, REPLICAS

__all__ = ["pod_facts", "pod_sections"]

ARRIVALS, NEEDED = "arrivals", "needed"


def pod_sections(episodes: Sequence[Episode]) -> list[Section]:
    """The charts of a report, from one or more episodes per policy.

    The distribution of latencies is pooled over all episodes. The charts over time show the first episode of
    each policy; these must be of the same service and time.
    """
    if not episodes:
        return []
    shown = _shown(episodes)
    return [
        _latencies(episodes, shown),
        _latency_over_time(shown),
        _late_so_far(shown),
        _cores_over_time(shown),
        _memory_over_time(shown),
        _replicas_over_time(shown),
        _pods_over_time(shown),
        _rate_over_time(shown),
    ]


def pod_facts(episodes: Sequence[Episode]) -> dict[str, str]:
    """What was simulated, in a few facts."""
    if not episodes:
        return {}
    shown = first_of_each_policy(episodes)
    names = sorted({episode.application for episode in episodes})
    limits = sorted({1000 * episode.slo_s for episode in episodes})
    hours = sum(len(episode.rewards) * episode.interval_s for episode in episodes) / 3600
    return {
        "Service": names[0] if len(names) == 1 else f"{len(names)} services",
        "Limit of the 99th percentile": f"{limits[0]:,.0f} ms"
        if len(limits) == 1
        else f"{limits[0]:,.0f} to {limits[-1]:,.0f} ms",
        "Requests that may be late": f"{100 * shown[0].budget:g} %",
        "Interval": f"{shown[0].interval_s:g} s",
        "Policies": f"{len(shown):,}",
        "Episodes": f"{len(episodes):,}",
        "Seeds": seeds_told(episodes),
        "Hours simulated": f"{hours:,.1f}",
        "Requests": f"{sum(int(episode.arrived.sum()) for episode in episodes):,}",
    }


def _shown(episodes: Sequence[Episode]) -> list[Episode]:
    """The first episode of each policy, refused where they cannot be laid over each other."""
    first, *others = shown = first_of_each_policy(episodes)
    for other in others:
        if other.application != first.application:
            raise TrimtabError(
                f"the episodes of {first.policy} and {other.policy} are of different services "
                f"({first.application} and {other.application}); report on each service by itself"
            )
    refuse_other_times(shown)
    return shown


# --- the charts -------------------------------------------------------------------------------


def _latencies(episodes: Sequence[Episode], shown: Sequence[Episode]) -> CurvesSection:
    limit_s = shown[0].slo_s
    slowest = {first.policy: _slowest_s(episodes, first.policy, limit_s) for first in shown}
    # Where nothing was answered, it took as long as anything here did.
    longest_s = max(float(one[np.isfinite(one)].max(initial=limit_s)) for one in slowest.values())
    others = {episode.slo_s for episode in episodes} - {limit_s}
    scaled = " Services with another limit are scaled to this one." if others else ""
    return CurvesSection(
        key="latencies",
        heading="How long the slowest of a hundred requests take",
        text="Share of the time in which the 99th percentile of latency is below a value, over all episodes. "
        "A line further up and to the left is better; what it lacks of 100 % at the limit is time too slow."
        + scaled,
        x_label="99th percentile of latency in an interval",
        y_label="share of the time",
        curves=[
            shares_below(policy, np.where(np.isfinite(one), one, longest_s))
            for policy, one in slowest.items()
        ],
        y_percent=True,
        x_log=True,
        reference=Reference(f"limit {_duration(limit_s)}", 1000 * limit_s, upright=True),
    )


def _slowest_s(episodes: Sequence[Episode], policy: str, limit_s: float) -> NDArray[np.float64]:
    """The 99th percentile of every interval in which a request ended; NaN where none of them was answered."""
    return np.concatenate(
        [
            (episode.latency_p99_s * (limit_s / episode.slo_s))[episode.finished > 0]
            for episode in episodes
            if episode.policy == policy
        ]
    )


def _latency_over_time(shown: Sequence[Episode]) -> CurvesSection:
    slo_s = shown[0].slo_s
    return CurvesSection(
        key="latency",
        heading="99th percentile of latency over time",
        text="Of the requests that were answered, in the first episode of each policy. Upwards every step is "
        "a tenfold." + about_bins(shown[0]),
        x_label=time_label(shown[0]),
        y_label="99th percentile (s)",
        curves=curves(shown, lambda episode: episode.latency_p99_s),
        decimals=3,
        y_log=True,
        reference=Reference(f"limit {_duration(slo_s)}", slo_s),
    )


def _late_so_far(shown: Sequence[Episode]) -> CurvesSection:
    budget = shown[0].budget
    return CurvesSection(
        key="late",
        heading="Late requests so far",
        text="Requests that took longer than the limit or failed, over all that have ended since the "
        "beginning. A line that ends above the budget has not done what it was there for, however little it "
        "held. Upwards every step is a tenfold.",
        x_label=time_label(shown[0]),
        y_label="percent of the requests",
        curves=curves(
            shown, lambda episode: 100 * np.cumsum(episode.late) / np.maximum(np.cumsum(episode.finished), 1)
        ),
        decimals=2,
        y_log=True,
        reference=Reference(f"budget {100 * budget:g} %", 100 * budget),
    )


def _cores_over_time(shown: Sequence[Episode]) -> CurvesSection:
    needed = shown[0].cores_used if shown[0].cores_needed is None else shown[0].cores_needed
    return CurvesSection(
        key="cores",
        heading="Cores over time",
        text="Cores held by all pods; the area under a line is what it costs to run. Beside them, the cores "
        f"that the work of the requests needs, as they end under {shown[0].policy}." + about_bins(shown[0]),
        x_label=time_label(shown[0]),
        y_label="cores held",
        curves=[*curves(shown, lambda episode: episode.cores_held), curve(shown[0], NEEDED, needed)],
        decimals=1,
    )


def _memory_over_time(shown: Sequence[Episode]) -> CurvesSection:
    return CurvesSection(
        key="memory",
        heading="Memory over time",
        text="Memory held by all pods." + about_bins(shown[0]),
        x_label=time_label(shown[0]),
        y_label="GiB held",
        curves=curves(shown, lambda episode: episode.memory_held / 1024),
        decimals=2,
    )


def _replicas_over_time(shown: Sequence[Episode]) -> CurvesSection:
    return CurvesSection(
        key="replicas",
        heading="Pods over time",
        text="Replicas that were asked for." + about_bins(shown[0]),
        x_label=time_label(shown[0]),
        y_label="replicas",
        curves=curves(shown, lambda episode: episode.size[:, REPLICAS]),
        decimals=1,
    )


def _pods_over_time(shown: Sequence[Episode]) -> CurvesSection:
    return CurvesSection(
        key="pods",
        heading="CPU of a pod over time",
        text="Cores that were asked for each pod." + about_bins(shown[0]),
        x_label=time_label(shown[0]),
        y_label="cores of a pod",
        curves=curves(shown, lambda episode: episode.size[:, CPU]),
        decimals=2,
    )


def _rate_over_time(shown: Sequence[Episode]) -> CurvesSection:
    first = shown[0]
    return CurvesSection(
        key="rate",
        heading="What arrives",
        text="Requests per second, the same under every policy." + about_bins(first),
        x_label=time_label(first),
        y_label="requests per second",
        curves=[curve(first, ARRIVALS, first.arrived / first.interval_s)],
        decimals=1,
    )


def _duration(seconds: float) -> str:
    """A limit in the unit that people say it in.

    >>> _duration(0.365), _duration(2.485)
    ('365 ms', '2.48 s')
    """
    return f"{1000 * seconds:.0f} ms" if seconds < 1 else f"{seconds:.3g} s"
