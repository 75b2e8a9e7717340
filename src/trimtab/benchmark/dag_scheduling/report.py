"""DAG scheduling in a report: how long jobs took, how many waited, and who ran what when."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trimtab.benchmark.report.content import (
    Curve,
    CurvesSection,
    GanttPanel,
    GanttSection,
    Section,
)
from trimtab.core.errors import TrimtabError
from trimtab.dag_scheduling.episode import Episode, TaskLog, jobs_in_system
from trimtab.dag_scheduling.workload.profile import WAVE_NAMES

__all__ = ["dag_facts", "dag_sections"]

MOST_TASKS = 40_000  # of one policy: about 0.5 MB of page


def dag_sections(episodes: Sequence[Episode], *, most_tasks: int = MOST_TASKS) -> list[Section]:
    """The charts of a report, from one or more episodes per policy.

    Completion times are pooled over all episodes. The charts over time show the first episode of
    each policy; these must be of the same jobs. Tasks are shown up to the moment where the first
    policy has started `most_tasks` of them.
    """
    if not episodes:
        return []
    shown = _first_of_each_policy(episodes)
    origin_ms = min(int(episode.arrival_ms.min()) for episode in shown)
    sections: list[Section] = [
        _completion_times(episodes, shown),
        _jobs_over_time(shown, origin_ms),
    ]
    logs = [(episode, episode.tasks) for episode in shown if episode.tasks is not None]
    if logs:
        sections.append(_gantt(logs, origin_ms, most_tasks))
    return sections


def dag_facts(episodes: Sequence[Episode]) -> dict[str, str]:
    """What was simulated, in a few facts."""
    if not episodes:
        return {}
    shown = _first_of_each_policy(episodes)
    facts = {
        "Jobs": f"{len(shown[0].job_names):,}",
        "Executors": f"{shown[0].executor_count:,}",
        "Policies": f"{len(shown):,}",
        "Episodes": f"{len(episodes):,}",
        "Seeds": _list_of_numbers(sorted({episode.seed for episode in episodes})),
        "Decisions": f"{sum(episode.decisions for episode in episodes):,}",
        "Events": f"{sum(episode.events for episode in episodes):,}",
    }
    if shown[0].tasks is not None:
        facts["Tasks per policy"] = f"{len(shown[0].tasks.job):,}"
    return facts


def _list_of_numbers(numbers: Sequence[int]) -> str:
    if len(numbers) > 6:
        return f"{len(numbers)} from {numbers[0]} to {numbers[-1]}"
    return ", ".join(map(str, numbers))


def _first_of_each_policy(episodes: Sequence[Episode]) -> list[Episode]:
    shown = list({episode.policy: episode for episode in reversed(episodes)}.values())[::-1]
    for episode in shown[1:]:
        if episode.job_names != shown[0].job_names or not np.array_equal(
            episode.arrival_ms, shown[0].arrival_ms
        ):
            raise TrimtabError(
                f"the episodes of {shown[0].policy} and {episode.policy} are of different jobs; "
                "run every policy on the same workload"
            )
    return shown


def _completion_times(episodes: Sequence[Episode], shown: Sequence[Episode]) -> CurvesSection:
    pooled = {
        first.policy: np.sort(np.concatenate([e.jct_ms for e in episodes if e.policy == first.policy]))
        for first in shown
    }
    curves = [
        Curve(
            first.policy,
            np.concatenate([[0], pooled[first.policy]]),
            np.arange(len(pooled[first.policy]) + 1) / len(pooled[first.policy]),
            job_x=first.jct_ms,
        )
        for first in shown
    ]
    return CurvesSection(
        key="completion-times",
        heading="Job completion times",
        text="Share of jobs that are complete within a time, from arrival to last task. "
        "A line further up and to the left is better.",
        x_label="time from arrival to completion",
        y_label="jobs complete",
        curves=curves,
        y_percent=True,
    )


def _jobs_over_time(shown: Sequence[Episode], origin_ms: int) -> CurvesSection:
    curves = []
    for episode in shown:
        moments, level = jobs_in_system(episode)
        curves.append(Curve(episode.policy, moments - origin_ms, level.astype(np.float64)))
    return CurvesSection(
        key="jobs-in-system",
        heading="Jobs in the system",
        text="Jobs that have arrived and are not complete, over time. Lower is better: the area "
        "under a line is the total time jobs spend waiting and running.",
        x_label="time since the first arrival",
        y_label="unfinished jobs",
        curves=curves,
        on_the_clock=True,
    )


def _gantt(logs: Sequence[tuple[Episode, TaskLog]], origin_ms: int, most_tasks: int) -> GanttSection:
    full_at_ms = [int(log.start_ms[most_tasks]) for _, log in logs if len(log.job) > most_tasks]
    last_ms = max(int(episode.completion_ms.max()) for episode, _ in logs)
    end_ms = min(full_at_ms, default=last_ms)
    text = (
        "Every task on every executor, coloured by its job; stages of a job alternate in shade. "
        "All charts show the same jobs on the same time axis; a triangle marks the completion of a "
        "job."
    )
    if full_at_ms:
        text += f" The run is long: tasks that start after {_clock(end_ms - origin_ms)} are left out."
    first = logs[0][0]
    return GanttSection(
        key="gantt",
        heading="Who ran what, and when",
        text=text,
        row_word="executor",
        job_names=first.job_names,
        arrival_ms=first.arrival_ms - origin_ms,
        wave_names=WAVE_NAMES,
        end_ms=end_ms - origin_ms,
        panels=[_panel(episode, log, origin_ms, end_ms) for episode, log in logs],
    )


def _panel(episode: Episode, log: TaskLog, origin_ms: int, end_ms: int) -> GanttPanel:
    kept: NDArray[np.bool_] = log.start_ms <= end_ms
    return GanttPanel(
        policy=episode.policy,
        row_count=episode.executor_count,
        job=log.job[kept],
        stage=log.stage[kept],
        row=log.executor[kept],
        start_ms=log.start_ms[kept] - origin_ms,
        end_ms=log.end_ms[kept] - origin_ms,
        wave=log.wave[kept].astype(np.int64),
        completion_ms=episode.completion_ms - origin_ms,
    )


def _clock(milliseconds: int) -> str:
    seconds = milliseconds // 1000
    return f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
