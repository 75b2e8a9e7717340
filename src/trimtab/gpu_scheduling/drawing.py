"""Pictures of GPU scheduling: who held which GPU and when, who waited, and which GPUs lay free.

Every function takes episodes of the same workload under different policies, played with `record_runs`. A job
has one colour in all of them. Beyond some hundred GPUs a row is a machine, and its shade is how many of its
GPUs are held.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import LinearSegmentedColormap, to_rgba_array
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator, MaxNLocator
from numpy.typing import NDArray

from trimtab.core.colours import job_colours
from trimtab.core.errors import TrimtabError
from trimtab.figures import DOTS_PER_INCH, WIDTH_INCHES, Paper, panel_title, paper_of, save_figure
from trimtab.gpu_scheduling.episode import Episode, RunLog

__all__ = ["draw_episodes", "episodes_figure", "lanes_of", "over_time"]

# An SVG of 5000 rectangles is about 1 MB; beyond that the stays are put in as a picture.
MOST_SHAPES_IN_SVG = 5000
MOST_LANES = 256
TIME_BINS = 1200
WHOLE = 1000

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


def draw_episodes(episodes: Sequence[Episode], path: str | Path, *, dark: bool = False) -> None:
    """Write GPUs, queue and free GPUs over time, a block for each policy, as PNG or SVG by the suffix."""
    save_figure(episodes_figure(episodes, dark=dark), path)


# --- what is drawn ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Lanes:
    """Rectangles: a stay of a job on a GPU, from the top of its lane down by the part that it holds."""

    job: Integers
    lane: Integers
    start_ms: Integers
    end_ms: Integers
    top: Floats  # 0 to 1 within the lane
    height: Floats


@dataclass(frozen=True)
class OverTime:
    """Step functions: the value from each moment to the next."""

    moment_ms: Integers
    waiting: Integers  # jobs
    free: Floats  # GPUs
    stranded: Floats  # GPUs that are free while jobs wait


def lanes_of(episode: Episode) -> Lanes:
    """Every GPU of every stay; shares of one GPU lie side by side in its lane."""
    log = _log(episode)
    first_gpu = np.cumsum(episode.machine_gpus) - episode.machine_gpus
    stay, gpu = np.nonzero((log.gpu_mask[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1))
    lane = first_gpu[log.machine[stay]] + gpu
    height = (log.milli / WHOLE / np.maximum(np.bincount(stay, minlength=len(log.job)), 1))[stay]
    top = np.zeros(len(stay))
    shared = np.flatnonzero(height < 1)
    for place in np.unique(lane[shared]):
        here = shared[lane[shared] == place]
        top[here] = _side_by_side(log.start_ms[stay[here]], log.end_ms[stay[here]], height[here])
    return Lanes(log.job[stay], lane, log.start_ms[stay], log.end_ms[stay], top, height)


def _side_by_side(start_ms: Integers, end_ms: Integers, height: Floats) -> Floats:
    """Where each share begins in its lane: at the first gap that is large enough.

    Where only several small gaps are left, it lies over others at the lower edge.
    """
    top = np.zeros(len(start_ms))
    present: list[int] = []
    for one in np.lexsort((end_ms, start_ms)):
        present = [other for other in present if end_ms[other] > start_ms[one]]
        edge = 0.0
        for other in sorted(present, key=lambda other: top[other]):
            if top[other] - edge >= height[one] - 1e-9:
                break
            edge = max(edge, top[other] + height[other])
        top[one] = min(edge, 1.0 - height[one])
        present.append(int(one))
    return top


def over_time(episode: Episode) -> OverTime:
    """Who waits and what is free, at every moment at which that changes."""
    log = _log(episode)
    starts = np.unique(np.stack([log.job, log.start_ms, log.end_ms], axis=1), axis=0)
    times = np.concatenate([episode.arrival_ms, starts[:, 1], starts[:, 2], log.start_ms, log.end_ms])
    jobs, stays, parts = len(episode.arrival_ms), len(starts), len(log.job)
    stopped = starts[:, 2] < episode.completion_ms[starts[:, 0]]
    waiting = np.concatenate([np.ones(jobs), -np.ones(stays), stopped, np.zeros(2 * parts)]).astype(np.int64)
    held = np.concatenate([np.zeros(jobs + 2 * stays, np.int64), log.milli, -log.milli])
    order = np.argsort(times, kind="stable")
    moments, last = np.unique(times[order][::-1], return_index=True)
    queue = np.cumsum(waiting[order])[::-1][last]
    free = episode.total_gpus - np.cumsum(held[order])[::-1][last] / WHOLE
    return OverTime(moments, queue, free, np.where(queue > 0, free, 0.0))


def _log(episode: Episode) -> RunLog:
    if episode.runs is None:
        raise TrimtabError(
            f"the episode of {episode.policy} has no log of who ran where; run it again with record_runs=True"
        )
    return episode.runs


# --- the figure -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Clock:
    """The time axis that all panels share."""

    origin_ms: int
    end_ms: int
    unit: str
    unit_ms: int

    def at(self, moment_ms: Integers) -> Floats:
        return (moment_ms - self.origin_ms) / self.unit_ms

    @property
    def length(self) -> float:
        return (self.end_ms - self.origin_ms) / self.unit_ms


@dataclass(frozen=True)
class Colours:
    """Of the two lower panels."""

    queue: str
    free: str
    stranded: str


LIGHT = Colours(queue="#0b66ad", free="#b9c3cc", stranded="#c22f2a")
DARK = Colours(queue="#62b4f2", free="#54606b", stranded="#f5706a")

ABOVE, BETWEEN_PANELS, BETWEEN_BLOCKS, BELOW = 0.5, 0.32, 0.72, 0.58
SMALL_PANEL = 0.85
LEFT, WIDTH = 0.075, 0.905
FACTS_LINE = 0.22
"""More above every block where a name is too long to have the facts beside it."""
LETTERS_BESIDE_FACTS = 22


def episodes_figure(episodes: Sequence[Episode], *, dark: bool = False) -> Figure:
    """A block of three panels for each policy, all on the same axes."""
    if not episodes:
        raise TrimtabError("no episodes to draw; run at least one policy first")
    paper, colours = paper_of(dark=dark), DARK if dark else LIGHT
    clock = _clock(episodes)
    rows = _row_count(episodes[0])
    lanes_inches = float(np.clip(0.062 * rows, 1.2, 4.2))
    beside = max(len(episode.policy) for episode in episodes) <= LETTERS_BESIDE_FACTS
    block = lanes_inches + 2 * (BETWEEN_PANELS + SMALL_PANEL) + (0 if beside else FACTS_LINE)
    height = ABOVE + len(episodes) * block + (len(episodes) - 1) * BETWEEN_BLOCKS + BELOW
    figure = Figure((WIDTH_INCHES, height), dpi=DOTS_PER_INCH, facecolor=paper.page)
    courses = [over_time(episode) for episode in episodes]
    longest = max(int(course.waiting.max()) for course in courses)
    for place, (episode, course) in enumerate(zip(episodes, courses, strict=True)):
        top = height - ABOVE - place * (block + BETWEEN_BLOCKS) - (0 if beside else FACTS_LINE)
        panels = []
        for inches in (lanes_inches, SMALL_PANEL, SMALL_PANEL):
            panels.append(figure.add_axes((LEFT, (top - inches) / height, WIDTH, inches / height)))
            top -= inches + BETWEEN_PANELS
        _draw_gpus(panels[0], episode, clock, paper)
        _draw_queue(panels[1], course, clock, colours, longest)
        _draw_free(panels[2], course, clock, colours, episode.total_gpus)
        _dress(panels, clock, paper, last=place == len(episodes) - 1)
        _write_title(panels[0], episode, paper, beside=beside)
    return figure


def _clock(episodes: Sequence[Episode]) -> Clock:
    """Minutes up to 3 hours, hours up to 4 days, then days."""
    origin_ms = min(int(e.arrival_ms.min()) for e in episodes)
    end_ms = max(int(e.completion_ms.max()) for e in episodes)
    span_ms = end_ms - origin_ms
    if span_ms < 3 * 3_600_000:
        return Clock(origin_ms, end_ms, "min", 60_000)
    return Clock(origin_ms, end_ms, *(("h", 3_600_000) if span_ms < 4 * 86_400_000 else ("days", 86_400_000)))


def _row_count(episode: Episode) -> int:
    return episode.total_gpus if episode.total_gpus <= MOST_LANES else len(episode.machine_names)


def _draw_gpus(axes: Axes, episode: Episode, clock: Clock, paper: Paper) -> None:
    axes.set_facecolor(paper.idle)
    if episode.total_gpus <= MOST_LANES:
        _draw_lanes(axes, episode, clock)
        _mark_machines(axes, episode, paper)
    else:
        _draw_machines(axes, episode, clock, paper)
    axes.set_ylim(_row_count(episode), 0)


def _draw_lanes(axes: Axes, episode: Episode, clock: Clock) -> None:
    lanes = lanes_of(episode)
    colours = to_rgba_array(job_colours(len(episode.arrival_ms)))
    left, right = clock.at(lanes.start_ms), clock.at(lanes.end_ms)
    top = lanes.lane + lanes.top
    bottom = top + lanes.height
    corners = np.stack(
        [np.stack([left, right, right, left], axis=1), np.stack([top, top, bottom, bottom], axis=1)], axis=2
    )
    # Not smoothed: edges of lanes lie between pixels, and smoothing would draw a pale line along each.
    stays = PolyCollection(
        list(corners), facecolors=colours[lanes.job], linewidths=0, zorder=2, antialiaseds=False
    )
    stays.set_rasterized(len(lanes.job) > MOST_SHAPES_IN_SVG)
    axes.add_collection(stays, autolim=False)


def _mark_machines(axes: Axes, episode: Episode, paper: Paper) -> None:
    """A line between machines, and the names of as many as there is room for."""
    first = np.cumsum(episode.machine_gpus) - episode.machine_gpus
    for lane in first[1:]:
        axes.axhline(lane, color=paper.page, linewidth=1.2, zorder=2.5)
    step = -(-len(first) // 14)
    names = [episode.machine_names[place][:10] for place in range(0, len(first), step)]
    middles = (first + episode.machine_gpus / 2)[::step]
    axes.yaxis.set_major_locator(FixedLocator(middles.tolist()))
    axes.yaxis.set_major_formatter(FixedFormatter(names))


def _draw_machines(axes: Axes, episode: Episode, clock: Clock, paper: Paper) -> None:
    """Of a large cluster: one row for each machine, darker where more of its GPUs are held."""
    log = _log(episode)
    scale = TIME_BINS / max(clock.end_ms - clock.origin_ms, 1)
    # What is held from the middle of the bin where a stay begins: a stay shorter than a bin is not seen.
    begin = np.round((log.start_ms - clock.origin_ms) * scale).astype(np.int64)
    end = np.round((log.end_ms - clock.origin_ms) * scale).astype(np.int64)
    change = np.zeros((len(episode.machine_names), TIME_BINS + 1))
    np.add.at(change, (log.machine, begin), log.milli)
    np.add.at(change, (log.machine, end), -log.milli)
    held = np.cumsum(change, axis=1)[:, :TIME_BINS] / WHOLE / episode.machine_gpus[:, None]
    shades = LinearSegmentedColormap.from_list("held", [paper.idle, "#0b66ad"])
    axes.imshow(
        held, aspect="auto", cmap=shades, vmin=0, vmax=1, interpolation="nearest",
        extent=(0, clock.length, len(episode.machine_names), 0),
    )  # fmt: skip
    axes.yaxis.set_major_locator(MaxNLocator(6, integer=True))


def _draw_queue(axes: Axes, course: OverTime, clock: Clock, colours: Colours, longest: int) -> None:
    x = clock.at(course.moment_ms)
    axes.fill_between(x, 0, course.waiting, step="post", color=colours.queue, alpha=0.25, linewidth=0)
    axes.plot(x, course.waiting, drawstyle="steps-post", color=colours.queue, linewidth=1.1)
    axes.set_ylim(0, 1.05 * max(longest, 1))
    axes.yaxis.set_major_locator(MaxNLocator(3, integer=True))
    axes.set_title("jobs waiting", loc="left")


def _draw_free(axes: Axes, course: OverTime, clock: Clock, colours: Colours, gpus: int) -> None:
    x = clock.at(course.moment_ms)
    axes.fill_between(x, 0, course.free, step="post", color=colours.free, linewidth=0, label="free")
    axes.fill_between(
        x, 0, course.stranded, step="post", color=colours.stranded, linewidth=0, label="free while jobs wait"
    )
    axes.set_ylim(0, gpus)
    axes.yaxis.set_major_locator(MaxNLocator(3, integer=True))
    axes.set_title("GPUs free", loc="left")


def _dress(panels: Sequence[Axes], clock: Clock, paper: Paper, *, last: bool) -> None:
    for place, axes in enumerate(panels):
        axes.set_xlim(0, clock.length)
        axes.spines[:].set_visible(False)
        axes.tick_params(colors=paper.muted, length=0, labelsize=9, labelbottom=last and place == 2)
        axes.set_title(axes.get_title("left"), loc="left", color=paper.muted, fontsize=10, pad=4)
        if place:
            axes.set_facecolor(paper.page)
            axes.grid(color=paper.line, linewidth=0.6)
            axes.set_axisbelow(True)
    handles, labels = panels[2].get_legend_handles_labels()
    panels[2].legend(
        handles, labels, loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0, borderpad=0.15, ncols=2,
        frameon=False, labelcolor=paper.muted, fontsize=9, handlelength=1.0, handletextpad=0.45,
    )  # fmt: skip
    if last:
        panels[2].set_xlabel(f"time since the first arrival ({clock.unit})", color=paper.muted, fontsize=10.5)


def _write_title(axes: Axes, episode: Episode, paper: Paper, *, beside: bool) -> None:
    """The policy and what came of it, beside the name or, where a name is long, below."""
    metrics = episode.metrics()
    rise = 8 if beside else 8 + 72 * FACTS_LINE
    room = 72 * WIDTH_INCHES * WIDTH
    name = panel_title(axes, episode.policy, paper, rise=rise, room=room)
    axes.annotate(
        f"mean completion time {metrics['mean_jct_min']:,.0f} min · fee ${metrics['mean_fee']:,.2f} · "
        f"{100 * metrics['utilisation']:.0f} % of GPU time held · "
        f"{100 * metrics['fragmentation']:.0f} % free while jobs wait",
        (1, 0) if beside else (0, 1),
        (10, 1) if beside else (0, 8),
        xycoords=name if beside else "axes fraction",
        textcoords="offset points",
        va="bottom",
        color=paper.muted,
        fontsize=11,
    )
