"""The whole picture: blocks of panels on common axes, their titles, and the bar of colours.

Every episode is of the same job under another policy. All blocks have the same axes and the same scale of
colours, so they can be laid beside each other by eye.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

from trimtab.core.errors import TrimtabError
from trimtab.figures import DOTS_PER_INCH, WIDTH_INCHES, save_figure, shortened
from trimtab.stream_autoscaling.drawing.panels import (
    MOST_LETTERS,
    Look,
    Panel,
    PanelKind,
    dress,
    look_of,
    panels_for,
)
from trimtab.stream_autoscaling.episode import Episode
from trimtab.timelines.blocks import Grid, check_times, set_time_axis, write_heading, write_title
from trimtab.timelines.lines import from_zero, powers_of_ten

__all__ = ["draw_episodes", "episodes_figure"]

# Inches. The left margin holds names of vertices, the right one the bar of colours.
LEFT, RIGHT = 1.2, 0.75


def draw_episodes(episodes: Sequence[Episode], path: str | Path, *, dark: bool = False) -> None:
    """Write what happened under each policy, as PNG or SVG by the suffix of `path`."""
    save_figure(episodes_figure(episodes, dark=dark), path)


def episodes_figure(episodes: Sequence[Episode], *, dark: bool = False) -> Figure:
    """A block of panels for each episode, up to three beside each other, on one time axis."""
    _check(episodes)
    panels = panels_for(len(episodes[0].vertex_names))
    grid = Grid(len(episodes), panels, left=LEFT, right=RIGHT)
    look = look_of(episodes, dark=dark, inches=grid.width)
    figure = Figure((WIDTH_INCHES, grid.height), dpi=DOTS_PER_INCH, facecolor=look.paper.page)
    write_heading(figure, _heading(episodes[0]), look, left=LEFT)
    firsts: list[Axes] = []
    for place, episode in enumerate(episodes):
        block = grid.add_block(figure, place, firsts)
        for panel, axes in zip(panels, block, strict=True):
            panel.draw(axes, episode, look)
            dress(axes, panel, episode, look, first_column=place % grid.columns == 0)
        write_title(block[0], episode.policy, _facts(episode), look, beside=grid.columns == 1)
        block[-1].tick_params(labelbottom=True)
        if place + grid.columns >= len(episodes):
            block[-1].set_xlabel("hour of the day", color=look.paper.muted, fontsize=10.5)
        if place % grid.columns == grid.columns - 1 or place == len(episodes) - 1:
            for panel, axes in zip(panels, block, strict=True):
                if panel.kind == "by vertex":
                    _draw_bar(figure, axes, look)
    set_time_axis(firsts[0], episodes, look, alone=grid.columns == 1)
    for panel, axes in zip(panels, firsts, strict=True):
        _LIMITS[panel.kind](axes, panel, episodes)
    return figure


def _check(episodes: Sequence[Episode]) -> None:
    check_times(episodes)
    first = episodes[0]
    for episode in episodes:
        if episode.vertex_names != first.vertex_names:
            raise TrimtabError(
                f"the episodes of {first.policy} and {episode.policy} are of different jobs "
                f"({first.job} and {episode.job}); draw each job by itself"
            )


def _heading(episode: Episode) -> str:
    day, minute = divmod(round(episode.start_s / 60), 1440)
    return (
        f"{shortened(episode.job, 2 * MOST_LETTERS)}, {len(episode.vertex_names)} vertices, "
        f"seed {episode.seed}, from day {day}, {minute // 60:02d}:{minute % 60:02d}. "
        "Vertical lines: restarts. Red: mean latency above the limit."
    )


def _facts(episode: Episode) -> list[str]:
    metrics = episode.metrics()
    return [
        f"late {100 * metrics['violation_share']:.1f} % of the time",
        f"{_count(metrics['rescales'])} restarts a day",
        f"{_count(metrics['slot_hours'])} slot-hours a day",
        f"reward {metrics['reward']:.3f}".replace("-", "\N{MINUS SIGN}"),
    ]


def _count(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def _draw_bar(figure: Figure, heat: Axes, look: Look) -> None:
    """The colours of parallelism, beside the map; every doubling is as far as the last one."""
    box = heat.get_position()
    axes = figure.add_axes((box.x1 + 0.12 / WIDTH_INCHES, box.y0, 0.13 / WIDTH_INCHES, box.height))
    most = float(look.scale.vmax or 2)
    axes.pcolormesh(
        [0, 1],
        np.geomspace(1, most, 65),
        np.geomspace(1, most, 129)[1::2, None],
        cmap=look.colours,
        norm=look.scale,
        rasterized=True,
    )
    axes.set_yscale("log")
    axes.set_ylim(1, most)
    ticks = _doublings(int(most), int(box.height * figure.get_figheight() / 0.15))
    axes.yaxis.set_major_locator(FixedLocator(ticks))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FixedFormatter([str(tick) for tick in ticks]))
    axes.yaxis.tick_right()
    axes.xaxis.set_major_locator(NullLocator())
    axes.tick_params(colors=look.paper.muted, length=0, labelsize=9)
    axes.spines[:].set_visible(False)


def _doublings(most: int, room: int) -> list[int]:
    """1, 2, 4, ... and the largest, which replaces one that is close below it; every second, ... if need be.

    >>> _doublings(17, 10), _doublings(38, 4)
    ([1, 2, 4, 8, 17], [1, 4, 38])
    """
    every = max(1, int(np.ceil(np.log2(most) / max(room - 1, 1))))
    below = [2**power for power in range(0, int(np.log2(most)) + 1, every)]
    # Less than two thirds of the way to the next one: the two numbers would touch.
    return [tick for tick in below if tick * 2 ** (every / 1.5) < most] + [most]


def _powers_of_ten(axes: Axes, panel: Panel, episodes: Sequence[Episode]) -> None:
    powers_of_ten(axes, [np.concatenate([e.latency_s, e.latency_p95_s, [e.slo_s]]) for e in episodes])


def _as_drawn(axes: Axes, panel: Panel, episodes: Sequence[Episode]) -> None:
    """Rows of vertices have their limits already."""


_LIMITS: dict[PanelKind, Callable[[Axes, Panel, Sequence[Episode]], None]] = {
    "amount": from_zero,
    "latency": _powers_of_ten,
    "by vertex": _as_drawn,
}
