"""Pictures of DAG scheduling: who worked for which job and when, and how long jobs took.

Every function takes episodes of the same workload under different policies. A job has one colour in
all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgba_array
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, PercentFormatter

from trimtab.core.colours import job_colours, policy_styles
from trimtab.core.errors import TrimtabError
from trimtab.dag_scheduling.episode import Episode, TaskLog, jobs_in_system
from trimtab.figures import (
    DOTS_PER_INCH,
    WIDTH_INCHES,
    Paper,
    legend_above,
    line_figure,
    panel_title,
    paper_of,
    save_figure,
)

__all__ = [
    "gantt",
    "gantt_figure",
    "jct_distribution",
    "jct_distribution_figure",
    "jobs_over_time",
    "jobs_over_time_figure",
]

# An SVG of 5000 rectangles is about 1 MB; beyond that the tasks are put in as a picture.
MOST_SHAPES_IN_SVG = 5000


def gantt(episodes: Sequence[Episode], path: str | Path, *, dark: bool = False) -> None:
    """Write a Gantt chart, one panel per policy, as PNG or SVG by the suffix of `path`."""
    save_figure(gantt_figure(episodes, dark=dark), path)


def jct_distribution(episodes: Sequence[Episode], path: str | Path, *, dark: bool = False) -> None:
    """Write the share of jobs that finish within each time, a line per policy."""
    save_figure(jct_distribution_figure(episodes, dark=dark), path)


def jobs_over_time(episodes: Sequence[Episode], path: str | Path, *, dark: bool = False) -> None:
    """Write the number of unfinished jobs over time, a line per policy."""
    save_figure(jobs_over_time_figure(episodes, dark=dark), path)


def gantt_figure(episodes: Sequence[Episode], *, dark: bool = False) -> Figure:
    """Executors as rows, tasks coloured by job, a triangle where each job is complete."""
    logs = [_tasks_of(episode) for episode in _some(episodes)]
    paper = paper_of(dark=dark)
    panel_inches = float(np.clip(0.06 * max(e.executor_count for e in episodes), 1.1, 3.0))
    above, between, below = 0.55, 0.62, 0.62
    height = above + len(episodes) * panel_inches + (len(episodes) - 1) * between + below
    figure = Figure((WIDTH_INCHES, height), dpi=DOTS_PER_INCH, facecolor=paper.page)
    origin_ms = min(int(e.arrival_ms.min()) for e in episodes)
    end_ms = max(int(e.completion_ms.max()) for e in episodes)
    unit, unit_ms = _time_unit(end_ms - origin_ms)
    colours = to_rgba_array(job_colours(max(len(e.job_names) for e in episodes)))
    for place, (episode, log) in enumerate(zip(episodes, logs, strict=True)):
        bottom = height - above - panel_inches - place * (panel_inches + between)
        axes = figure.add_axes((0.062, bottom / height, 0.92, panel_inches / height))
        _draw_tasks(axes, log, colours, origin_ms=origin_ms, unit_ms=unit_ms)
        _draw_completions(axes, episode, colours, origin_ms=origin_ms, unit_ms=unit_ms)
        _dress_panel(axes, episode, paper)
        axes.set_xlim(0, (end_ms - origin_ms) / unit_ms)
        if place < len(episodes) - 1:
            axes.tick_params(labelbottom=False)
        else:
            axes.set_xlabel(f"time since the first arrival ({unit})", color=paper.muted, fontsize=11)
    return figure


def jct_distribution_figure(episodes: Sequence[Episode], *, dark: bool = False) -> Figure:
    """An empirical distribution per policy, over all its episodes."""
    pooled: dict[str, list[np.ndarray]] = {}
    for episode in _some(episodes):
        pooled.setdefault(episode.policy, []).append(episode.jct_ms)
    jct_ms = {policy: np.sort(np.concatenate(parts)) for policy, parts in pooled.items()}
    longest_ms = max(int(times[-1]) for times in jct_ms.values())
    unit, unit_ms = _time_unit(longest_ms)
    figure, axes, paper = line_figure(dark=dark)
    styles = policy_styles(list(jct_ms), dark=dark)
    for policy, times in jct_ms.items():
        share = np.append(np.arange(len(times) + 1) / len(times), 1)
        x = np.concatenate([[0], times, [longest_ms]]) / unit_ms
        _draw_steps(axes, x, share, policy, styles)
    axes.set_ylim(0, 1.02)
    axes.set_xlim(left=0)
    axes.yaxis.set_major_formatter(PercentFormatter(xmax=1))
    axes.set_ylabel("jobs complete within this time", color=paper.muted, fontsize=11)
    axes.set_xlabel(f"job completion time ({unit})", color=paper.muted, fontsize=11)
    legend_above(axes, paper)
    return figure


def jobs_over_time_figure(episodes: Sequence[Episode], *, dark: bool = False) -> Figure:
    """A step line per policy; the lower, the sooner jobs leave."""
    origin_ms = min(int(e.arrival_ms.min()) for e in _some(episodes))
    end_ms = max(int(e.completion_ms.max()) for e in episodes)
    unit, unit_ms = _time_unit(end_ms - origin_ms)
    figure, axes, paper = line_figure(dark=dark)
    styles = policy_styles([e.policy for e in episodes], dark=dark)
    for episode in episodes:
        moments, level = jobs_in_system(episode)
        _draw_steps(axes, (moments - origin_ms) / unit_ms, level, episode.policy, styles)
    axes.set_ylim(bottom=0)
    axes.set_xlim(0, (end_ms - origin_ms) / unit_ms)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylabel("jobs in the system", color=paper.muted, fontsize=11)
    axes.set_xlabel(f"time since the first arrival ({unit})", color=paper.muted, fontsize=11)
    legend_above(axes, paper)
    return figure


def _some(episodes: Sequence[Episode]) -> Sequence[Episode]:
    if not episodes:
        raise TrimtabError("no episodes to draw; run at least one policy first")
    return episodes


def _tasks_of(episode: Episode) -> TaskLog:
    if episode.tasks is None:
        raise TrimtabError(
            f"the episode of {episode.policy} has no task log; run it again with the log turned on"
        )
    return episode.tasks


def _time_unit(span_ms: int) -> tuple[str, int]:
    """Seconds up to 3 minutes, minutes up to 3 hours, then hours: 3 to 180 of the unit."""
    if span_ms < 180_000:
        return "s", 1000
    return ("min", 60_000) if span_ms < 3 * 3_600_000 else ("h", 3_600_000)


def _draw_tasks(axes: Axes, log: TaskLog, colours: np.ndarray, *, origin_ms: int, unit_ms: int) -> None:
    """All tasks of a panel in one collection: 22,000 rectangles take about a second to write."""
    left = (log.start_ms - origin_ms) / unit_ms
    right = (log.end_ms - origin_ms) / unit_ms
    top, bottom = log.executor - 0.46, log.executor + 0.46
    corners = np.stack(
        [
            np.stack([left, right, right, left], axis=1),
            np.stack([top, top, bottom, bottom], axis=1),
        ],
        axis=2,
    )
    tasks = PolyCollection(list(corners), facecolors=colours[log.job], linewidths=0, zorder=2)
    tasks.set_rasterized(len(log.job) > MOST_SHAPES_IN_SVG)
    axes.add_collection(tasks, autolim=False)


def _draw_completions(
    axes: Axes, episode: Episode, colours: np.ndarray, *, origin_ms: int, unit_ms: int
) -> None:
    axes.scatter(
        (episode.completion_ms - origin_ms) / unit_ms,
        np.full(len(episode.completion_ms), 1.035),
        transform=axes.get_xaxis_transform(),
        marker="v",
        s=34,
        c=colours[: len(episode.completion_ms)],
        linewidths=0,
        clip_on=False,
        zorder=3,
    )


def _dress_panel(axes: Axes, episode: Episode, paper: Paper) -> None:
    axes.set_facecolor(paper.idle)
    axes.set_ylim(episode.executor_count - 0.5, -0.5)
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.set_ylabel("executor", color=paper.muted, fontsize=11)
    axes.tick_params(colors=paper.muted, length=3, labelsize=10.5)
    axes.spines[:].set_visible(False)
    mean_s = float(episode.jct_ms.mean()) / 1000
    # A third of the width is for the fact beside it.
    room = 72 * WIDTH_INCHES * axes.get_position().width * 2 / 3
    name = panel_title(axes, episode.policy, paper, rise=17, room=room)
    axes.annotate(
        f"mean completion time {_seconds(mean_s)}",
        (1, 0),
        (10, 0),
        xycoords=name,
        textcoords="offset points",
        va="bottom",
        color=paper.muted,
        fontsize=12,
    )


def _seconds(seconds: float) -> str:
    return f"{seconds:,.1f} s" if seconds < 1000 else f"{seconds:,.0f} s"


def _draw_steps(
    axes: Axes,
    x: np.ndarray,
    y: np.ndarray,
    policy: str,
    styles: dict[str, tuple[str, tuple[float, ...]]],
) -> None:
    colour, dashes = styles[policy]
    line = Line2D(x, y, drawstyle="steps-post", color=colour, linewidth=1.9, label=policy)
    if dashes:
        line.set_dashes(dashes)
    axes.add_line(line)
    axes.autoscale_view()
