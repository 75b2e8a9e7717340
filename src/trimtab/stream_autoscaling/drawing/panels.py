"""The panels of a block: one quantity over time each, drawn from an episode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, LogNorm, to_rgb
from matplotlib.ticker import FixedFormatter, FixedLocator

from trimtab.figures import shortened
from trimtab.stream_autoscaling.episode import Episode, left_scale
from trimtab.timelines import lines as timelines
from trimtab.timelines.lines import binned, draw_area, draw_line, hours_of, shade

__all__ = [
    "MOST_LETTERS",
    "Look",
    "Panel",
    "PanelKind",
    "dress",
    "look_of",
    "panels_for",
]

LEAST_LABEL_INCHES = 0.125  # from one name of a vertex to the next, in letters of 8 points
MOST_LETTERS = 16  # of the name of a vertex
TICK_INCHES = 0.05
# Restarts per inch from which on their lines grow paler, and where they are palest.
SPARSE, DENSE = 10, 45


@dataclass(frozen=True)
class Look(timelines.Look):
    """What figures of jobs have beyond those of other episodes."""

    rescale: tuple[str, str]  # where they are few, and where a panel would be full of them; not transparent
    colours: LinearSegmentedColormap
    scale: LogNorm
    left_scale: float
    """Records that left are drawn times this, to stand beside those that arrived."""


def look_of(episodes: Sequence[Episode], *, dark: bool, inches: float) -> Look:
    """One look for all episodes, in panels of this width."""
    shades = (
        ["#1f2b36", "#1d5c92", "#62b4f2", "#eef8ff"] if dark else ["#eaf1f7", "#8fbfe6", "#0b66ad", "#06233d"]
    )
    most = max(int(episode.parallelism.max()) for episode in episodes)
    common = timelines.look_of(episodes, dark=dark, inches=inches)
    return Look(
        **{one.name: getattr(common, one.name) for one in fields(common)},
        rescale=("#8a7136", "#3b3523") if dark else ("#dcae52", "#faf0d8"),
        colours=LinearSegmentedColormap.from_list("parallelism", shades),
        scale=LogNorm(1, max(most, 2)),
        left_scale=left_scale(episodes),
    )


PanelKind = Literal["amount", "latency", "by vertex"]


@dataclass(frozen=True)
class Panel:
    """One quantity over time."""

    heading: str
    inches: float
    draw: Callable[[Axes, Episode, Look], None]
    kind: PanelKind = "amount"


def panels_for(vertices: int) -> list[Panel]:
    """From what comes in, over how it is served, to what is spent."""
    by_vertex = float(np.clip(0.15 * vertices, 0.5, 3.5))
    return [
        Panel("records/s", 0.95, _draw_rates),
        Panel("latency (s)", 1.25, _draw_latency, kind="latency"),
        Panel("backlog (records)", 0.75, _draw_backlog),
        Panel("standstill (s per interval)", 0.36, _draw_standstill),
        Panel("slots taken", 0.75, _draw_slots),
        Panel("subtasks (sum of parallelism)", 0.75, _draw_subtasks),
        Panel("parallelism by vertex", by_vertex, _draw_parallelism, kind="by vertex"),
    ]


def _draw_rates(axes: Axes, episode: Episode, look: Look) -> None:
    times = "" if look.left_scale == 1 else f" × {look.left_scale:g}"
    draw_line(axes, episode, episode.arrived, look, colour=look.second, label="arrived", band=True)
    left = episode.left * look.left_scale
    draw_line(axes, episode, left, look, colour=look.main, label=f"left{times}")


def _draw_latency(axes: Axes, episode: Episode, look: Look) -> None:
    if episode.latency_s.any():  # a silent day has nothing that a logarithm could show
        axes.set_yscale("log")
    shade(axes, episode, episode.latency_s > episode.slo_s, look)
    draw_line(axes, episode, episode.latency_s, look, colour=look.main, label="mean", band=True, above=1)
    draw_line(axes, episode, episode.latency_p95_s, look, colour=look.second, label="p95")
    axes.axhline(episode.slo_s, color=look.limit, linewidth=1.1, zorder=5, label=f"limit {episode.slo_s:g} s")


def _draw_backlog(axes: Axes, episode: Episode, look: Look) -> None:
    draw_area(axes, episode, episode.backlog, look, label="_level")


def _draw_standstill(axes: Axes, episode: Episode, look: Look) -> None:
    down = episode.down_s > 0
    moments = hours_of(episode)[:-1][down]
    axes.vlines(moments, 0, episode.down_s[down], color=look.main, linewidth=0.9, zorder=3)


def _draw_slots(axes: Axes, episode: Episode, look: Look) -> None:
    draw_area(axes, episode, episode.slots, look, label="_level")


def _draw_subtasks(axes: Axes, episode: Episode, look: Look) -> None:
    draw_area(axes, episode, episode.parallelism.sum(1), look, label="_level")


def _draw_parallelism(axes: Axes, episode: Episode, look: Look) -> None:
    bounds, mean, _, _ = binned(episode, episode.parallelism, look.bin_size)
    axes.pcolormesh(
        bounds,
        np.arange(mean.shape[1] + 1) - 0.5,
        np.ma.masked_less(mean.T, 1),
        cmap=look.colours,
        norm=look.scale,
        rasterized=True,
    )
    axes.set_ylim(mean.shape[1] - 0.5, -0.5)


def dress(axes: Axes, panel: Panel, episode: Episode, look: Look, *, first_column: bool) -> None:
    """Ticks, marks and grid; heading and legend in the first column only, since all columns are alike."""
    paper = look.paper
    axes.set_facecolor(paper.idle if panel.kind == "by vertex" else paper.page)
    axes.spines[:].set_visible(False)
    axes.tick_params(colors=paper.muted, length=0, labelsize=9, labelbottom=False, labelleft=first_column)
    _mark_rescales(axes, episode, look, panel)
    if panel.kind == "by vertex":
        _name_vertices(axes, episode, panel.inches)
        axes.tick_params(axis="y", labelsize=8)
    else:
        axes.grid(color=paper.line, linewidth=0.6)
        axes.set_axisbelow(True)
    if not first_column:
        return
    axes.set_title(
        panel.heading, loc="left", color=paper.muted, fontsize=10, pad=7 if panel.kind == "by vertex" else 4
    )
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        axes.legend(
            handles,
            labels,
            loc="lower right",
            bbox_to_anchor=(1, 1),
            borderaxespad=0,
            borderpad=0.15,
            ncols=len(handles),
            frameon=False,
            labelcolor=paper.muted,
            fontsize=9,
            handlelength=1.3,
            handletextpad=0.45,
            columnspacing=1.1,
        )


def _mark_rescales(axes: Axes, episode: Episode, look: Look, panel: Panel) -> None:
    """A thin line at each restart; above the map of colours only, where it would hide what changed."""
    marked = np.flatnonzero(episode.rescaled) // look.bin_size * look.bin_size
    moments = hours_of(episode)[np.unique(marked)]
    few, many = look.rescale
    crowded = float(np.clip((len(moments) / look.inches - SPARSE) / (DENSE - SPARSE), 0, 1))
    low, high = (1, 1 + TICK_INCHES / panel.inches) if panel.kind == "by vertex" else (0, 1)
    axes.vlines(
        moments,
        low,
        high,
        transform=axes.get_xaxis_transform(),
        color=np.average([to_rgb(few), to_rgb(many)], axis=0, weights=[1 - crowded, crowded]),
        linewidth=0.7,
        zorder=1,
        clip_on=False,
    )


def _name_vertices(axes: Axes, episode: Episode, inches: float) -> None:
    """Every name where there is room, else every second, third, ..."""
    names = episode.vertex_names
    every = int(np.ceil(LEAST_LABEL_INCHES * len(names) / inches))
    places = list(range(0, len(names), every))
    axes.yaxis.set_major_locator(FixedLocator(places))
    axes.yaxis.set_major_formatter(
        FixedFormatter([shortened(names[place], MOST_LETTERS) for place in places])
    )
