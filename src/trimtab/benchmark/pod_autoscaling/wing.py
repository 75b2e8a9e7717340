"""Pod autoscaling as comparisons see it: what is held, and whether requests are in time with it."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from trimtab.benchmark.numbers import NOTHING, as_number, as_percent, measure, with_interval
from trimtab.benchmark.pod_autoscaling.answer import answer, as_share, keeps_budget
from trimtab.benchmark.pod_autoscaling.report import pod_facts, pod_sections
from trimtab.benchmark.report.content import ReportColumn
from trimtab.benchmark.suite import Column, Scenario, Wing
from trimtab.pod_autoscaling.application import Application
from trimtab.pod_autoscaling.episode import METRICS, Episode
from trimtab.pod_autoscaling.policies import POLICIES, make_policy
from trimtab.pod_autoscaling.problem import PodPolicy
from trimtab.pod_autoscaling.workload.applications import make_application
from trimtab.pod_autoscaling.workload.presets import TraceSettings, mean_rate_of
from trimtab.rates.traces import rate_told

if TYPE_CHECKING:
    from trimtab.benchmark.compare import Comparison, Row, ScenarioResult

__all__ = ["POD", "arriving_told", "scenario_ground"]


def columns(comparison: Comparison) -> list[Column]:
    """What is held and who is late first, side by side: fewer cores and more late requests is no gain."""
    return [
        Column("core-h/day", lambda row: with_interval(row.metrics["core_hours"], _short)),
        Column("late", lambda row: _late(row, comparison)),
        Column("cost", lambda row: as_number(row.metrics["cost"].value)),
        Column(f"× {comparison.baseline}", lambda row: with_interval(row.ratio, _two_digits)),
        Column("p99/limit", _p99_over_limit(comparison)),
        Column("failed", measure("failed_share", as_share)),
        Column("GiB-h/day", measure("memory_gib_hours", _short)),
        Column("CPU", measure("cpu_utilisation", as_percent)),
        Column("memory", measure("memory_utilisation", as_percent)),
        Column("kills", measure("kills", _short)),
        Column("changes", _changes),
    ]


def _late(row: Row, comparison: Comparison) -> str:
    """The share of late requests; marked where it is above the budget."""
    suite: Any = comparison.suite
    kept = keeps_budget(row, suite.deployment.objective.budget)
    return f"{as_share(row.metrics['late_share'].value)}{'' if kept else ' !'}"


def _p99_over_limit(comparison: Comparison) -> Callable[[Row], str]:
    """The limit is the application's, so what is divided is each episode's own."""
    shares = {
        id(row): [one.metrics()["latency_p99_s"] / one.slo_s for one in result.episodes[row.policy]]
        for result in comparison.results
        for row in result.rows
    }

    def told(row: Row) -> str:
        known = [share for share in shares[id(row)] if math.isfinite(share)]
        return f"{fmean(known):.2f}" if known else NOTHING

    return told


def _changes(row: Row) -> str:
    """Of the number of pods, and of their size."""
    return _short(row.metrics["replica_changes"].value + row.metrics["resizes"].value)


def _short(value: float) -> str:
    """Eleven columns fit into a terminal only if none is wide."""
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.1f}"


def _two_digits(value: float) -> str:
    return f"{value:.2f}"


def caption(comparison: Comparison, result: ScenarioResult) -> str:
    """What was played, in a line."""
    suite: Any = comparison.suite
    ground, deployment = result.scenario.workload, suite.deployment
    service = f"service {ground.application}" if ground.application else "unseen services"
    return (
        f"{comparison.name or 'comparison'}: {service}, {suite.hours:g} h of "
        f"{_traces_told(suite, result.scenario)} with {_rates_told(suite, result.scenario)} requests/s on "
        f"average, a decision every {deployment.interval_s} s, at most "
        f"{100 * deployment.objective.budget:g} % late (!), kills and changes per day, {suite.seeds} unseen "
        "seeds"
    )


def arriving_told(settings: TraceSettings, application: Application) -> str:
    """What arrives on average, and the cores that its work needs.

    >>> arriving_told(TraceSettings(mean_cores=6, most_rate=150), make_application("textbook"))
    '150 requests/s on average (work for 3 cores)'
    """
    rate = mean_rate_of(settings, application)
    return f"{rate_told(rate)} requests/s on average (work for {rate_told(rate * application.cpu_s)} cores)"


def _rates_told(suite: Any, scenario: Scenario) -> str:
    """Of whole traces; files have rates of their own, and services may differ from seed to seed."""
    rates = [
        mean_rate_of(suite.arriving(scenario, seed), suite.application(scenario, seed))
        for seed in suite.test_seeds()
    ]
    told = dict.fromkeys(rate_told(rate) for rate in (min(rates), max(rates)))
    return " to ".join(told)


def _traces_told(suite: Any, scenario: Scenario) -> str:
    """Those that are played: seeds take them in turn, and there may be fewer seeds than traces."""
    played = {suite.arriving(scenario, seed).name for seed in suite.test_seeds()}
    names = [name for name in scenario.workload.traces if name in played]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def scenario_ground(suite: Any, scenario: Scenario) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a tuned value depends on, as plain values; usual values are left out."""
    ground = scenario.workload
    workload: dict[str, Any] = {"application": ground.application}
    if ground.application:
        application = json.dumps(make_application(ground.application).model_dump(mode="json"), sort_keys=True)
        workload["digest"] = hashlib.sha256(application.encode()).hexdigest()[:16]
    workload |= {"traces": list(ground.traces), "hours": suite.hours, "start_factor": suite.start_factor}
    for name in ("mean_cores", "mean_rate", "most_rate"):
        if getattr(suite, name) is not None:
            workload[name] = getattr(suite, name)
    cluster = {
        "interval_s": suite.deployment.interval_s,
        **suite.deployment.model_dump(mode="json", exclude_defaults=True),
    }
    return workload, cluster


def uncompiled(policies: Sequence[PodPolicy]) -> list[PodPolicy]:
    """Rules are not compiled here; the engine alone is, by the first that plays."""
    from trimtab.pod_autoscaling.simulator.stepping import is_compiled

    return [] if is_compiled() else list(policies[:1])


def compile_engine(policies: Sequence[PodPolicy]) -> None:
    """Play a moment, so that the compiled engine lies on disk for everybody."""
    if policies:
        from trimtab.pod_autoscaling.simulator.simulator import compile_engine

        compile_engine()


def draw(episodes: Sequence[Episode], folder: Path) -> list[str]:
    """Rates, latency, what is held and used, and sizes over time."""
    from trimtab.pod_autoscaling.drawing import draw_episodes

    names = ["episodes.png", "episodes.svg"]
    for name in names:
        draw_episodes(episodes[:3], folder / name)
    return names


POD = Wing(
    name="pod",
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
        ReportColumn("core_hours", "Core-hours a day"),
        ReportColumn("late_share", "Late", "%"),
        ReportColumn("failed_share", "Failed", "%"),
        ReportColumn("memory_gib_hours", "GiB-hours a day"),
        ReportColumn("latency_p99_s", "99th percentile", "s"),
        ReportColumn("cpu_utilisation", "CPU used", "%", lower_is_better=False),
        ReportColumn("memory_utilisation", "Memory used", "%", lower_is_better=False),
        ReportColumn("kills", "Kills a day"),
    ),
    answer=answer,
    sections=pod_sections,
    facts=pod_facts,
    draw=draw,
)
