"""GPU scheduling in a report: how long jobs took and what they cost, who waited, and who held which GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.benchmark.report.content import Curve, CurvesSection, GanttPanel, GanttSection, Section
from trimtab.benchmark.report.over_time import shares_below
from trimtab.core.errors import TrimtabError
from trimtab.gpu_scheduling.episode import Episode, RunLog, jobs_in_system

__all__ = ["gpu_facts", "gpu_sections"]

MOST_STAYS = 40_000
"""Of one policy, a stay on one GPU each: about 0.6 MB of page."""
MOST_LANES = 520
"""GPUs in a chart: of larger clusters the first machines are shown."""
MOST_MOMENTS = 2000
"""Of one curve over time."""


def gpu_sections(episodes: Sequence[Episode], *, most_stays: int = MOST_STAYS) -> list[Section]:
    """The charts of a report, from one or more episodes per policy.

    Completion times and fees are pooled over all episodes. The charts over time show the first episode of
    each policy; these must be of the same jobs.
    """
    if not episodes:
        return []
    shown = _first_of_each_policy(episodes)
    origin_ms = min(int(episode.arrival_ms.min()) for episode in shown)
    sections: list[Section] = [
        _completion_times(episodes, shown),
        _jobs_over_time(shown, origin_ms),
        _fees(shown, origin_ms),
    ]
    logs = [(episode, episode.runs) for episode in shown if episode.runs is not None]
    if logs:
        sections.append(_machines(logs, origin_ms, most_stays))
    return sections


def gpu_facts(episodes: Sequence[Episode]) -> dict[str, str]:
    """What was simulated, in a few facts."""
    if not episodes:
        return {}
    shown = _first_of_each_policy(episodes)
    first = shown[0]
    seeds = sorted({episode.seed for episode in episodes})
    days = first.makespan_ms / 86_400_000
    return {
        "Jobs": f"{len(first.arrival_ms):,}",
        "Machines": f"{len(first.machine_names):,}",
        "GPUs": f"{first.total_gpus:,}",
        "Policies": f"{len(shown):,}",
        "Episodes": f"{len(episodes):,}",
        "Seeds": f"{len(seeds)} from {seeds[0]} to {seeds[-1]}"
        if len(seeds) > 6
        else ", ".join(map(str, seeds)),
        "Days of the first episode": f"{days:.1f}",
        "Decisions": f"{sum(episode.decisions for episode in episodes):,}",
        "Events": f"{sum(episode.events for episode in episodes):,}",
    }


def _first_of_each_policy(episodes: Sequence[Episode]) -> list[Episode]:
    shown = list({episode.policy: episode for episode in reversed(episodes)}.values())[::-1]
    for episode in shown[1:]:
        if not np.array_equal(episode.arrival_ms, shown[0].arrival_ms):
            raise TrimtabError(
                f"the episodes of {shown[0].policy} and {episode.policy} are of different jobs; "
                "run every policy on the same workload"
            )
    return shown


# --- curves -----------------------------------------------------------------------------------


def _completion_times(episodes: Sequence[Episode], shown: Sequence[Episode]) -> CurvesSection:
    curves = []
    for first in shown:
        pooled = np.concatenate([e.jct_ms for e in episodes if e.policy == first.policy])
        shares = shares_below(first.policy, pooled / 1000)
        curves.append(Curve(first.policy, shares.x, shares.y, job_x=np.maximum(first.jct_ms, 1)))
    return CurvesSection(
        key="completion-times",
        heading="Job completion times",
        text="Share of jobs that are complete within a time, from arrival to end, over all episodes. To the "
        "right every step is a tenfold. A line further up and to the left is better.",
        x_label="time from arrival to completion",
        y_label="jobs complete",
        curves=curves,
        y_percent=True,
        x_log=True,
    )


def _jobs_over_time(shown: Sequence[Episode], origin_ms: int) -> CurvesSection:
    curves = []
    for episode in shown:
        moments, level = _thinned(*jobs_in_system(episode))
        curves.append(Curve(episode.policy, moments - origin_ms, level.astype(np.float64)))
    return CurvesSection(
        key="jobs-in-system",
        heading="Jobs in the system",
        text="Jobs that have arrived and are not complete, over time. Lower is better: the area under a line "
        "is the total time jobs spend waiting and running.",
        x_label="time since the first arrival",
        y_label="unfinished jobs",
        curves=curves,
        on_the_clock=True,
    )


def _thinned(moments: NDArray[np.int64], level: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """A step function of many steps at fewer of its moments, the last among them."""
    if len(moments) <= MOST_MOMENTS:
        return moments, level
    kept = np.unique(np.linspace(0, len(moments) - 1, MOST_MOMENTS).round().astype(np.int64))
    return moments[kept], level[kept]


def _fees(shown: Sequence[Episode], origin_ms: int) -> CurvesSection:
    """Dollars so far over time: what is held is paid for, whoever waits."""
    curves = []
    for episode in shown:
        order = np.argsort(episode.completion_ms, kind="stable")
        spent = np.cumsum(episode.fee[order])
        moments, level = _thinned(episode.completion_ms[order] - origin_ms, spent)
        curves.append(Curve(episode.policy, moments, level))
    return CurvesSection(
        key="fees",
        heading="Fees so far",
        text="Dollars for the GPUs that complete jobs held, added up as they complete, in the first episode "
        "of each policy. Waiting costs nothing here; slow machines, crowded ones and work done again do.",
        x_label="time since the first arrival",
        y_label="dollars",
        curves=curves,
        on_the_clock=True,
    )


# --- machines ---------------------------------------------------------------------------------


def _machines(logs: Sequence[tuple[Episode, RunLog]], origin_ms: int, most_stays: int) -> GanttSection:
    first = logs[0][0]
    machines = int(np.searchsorted(np.cumsum(first.machine_gpus), MOST_LANES, side="right"))
    machines = max(1, min(machines, len(first.machine_names)))
    lanes = [_lanes(episode, log, machines) for episode, log in logs]
    full_at_ms = [
        int(np.sort(part["start"])[most_stays]) for part in lanes if len(part["start"]) > most_stays
    ]
    last_ms = max(int(episode.completion_ms.max()) for episode, _ in logs)
    end_ms = min(full_at_ms, default=last_ms)
    text = (
        "Every GPU is a row, machine after machine, and every stay of a job on it is coloured by the job; a "
        "job on several GPUs has several rows, and shares of one GPU lie over each other. A job that was "
        "stopped and started again changes its shade. All charts show the same jobs on the same time axis."
    )
    if full_at_ms:
        text += (
            f" The run is long: stays that begin after {(end_ms - origin_ms) / 3_600_000:.1f} h are left out."
        )
    if machines < len(first.machine_names):
        text += f" Of {len(first.machine_names):,} machines the first {machines:,} are shown."
    return GanttSection(
        key="machines",
        heading="Who held which GPU, and when",
        text=text,
        row_word="GPU",
        job_names=[f"{gpus:g} GPU{'' if gpus == 1 else 's'}" for gpus in first.gpus],
        arrival_ms=first.arrival_ms - origin_ms,
        wave_names=first.machine_names,
        end_ms=end_ms - origin_ms,
        panels=[
            _panel(episode, part, origin_ms, end_ms) for (episode, _), part in zip(logs, lanes, strict=True)
        ],
        stage_word="stopped before",
        wave_word="machine",
        unit="min",
    )


def _lanes(episode: Episode, log: RunLog, machines: int) -> dict[str, NDArray[np.int64]]:
    """An entry for each GPU of each stay."""
    first_gpu = np.cumsum(episode.machine_gpus) - episode.machine_gpus
    stay, gpu = np.nonzero((log.gpu_mask[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1))
    kept = log.machine[stay] < machines
    stay, gpu = stay[kept], gpu[kept]
    return {
        "row": first_gpu[log.machine[stay]] + gpu,
        "job": log.job[stay],
        "machine": log.machine[stay],
        "stops": _stops_before(log)[stay],
        "start": log.start_ms[stay],
        "end": log.end_ms[stay],
    }


def _stops_before(log: RunLog) -> NDArray[np.int64]:
    """How often the job of each stay was stopped before it."""
    pairs = np.stack([log.job, log.start_ms], axis=1)
    starts, same = np.unique(pairs, axis=0, return_inverse=True)
    begins = np.flatnonzero(np.append(True, np.diff(starts[:, 0]) != 0))
    number = np.arange(len(starts)) - np.repeat(begins, np.diff(np.append(begins, len(starts))))
    return number[same.ravel()]


def _panel(episode: Episode, part: dict[str, NDArray[np.int64]], origin_ms: int, end_ms: int) -> GanttPanel:
    kept = part["start"] <= end_ms
    return GanttPanel(
        policy=episode.policy,
        row_count=int(part["row"].max()) + 1 if len(part["row"]) else episode.total_gpus,
        job=part["job"][kept],
        stage=part["stops"][kept],
        row=part["row"][kept],
        start_ms=part["start"][kept] - origin_ms,
        end_ms=part["end"][kept] - origin_ms,
        wave=part["machine"][kept],
        completion_ms=episode.completion_ms - origin_ms,
    )
