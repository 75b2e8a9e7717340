"""The panels of a block: one quantity over time each, drawn from an episode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from trimtab.pod_autoscaling.episode import Episode
from trimtab.pod_autoscaling.problem import CPU, MEMORY, REPLICAS
from trimtab.timelines import (
    Look,
    Panel,
    draw_area,
    draw_line,
    from_zero,
    powers_of_ten,
    shade,
)

__all__ = ["PANELS"]


def _draw_rate(axes: Axes, episode: Episode, look: Look) -> None:
    arrived, failed = (counts / episode.interval_s for counts in (episode.arrived, episode.failed))
    draw_line(axes, episode, arrived, look, colour=look.main, label="arrived", band=True)
    draw_line(axes, episode, failed, look, colour=look.limit, label="failed")


def _draw_latency(axes: Axes, episode: Episode, look: Look) -> None:
    axes.set_yscale("log")
    shade(axes, episode, episode.late > episode.budget * episode.finished, look)
    p99, p50 = episode.latency_p99_s, episode.latency_p50_s
    draw_line(axes, episode, p99, look, colour=look.main, label="p99", band=True, above=1)
    draw_line(axes, episode, p50, look, colour=look.second, label="p50")
    axes.axhline(
        episode.slo_s, color=look.limit, linewidth=1.1, zorder=5, label=f"limit {episode.slo_s:.3g} s"
    )


def _latency_limits(axes: Axes, panel: Panel[Any], episodes: Sequence[Episode]) -> None:
    powers_of_ten(
        axes, [np.concatenate([one.latency_p50_s, one.latency_p99_s, [one.slo_s]]) for one in episodes]
    )


def _draw_cores(axes: Axes, episode: Episode, look: Look) -> None:
    draw_area(axes, episode, episode.cores_held, look, label="held")
    draw_line(axes, episode, episode.cores_used, look, colour=look.second, label="used", above=1)


def _draw_memory(axes: Axes, episode: Episode, look: Look) -> None:
    draw_area(axes, episode, episode.memory_held / 1024, look, label="held")
    draw_line(axes, episode, episode.memory_used / 1024, look, colour=look.second, label="used", above=1)


def _draw_replicas(axes: Axes, episode: Episode, look: Look) -> None:
    draw_area(axes, episode, episode.ready, look, label="ready")
    draw_line(axes, episode, episode.size[:, REPLICAS], look, colour=look.second, label="asked for", above=1)


def _draw_pod_cores(axes: Axes, episode: Episode, look: Look) -> None:
    draw_line(axes, episode, episode.size[:, CPU], look, colour=look.main, label="_asked for", band=True)


def _draw_pod_memory(axes: Axes, episode: Episode, look: Look) -> None:
    draw_line(axes, episode, episode.size[:, MEMORY], look, colour=look.main, label="limit", band=True)
    # Pods that are still being resized count with the limit they have, so this is their mean share of it.
    share = episode.memory_used / np.maximum(episode.memory_held, 1e-9)
    used = share * episode.size[:, MEMORY]
    draw_line(axes, episode, used, look, colour=look.second, label="used, mean", above=1)


PANELS: tuple[Panel[Episode], ...] = (
    Panel("requests/s", 0.85, _draw_rate, from_zero),
    Panel("latency (s)", 1.25, _draw_latency, _latency_limits),
    Panel("cores of all pods", 0.95, _draw_cores, from_zero),
    Panel("memory of all pods (GiB)", 0.75, _draw_memory, from_zero),
    Panel("replicas", 0.75, _draw_replicas, from_zero),
    Panel("cores of a pod", 0.55, _draw_pod_cores, from_zero),
    Panel("memory of a pod (MiB)", 0.75, _draw_pod_memory, from_zero),
)
"""From what comes in, over how it is served, to what is held, and the size that makes it."""
