"""`trimtab explain` for streaming jobs: how a job fared at one decision, who would change what, and why."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trimtab.cli.episode import EpisodeFlags
from trimtab.cli.explainers import Asked, Explainer
from trimtab.cli.simulate_stream import USUAL_JOB
from trimtab.cli.terminal import say_if_compiling, table_of

if TYPE_CHECKING:
    from trimtab.benchmark.stream_autoscaling.suites import AutoscalingSuite
    from trimtab.benchmark.suite import Scenario
    from trimtab.stream_autoscaling.job import Job
    from trimtab.stream_autoscaling.problem import Decider, Integers, Snapshot, StreamPolicy
    from trimtab.stream_autoscaling.simulator.simulator import StreamSimulator
    from trimtab.stream_autoscaling.sure.explaining import Explanation, Opinion
    from trimtab.stream_autoscaling.workload.traces import RateTrace

__all__ = ["STREAM_EXPLAINER"]

RULES = ("ds2:tuned", "flink:tuned", "hpa:tuned", "static")
MOST_CHOICES = 3
MOST_INFLUENCES = 8
DAY_S = 86_400


# --- which episode ---------------------------------------------------------------------------------


def _suite_of_flags(episode: EpisodeFlags) -> AutoscalingSuite:
    from trimtab.benchmark.stream_autoscaling.suites import AutoscalingSuite

    return AutoscalingSuite(
        jobs=(episode.job or USUAL_JOB,), trace=episode.arriving(), deployment=episode.deployment()
    )


def _suite_of_training(trained: Mapping[str, Any]) -> AutoscalingSuite:
    from trimtab.benchmark.stream_autoscaling.suites import AutoscalingSuite
    from trimtab.core.settings import load_settings

    ground = {name: trained[name] for name in ("jobs", "trace", "deployment")}
    return load_settings(AutoscalingSuite, None, ground)


def _scenario(run: Path, suite: AutoscalingSuite, episode: EpisodeFlags) -> Scenario:
    """The scenario of that job; without one, the first, which the run's pictures show."""
    from trimtab.core.errors import TrimtabError

    scenarios = suite.scenarios()
    if episode.job is None:
        return scenarios[0]
    found = next((one for one in scenarios if one.name == episode.job), None)
    if found is None:
        jobs = ", ".join(one.name for one in scenarios)
        raise TrimtabError(f"{run}: has no job {episode.job!r}; its jobs: {jobs}")
    return found


def _as_simulated(suite: AutoscalingSuite, seed: int) -> tuple[Job, RateTrace]:
    from trimtab.stream_autoscaling.workload.jobs import make_job
    from trimtab.stream_autoscaling.workload.presets import draw_trace

    job = make_job(suite.jobs[0])
    return job, draw_trace(suite.trace, job, seed=seed)


# --- playing ---------------------------------------------------------------------------------------


def _played(asked: Asked, decision: int) -> dict[str, Any]:
    """Play up to a decision; rules remember, so all who are asked watch from the beginning."""
    from trimtab.stream_autoscaling.simulator.simulator import StreamSimulator
    from trimtab.stream_autoscaling.sure.explaining import explain, opinion_of
    from trimtab.stream_autoscaling.sure.policy import SureDecider, SurePolicy

    job, trace = asked.drawn
    say_if_compiling(asked.suite.wing, ["static"])
    simulator = StreamSimulator([job], [trace], asked.suite.deployment, seeds=[asked.seed])
    decider, *watching = [_begun(one, simulator) for one in (asked.policy, *asked.rules)]
    _play(simulator, decider, watching, decision)
    snapshot = simulator.snapshot()
    told = None
    if isinstance(asked.policy, SurePolicy) and isinstance(decider, SureDecider):
        told = explain(asked.policy, decider, snapshot)
    wanted = decider.decide(snapshot) if told is None else told.wanted[None]
    others = [
        opinion_of(rule.name, snapshot, one.decide(snapshot))
        for rule, one in zip(asked.rules, watching, strict=True)
    ]
    chosen = opinion_of(asked.policy.name, snapshot, wanted)
    names = [vertex.name for vertex in job.vertices]
    return {
        "policy": asked.policy.name,
        "job": asked.scenario.workload.name,
        "trace": asked.scenario.workload.trace.name,
        "seed": asked.seed,
        "decision": decision,
        **_situation(snapshot),
        "vertices": _vertices(snapshot, chosen, names),
        "chosen": _plain_opinion(chosen, snapshot.parallelism[0], names),
        **({} if told is None else {"learned": _plain_explanation(told, snapshot.interval_s, names)}),
        "others": [_plain_opinion(one, snapshot.parallelism[0], names) for one in others],
    }


def _begun(policy: StreamPolicy, simulator: StreamSimulator) -> Decider:
    from trimtab.stream_autoscaling.simulator.simulator import Foreknowing

    told = policy.knowing(simulator.jobs, simulator.traces) if isinstance(policy, Foreknowing) else policy
    return told.begin(simulator.graph)


def _play(simulator: StreamSimulator, decider: Decider, watching: Sequence[Decider], decision: int) -> None:
    from trimtab.core.errors import TrimtabError

    for made in range(1, decision):
        snapshot = simulator.snapshot()
        for one in watching:
            one.decide(snapshot)
        if simulator.step(decider.decide(snapshot)).ended.all():
            raise TrimtabError(
                f"--decision {decision}: the episode has {made} decisions; give a smaller number"
            )


# --- what is said, in plain values -----------------------------------------------------------------


def _situation(snapshot: Snapshot) -> dict[str, Any]:
    """The job as a whole; None where nobody knows."""
    from trimtab.stream_autoscaling.problem import slots_taken

    samples, now_s = snapshot.samples, float(snapshot.now_s[0])
    minutes = int(now_s % DAY_S) // 60
    present = bool(samples.present[0, -1])
    latency_s = _number(samples.latency_s[0, -1]) if present else None
    return {
        "time_s": now_s,
        "day": int(now_s // DAY_S),
        "time_of_day": f"{minutes // 60:02}:{minutes % 60:02}",
        "interval_s": snapshot.interval_s,
        "latency_s": latency_s,
        "latency_p95_s": _number(samples.latency_p95_s[0, -1]) if present else None,
        "limit_s": snapshot.slo_s,
        "too_late": None if latency_s is None else latency_s > snapshot.slo_s,
        "slots": int(slots_taken(snapshot.parallelism, snapshot.graph)[0]),
        "slot_budget": int(snapshot.slots[0]) or None,
        "rescaling": bool(snapshot.rescaling[0]),
        "cooldown_s": float(snapshot.cooldown_s[0]),
        "since_rescale_s": _number(snapshot.since_rescale_s[0]),
        "since_checkpoint_s": _number(snapshot.since_checkpoint_s[0]),
        "downtime_s": float(snapshot.downtime_s[0]),
    }


def _number(value: float) -> float | None:
    """JSON knows neither infinity nor what is not a number."""
    return float(value) if math.isfinite(value) else None


def _vertices(snapshot: Snapshot, chosen: Opinion, names: Sequence[str]) -> list[dict[str, Any]]:
    """What every vertex reported of the last interval; None where it did not."""
    samples, rows = snapshot.samples, []
    measured = ("records_in", "records_out", "busy", "backpressured", "idle", "queue_fill", "pending")
    for place, name in enumerate(names):
        complete = bool(samples.complete[0, -1, place] and samples.present[0, -1])
        numbers = {
            one: float(getattr(samples, one)[0, -1, place]) if complete else None
            for one in (*measured, "state_mb")
        }
        rows.append(
            {
                "vertex": name,
                "is_source": bool(snapshot.graph.is_source[0, place]),
                "complete": complete,
                **numbers,
                "running": int(samples.parallelism[0, -1, place]) if complete else None,
                "parallelism": int(snapshot.parallelism[0, place]),
                "wanted": int(chosen.wanted[place]),
                "allowed": int(chosen.done[place]),
            }
        )
    return rows


def _plain_opinion(opinion: Opinion, now: Integers, names: Sequence[str]) -> dict[str, Any]:
    """Only what changes; a vertex is listed where a change is wanted, or was made of the wish."""
    changes = [
        {
            "vertex": name,
            "from": int(now[place]),
            "wanted": int(opinion.wanted[place]),
            "allowed": int(opinion.done[place]),
            "because": list(opinion.because[place]),
        }
        for place, name in enumerate(names)
        if not now[place] == opinion.wanted[place] == opinion.done[place]
    ]
    return {
        "policy": opinion.policy,
        "rescales": bool((opinion.done != now).any()),
        "changes": changes,
    }


def _plain_explanation(told: Explanation, interval_s: float, names: Sequence[str]) -> dict[str, Any]:
    content: dict[str, Any] = {
        "commit": None if told.commit is None else told.commit._asdict(),
        "suggested_by_ds2": {
            name: {
                "parallelism": int(told.suggested[place]),
                "busy_subtasks": _number(told.needed[place]),
            }
            for place, name in enumerate(names)
        },
        "choices": {
            name: [choice._asdict() for choice in row] for name, row in zip(names, told.choices, strict=True)
        },
        "influences": [one._asdict() for one in told.influences],
    }
    if told.looks is not None:
        content["looked_at"] = {
            name: [
                {
                    "seconds_ago": one.intervals_ago * interval_s,
                    "neighbours": [names[place] for place in one.neighbours],
                }
                for one in row
            ]
            for name, row in zip(names, told.looks, strict=True)
        }
    return content


# --- what is said, to people -----------------------------------------------------------------------


def _print(content: Mapping[str, Any]) -> None:
    print(
        f"Decision {content['decision']} of {content['policy']} on job {content['job']}, "
        f"{content['trace']}, seed {content['seed']}: day {content['day']}, {content['time_of_day']}."
    )
    print(f"{_latency(content)}; {_slots(content)}; {_restarts(content)}.\n")
    print(table_of(VERTEX_HEADS, [_vertex_row(one) for one in content["vertices"]]))
    print(f"\n{_wish(content['chosen'])}")
    for one in content["chosen"]["changes"]:
        if one["because"]:
            reasons = "; ".join(one["because"])
            print(f"  {one['vertex']}: {one['wanted']} wanted, {one['allowed']} allowed: {reasons}")
    if "learned" in content:
        _print_learned(content["learned"], content["vertices"])
    rows = [[one["policy"], _wish_of_rule(one)] for one in content["others"]]
    print(f"\n{table_of(['rule', 'would want, had it watched this'], rows)}")


def _latency(content: Mapping[str, Any]) -> str:
    limit = f"limit {content['limit_s']:g} s"
    if content["latency_s"] is None:
        return f"Latency unknown ({limit})"
    tail = content["latency_p95_s"]
    told = f"95th percentile {'unknown' if tail is None else f'{tail:,.2f} s'}, {limit}"
    return f"Latency {content['latency_s']:,.2f} s ({told}){', too late' if content['too_late'] else ''}"


def _slots(content: Mapping[str, Any]) -> str:
    budget = content["slot_budget"]
    return f"{content['slots']} slots" + ("" if budget is None else f" of {budget}")


def _restarts(content: Mapping[str, Any]) -> str:
    if content["rescaling"]:
        return "a restart is under way"
    if content["cooldown_s"] > 0:
        return f"no change is taken for {content['cooldown_s']:,.0f} s after a restart"
    since_s = content["since_rescale_s"]
    return "no restart yet" if since_s is None else f"last restart {since_s / 60:,.0f} min ago"


VERTEX_HEADS = (
    "vertex", "records/s", "busy", "backpressured", "queue full", "waiting", "complete", "parallelism",
    "wanted",
)  # fmt: skip


def _vertex_row(one: Mapping[str, Any]) -> list[str]:
    shares = ("busy", "backpressured", "queue_fill")
    measured = (
        [
            f"{one['records_in']:,.1f}",
            *(f"{one[share]:.0%}" for share in shares),
            f"{one['pending']:,.0f}" if one["is_source"] else "-",
            "yes",
        ]
        if one["complete"]
        else ["-"] * 5 + ["no"]
    )
    underway = one["running"] not in (None, one["parallelism"])
    now = f"{one['running']} -> {one['parallelism']}" if underway else str(one["parallelism"])
    return [one["vertex"], *measured, now, str(one["wanted"])]


def _wish(chosen: Mapping[str, Any]) -> str:
    changes = _changes(chosen)
    if not changes:
        return "It wants nothing changed."
    then = "" if chosen["rescales"] else " Nothing of it is done."
    return f"It wants {changes}.{then}"


def _wish_of_rule(opinion: Mapping[str, Any]) -> str:
    changes = _changes(opinion)
    if not changes:
        return "nothing changed"
    return changes if opinion["rescales"] else f"{changes} (not allowed now)"


def _changes(opinion: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{one['vertex']} {one['from']} -> {one['wanted']}"
        for one in opinion["changes"]
        if one["from"] != one["wanted"]
    )


def _print_learned(learned: Mapping[str, Any], vertices: Sequence[Mapping[str, Any]]) -> None:
    if learned["commit"] is not None:
        print(f"\n{_commit(learned['commit'])}")
    rows = [
        [
            one["vertex"],
            _suggested(learned["suggested_by_ds2"][one["vertex"]]),
            *_choice_cells(learned["choices"][one["vertex"]]),
        ]
        for one in vertices
    ]
    heads = ["vertex", "DS2 suggests", "likeliest", "next", "then"]
    print(f"\n{table_of(heads, rows)}")
    if learned["commit"] is None:
        print("It takes the mean of each vertex's Gaussian, which need not be the likeliest.")
    rows = [
        [one["feature"], _signed(one["on_commit"]), _signed(one["on_choices"])]
        for one in learned["influences"][:MOST_INFLUENCES]
    ]
    print(f"\n{table_of(['what moved it', 'to commit', 'to these choices'], rows)}")
    print(_unit_of_influence(learned))
    if "looked_at" in learned:
        rows = [[name, *_look_cells(looks)] for name, looks in learned["looked_at"].items()]
        print(f"\n{table_of(['vertex', 'looked at itself, minutes ago', 'and at neighbours'], rows)}")


def _commit(commit: Mapping[str, Any]) -> str:
    if not commit["possible"]:
        return "Nothing may be changed now, so it holds."
    does = "would commit" if commit["head_start"] > 0 else "would hold"
    return (
        f"It commits with probability {commit['probability']:.1%} (score {commit['score']:+.2f}, of which "
        f"{commit['head_start']:+.2f} because DS2 {does}). If it does:"
    )


def _suggested(suggestion: Mapping[str, Any]) -> str:
    busy = suggestion["busy_subtasks"]
    return f"{suggestion['parallelism']} ({'unknown' if busy is None else f'{busy:.1f} busy'})"


def _choice_cells(row: Sequence[Mapping[str, Any]]) -> list[str]:
    cells = [
        f"{one['parallelism']}{f' {step}' if (step := one['step']) else ''}, {one['probability']:.1%}"
        for one in row[:MOST_CHOICES]
    ]
    return cells + ["-"] * (MOST_CHOICES - len(cells))


def _signed(value: float | None) -> str:
    return "-" if value is None else f"{value:+.3f}"


def _unit_of_influence(learned: Mapping[str, Any]) -> str:
    asked = "Against the feature being 0 in the whole window"
    if learned["commit"] is None:
        return f"{asked}: how much further parallelism goes in its direction, as a share of itself."
    return f"{asked}: change of log odds, +0.7 doubles the odds; choices: mean over vertices."


def _look_cells(looks: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """The newest moment first; neighbours that were looked at most often first."""
    moments = ", ".join(f"{one['seconds_ago'] / 60:g}" for one in reversed(looks))
    counted = Counter(name for one in looks for name in one["neighbours"])
    told = ", ".join(f"{name} x{count}" for name, count in counted.most_common())
    return moments or "-", told or "-"


STREAM_EXPLAINER = Explainer(
    wing="stream",
    choosing=("job", "seed"),
    rules=RULES,
    suite_of_flags=_suite_of_flags,
    suite_of_training=_suite_of_training,
    as_simulated=_as_simulated,
    scenario=_scenario,
    content=_played,
    show=_print,
)
