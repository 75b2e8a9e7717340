"""The whole picture: blocks of panels on common axes, and their titles.

Every episode is of the same system under another policy. All blocks have the same axes, so they can be laid
beside each other by eye.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator

from trimtab.core.errors import TrimtabError
from trimtab.figures import DOTS_PER_INCH, WIDTH_INCHES, panel_title
from trimtab.timelines.lines import (
    EpisodeOf,
    HasHeight,
    Look,
    Panel,
    Timed,
    dress,
    hours_of,
    look_of,
)

__all__ = ["Grid", "blocks_figure", "check_times", "set_time_axis", "write_heading", "write_title"]

# Inches. The left margin holds names of rows.
LEFT, RIGHT, BETWEEN_COLUMNS = 1.05, 0.35, 0.26
TOP, BOTTOM, BETWEEN_PANELS, BETWEEN_BLOCKS = 0.42, 0.66, 0.34, 0.55
NAME_LINE, FACTS_LINE = 0.29, 0.2
HOURS_PER_DAY = 24
STEPS_HOURS = (*(n / 60 for n in (1, 2, 5, 10, 15, 30)), 1, 2, 3, 6, 12, 24, 48, 96, 168)


def blocks_figure(
    episodes: Sequence[EpisodeOf],
    panels: Sequence[Panel[EpisodeOf]],
    *,
    heading: str,
    facts: Callable[[EpisodeOf], Sequence[str]],
    dark: bool = False,
) -> Figure:
    """A block of panels for each episode, up to three beside each other, on one time axis.

    `facts` are four short ones: what came of the episode, beside or below the name of its policy. Whether the
    episodes can be laid on one axis, `check_times` says.
    """
    grid = Grid(len(episodes), panels)
    look = look_of(episodes, dark=dark, inches=grid.width)
    figure = Figure((WIDTH_INCHES, grid.height), dpi=DOTS_PER_INCH, facecolor=look.paper.page)
    write_heading(figure, heading, look)
    firsts: list[Axes] = []
    for place, episode in enumerate(episodes):
        block = grid.add_block(figure, place, firsts)
        for panel, axes in zip(panels, block, strict=True):
            panel.draw(axes, episode, look)
            dress(axes, panel, look, first_column=place % grid.columns == 0)
        write_title(block[0], episode.policy, facts(episode), look, beside=grid.columns == 1)
        block[-1].tick_params(labelbottom=True)
        if place + grid.columns >= len(episodes):
            block[-1].set_xlabel("hour of the day", color=look.paper.muted, fontsize=10.5)
    set_time_axis(firsts[0], episodes, look, alone=grid.columns == 1)
    for panel, axes in zip(panels, firsts, strict=True):
        panel.set_limits(axes, panel, episodes)
    return figure


def check_times(episodes: Sequence[Timed]) -> None:
    """Refuse what cannot be laid on one time axis."""
    if not episodes:
        raise TrimtabError("no episodes to draw; run at least one policy first")
    first = episodes[0]
    for episode in episodes:
        if len(episode.rewards) == 0:
            raise TrimtabError(f"the episode of {episode.policy} has no intervals; run it on a longer trace")
        if (episode.start_s, episode.interval_s) != (first.start_s, first.interval_s):
            raise TrimtabError(
                f"the episodes of {first.policy} and {episode.policy} are not of the same time; "
                "draw what came of one trace under each policy"
            )


@dataclass(frozen=True)
class Grid:
    """Where blocks and panels lie, in inches from the top left."""

    blocks: int
    panels: Sequence[HasHeight]
    left: float = LEFT
    right: float = RIGHT

    @property
    def columns(self) -> int:
        """Three blocks beside each other are still readable; four look better as two by two."""
        return 2 if self.blocks == 4 else min(self.blocks, 3)

    @property
    def width(self) -> float:
        return (WIDTH_INCHES - self.left - self.right - (self.columns - 1) * BETWEEN_COLUMNS) / self.columns

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

    def add_block(self, figure: Figure, place: int, firsts: list[Axes]) -> list[Axes]:
        """Empty panels below each other; those of the first block, `firsts`, share their axes with all."""
        row, column = divmod(place, self.columns)
        left = self.left + column * (self.width + BETWEEN_COLUMNS)
        bottom = self.height - TOP - row * (self.block_height + BETWEEN_BLOCKS) - self.head
        block: list[Axes] = []
        for number, panel in enumerate(self.panels):
            bottom -= BETWEEN_PANELS + panel.inches
            size = (self.width / WIDTH_INCHES, panel.inches / self.height)
            axes = figure.add_axes(
                (left / WIDTH_INCHES, bottom / self.height, *size),
                sharex=firsts[0] if firsts else None,
                sharey=firsts[number] if place else None,
            )
            if not place:
                firsts.append(axes)
            block.append(axes)
        return block


def write_heading(figure: Figure, text: str, look: Look, *, left: float = LEFT) -> None:
    """What all blocks are of, at the top."""
    if look.bin_size > 1:
        text += f" Lines: means of {look.bin_size} intervals; bands: their range."
    up = 1 - 0.28 / figure.get_figheight()
    figure.text(left / WIDTH_INCHES, up, text, color=look.paper.muted, fontsize=9.5)


def write_title(axes: Axes, policy: str, facts: Sequence[str], look: Look, *, beside: bool) -> None:
    """The policy and what came of it, beside the name where one block has the whole width, else below."""
    rise = 72 * BETWEEN_PANELS
    name = panel_title(
        axes,
        policy,
        look.paper,
        rise=rise if beside else rise + 72 * FACTS_LINE * 2 + 2,
        room=72 * look.inches * (0.35 if beside else 1),
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


def set_time_axis(axes: Axes, episodes: Sequence[Timed], look: Look, *, alone: bool) -> None:
    """Hours of the day below all blocks; `alone` where none stands beside another."""
    begin = min(float(hours_of(episode)[0]) for episode in episodes)
    end = max(float(hours_of(episode)[-1]) for episode in episodes)
    most = max(2, int(look.inches / 0.45))
    step = next((step for step in STEPS_HOURS if (end - begin) / step <= most), STEPS_HOURS[-1])
    ticks = step * np.arange(np.ceil(begin / step - 1e-6), end / step + 1e-6)
    # A moment at the right end would lie on the one at the left end of the next block.
    last = end if alone else end - 0.2 * (end - begin) / look.inches
    ticks = ticks[ticks <= last + 1e-6]
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
