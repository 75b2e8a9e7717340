"""A panel: one quantity over time, as a line, an area or shading, and the limits of its axis.

Where there are more intervals than pixels, some of them are drawn as one: a line at their mean, a band from
the least to the most.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator
from numpy.typing import NDArray

from trimtab.figures import Paper, paper_of

__all__ = [
    "EpisodeOf",
    "HasHeight",
    "Look",
    "Panel",
    "Timed",
    "as_drawn",
    "binned",
    "draw_area",
    "draw_line",
    "dress",
    "from_zero",
    "hours_of",
    "look_of",
    "powers_of_ten",
    "shade",
]

# Up to 1.5 intervals per pixel a line is a line; beyond that it is a smear, and bins tell more.
MOST_INTERVALS_PER_INCH, BINS_PER_INCH = 150, 60


class Timed(Protocol):
    """An episode of intervals of one length."""

    @property
    def policy(self) -> str: ...
    @property
    def interval_s(self) -> float: ...
    @property
    def start_s(self) -> float: ...
    @property
    def rewards(self) -> NDArray[np.float64]: ...


EpisodeOf = TypeVar("EpisodeOf", bound=Timed)


class HasHeight(Protocol):
    """Anything that takes so much room in a block."""

    @property
    def inches(self) -> float: ...


@dataclass(frozen=True)
class Look:
    """Paper and colours, and what all blocks of a figure have in common."""

    paper: Paper
    main: str
    second: str
    limit: str
    violated: str  # not transparent, so that neighbours do not add up
    bin_size: int
    """Intervals that are drawn as one."""
    inches: float  # width of a panel


def look_of(episodes: Sequence[Timed], *, dark: bool, inches: float) -> Look:
    """One look for all episodes, in panels of this width."""
    longest = max(len(episode.rewards) for episode in episodes)
    fits = longest <= MOST_INTERVALS_PER_INCH * inches
    return Look(
        paper=paper_of(dark=dark),
        main="#62b4f2" if dark else "#0b66ad",
        second="#8d98a3" if dark else "#97a1ab",
        limit="#f5706a" if dark else "#c22f2a",
        violated="#4a2526" if dark else "#fbdcd9",
        bin_size=1 if fits else int(np.ceil(longest / (BINS_PER_INCH * inches))),
        inches=inches,
    )


@dataclass(frozen=True)
class Panel(Generic[EpisodeOf]):
    """One quantity over time."""

    heading: str
    inches: float
    draw: Callable[[Axes, EpisodeOf, Look], None]
    set_limits: Callable[[Axes, Panel[Any], Sequence[EpisodeOf]], None]
    """Called once, when all blocks are drawn; their axes are shared."""
    rows: Sequence[str] = ()
    """Names of rows, if the panel has some instead of amounts."""


def hours_of(episode: Timed) -> NDArray[np.float64]:
    """Bounds of the intervals in hours from midnight of the first day, one more than there are intervals."""
    return (episode.start_s + episode.interval_s * np.arange(len(episode.rewards) + 1)) / 3600


# --- what is drawn ----------------------------------------------------------------------------


def draw_line(
    axes: Axes,
    episode: Timed,
    values: NDArray[Any],
    look: Look,
    *,
    colour: str,
    label: str,
    band: bool = False,
    above: float = 0,
) -> None:
    """Steps, one for each interval or bin; where nothing is known (NaN) there is a gap."""
    x, mean, least, most = binned(episode, values, look.bin_size)
    mean, least, most = (np.append(part, part[-1]) for part in (mean, least, most))
    axes.plot(x, mean, drawstyle="steps-post", color=colour, linewidth=1.2, label=label, zorder=3 + above)
    if band and look.bin_size > 1:
        axes.fill_between(
            x, least, most, step="post", color=colour, alpha=0.3, linewidth=0, zorder=2.5 + above,
            label="_band",
        )  # fmt: skip


def draw_area(axes: Axes, episode: Timed, values: NDArray[Any], look: Look, *, label: str) -> None:
    """A line with what lies below it filled."""
    draw_line(axes, episode, values, look, colour=look.main, label=label, band=True)
    x, mean, _, _ = binned(episode, values, look.bin_size)
    mean = np.append(mean, mean[-1])
    axes.fill_between(x, 0, mean, step="post", color=look.main, alpha=0.16, linewidth=0, zorder=2)


def shade(axes: Axes, episode: Timed, flags: NDArray[np.bool_], look: Look) -> None:
    """Colour the intervals in which something is wrong."""
    hours = hours_of(episode)
    change = np.diff(np.concatenate([[0], flags.astype(np.int8), [0]]))
    spans = [
        (hours[begin], hours[end] - hours[begin])
        for begin, end in zip(np.flatnonzero(change > 0), np.flatnonzero(change < 0), strict=True)
    ]
    # The edge makes a span of one minute in a day as wide as half a point, which can be seen.
    axes.broken_barh(
        spans, (0, 1), transform=axes.get_xaxis_transform(), facecolor=look.violated, edgecolor=look.violated,
        linewidth=0.5, zorder=1.2,
    )  # fmt: skip


def binned(
    episode: Timed, values: NDArray[Any], size: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Bounds of the bins in hours; the mean, the least and the most of what is known in each, by column.

    The last bin may be shorter.
    """
    begins = np.arange(0, len(values), size)
    bounds = hours_of(episode)[np.append(begins, len(values))]
    numbers = values.astype(np.float64)
    known = np.isfinite(numbers)
    amounts = np.add.reduceat(known.astype(np.float64), begins)
    sums = np.add.reduceat(np.where(known, numbers, 0.0), begins)
    mean = np.where(amounts > 0, sums / np.maximum(amounts, 1), np.nan)
    return bounds, mean, np.fmin.reduceat(numbers, begins), np.fmax.reduceat(numbers, begins)


# --- limits of axes ---------------------------------------------------------------------------


def from_zero(axes: Axes, panel: HasHeight, episodes: Sequence[Timed]) -> None:
    """An amount: the axis begins at 0."""
    axes.set_ylim(0, max(1.03 * axes.get_ylim()[1], 1e-3))
    axes.yaxis.set_major_locator(MaxNLocator(max(2, int(4.5 * panel.inches))))
    axes.yaxis.set_major_formatter(lambda value, _: _short_number(value))


def powers_of_ten(axes: Axes, values: Sequence[NDArray[np.float64]]) -> None:
    """Everything finite and positive; a power of ten has its tick, and 2 and 5 where it is alone."""
    pooled = np.concatenate(values)
    pooled = pooled[np.isfinite(pooled) & (pooled > 0)]
    low, high = float(pooled.min()) / 1.25, float(pooled.max()) * 1.25
    power = 10.0 ** np.round(np.log10(np.sqrt(low * high)))
    low, high = min(low, power / 1.25), max(high, power * 1.25)
    axes.set_ylim(low, high)
    powers = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    ticks = [10.0**power for power in powers if low <= 10.0**power <= high]
    if len(ticks) < 2:
        between = (step * 10.0**power for power in powers for step in (1, 2, 5))
        ticks = [tick for tick in between if low <= tick <= high]
    axes.yaxis.set_major_locator(FixedLocator(ticks))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")


def as_drawn(axes: Axes, panel: Panel[Any], episodes: Sequence[Timed]) -> None:
    """Rows: one under the other, from the top."""
    axes.set_ylim(len(panel.rows) - 0.5, -0.5)
    axes.yaxis.set_major_locator(FixedLocator(list(range(len(panel.rows)))))
    axes.yaxis.set_major_formatter(lambda value, _: panel.rows[round(value)])


def _short_number(value: float) -> str:
    """As few letters as fit beside a small panel.

    >>> _short_number(0), _short_number(2500), _short_number(4e6)
    ('0', '2.5 k', '4 M')
    """
    for size, letter in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


# --- around a panel ---------------------------------------------------------------------------


def dress(axes: Axes, panel: Panel[Any], look: Look, *, first_column: bool) -> None:
    """Ticks and grid; heading and legend in the first column only, since all columns are alike."""
    paper = look.paper
    axes.set_facecolor(paper.idle if panel.rows else paper.page)
    axes.spines[:].set_visible(False)
    axes.tick_params(colors=paper.muted, length=0, labelsize=9, labelbottom=False, labelleft=first_column)
    axes.grid(visible=True, axis="x" if panel.rows else "both", color=paper.line, linewidth=0.6)
    axes.set_axisbelow(True)
    if not first_column:
        return
    axes.set_title(panel.heading, loc="left", color=paper.muted, fontsize=10, pad=4)
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        axes.legend(
            handles, labels, loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0, borderpad=0.15,
            ncols=len(handles), frameon=False, labelcolor=paper.muted, fontsize=9, handlelength=1.3,
            handletextpad=0.45, columnspacing=1.1,
        )  # fmt: skip
