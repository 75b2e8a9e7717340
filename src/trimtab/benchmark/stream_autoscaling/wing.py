"""Stream autoscaling as comparisons see it: what an interval costs in latency, idle slots and restarts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trimtab.benchmark.numbers import as_number, as_percent, as_three_digits, measure, with_interval
from trimtab.benchmark.report.content import ReportColumn
from trimtab.benchmark.stream_autoscaling.answer import answer
from trimtab.benchmark.stream_autoscaling.report import stream_facts, stream_sections
from trimtab.benchmark.suite import Column, Scenario, Wing
from trimtab.rates.traces import rate_told
from trimtab.stream_autoscaling.episode import METRICS, Episode
from trimtab.stream_autoscaling.job import Job, narrowest
from trimtab.stream_autoscaling.policies import POLICIES, make_policy
from trimtab.stream_autoscaling.problem import StreamPolicy
from trimtab.stream_autoscaling.workload.jobs import make_job
from trimtab.stream_autoscaling.workload.presets import TraceSettings, mean_rate_of

if TYPE_CHECKING:
    from trimtab.benchmark.compare import Comparison, ScenarioResult

__all__ = ["STREAM", "arriving_told", "scenario_ground"]


def columns(comparison: Comparison) -> list[Column]:
    """Cost first, then what it is made of."""
    return [
        Column("cost", lambda row: with_interval(row.metrics["cost"], as_three_digits)),
        Column(f"× {comparison.baseline}", lambda row: with_interval(row.ratio, as_three_digits)),
        Column("late", measure("violation_share", as_percent)),
        Column("restarts/day", measure("rescales", as_number)),
        Column("slot-h/day", measure("slot_hours", as_number)),
        Column("mean, s", measure("latency_s", as_number)),
        Column("p95, s", measure("latency_p95_s", as_number)),
        Column("busy", measure("utilisation", as_percent)),
        Column("wins", lambda row: "—" if row.improvement is None else as_percent(row.improvement.value)),
    ]


def caption(comparison: Comparison, result: ScenarioResult) -> str:
    """What was played, in a line."""
    suite: Any = comparison.suite
    trace = suite.trace
    days = "a day" if trace.days == 1 else f"{trace.days} days"
    rate = arriving_told(trace, make_job(result.scenario.name))
    return (
        f"{comparison.name or 'comparison'}: job {result.scenario.name}, {days} of {trace.name} with {rate}, "
        f"a decision every {suite.deployment.interval_s} s, limit {suite.deployment.objective.slo_s:g} s, "
        f"{suite.seeds} unseen seeds"
    )


def arriving_told(trace: TraceSettings, job: Job) -> str:
    """What arrives on average, what is usual where it is something else, and whether it is too much.

    >>> arriving_told(TraceSettings(mean_rate=2.5), make_job("linear:3"))
    '2.5 records/s on average (usual for the job: 1,000)'
    """
    rate = mean_rate_of(trace, job)
    told, usual = rate_told(rate), rate_told(job.usual_rate)
    more = "" if told == usual else f" (usual for the job: {usual})"
    most, vertex = narrowest(job)
    if rate > most:
        more += f", though {vertex!r} manages {rate_told(most)} at its most parallelism"
    return f"{told} records/s on average{more}"


def scenario_ground(suite: Any, scenario: Scenario) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a tuned value depends on, as plain values; usual values are left out."""
    job = json.dumps(asdict(make_job(scenario.workload.name)), sort_keys=True)
    return (
        {
            "name": scenario.workload.name,
            "digest": hashlib.sha256(job.encode()).hexdigest()[:16],
            "trace": {
                "name": suite.trace.name,
                **suite.trace.model_dump(mode="json", exclude_defaults=True),
            },
        },
        {
            "interval_s": suite.deployment.interval_s,
            **suite.deployment.model_dump(mode="json", exclude_defaults=True),
        },
    )


def uncompiled(policies: Sequence[StreamPolicy]) -> list[StreamPolicy]:
    """Rules are not compiled here; the engine alone is, by the first that plays."""
    from trimtab.stream_autoscaling.simulator.stepping import is_compiled

    return [] if is_compiled() else list(policies[:1])


def compile_engine(policies: Sequence[StreamPolicy]) -> None:
    """Play a moment, so that the compiled engine lies on disk for everybody."""
    if policies:
        from trimtab.stream_autoscaling.simulator.simulator import compile_engine

        compile_engine()


def draw(episodes: Sequence[Episode], folder: Path) -> list[str]:
    """Rates, latency, slots and parallelism over time."""
    from trimtab.stream_autoscaling.drawing import draw_episodes

    names = ["episodes.png", "episodes.svg"]
    for name in names:
        draw_episodes(episodes[:3], folder / name)
    return names


STREAM = Wing(
    name="stream",
    question="Which autoscaler?",
    metrics=METRICS,
    measure="cost",
    make_policy=make_policy,
    policy_names=POLICIES.names,
    uncompiled=uncompiled,
    compile=compile_engine,
    ground=scenario_ground,
    caption=caption,
    columns=columns,
    report_columns=(
        ReportColumn("cost", "Cost"),
        ReportColumn("violation_share", "Too late", "%"),
        ReportColumn("rescales", "Restarts a day"),
        ReportColumn("slot_hours", "Slot-hours a day"),
        ReportColumn("latency_s", "Mean latency", "s"),
        ReportColumn("latency_p95_s", "95th percentile", "s"),
        ReportColumn("utilisation", "Busy", "%", lower_is_better=False),
    ),
    answer=answer,
    sections=stream_sections,
    facts=stream_facts,
    draw=draw,
)
