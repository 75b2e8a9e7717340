"""`trimtab explain` for services: how one fared at a decision, who would size it how, and what came of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trimtab.cli.episode import EpisodeFlags
from trimtab.cli.explain_pod_text import print_pod_decision
from trimtab.cli.explainers import Asked, Explainer, refuse_beyond
from trimtab.cli.simulate_pod import suite_of_flags
from trimtab.cli.terminal import say_if_compiling

if TYPE_CHECKING:
    from trimtab.benchmark.pod_autoscaling.suites import ServicesSuite, ServiceSuite
    from trimtab.benchmark.suite import Scenario
    from trimtab.pod_autoscaling.application import Application
    from trimtab.pod_autoscaling.aware.explaining import Explanation, Opinion
    from trimtab.pod_autoscaling.aware.policy import Considered
    from trimtab.pod_autoscaling.problem import Floats, PodPolicy, Snapshot
    from trimtab.pod_autoscaling.rewards import Truth
    from trimtab.pod_autoscaling.simulator.simulator import Simulator
    from trimtab.rates.traces import RateTrace

__all__ = ["POD_EXPLAINER"]

RULES = ("multi:tuned", "hpa:target=70", "hpa-vpa:tuned", "mpc:tuned")
AFTERWARDS_MIN = (1, 5, 15)
"""Of so many minutes after the decision it is told what they were like."""
METRICS = (
    "rate", "late", "failed", "latency_s", "latency_p50_s", "latency_p99_s", "in_flight", "cpu", "throttled",
    "memory", "kills", "replicas", "ready", "cpu_limit", "memory_limit",
)  # fmt: skip
"""Of `Samples`, what is told."""
DAY_S = 86_400


# --- which episode ---------------------------------------------------------------------------------


def _suite_of_simulation(run: Path, results: Mapping[str, Any]) -> ServicesSuite:
    """The episode of a run of `simulate pod --out`."""
    from trimtab.benchmark.pod_autoscaling.suites import ServicesSuite
    from trimtab.core.errors import TrimtabError
    from trimtab.core.settings import load_settings

    if results["guard"] is not None:
        raise TrimtabError(f"{run}: played behind a guard, which `explain` has not; simulate without --guard")
    return load_settings(ServicesSuite, run / "settings.toml")


def _suite_of_training(trained: Mapping[str, Any]) -> ServiceSuite:
    """Services as in training, of a middling size; trace files keep their rates."""
    from trimtab.benchmark.pod_autoscaling.suites import ServicesSuite, UnseenSuite
    from trimtab.core.errors import TrimtabError
    from trimtab.core.settings import load_settings
    from trimtab.pod_autoscaling.aware.services import Ground
    from trimtab.pod_autoscaling.workload.presets import own_rate_of

    if "ground" not in trained or "deployment" not in trained:
        raise TrimtabError("its bundle does not say what it was trained on; give --policy and an episode")
    ground = Ground.model_validate(trained["ground"])
    kept = ground.mean_rate is not None or any(own_rate_of(name) is not None for name in ground.traces)
    plain = {
        "traces": ground.traces,
        "hours": ground.hours,
        "mean_rate": ground.mean_rate,
        "mean_cores": None if kept else math.sqrt(ground.least_cores * ground.most_cores),
        "most_rate": ground.most_rate,
        "start_factor": ground.start_factor,
        "deployment": trained["deployment"],
    }
    if not ground.applications:
        return load_settings(UnseenSuite, None, plain)
    return load_settings(ServicesSuite, None, {**plain, "applications": ground.applications})


def _scenario(run: Path, suite: ServiceSuite, episode: EpisodeFlags) -> Scenario:
    """The scenario of that service, or of that trace where services are unseen; without one, the first."""
    from trimtab.benchmark.pod_autoscaling.suites import ServicesSuite
    from trimtab.core.errors import TrimtabError

    scenarios = suite.scenarios()
    flag, wanted, what = "--app", episode.app, "service"
    other, refused = "--trace", episode.trace
    if not isinstance(suite, ServicesSuite):
        flag, wanted, what = "--trace", episode.trace, "trace"
        other, refused = "--app", episode.app
    if refused is not None:
        raise TrimtabError(f"{other}: the run {run} has one table for each {what}; choose with {flag}")
    if wanted is None:
        return scenarios[0]
    found = next((one for one in scenarios if one.name == wanted), None)
    if found is None:
        names = ", ".join(one.name for one in scenarios)
        raise TrimtabError(f"{run}: has no {what} {wanted!r}; its {what}s: {names}")
    return found


def _as_simulated(suite: ServiceSuite, seed: int) -> tuple[Application, RateTrace]:
    from trimtab.pod_autoscaling.workload.presets import draw_trace

    scenario = suite.scenarios()[0]
    application = suite.application(scenario, seed)
    return application, draw_trace(suite.arriving(scenario, seed), application, seed=seed)


# --- playing ---------------------------------------------------------------------------------------


def _played(asked: Asked, decision: int) -> dict[str, Any]:
    """Play up to a decision; then everybody who is asked goes on alone, from there."""
    from trimtab.pod_autoscaling.aware.explaining import explain, opinion_of
    from trimtab.pod_autoscaling.aware.policy import LearnedPolicy
    from trimtab.pod_autoscaling.simulator.simulator import Simulator, refuse_unplayable

    application, trace = asked.drawn
    refuse_unplayable(application, trace, asked.suite.deployment)
    refuse_beyond(decision, trace.length_s, asked.suite.deployment.interval_s)
    say_if_compiling(asked.suite.wing, ["static"])
    simulator = Simulator([application], asked.suite.deployment)
    simulator.reset([trace], [asked.seed], sizes=_first_size(asked))
    player = _Player(asked.policy, simulator, trace)
    watching = [_Player(rule, simulator, trace) for rule in asked.rules]
    _play(simulator, player, watching, decision)
    snapshot = simulator.snapshot()
    wanted = player.decide(snapshot)
    learned = isinstance(asked.policy, LearnedPolicy)
    # What is usual for a network, its whole episode tells.
    afterwards = _afterwards(player.go_on(simulator, wanted, to_the_end=learned), snapshot.interval_s)
    arriving = asked.suite.arriving(asked.scenario, asked.seed)
    content = {
        "policy": asked.policy.name,
        "service": asked.scenario.workload.application or application.name,
        "trace": arriving.name,
        "seed": asked.seed,
        "decision": decision,
        **_situation(snapshot),
        "chosen": _plain_opinion(opinion_of(asked.policy.name, snapshot, wanted), snapshot),
        "afterwards": afterwards,
    }
    if isinstance(asked.policy, LearnedPolicy):
        thought = player.thoughts[decision - 1]
        told = explain(asked.policy, thought, snapshot, others=player.thoughts, application=application)
        content["learned"] = _plain_explanation(told, teacher=asked.policy.design.teacher)
    return {**content, "others": [one.told(simulator, snapshot) for one in watching]}


def _first_size(asked: Asked) -> Floats | None:
    """As `simulate` and `compare` begin."""
    from trimtab.benchmark.pod_autoscaling.suites import first_size

    suite, (application, _) = asked.suite, asked.drawn
    if not suite.start_factor:
        return None
    arriving = suite.arriving(asked.scenario, asked.seed)
    return first_size(application, arriving, suite.deployment, factor=suite.start_factor)[None]


class _Player:
    """A policy at work on the service, and what it thought if it is a network."""

    def __init__(self, policy: PodPolicy, simulator: Simulator, trace: RateTrace) -> None:
        from trimtab.pod_autoscaling.simulator.simulator import Foreknowing

        told: PodPolicy = policy
        if isinstance(policy, Foreknowing):
            told = policy.knowing(simulator.applications, [trace], simulator.deployment)
        self._name, self._decider = policy.name, told.begin(simulator.services)
        self.thoughts: list[Considered] = []

    def decide(self, snapshot: Snapshot) -> Floats:
        from trimtab.pod_autoscaling.aware.policy import AwareDecider

        if not isinstance(self._decider, AwareDecider):
            return self._decider.decide(snapshot)
        thought = self._decider.consider(snapshot)
        self.thoughts.append(thought)
        return thought.wanted

    def go_on(self, simulator: Simulator, wanted: Floats, *, to_the_end: bool = False) -> list[Truth]:
        """What the next minutes are like if this wish is followed and this policy goes on, in a copy."""
        copy, lived = simulator.copied(np.array([0])), list[Any]()
        intervals = _intervals(AFTERWARDS_MIN[-1], copy.deployment.interval_s)
        while True:
            snapshot, _, ended = copy.step(wanted)
            lived.append(copy.truth)
            if ended.all() or (len(lived) >= intervals and not to_the_end):
                return lived
            wanted = self.decide(snapshot)

    def told(self, simulator: Simulator, snapshot: Snapshot) -> dict[str, Any]:
        """What it wants, having watched so far, and where that would have led."""
        from trimtab.pod_autoscaling.aware.explaining import opinion_of

        wanted = self.decide(snapshot)
        lived = self.go_on(simulator, wanted)
        opinion = _plain_opinion(opinion_of(self._name, snapshot, wanted), snapshot)
        return {**opinion, "afterwards": _afterwards(lived, snapshot.interval_s)}


def _play(simulator: Simulator, player: _Player, watching: Sequence[_Player], decision: int) -> None:
    """Rules remember, so all who are asked watch from the beginning."""
    for _ in range(1, decision):
        snapshot = simulator.snapshot()
        for one in watching:
            one.decide(snapshot)
        simulator.step(player.decide(snapshot))


def _intervals(minutes: float, interval_s: float) -> int:
    return max(1, math.ceil(60 * minutes / interval_s - 1e-9))


# --- what is said ----------------------------------------------------------------------------------


def _situation(snapshot: Snapshot) -> dict[str, Any]:
    """The service as metrics tell of it; None where nobody knows."""
    samples, now_s = snapshot.samples, float(snapshot.now_s[0])
    seconds = int(now_s % DAY_S)
    lived = samples.present[0] & samples.complete[0]
    columns = {name: getattr(samples, name)[0] for name in METRICS}
    return {
        "time_s": now_s,
        "day": int(now_s // DAY_S),
        "time_of_day": f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}",
        "interval_s": snapshot.interval_s,
        "limit_s": float(snapshot.services.slo_s[0]),
        "budget": float(snapshot.services.budget[0]),
        "size": _plain_size(snapshot.size[0]),
        "ready": int(snapshot.ready[0]),
        "resizing": bool(snapshot.resizing[0]),
        "infeasible": bool(snapshot.infeasible[0]),
        "complete": bool(lived[-1]),
        "metrics": {name: _number(column[-1]) if lived[-1] else None for name, column in columns.items()},
        "metrics_mean": {
            name: _number(column[lived].mean()) if lived.any() else None for name, column in columns.items()
        },
        "mean_of_s": float(lived.sum()) * snapshot.interval_s,
    }


def _number(value: float) -> float | None:
    """JSON knows neither infinity nor what is not a number."""
    return float(value) if math.isfinite(value) else None


def _plain_size(size: Floats) -> dict[str, float]:
    from trimtab.pod_autoscaling.problem import SIZE

    # Multiples of 0.01 cores need not show that they are no binary fractions.
    return {name: round(float(value), 6) for name, value in zip(SIZE, size, strict=True)}


def _plain_opinion(opinion: Opinion, snapshot: Snapshot) -> dict[str, Any]:
    return {
        "policy": opinion.policy,
        "wanted": _plain_size(opinion.wanted),
        "allowed": _plain_size(opinion.done),
        "changes": not np.allclose(opinion.done, snapshot.size[0], rtol=0, atol=1e-9),
        "because": list(opinion.because),
    }


def _plain_explanation(told: Explanation, *, teacher: str) -> dict[str, Any]:
    names = [one.name for one in told.parts]
    beliefs = told.beliefs
    return {
        "answer": [one._asdict() for one in told.parts],
        "around": {"rule": teacher, **_plain_size(told.around)},
        "influences": [
            {"feature": one.feature, "moved": dict(zip(names, one.moved, strict=True)), "cores": one.cores}
            for one in told.influences
        ],
        "features": [one._asdict() for one in told.facts],
        **({} if beliefs is None else {"profile": [one._asdict() for one in beliefs]}),
    }


def _afterwards(lived: Sequence[Truth], interval_s: float) -> list[dict[str, Any]]:
    """Spans of minutes after a decision, as far as the episode reaches; the truth, not what metrics said."""
    counts = [min(_intervals(minutes, interval_s), len(lived)) for minutes in AFTERWARDS_MIN]
    return [_span(lived[:count], interval_s) for count in dict.fromkeys(counts)]


def _span(lived: Sequence[Truth], interval_s: float) -> dict[str, Any]:
    def total(name: str) -> float:
        return float(sum(getattr(one, name)[0] for one in lived))

    count = len(lived)
    finished = total("finished")
    return {
        "minutes": count * interval_s / 60,
        "requests": int(finished),
        "late_share": total("late") / finished if finished else None,
        "failed_share": total("failed") / finished if finished else None,
        "cores": total("cores_held") / count,
        "memory_gib": total("memory_held") / count / 1024,
        "kills": int(total("kills")),
    }


POD_EXPLAINER = Explainer(
    wing="pod",
    choosing=("app", "trace", "seed"),
    rules=lambda _suite: RULES,
    suite_of_flags=suite_of_flags,
    suite_of_training=_suite_of_training,
    as_simulated=_as_simulated,
    scenario=_scenario,
    content=_played,
    show=print_pod_decision,
    suite_of_simulation=_suite_of_simulation,
)
