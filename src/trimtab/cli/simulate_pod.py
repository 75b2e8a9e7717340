"""`trimtab simulate pod`: one service under one autoscaler."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Set
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trimtab.cli.episode import EpisodeFlags
from trimtab.cli.fit_profile import full_pod_told
from trimtab.cli.targets import check_new_folder
from trimtab.cli.terminal import (
    command_line,
    now,
    print_json,
    remark,
    say_if_compiling,
    say_if_other_interval,
    table_of,
)

if TYPE_CHECKING:
    from trimtab.benchmark.pod_autoscaling.suites import ServicesSuite
    from trimtab.pod_autoscaling.application import Application
    from trimtab.pod_autoscaling.deployment import Deployment
    from trimtab.pod_autoscaling.episode import Episode
    from trimtab.pod_autoscaling.guarding import GuardedPolicy
    from trimtab.pod_autoscaling.problem import PodPolicy
    from trimtab.pod_autoscaling.workload.presets import TraceSettings

__all__ = ["simulate_pod", "suite_of_flags"]

USUAL_APPLICATION = "textbook"
USUAL_TRACE = "diurnal"
USUAL_HOURS = 1.0
USUAL_BESIDE = "multi:slack=1,cpu=4"
WHO = {"heuristic": "the rule", "policy": "the policy", "larger": "the larger of both", "hold": "nobody"}
PICTURES = ("report.html", "episode.png", "episode.svg")


def simulate_pod(
    policy: str,
    flags: EpisodeFlags,
    draw: Path | None,
    out: Path | None,
    *,
    guard: str | None,
    beside: str | None,
    json: bool,
) -> None:
    """Play one service for some hours and tell how its requests fared."""
    from trimtab.benchmark.pod_autoscaling.wing import POD, arriving_told
    from trimtab.core.run_folder import RunFolder
    from trimtab.pod_autoscaling.policies import make_policy
    from trimtab.pod_autoscaling.simulator.simulator import refuse_unplayable, simulate_batch
    from trimtab.pod_autoscaling.workload.applications import make_application
    from trimtab.pod_autoscaling.workload.presets import draw_trace, mean_rate_of

    check_new_folder(out)
    made: PodPolicy = make_policy(policy)
    application, seed = make_application(flags.app or USUAL_APPLICATION), flags.number()
    watching = _guarded(made, guard, beside, seed)
    deployment, arriving = _deployment_of(flags), _arriving(flags)
    trace = draw_trace(arriving, application, seed=seed)
    refuse_unplayable(application, trace, deployment)
    say_if_other_interval(POD, [policy], deployment.interval_s)
    say_if_compiling(POD, [policy])
    acting, sizes = watching or made, _first_sizes(application, arriving, deployment, _start_factor_of(flags))
    (episode,) = simulate_batch(acting, [application], [trace], deployment, seeds=[seed], sizes=sizes)
    if not episode.arrived.any():
        remark(f"nothing arrives in the first {arriving.hours:g} h of {arriving.name}; raise --hours")
    content = {
        "wing": POD.name,
        "policy": episode.policy,
        "seed": seed,
        "application": application.model_dump(mode="json"),
        "trace": arriving.model_dump(mode="json"),
        "deployment": deployment.model_dump(mode="json"),
        "intervals": len(episode.rewards),
        "requests": int(episode.arrived.sum()),
        "mean_rate": mean_rate_of(arriving, application),
        "limit_s": episode.slo_s,
        "metrics": {name: _known(value) for name, value in episode.metrics().items()},
        "guard": None
        if watching is None
        else {"mode": guard, "beside": beside or USUAL_BESIDE, **_guard_content(watching)},
        "picture": None if draw is None else str(draw),
        "run_folder": None if out is None else str(out),
    }
    if draw is not None:
        _draw(episode, watching, draw, arriving.name)
    if out is not None:
        suite = suite_of_flags(flags).model_copy(update={"policies": (policy,)})
        folder = RunFolder.create(out, clock=now, settings=suite)
        folder.write_json("results.json", content)
        for name in PICTURES:
            _draw(episode, watching, folder.path / name, arriving.name)
        explain = shlex.join(["trimtab", "explain", str(out), "--decision", "N"])
        told = "" if watching else f"; `{explain}` takes a decision apart"
        remark(f"results in {folder.path}{told}")
    if json:
        print_json(content)
        return
    _print(episode, watching, f"{arriving.name} with {arriving_told(arriving, application)}", draw)
    if episode.kills.any():
        print(f"\n{episode.kills.sum():.0f} pods ran out of memory; {full_pod_told(application)}")


def suite_of_flags(flags: EpisodeFlags) -> ServicesSuite:
    """A suite of the one episode."""
    from trimtab.benchmark.pod_autoscaling.suites import ServicesSuite
    from trimtab.core.settings import load_settings

    plain = {
        "applications": [flags.app or USUAL_APPLICATION],
        "traces": [flags.trace or USUAL_TRACE],
        "hours": _hours_of(flags),
        "mean_cores": flags.mean_cores,
        "mean_rate": flags.mean_rate,
        "start_factor": _start_factor_of(flags),
        "deployment": _deployment_of(flags).model_dump(mode="json"),
    }
    return load_settings(ServicesSuite, None, plain)


def _deployment_of(flags: EpisodeFlags) -> Deployment:
    """Flags over the file over that of the suites."""
    from trimtab.benchmark.pod_autoscaling.suites import USUAL_DEPLOYMENT
    from trimtab.core.settings import load_settings
    from trimtab.pod_autoscaling.deployment import Deployment

    in_file = _named_in_file(flags)
    usual = USUAL_DEPLOYMENT.model_dump(exclude_defaults=True).items()
    beneath = {name: value for name, value in usual if name not in in_file}
    return load_settings(Deployment, flags.settings, {**beneath, "interval_s": flags.interval_s})


def _start_factor_of(flags: EpisodeFlags) -> float:
    """Pods for twice the mean need at the beginning; 0 where the file itself says how a service begins."""
    from trimtab.benchmark.pod_autoscaling.suites import USUAL_START

    return 0.0 if any(name.startswith("start_") for name in _named_in_file(flags)) else USUAL_START


def _named_in_file(flags: EpisodeFlags) -> Set[str]:
    """The settings that the file of `--settings` has, whatever they are; who loads them checks them."""
    from trimtab.core.settings import Settings, load_settings

    class Anything(Settings, extra="allow"):
        pass

    return load_settings(Anything, flags.settings).model_fields_set


def _hours_of(flags: EpisodeFlags) -> float:
    """An hour, or all of a shorter trace file."""
    from trimtab.pod_autoscaling.workload.presets import find_trace
    from trimtab.rates.traces import RateTrace

    found = find_trace(flags.trace or USUAL_TRACE)
    has = found.length_s / 3600 if isinstance(found, RateTrace) else math.inf
    return min(USUAL_HOURS, has) if flags.hours is None else flags.hours


def _arriving(flags: EpisodeFlags) -> TraceSettings:
    from trimtab.benchmark.pod_autoscaling.suites import arriving

    trace, hours = flags.trace or USUAL_TRACE, _hours_of(flags)
    return arriving(trace, hours=hours, mean_cores=flags.mean_cores, mean_rate=flags.mean_rate)


def _first_sizes(
    application: Application, arriving: TraceSettings, deployment: Deployment, factor: float
) -> Any:
    """Pods for so many times the mean need; 0: as the deployment says."""
    from trimtab.benchmark.pod_autoscaling.suites import first_size

    return first_size(application, arriving, deployment, factor=factor)[None] if factor else None


def _guarded(policy: PodPolicy, mode: str | None, beside: str | None, seed: int) -> GuardedPolicy | None:
    """The policy behind a guard, whose canary's turns are drawn by the seed as all luck is."""
    from trimtab.core.errors import SettingsError
    from trimtab.pod_autoscaling.guarding import GuardedPolicy
    from trimtab.pod_autoscaling.policies import make_policy

    if mode is None:
        if beside is not None:
            raise SettingsError(
                f"--beside {beside}: without --guard nothing stands beside; add --guard active"
            )
        return None
    return GuardedPolicy(policy, make_policy(beside or USUAL_BESIDE), mode=mode, canary={"seed": seed})


def _guard_content(watching: GuardedPolicy) -> dict[str, Any]:
    """In how many intervals who acted, by reason; what the policy raised; more in shadow and canary mode."""
    from trimtab.pod_autoscaling.guarding import WORDS, counts_of, shadow_of, turns_of

    acting: dict[str, dict[str, int]] = {}
    for (who, why), count in sorted(counts_of(watching.acted).items()):
        acting.setdefault(who.name.lower(), {})[WORDS[why]] = count
    raised = dict(Counter(one.raised for one in watching.acted if one.raised))
    content: dict[str, Any] = {"acting": acting, "raised": raised}
    if watching.mode == "shadow":
        extra_cost, too_little = shadow_of(watching.acted)
        content |= {"extra_cost": extra_cost, "too_little": too_little}
    if watching.canary is not None:
        turns, slots = turns_of(watching.acted, watching.canary)
        content |= {"canary_slots": turns, "slots": slots}
    return content


def _guard_lines(watching: GuardedPolicy | None, interval_s: float) -> list[str]:
    """The same in words."""
    if watching is None:
        return []
    content = _guard_content(watching)
    told = [
        f"{WHO[who]} in {sum(reasons.values()):,} ({', '.join(f'{why} {n:,}' for why, n in reasons.items())})"
        for who, reasons in content["acting"].items()
    ]
    lines = [f"who acted, of {len(watching.acted):,} intervals: {'; '.join(told)}"]
    if watching.mode == "shadow":
        extra_cost = content["extra_cost"]
        lines.append(
            f"shadow: the policy asked for {abs(extra_cost):.1%} {'less' if extra_cost < 0 else 'more'} than "
            f"the rule, by cost, on average; for less than present usage needs in {content['too_little']:,}"
        )
    if watching.canary is not None:
        minutes = watching.canary.slot_ticks * interval_s / 60
        never = "" if content["canary_slots"] else "; for a turn of it, raise --hours or take another --seed"
        lines.append(
            f"canary: {content['canary_slots']} of {content['slots']} slots of {minutes:g} minutes were the "
            f"policy's; each is with a chance of {100 * watching.canary.share:g} %, by the seed{never}"
        )
    return lines + [f"the policy raised {error}, {n:,} times" for error, n in content["raised"].items()]


def _known(value: float) -> float | None:
    """JSON has no infinity, which the latency of no answers is."""
    return value if math.isfinite(value) else None


def _draw(episode: Episode, watching: GuardedPolicy | None, path: Path, trace: str) -> None:
    if path.suffix.lower() != ".html":
        from trimtab.pod_autoscaling.drawing import changes_of, draw_episodes, guard_marks

        marks = [*changes_of(episode), *(guard_marks(episode, watching.acted) if watching else [])]
        draw_episodes([episode], path, marks=lambda episode: marks)
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
        notes=_guard_lines(watching, episode.interval_s),
        command=command_line(),
        provenance={"Service": episode.application, "Trace": trace},
    )


def _print(episode: Episode, watching: GuardedPolicy | None, trace: str, draw: Path | None) -> None:
    from trimtab.benchmark.numbers import NOTHING
    from trimtab.pod_autoscaling.episode import METRICS

    hours = len(episode.rewards) * episode.interval_s / 3600
    print(
        f"{episode.policy}: service {episode.application}, {hours:g} h of {trace}, seed {episode.seed}, "
        f"{int(episode.arrived.sum()):,} requests, {len(episode.rewards):,} decisions; "
        f"p99 limit {1000 * episode.slo_s:,.0f} ms\n"
    )
    rows = [
        [name, f"{value:,.4f}" if math.isfinite(value) else NOTHING, METRICS[name]]
        for name, value in episode.metrics().items()
    ]
    print(table_of(["measure", "value", "meaning"], rows))
    if watching is not None:
        print("\n" + "\n".join(_guard_lines(watching, episode.interval_s)))
    if draw is not None:
        print(f"\npicture: {draw}")
