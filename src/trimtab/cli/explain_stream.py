"""`trimtab explain` for streaming jobs: how a job fared at one decision, who would change what, and why."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trimtab.cli.episode import EpisodeFlags
from trimtab.cli.explain_stream_text import print_stream_decision
from trimtab.cli.explainers import Asked, Explainer, refuse_beyond
from trimtab.cli.simulate_stream import USUAL_JOB
from trimtab.cli.terminal import say_if_compiling

if TYPE_CHECKING:
    from trimtab.benchmark.stream_autoscaling.suites import AutoscalingSuite
    from trimtab.benchmark.suite import Scenario
    from trimtab.stream_autoscaling.job import Job
    from trimtab.stream_autoscaling.problem import Decider, Integers, Snapshot, StreamPolicy
    from trimtab.stream_autoscaling.simulator.simulator import StreamSimulator
    from trimtab.stream_autoscaling.sure.compact_explaining import CompactExplanation
    from trimtab.stream_autoscaling.sure.explaining import Explanation, Opinion
    from trimtab.stream_autoscaling.workload.traces import RateTrace

__all__ = ["STREAM_EXPLAINER"]

RULES = ("ds2:tuned", "flink:tuned", "hpa:tuned", "static")
DAY_S = 86_400


# --- which episode ---------------------------------------------------------------------------------


def _suite_of_flags(episode: EpisodeFlags) -> AutoscalingSuite:
    from trimtab.benchmark.stream_autoscaling.suites import AutoscalingSuite

    return AutoscalingSuite(
        jobs=(USUAL_JOB if episode.job is None else episode.job,),
        trace=episode.arriving(),
        deployment=episode.deployment(),
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

    job = make_job(suite.jobs[0], seed=seed)
    return job, draw_trace(suite.trace, job, seed=seed)


# --- playing ---------------------------------------------------------------------------------------


def _played(asked: Asked, decision: int) -> dict[str, Any]:
    """Play up to a decision; rules remember, so all who are asked watch from the beginning."""
    from trimtab.stream_autoscaling.simulator.simulator import StreamSimulator
    from trimtab.stream_autoscaling.sure.compact import CompactDecider
    from trimtab.stream_autoscaling.sure.compact_explaining import explain_compact
    from trimtab.stream_autoscaling.sure.explaining import explain, opinion_of
    from trimtab.stream_autoscaling.sure.policy import SureDecider, SurePolicy

    job, trace = asked.drawn
    refuse_beyond(decision, trace.length_s, asked.suite.deployment.interval_s)
    say_if_compiling(asked.suite.wing, ["static"])
    simulator = StreamSimulator([job], [trace], asked.suite.deployment, seeds=[asked.seed])
    decider = _begun(asked.policy, simulator)
    watching = [_Watching(rule, simulator) for rule in asked.rules]
    _play(simulator, decider, watching, decision)
    snapshot = simulator.snapshot()
    names = [vertex.name for vertex in job.vertices]
    learned: dict[str, Any] = {}
    if isinstance(asked.policy, SurePolicy) and isinstance(decider, SureDecider):
        told = explain(asked.policy, decider, snapshot)
        wanted = told.wanted[None]
        learned = {"learned": _plain_explanation(told, snapshot.interval_s, names)}
    else:
        wanted = decider.decide(snapshot)
    if isinstance(decider, CompactDecider):
        learned = {"compact": _plain_compact(explain_compact(decider, snapshot), names)}
    chosen = opinion_of(asked.policy.name, snapshot, wanted)
    return {
        "policy": asked.policy.name,
        "job": asked.scenario.workload.name,
        "trace": asked.scenario.workload.trace.name,
        "seed": asked.seed,
        "decision": decision,
        **_situation(snapshot),
        "vertices": _vertices(snapshot, chosen, names),
        "chosen": _plain_opinion(chosen, snapshot.parallelism[0], names),
        **learned,
        "others": [one.told(snapshot, names) for one in watching],
    }


def _begun(policy: StreamPolicy, simulator: StreamSimulator) -> Decider:
    from trimtab.stream_autoscaling.simulator.simulator import Foreknowing

    told = policy.knowing(simulator.jobs, simulator.traces) if isinstance(policy, Foreknowing) else policy
    return told.begin(simulator.graph)


class _Watching:
    """A rule that watches. Who cannot (it may want more history than is kept) says why; others go on."""

    def __init__(self, rule: StreamPolicy, simulator: StreamSimulator) -> None:
        self._name = rule.name
        self._decider = _begun(rule, simulator)
        self._cannot: str | None = None

    def decide(self, snapshot: Snapshot) -> Integers | None:
        from trimtab.core.errors import TrimtabError

        if self._cannot is None:
            try:
                return self._decider.decide(snapshot)
            except TrimtabError as error:
                self._cannot = str(error)
        return None

    def told(self, snapshot: Snapshot, names: Sequence[str]) -> dict[str, Any]:
        from trimtab.stream_autoscaling.sure.explaining import opinion_of

        wanted = self.decide(snapshot)
        if wanted is None:
            return {"policy": self._name, "cannot": self._cannot}
        return _plain_opinion(opinion_of(self._name, snapshot, wanted), snapshot.parallelism[0], names)


def _play(simulator: StreamSimulator, decider: Decider, watching: Sequence[_Watching], decision: int) -> None:
    for _ in range(1, decision):
        snapshot = simulator.snapshot()
        for one in watching:
            one.decide(snapshot)
        simulator.step(decider.decide(snapshot))


# --- what is said -----------------------------------------------------------------


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


def _plain_compact(told: CompactExplanation, names: Sequence[str]) -> dict[str, Any]:
    return {
        "commits": told.commits,
        "aims_at": told.aims_at,
        "limit": told.limit,
        "saving": told.saving,
        "saved": told.saved,
        "vertices": {
            name: {
                "busy_subtasks": _number(told.needed[place]),
                "goal": int(told.goal[place]),
                "too_busy": bool(told.over[place]),
            }
            for place, name in enumerate(names)
        },
        "influences": [one._asdict() for one in told.influences],
    }


STREAM_EXPLAINER = Explainer(
    wing="stream",
    choosing=("job", "seed"),
    rules=lambda _suite: RULES,
    suite_of_flags=_suite_of_flags,
    suite_of_training=_suite_of_training,
    as_simulated=_as_simulated,
    scenario=_scenario,
    content=_played,
    show=print_stream_decision,
)
