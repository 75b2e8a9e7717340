"""The whole picture: blocks of panels on common axes, their titles, and the bar of colours.

Every episode is of the same job under another policy. All blocks have the same axes and the same scale of
colours, so they can be laid beside each other by eye.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator, MaxNLocator, NullLocator

from trimtab.core.errors import TrimtabError
from trimtab.figures import DOTS_PER_INCH, WIDTH_INCHES, panel_title, save_figure
from trimtab.stream_autoscaling.drawing.panels import (
    MOST_LETTERS,
    Look,
    Panel,
    PanelKind,
    dress,
    hours_of,
    look_of,
    panels_for,
    shortened,
)
from trimtab.stream_autoscaling.episode import Episode

__all__ = ["draw_episodes", "episodes_figure"]

# Inches. The left margin holds names of vertices, the right one the bar of colours.
LEFT, RIGHT, BETWEEN_COLUMNS = 1.2, 0.75, 0.26
TOP, BOTTOM, BETWEEN_PANELS, BETWEEN_BLOCKS = 0.42, 0.66, 0.34, 0.55
NAME_LINE, FACTS_LINE = 0.29, 0.2
HOURS_PER_DAY = 24
STEPS_HOURS = (*(n / 60 for n in (1, 2, 5, 10, 15, 30)), 1, 2, 3, 6, 12, 24, 48, 96, 168)


def draw_episodes(episodes: Sequence[Episode], path: Path, *, dark: bool = False) -> None:
    """Write what happened under each policy, as PNG or SVG by the suffix of `path`."""
    save_figure(episodes_figure(episodes, dark=dark), path)


def episodes_figure(episodes: Sequence[Episode], *, dark: bool = False) -> Figure:
    """A block of panels for each episode, up to three beside each other, on one time axis."""
    _check(episodes)
    grid = _Grid(len(episodes), panels_for(len(episodes[0].vertex_names)))
    look = look_of(episodes, dark=dark, inches=grid.width)
    figure = Figure((WIDTH_INCHES, grid.height), dpi=DOTS_PER_INCH, facecolor=look.paper.page)
    _write_heading(figure, episodes[0], look)
    firsts: dict[Panel, Axes] = {}
    for place, episode in enumerate(episodes):
        block = _draw_block(figure, grid, place, episode, look, firsts)
        _write_title(block[grid.panels[0]], episode, look, beside=grid.columns == 1)
        lowest = block[grid.panels[-1]]
        lowest.tick_params(labelbottom=True)
        if place + grid.columns >= len(episodes):
            lowest.set_xlabel("hour of the day", color=look.paper.muted, fontsize=10.5)
        if place % grid.columns == grid.columns - 1 or place == len(episodes) - 1:
            for panel in grid.panels:
                if panel.kind == "by vertex":
                    _draw_bar(figure, block[panel], look)
    _set_time_axis(firsts[grid.panels[0]], episodes, look)
    for panel, axes in firsts.items():
        _LIMITS[panel.kind](axes, panel, episodes)
    return figure


@dataclass(frozen=True)
class _Grid:
    """Where blocks and panels lie, in inches from the top left."""

    blocks: int
    panels: Sequence[Panel]

    @property
    def columns(self) -> int:
        """Three blocks beside each other are still readable; four look better as two by two."""
        return 2 if self.blocks == 4 else min(self.blocks, 3)

    @property
    def width(self) -> float:
        return (WIDTH_INCHES - LEFT - RIGHT - (self.columns - 1) * BETWEEN_COLUMNS) / self.columns

    @property
    def head(self) -> float:
        """The name of the policy, and what came of it below, unless it fits beside."""
        return NAME_LINE + FACTS_LINE * (0 if self.columns == 1 else 2)

    @property
    def block_height(self) -> float:
        return self.head + sum(BETWEEN_PANELS + panel.inches for panel in self.panels)

    @property
    def height(self) -> float:
        rows = -(-self.blocks // self.columns)
        return TOP + rows * self.block_height + (rows - 1) * BETWEEN_BLOCKS + BOTTOM


def _draw_block(
    figure: Figure, grid: _Grid, place: int, episode: Episode, look: Look, firsts: dict[Panel, Axes]
) -> dict[Panel, Axes]:
    """Panels below each other; axes are shared with the first of their kind, which `firsts` remembers."""
    row, column = divmod(place, grid.columns)
    left = LEFT + column * (grid.width + BETWEEN_COLUMNS)
    bottom = grid.height - TOP - row * (grid.block_height + BETWEEN_BLOCKS) - grid.head
    block: dict[Panel, Axes] = {}
    for panel in grid.panels:
        bottom -= BETWEEN_PANELS + panel.inches
        size = (grid.width / WIDTH_INCHES, panel.inches / grid.height)
        axes = figure.add_axes(
            (left / WIDTH_INCHES, bottom / grid.height, *size),
            sharex=firsts.get(grid.panels[0]),
            sharey=firsts.get(panel),
        )
        firsts.setdefault(panel, axes)
        panel.draw(axes, episode, look)
        dress(axes, panel, episode, look, first_column=column == 0)
        block[panel] = axes
    return block


def _check(episodes: Sequence[Episode]) -> None:
    if not episodes:
        raise TrimtabError("no episodes to draw; run at least one policy first")
    first = episodes[0]
    for episode in episodes:
        if len(episode.rewards) == 0:
            raise TrimtabError(f"the episode of {episode.policy} has no intervals; run it on a longer trace")
        if episode.vertex_names != first.vertex_names:
            raise TrimtabError(
                f"the episodes of {first.policy} and {episode.policy} are of different jobs "
                f"({first.job} and {episode.job}); draw each job by itself"
            )
        if (episode.start_s, episode.interval_s) != (first.start_s, first.interval_s):
            raise TrimtabError(
                f"the episodes of {first.policy} and {episode.policy} are not of the same time; "
                "draw what came of one trace under each policy"
            )


def _write_heading(figure: Figure, episode: Episode, look: Look) -> None:
    day, minute = divmod(round(episode.start_s / 60), 60 * HOURS_PER_DAY)
    job = shortened(episode.job, 2 * MOST_LETTERS)
    text = (
        f"{job}, {len(episode.vertex_names)} vertices, seed {episode.seed}, from day {day}, "
        f"{minute // 60:02d}:{minute % 60:02d}. Vertical lines: restarts. Red: mean latency above the limit."
    )
    if look.bin_size > 1:
        text += f" Lines: means of {look.bin_size} intervals; bands: their range."
    up = 1 - 0.28 / figure.get_figheight()
    figure.text(LEFT / WIDTH_INCHES, up, text, color=look.paper.muted, fontsize=9.5)


def _write_title(axes: Axes, episode: Episode, look: Look, *, beside: bool) -> None:
    """The policy and what came of it, beside the name where one block has the whole width, else below."""
    metrics = episode.metrics()
    facts = [
        f"late {100 * metrics['violation_share']:.1f} % of the time",
        f"{_count(metrics['rescales'])} restarts a day",
        f"{_count(metrics['slot_hours'])} slot-hours a day",
        f"reward {metrics['reward']:.3f}".replace("-", "\N{MINUS SIGN}"),
    ]
    # A bold letter is about 0.66 of its size wide.
    points = 72 * look.inches * (0.4 if beside else 1)
    size = float(np.clip(points / (0.66 * max(len(episode.policy), 1)), 9, 14))
    shown = shortened(episode.policy, int(points / (0.66 * size)))
    rise = 72 * BETWEEN_PANELS
    name = panel_title(
        axes, shown, look.paper, rise=rise if beside else rise + 72 * FACTS_LINE * 2 + 2, size=size
    )
    told = ", ".join(facts) if beside else f"{', '.join(facts[:2])}\n{', '.join(facts[2:])}"
    axes.annotate(
        told,
        (1, 0) if beside else (0, 1),
        (10, 0) if beside else (0, rise),
        xycoords=name if beside else "axes fraction",
        textcoords="offset points",
        va="bottom",
        color=look.paper.muted,
        fontsize=12 if beside else 10,
        linespacing=1.25,
    )


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


def _set_time_axis(axes: Axes, episodes: Sequence[Episode], look: Look) -> None:
    begin = min(float(hours_of(episode)[0]) for episode in episodes)
    end = max(float(hours_of(episode)[-1]) for episode in episodes)
    most = max(2, int(look.inches / 0.45))
    step = next((step for step in STEPS_HOURS if (end - begin) / step <= most), STEPS_HOURS[-1])
    ticks = step * np.arange(np.ceil(begin / step - 1e-6), end / step + 1e-6)
    several_days = end - begin > HOURS_PER_DAY * 1.001
    axes.set_xlim(begin, end)
    axes.xaxis.set_major_locator(FixedLocator(ticks.tolist()))
    axes.xaxis.set_major_formatter(
        FixedFormatter([_moment(tick, step, several_days=several_days) for tick in ticks])
    )


def _moment(hours: float, step: float, *, several_days: bool) -> str:
    minutes = round(60 * hours)
    day, minute = divmod(minutes, 60 * HOURS_PER_DAY)
    clock = f"{minute // 60}" if step >= 1 else f"{minute // 60:02d}:{minute % 60:02d}"
    return f"{clock}\nday {day}" if several_days and minute == 0 else clock


def _from_zero(axes: Axes, panel: Panel, episodes: Sequence[Episode]) -> None:
    axes.set_ylim(0, max(axes.get_ylim()[1], 1))
    axes.yaxis.set_major_locator(MaxNLocator(max(2, int(4.5 * panel.inches))))
    axes.yaxis.set_major_formatter(lambda value, _: _short_number(value))


def _powers_of_ten(axes: Axes, panel: Panel, episodes: Sequence[Episode]) -> None:
    low, high = _latency_range(episodes)
    axes.set_ylim(low, high)
    powers = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    ticks = [10.0**power for power in powers if low <= 10.0**power <= high]
    axes.yaxis.set_major_locator(FixedLocator(ticks))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")


def _as_drawn(axes: Axes, panel: Panel, episodes: Sequence[Episode]) -> None:
    """Rows of vertices have their limits already."""


_LIMITS: dict[PanelKind, Callable[[Axes, Panel, Sequence[Episode]], None]] = {
    "amount": _from_zero,
    "latency": _powers_of_ten,
    "by vertex": _as_drawn,
}


def _latency_range(episodes: Sequence[Episode]) -> tuple[float, float]:
    """Everything finite and positive, and the limit; at least one power of ten has its tick."""
    values = np.concatenate([np.concatenate([e.latency_s, e.latency_p95_s, [e.slo_s]]) for e in episodes])
    values = values[np.isfinite(values) & (values > 0)]
    low, high = float(values.min()) / 1.25, float(values.max()) * 1.25
    power = 10.0 ** np.round(np.log10(np.sqrt(low * high)))
    return min(low, power / 1.25), max(high, power * 1.25)


def _short_number(value: float) -> str:
    """As few letters as fit beside a small panel.

    >>> _short_number(0), _short_number(2500), _short_number(4e6)
    ('0', '2.5 k', '4 M')
    """
    for size, letter in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"
