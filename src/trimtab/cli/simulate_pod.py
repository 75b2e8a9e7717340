"""`trimtab simulate pod`: one service under one autoscaler."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trimtab.cli.episode import EpisodeFlags
from trimtab.cli.terminal import command_line, now, print_json, remark, say_if_compiling, table_of

if TYPE_CHECKING:
    from trimtab.pod_autoscaling.application import Application
    from trimtab.pod_autoscaling.deployment import Deployment
    from trimtab.pod_autoscaling.episode import Episode
    from trimtab.pod_autoscaling.problem import PodPolicy
    from trimtab.pod_autoscaling.workload.presets import TraceSettings

__all__ = ["deployment_of", "hours_of", "simulate_pod"]

USUAL_APPLICATION = "textbook"
USUAL_TRACE = "diurnal"
USUAL_HOURS = 1.0
PICTURES = ("report.html", "episode.png", "episode.svg")


def simulate_pod(
    policy: str, flags: EpisodeFlags, draw: Path | None, out: Path | None, *, json: bool
) -> None:
    """Play one service for some hours and tell how its requests fared."""
    from trimtab.benchmark.pod_autoscaling.wing import POD
    from trimtab.core.run_folder import RunFolder
    from trimtab.pod_autoscaling.policies import make_policy
    from trimtab.pod_autoscaling.workload.applications import make_application

    made = make_policy(policy)
    application, seed = make_application(flags.app or USUAL_APPLICATION), flags.number()
    deployment, arriving = deployment_of(flags), _arriving(flags)
    say_if_compiling(POD, [policy])
    episode = _played(made, application, arriving, deployment, seed, begun=flags.settings is not None)
    content = {
        "policy": episode.policy,
        "seed": seed,
        "application": application.model_dump(mode="json"),
        "trace": arriving.model_dump(mode="json"),
        "deployment": deployment.model_dump(mode="json"),
        "intervals": len(episode.rewards),
        "requests": int(episode.arrived.sum()),
        "limit_s": episode.slo_s,
        "metrics": {name: _known(value) for name, value in episode.metrics().items()},
        "picture": None if draw is None else str(draw),
        "run_folder": None if out is None else str(out),
    }
    if draw is not None:
        _draw(episode, draw, arriving.name)
    if out is not None:
        folder = RunFolder.create(out, clock=now)
        folder.write_json("results.json", content)
        for name in PICTURES:
            _draw(episode, folder.path / name, arriving.name)
        remark(f"results in {folder.path}")
    if json:
        print_json(content)
        return
    _print(episode, arriving.name, draw)


def deployment_of(flags: EpisodeFlags) -> Deployment:
    """That of the suites, or that of the file; flags win."""
    from trimtab.benchmark.pod_autoscaling.suites import USUAL_DEPLOYMENT
    from trimtab.core.settings import load_settings
    from trimtab.pod_autoscaling.deployment import Deployment

    usual = USUAL_DEPLOYMENT.model_dump(exclude_defaults=True) if flags.settings is None else {}
    return load_settings(Deployment, flags.settings, {**usual, "interval_s": flags.interval_s})


def hours_of(flags: EpisodeFlags) -> float:
    """An hour, or all of a shorter trace file."""
    from trimtab.pod_autoscaling.workload.presets import find_trace
    from trimtab.rates.traces import RateTrace

    found = find_trace(flags.trace or USUAL_TRACE)
    has = found.length_s / 3600 if isinstance(found, RateTrace) else math.inf
    return min(USUAL_HOURS, has) if flags.hours is None else flags.hours


def _arriving(flags: EpisodeFlags) -> TraceSettings:
    from trimtab.benchmark.pod_autoscaling.suites import arriving

    trace, hours = flags.trace or USUAL_TRACE, hours_of(flags)
    return arriving(trace, hours=hours, mean_cores=flags.mean_cores, mean_rate=flags.mean_rate)


def _played(
    policy: PodPolicy,
    application: Application,
    arriving: TraceSettings,
    deployment: Deployment,
    seed: int,
    *,
    begun: bool,
) -> Episode:
    """One episode; unless the deployment says how it begins, with pods for twice the mean need."""
    from trimtab.benchmark.pod_autoscaling.suites import USUAL_START, first_size
    from trimtab.pod_autoscaling.simulator.simulator import simulate_batch
    from trimtab.pod_autoscaling.workload.presets import draw_trace

    trace = draw_trace(arriving, application, seed=seed)
    sizes = None if begun else first_size(application, arriving, deployment, factor=USUAL_START)[None]
    (episode,) = simulate_batch(policy, [application], [trace], deployment, seeds=[seed], sizes=sizes)
    return episode


def _known(value: float) -> float | None:
    """JSON has no infinity, which the latency of no answers is."""
    return value if math.isfinite(value) else None


def _draw(episode: Episode, path: Path, trace: str) -> None:
    if path.suffix.lower() != ".html":
        from trimtab.pod_autoscaling.drawing import draw_episodes

        draw_episodes([episode], path)
        return
    from trimtab.benchmark.pod_autoscaling.wing import POD
    from trimtab.benchmark.report import Measured, ReportRow, ReportTable, write_report

    metrics = episode.metrics()
    numbers: list[Any] = [
        Measured(metrics[column.key], metrics[column.key], metrics[column.key])
        if math.isfinite(metrics[column.key])
        else None
        for column in POD.report_columns
    ]
    write_report(
        path,
        title=f"{episode.policy} on {episode.application}",
        table=ReportTable(
            POD.report_columns, [ReportRow(episode.policy, numbers)], f"One episode of {trace}."
        ),
        sections=POD.sections([episode]),
        facts=POD.facts([episode]),
        notes=[],
        command=command_line(),
        provenance={"Service": episode.application, "Trace": trace},
    )


def _print(episode: Episode, trace: str, draw: Path | None) -> None:
    from trimtab.pod_autoscaling.episode import METRICS

    hours = len(episode.rewards) * episode.interval_s / 3600
    print(
        f"{episode.policy}: service {episode.application}, {hours:g} h of {trace}, seed {episode.seed}, "
        f"{int(episode.arrived.sum()):,} requests, {len(episode.rewards):,} decisions; "
        f"p99 limit {1000 * episode.slo_s:,.0f} ms\n"
    )
    rows = [[name, f"{value:,.4f}", METRICS[name]] for name, value in episode.metrics().items()]
    print(table_of(["measure", "value", "meaning"], rows))
    if draw is not None:
        print(f"\npicture: {draw}")
