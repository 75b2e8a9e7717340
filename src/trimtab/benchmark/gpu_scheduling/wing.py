"""GPU scheduling as comparisons see it: mean completion time, in minutes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trimtab.benchmark.gpu_scheduling.answer import answer
from trimtab.benchmark.gpu_scheduling.report import gpu_facts, gpu_sections
from trimtab.benchmark.numbers import as_percent, as_three_digits, measure, with_interval
from trimtab.benchmark.report.content import ReportColumn
from trimtab.benchmark.suite import Column, Scenario, Wing
from trimtab.gpu_scheduling.cluster import Cluster
from trimtab.gpu_scheduling.episode import METRICS, Episode
from trimtab.gpu_scheduling.heuristics.rule import Rule
from trimtab.gpu_scheduling.policies import POLICIES, GpuPolicy, make_policy
from trimtab.gpu_scheduling.simulator.simulator import is_compiled, simulate
from trimtab.gpu_scheduling.workload import Workload
from trimtab.gpu_scheduling.workload.presets import Source, WorkloadSettings, find_source
from trimtab.gpu_scheduling.workload.tiny import tiny_case, tiny_workload

if TYPE_CHECKING:
    from trimtab.benchmark.compare import Comparison, ScenarioResult

__all__ = ["GPU", "scenario_ground"]

TIERS = {
    "none": "nothing known of durations",
    "predicted": "durations predicted",
    "oracle": "durations known",
}


def columns(comparison: Comparison) -> list[Column]:
    return [
        Column("mean JCT, min", lambda row: with_interval(row.metrics["mean_jct_min"])),
        Column(f"× {comparison.baseline}", lambda row: with_interval(row.ratio, as_three_digits)),
        Column("wins", lambda row: "—" if row.improvement is None else as_percent(row.improvement.value)),
        Column("fee, $", measure("mean_fee")),
        Column("p95, min", measure("p95_jct_min")),
        Column("wait, min", measure("mean_wait_min")),
        Column("slowdown", measure("mean_slowdown")),
        Column("busy", measure("utilisation", as_percent)),
        Column("stranded", measure("fragmentation", as_percent)),
        Column("stops", measure("preemptions")),
    ]


def caption(comparison: Comparison, result: ScenarioResult) -> str:
    """What was played, in a line."""
    suite: Any = comparison.suite
    workload = result.scenario.workload
    stream = "" if result.scenario.load is None else f" at load {result.scenario.load:.3g}"
    machines = suite.cluster.machine_table
    return (
        f"{comparison.name or 'comparison'}: {workload.jobs:,} {workload.name} jobs, "
        f"{workload.arrivals} arrivals{stream}, {len(machines.names):,} machines with "
        f"{int(machines.gpus.sum()):,} GPUs, {TIERS[suite.cluster.information]}, {suite.seeds} unseen seeds"
    )


def scenario_ground(suite: Any, scenario: Scenario) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a tuned value depends on, as plain values.

    Usual values are left out, so a field that a later version adds leaves old entries valid; digests of the
    jobs and of a table of machines make an entry invalid when these are made or imported anew.
    """
    workload = WorkloadSettings(**scenario.workload.model_dump())
    cluster = Cluster(**suite.cluster.model_dump())
    told = cluster.model_dump(mode="json", exclude_defaults=True)
    if cluster.table is not None:
        machines = cluster.machine_table
        told["table"] = _digest_of([machines.gpus, machines.gpu_type, machines.rack, machines.speed])
    return (
        {
            "name": workload.name,
            "digest": _digest(find_source(workload.name)),
            **workload.model_dump(mode="json", exclude_defaults=True),
        },
        {"gpus": int(cluster.machine_table.gpus.sum()), **told},
    )


@lru_cache(maxsize=16)
def _digest(source: Source) -> str:
    """Of all jobs of a trace, or of the first of a world: its statistics are in them."""
    jobs = source if isinstance(source, Workload) else source.draw(64, seed=0)
    return _digest_of([jobs.arrival_ms, jobs.duration_ms, jobs.instances, jobs.gpu_milli, jobs.sensitivity])


def _digest_of(arrays: Sequence[np.ndarray]) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.round(array * 1000).astype("<i8").tobytes())
    return digest.hexdigest()[:16]


def compile_rules(rules: Sequence[Rule]) -> None:
    """Play each rule once on a toy, so that its compiled code lies on disk for everybody."""
    cluster = tiny_case("gang").cluster.model_copy(update={"information": "oracle"})
    for rule in rules:
        simulate(tiny_workload("gang"), rule, cluster)


def uncompiled(policies: Sequence[GpuPolicy]) -> list[Rule]:
    """One rule for each combination of parts that this version of the engine was not compiled with before.

    The settings of a rule are not compiled in.
    """
    kinds = {
        (policy.order, policy.placement, policy.discipline): policy
        for policy in policies
        if isinstance(policy, Rule)
    }
    return [rule for rule in kinds.values() if not is_compiled(rule)]


def draw(episodes: Sequence[Episode], folder: Path) -> list[str]:
    """Who held which GPU and when, the queue, and free GPUs."""
    from trimtab.gpu_scheduling.drawing import draw_episodes

    names = ["gpus.png", "gpus.svg"]
    for name in names:
        draw_episodes(episodes[:MOST_DRAWN], folder / name)
    return names


MOST_DRAWN = 3

GPU = Wing(
    name="gpu",
    question="Which scheduler?",
    metrics=METRICS,
    measure="mean_jct_min",
    make_policy=make_policy,
    policy_names=POLICIES.names,
    uncompiled=uncompiled,
    compile=compile_rules,
    ground=scenario_ground,
    caption=caption,
    columns=columns,
    report_columns=(
        ReportColumn("mean_jct_min", "Mean completion time", "min"),
        ReportColumn("mean_fee", "Mean fee", "$"),
        ReportColumn("p95_jct_min", "95th percentile", "min"),
        ReportColumn("mean_wait_min", "Mean wait", "min"),
        ReportColumn("mean_slowdown", "Mean slowdown", "×"),
        ReportColumn("utilisation", "GPUs held", "%", lower_is_better=False),
        ReportColumn("fragmentation", "GPUs free while jobs wait", "%"),
        ReportColumn("preemptions", "Stops of a job"),
    ),
    answer=answer,
    sections=gpu_sections,
    facts=gpu_facts,
    draw=draw,
    reference="fifo+first-fit+strict",
)
