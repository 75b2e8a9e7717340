"""DAG scheduling as comparisons see it: mean completion time, in seconds."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trimtab.benchmark.dag_scheduling.answer import answer
from trimtab.benchmark.dag_scheduling.report import dag_facts, dag_sections
from trimtab.benchmark.numbers import as_percent, as_three_digits, measure, with_interval
from trimtab.benchmark.report.content import ReportColumn
from trimtab.benchmark.suite import Column, Scenario, Wing
from trimtab.dag_scheduling.cluster import Cluster
from trimtab.dag_scheduling.episode import METRICS, Episode
from trimtab.dag_scheduling.heuristics import Rule
from trimtab.dag_scheduling.policies import POLICIES, DagPolicy, make_policy
from trimtab.dag_scheduling.simulator.simulator import is_compiled, simulate
from trimtab.dag_scheduling.workload import Profile, Workload
from trimtab.dag_scheduling.workload.presets import (
    TRAINING_SHARE,
    Source,
    WorkloadSettings,
    find_source,
)
from trimtab.dag_scheduling.workload.tiny import tiny_workload

if TYPE_CHECKING:
    from trimtab.benchmark.compare import Comparison, ScenarioResult

__all__ = ["DAG", "scenario_ground"]


def columns(comparison: Comparison) -> list[Column]:
    return [
        Column("mean JCT, s", lambda row: with_interval(row.metrics["mean_jct_s"])),
        Column(f"× {comparison.baseline}", lambda row: with_interval(row.ratio, as_three_digits)),
        Column("wins", lambda row: "—" if row.improvement is None else as_percent(row.improvement.value)),
        Column("p95 JCT, s", measure("p95_jct_s")),
        Column("slowdown", measure("mean_slowdown")),
        Column("makespan, s", measure("makespan_s")),
        Column("busy", measure("utilisation", as_percent)),
        Column("moving", measure("moving_share", as_percent)),
        Column("longest wait, s", measure("longest_wait_s")),
    ]


def caption(comparison: Comparison, result: ScenarioResult) -> str:
    """What was played, in a line."""
    suite: Any = comparison.suite
    workload = result.scenario.workload
    return (
        f"{comparison.name or 'comparison'}: {_jobs(workload, result.scenario.load)}"
        f"{', random memory demands' if workload.random_memory else ''}, "
        f"{suite.cluster.executors:,} executors, {suite.seeds} unseen seeds"
    )


def _jobs(workload: WorkloadSettings, load: float | None) -> str:
    if workload.arrivals == "trace":
        share = as_percent(1 - TRAINING_SHARE)
        return f"{workload.jobs:,} jobs in a row of the last {share} of {workload.name}"
    stream = "" if load is None else f" at load {load:g}"
    return f"{workload.jobs:,} {workload.name} jobs, {workload.arrivals} arrivals{stream}"


def scenario_ground(suite: Any, scenario: Scenario) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a tuned value depends on, as plain values.

    Usual values are left out, so a field that a later version adds leaves old entries valid; a
    digest of the jobs makes an entry invalid when its workload is recorded or imported anew.
    """
    workload = WorkloadSettings(**scenario.workload.model_dump())
    cluster = Cluster(**suite.cluster.model_dump(exclude={"objective"}))
    return (
        {
            "name": workload.name,
            "digest": _digest(find_source(workload.name)),
            **workload.model_dump(mode="json", exclude_defaults=True),
        },
        {"executors": cluster.executors, **cluster.model_dump(mode="json", exclude_defaults=True)},
    )


@lru_cache(maxsize=16)
def _digest(source: Source) -> str:
    profile = source if isinstance(source, Profile) else source.profile
    arrays = [profile.stage_offset, profile.tasks, profile.parent, profile.durations_ms]
    if isinstance(source, Workload):
        arrays += [source.template, source.arrival_ms]
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(array.astype("<i8").tobytes())
    return digest.hexdigest()[:16]


def compile_rules(rules: Sequence[Rule]) -> None:
    """Play each rule once on a toy, so that its compiled code lies on disk for everybody."""
    for rule in rules:
        simulate(tiny_workload("chain"), rule, Cluster(executors=2))


def uncompiled(policies: Sequence[DagPolicy]) -> list[Rule]:
    """One rule for each function that this version of the engine was not compiled with before.

    The settings of a rule are not compiled in.
    """
    kinds = {policy.function: policy for policy in policies if isinstance(policy, Rule)}
    return [rule for rule in kinds.values() if not is_compiled(rule)]


def draw(episodes: Sequence[Episode], folder: Path) -> list[str]:
    """Gantt charts."""
    from trimtab.dag_scheduling.drawing import gantt

    names = ["gantt.png", "gantt.svg"]
    for name in names:
        gantt(episodes, folder / name)
    return names


DAG = Wing(
    name="dag",
    question="Which scheduler?",
    metrics=METRICS,
    measure="mean_jct_s",
    make_policy=make_policy,
    policy_names=POLICIES.names,
    uncompiled=uncompiled,
    compile=compile_rules,
    ground=scenario_ground,
    caption=caption,
    columns=columns,
    report_columns=(
        ReportColumn("mean_jct_s", "Mean completion time", "s"),
        ReportColumn("p95_jct_s", "95th percentile", "s"),
        ReportColumn("mean_slowdown", "Mean slowdown", "×"),
        ReportColumn("makespan_s", "Makespan", "s"),
        ReportColumn("utilisation", "Busy", "%", lower_is_better=False),
        ReportColumn("moving_share", "Moving", "%"),
    ),
    answer=answer,
    sections=dag_sections,
    facts=dag_facts,
    draw=draw,
    reference="fifo",
)
