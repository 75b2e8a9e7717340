"""`trimtab simulate stream`: one streaming job under one autoscaler."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trimtab.cli.episode import EpisodeFlags
from trimtab.cli.terminal import (
    command_line,
    print_json,
    say_if_compiling,
    say_if_other_interval,
    table_of,
)

if TYPE_CHECKING:
    from trimtab.stream_autoscaling.episode import Episode

__all__ = ["simulate_stream"]

USUAL_JOB = "medium-1"


def simulate_stream(policy: str, flags: EpisodeFlags, draw: Path | None, *, json: bool) -> None:
    """Play one job for some days and tell how its records fared."""
    from trimtab.benchmark.stream_autoscaling.wing import STREAM, arriving_told
    from trimtab.stream_autoscaling.policies import make_policy
    from trimtab.stream_autoscaling.simulator.simulator import simulate
    from trimtab.stream_autoscaling.workload.jobs import make_job
    from trimtab.stream_autoscaling.workload.presets import draw_trace, mean_rate_of

    made = make_policy(policy)
    seed = flags.number()
    job = make_job(USUAL_JOB if flags.job is None else flags.job, seed=seed)
    deployment, arriving = flags.deployment(), flags.arriving()
    trace = draw_trace(arriving, job, seed=seed)
    say_if_other_interval(STREAM, [policy], deployment.interval_s)
    say_if_compiling(STREAM, [policy])
    episode = simulate(job, trace, made, deployment, seed=seed)
    if draw is not None:
        _draw(episode, draw, arriving.name)
    if json:
        print_json(
            {
                "policy": episode.policy,
                "seed": seed,
                "job": job.name,
                "trace": arriving.model_dump(mode="json"),
                "mean_rate": mean_rate_of(arriving, job),
                "deployment": deployment.model_dump(mode="json"),
                "intervals": len(episode.rewards),
                "metrics": {name: _known(value) for name, value in episode.metrics().items()},
                "picture": None if draw is None else str(draw),
            }
        )
        return
    _print(episode, f"{arriving.name} with {arriving_told(arriving, job)}", draw)


def _known(value: float) -> float | None:
    """JSON has no infinity, which the latency of no records is."""
    return value if math.isfinite(value) else None


def _draw(episode: Episode, path: Path, trace: str) -> None:
    if path.suffix.lower() != ".html":
        from trimtab.stream_autoscaling.drawing import draw_episodes

        draw_episodes([episode], path)
        return
    from trimtab.benchmark.report import Measured, ReportRow, ReportTable, write_report
    from trimtab.benchmark.stream_autoscaling.wing import STREAM

    metrics = episode.metrics()
    numbers: list[Any] = [
        Measured(metrics[column.key], metrics[column.key], metrics[column.key])
        if math.isfinite(metrics[column.key])
        else None
        for column in STREAM.report_columns
    ]
    write_report(
        path,
        title=f"{episode.policy} on {episode.job}",
        table=ReportTable(
            STREAM.report_columns, [ReportRow(episode.policy, numbers)], f"One episode of {trace}."
        ),
        sections=STREAM.sections([episode]),
        facts=STREAM.facts([episode]),
        notes=[],
        command=command_line(),
        provenance={"Job": episode.job, "Trace": trace},
    )


def _print(episode: Episode, trace: str, draw: Path | None) -> None:
    from trimtab.benchmark.numbers import NOTHING
    from trimtab.stream_autoscaling.episode import METRICS

    hours = len(episode.rewards) * episode.interval_s / 3600
    print(
        f"{episode.policy}: job {episode.job} with {len(episode.vertex_names)} vertices, {hours:g} h of "
        f"{trace}, seed {episode.seed}, {len(episode.rewards):,} decisions\n"
    )
    rows = [
        [name, f"{value:,.3f}" if math.isfinite(value) else NOTHING, METRICS[name]]
        for name, value in episode.metrics().items()
    ]
    print(table_of(["measure", "value", "meaning"], rows))
    if draw is not None:
        print(f"\npicture: {draw}")
