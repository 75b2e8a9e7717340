"""What happened at moments: a row of ticks for each kind, below the lines.

Whoever knows more about an episode than the episode itself (`guard_marks`, `drift_marks`, or `Marks` of one's
own) draws it with further rows: ``draw_episodes(..., marks=lambda one: [*changes_of(one), Marks(...)])``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from trimtab.control.drift import Drift, Seen
from trimtab.control.reasons import Reason, Step
from trimtab.core.errors import TrimtabError
from trimtab.pod_autoscaling.episode import Episode
from trimtab.pod_autoscaling.guarding import WORDS, Acted
from trimtab.pod_autoscaling.problem import CPU, MEMORY, REPLICAS
from trimtab.timelines import Look, Panel
from trimtab.timelines.lines import as_drawn

__all__ = ["Marks", "MarksOf", "changes_of", "drift_marks", "guard_marks", "marks_panel"]

ROW_INCHES = 0.17
# Half of a row's height, less a gap to the next.
REACH = 0.4
# As it was arranged: in these the policy did nothing wrong.
USUAL = (Reason.SHADOW, Reason.RESTING, Reason.OBSERVING)


@dataclass(frozen=True)
class Marks:
    """Moments of one kind, in seconds since midnight of the first day, as an episode's `start_s`.

    >>> Marks("drift", np.array([3600.0])).alarming
    False
    """

    name: str
    moments_s: NDArray[np.float64]
    alarming: bool = False
    """Drawn in the colour of violations."""


MarksOf: TypeAlias = Callable[[Episode], Sequence[Marks]]


def changes_of(episode: Episode) -> list[Marks]:
    """When the three numbers of the size were changed, and when pods ran out of memory."""
    begins_s = _begins_s(episode)
    changed = np.append(np.zeros((1, 3), bool), np.diff(episode.size, axis=0) != 0, axis=0)
    return [
        Marks("replicas", begins_s[changed[:, REPLICAS]]),
        Marks("pod CPU", begins_s[changed[:, CPU]]),
        Marks("pod memory", begins_s[changed[:, MEMORY]]),
        Marks("out of memory", begins_s[episode.kills > 0], alarming=True),
    ]


def guard_marks(episode: Episode, acted: Sequence[Acted], *, row: int = 0) -> list[Marks]:
    """When another than the policy acted, a row for every reason, and when its answer could not be used.

    `acted` is that of the `GuardedPolicy` that played the episode, as service `row` of those played at once.
    """
    begins_s = _begins_s(episode)
    if len(acted) < len(begins_s):
        raise TrimtabError(
            f"{episode.policy} has {len(begins_s)} intervals, the guard acted in {len(acted)}; draw the "
            "episode that it played last"
        )
    reasons = np.array([one.reasons[row] for one in acted[: len(begins_s)]])
    chosen, refused = reasons[:, Step.CHOOSE], reasons[:, Step.VALIDATE] != Reason.NONE
    found = [
        Marks(WORDS[reason], begins_s[chosen == reason], alarming=reason not in USUAL)
        for reason in map(Reason, np.unique(chosen).tolist())
        if reason not in (Reason.POLICY_ACTS, Reason.INVALID)
    ]
    if refused.any():
        found.append(Marks(WORDS[Reason.INVALID], begins_s[refused], alarming=True))
    return found


def drift_marks(episode: Episode, seen: Sequence[Seen]) -> list[Marks]:
    """When a `DriftWatch` warned and when it raised the alarm: at the ends of intervals, by their rewards."""
    said = np.array([one.drift for one in seen[: len(episode.rewards)]])
    ends_s = _begins_s(episode)[: len(said)] + episode.interval_s
    kinds = (("drift warning", Drift.WARN), ("drift alarm", Drift.ALARM))
    return [Marks(name, ends_s[said == one], alarming=one is Drift.ALARM) for name, one in kinds]


def _begins_s(episode: Episode) -> NDArray[np.float64]:
    return episode.start_s + episode.interval_s * np.arange(len(episode.rewards), dtype=np.float64)


def marks_panel(episodes: Sequence[Episode], marks: MarksOf) -> Panel[Episode]:
    """A panel with a row for every kind that any of the episodes has."""
    names = list(dict.fromkeys(one.name for episode in episodes for one in marks(episode)))

    def draw(axes: Axes, episode: Episode, look: Look) -> None:
        # Ticks closer than what is drawn as one are one tick.
        step_s = look.bin_size * episode.interval_s
        for one in marks(episode):
            steps = np.unique((one.moments_s - episode.start_s) // step_s)
            row = names.index(one.name)
            axes.vlines(
                (episode.start_s + step_s * steps) / 3600, row - REACH, row + REACH,
                color=look.limit if one.alarming else look.main, linewidth=0.9, zorder=3,
            )  # fmt: skip

    return Panel("changed", 0.08 + ROW_INCHES * len(names), draw, as_drawn, rows=names)
