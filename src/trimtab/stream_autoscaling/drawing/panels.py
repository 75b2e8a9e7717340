"""The panels of a block: one quantity over time each, drawn from an episode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, LogNorm, to_rgb
from matplotlib.ticker import FixedFormatter, FixedLocator
from numpy.typing import NDArray

from trimtab.figures import Paper, paper_of
from trimtab.stream_autoscaling.episode import Episode, left_scale

__all__ = [
    "MOST_LETTERS",
    "Look",
    "Panel",
    "PanelKind",
    "dress",
    "hours_of",
    "look_of",
    "panels_for",
    "shortened",
]

LEAST_LABEL_INCHES = 0.125  # from one name of a vertex to the next, in letters of 8 points
MOST_LETTERS = 16  # of the name of a vertex
TICK_INCHES = 0.05
# Up to 1.5 intervals per pixel a line is a line; beyond that it is a smear, and bins tell more.
MOST_INTERVALS_PER_INCH, BINS_PER_INCH = 150, 60
# Restarts per inch from which on their lines grow paler, and where they are palest.
SPARSE, DENSE = 10, 45


@dataclass(frozen=True)
class Look:
    """Paper and colours, and what all blocks of a figure have in common."""

    paper: Paper
    main: str
    second: str
    limit: str
    violated: str  # this and the next: not transparent, so that neighbours do not add up
    rescale: tuple[str, str]  # where they are few, and where a panel would be full of them
    colours: LinearSegmentedColormap
    scale: LogNorm
    left_scale: float
    """Records that left are drawn times this, to stand beside those that arrived."""
    bin_size: int
    """Intervals that are drawn as one: a line at their mean, a band from the least to the most."""
    inches: float  # width of a panel


def look_of(episodes: Sequence[Episode], *, dark: bool, inches: float) -> Look:
    """One look for all episodes, in panels of this width."""
    shades = (
        ["#1f2b36", "#1d5c92", "#62b4f2", "#eef8ff"] if dark else ["#eaf1f7", "#8fbfe6", "#0b66ad", "#06233d"]
    )
    most = max(int(episode.parallelism.max()) for episode in episodes)
    longest = max(len(episode.rewards) for episode in episodes)
    fits = longest <= MOST_INTERVALS_PER_INCH * inches
    return Look(
        paper=paper_of(dark=dark),
        main="#62b4f2" if dark else "#0b66ad",
        second="#8d98a3" if dark else "#97a1ab",
        limit="#f5706a" if dark else "#c22f2a",
        violated="#4a2526" if dark else "#fbdcd9",
        rescale=("#8a7136", "#3b3523") if dark else ("#dcae52", "#faf0d8"),
        colours=LinearSegmentedColormap.from_list("parallelism", shades),
        scale=LogNorm(1, max(most, 2)),
        left_scale=left_scale(episodes),
        bin_size=1 if fits else int(np.ceil(longest / (BINS_PER_INCH * inches))),
        inches=inches,
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


def hours_of(episode: Episode) -> NDArray[np.float64]:
    """Bounds of the intervals in hours from midnight of the first day, one more than there are intervals."""
    return (episode.start_s + episode.interval_s * np.arange(len(episode.rewards) + 1)) / 3600


def _draw_rates(axes: Axes, episode: Episode, look: Look) -> None:
    times = "" if look.left_scale == 1 else f" × {look.left_scale:g}"
    _draw_line(axes, episode, episode.arrived, look, colour=look.second, label="arrived", band=True)
    left = episode.left * look.left_scale
    _draw_line(axes, episode, left, look, colour=look.main, label=f"left{times}")


def _draw_latency(axes: Axes, episode: Episode, look: Look) -> None:
    axes.set_yscale("log")
    hours, violated = hours_of(episode), episode.latency_s > episode.slo_s
    change = np.diff(np.concatenate([[0], violated.astype(np.int8), [0]]))
    spans = [
        (hours[begin], hours[end] - hours[begin])
        for begin, end in zip(np.flatnonzero(change > 0), np.flatnonzero(change < 0), strict=True)
    ]
    # The edge makes a span of one minute in a day as wide as half a point, which can be seen.
    axes.broken_barh(
        spans,
        (0, 1),
        transform=axes.get_xaxis_transform(),
        facecolor=look.violated,
        edgecolor=look.violated,
        linewidth=0.5,
        zorder=1.2,
    )
    _draw_line(axes, episode, episode.latency_s, look, colour=look.main, label="mean", band=True, above=1)
    _draw_line(axes, episode, episode.latency_p95_s, look, colour=look.second, label="p95")
    axes.axhline(episode.slo_s, color=look.limit, linewidth=1.1, zorder=5, label=f"limit {episode.slo_s:g} s")


def _draw_backlog(axes: Axes, episode: Episode, look: Look) -> None:
    _draw_area(axes, episode, episode.backlog, look)


def _draw_standstill(axes: Axes, episode: Episode, look: Look) -> None:
    down = episode.down_s > 0
    moments = hours_of(episode)[:-1][down]
    axes.vlines(moments, 0, episode.down_s[down], color=look.main, linewidth=0.9, zorder=3)


def _draw_slots(axes: Axes, episode: Episode, look: Look) -> None:
    _draw_area(axes, episode, episode.slots, look)


def _draw_subtasks(axes: Axes, episode: Episode, look: Look) -> None:
    _draw_area(axes, episode, episode.parallelism.sum(1), look)


def _draw_parallelism(axes: Axes, episode: Episode, look: Look) -> None:
    bounds, mean, _, _ = _binned(episode, episode.parallelism, look.bin_size)
    axes.pcolormesh(
        bounds,
        np.arange(mean.shape[1] + 1) - 0.5,
        np.ma.masked_less(mean.T, 1),
        cmap=look.colours,
        norm=look.scale,
        rasterized=True,
    )
    axes.set_ylim(mean.shape[1] - 0.5, -0.5)


def _binned(
    episode: Episode, values: NDArray[np.generic], size: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Bounds of the bins in hours; the mean, the least and the most of each. The last may be shorter."""
    begins = np.arange(0, len(values), size)
    bounds = hours_of(episode)[np.append(begins, len(values))]
    counts = np.diff(np.append(begins, len(values))).reshape(-1, *[1] * (values.ndim - 1))
    numbers = values.astype(np.float64)
    return (
        bounds,
        np.add.reduceat(numbers, begins) / counts,
        np.minimum.reduceat(numbers, begins),
        np.maximum.reduceat(numbers, begins),
    )


def _draw_line(
    axes: Axes,
    episode: Episode,
    values: NDArray[np.generic],
    look: Look,
    *,
    colour: str,
    label: str,
    band: bool = False,
    above: float = 0,
) -> None:
    x, mean, least, most = _binned(episode, values, look.bin_size)
    mean, least, most = (np.append(part, part[-1]) for part in (mean, least, most))
    axes.plot(x, mean, drawstyle="steps-post", color=colour, linewidth=1.2, label=label, zorder=3 + above)
    if band and look.bin_size > 1:
        axes.fill_between(
            x,
            least,
            most,
            step="post",
            color=colour,
            alpha=0.3,
            linewidth=0,
            zorder=2.5 + above,
            label="_band",
        )


def _draw_area(axes: Axes, episode: Episode, values: NDArray[np.generic], look: Look) -> None:
    _draw_line(axes, episode, values, look, colour=look.main, label="_level", band=True)
    x, mean, _, _ = _binned(episode, values, look.bin_size)
    mean = np.append(mean, mean[-1])
    axes.fill_between(x, 0, mean, step="post", color=look.main, alpha=0.16, linewidth=0, zorder=2)


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


def shortened(text: str, letters: int) -> str:
    """At most so many letters.

    >>> shortened("aggregate", 5)
    'aggr…'
    """
    return text if len(text) <= letters else f"{text[: letters - 1]}…"
