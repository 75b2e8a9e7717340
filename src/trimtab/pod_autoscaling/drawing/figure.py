"""The whole picture of a service under one or more policies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from trimtab.core.errors import TrimtabError
from trimtab.figures import save_figure, shortened
from trimtab.pod_autoscaling.drawing.marks import MarksOf, changes_of, marks_panel
from trimtab.pod_autoscaling.drawing.panels import PANELS
from trimtab.pod_autoscaling.episode import Episode
from trimtab.timelines import blocks_figure, check_times

__all__ = ["draw_episodes", "episodes_figure"]

MOST_LETTERS = 24


def draw_episodes(
    episodes: Sequence[Episode], path: str | Path, *, dark: bool = False, marks: MarksOf = changes_of
) -> None:
    """Write what happened under each policy, as PNG or SVG by the suffix of `path`."""
    save_figure(episodes_figure(episodes, dark=dark, marks=marks), path)


def episodes_figure(
    episodes: Sequence[Episode], *, dark: bool = False, marks: MarksOf = changes_of
) -> Figure:
    """A block of panels for each episode, up to three beside each other, on one time axis.

    `marks` gives the rows at the bottom: what was changed, and whatever else is known of an episode.
    """
    check_times(episodes)
    for episode in episodes:
        if episode.application != episodes[0].application:
            raise TrimtabError(
                f"the episodes of {episodes[0].policy} and {episode.policy} are of different services "
                f"({episodes[0].application} and {episode.application}); draw each service by itself"
            )
    return blocks_figure(
        episodes,
        [*PANELS, marks_panel(episodes, marks)],
        heading=_heading(episodes[0]),
        facts=_facts,
        dark=dark,
    )


def _heading(episode: Episode) -> str:
    day, minute = divmod(round(episode.start_s / 60), 1440)
    return (
        f"{shortened(episode.application, MOST_LETTERS)}, seed {episode.seed}, from day {day}, "
        f"{minute // 60:02d}:{minute % 60:02d}. "
        f"Red: more than {100 * episode.budget:g} % of the requests are late."
    )


def _facts(episode: Episode) -> list[str]:
    metrics = episode.metrics()
    cpu, memory = (100 * metrics[f"{name}_utilisation"] for name in ("cpu", "memory"))
    return [
        f"{_count(metrics['core_hours'])} core-h/day",
        f"{100 * metrics['late_share']:.2g} % late",
        f"{_count(metrics['memory_gib_hours'])} GiB-h/day",
        f"used: CPU {cpu:.0f} %, memory {memory:.0f} %",
    ]


def _count(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"
