"""`make bench-pod-guard`: broken policies behind the guard, beside a rule that one would trust alone.

60 services that nothing was tuned on (test applications, unseen hours of three kinds of traffic) live through
an hour each, first under the rule alone, then under policies that no sane person would let near a service,
behind the guard in active mode. All meet the same requests. Violations are late or failed requests over all;
every action that leaves the guard is checked against the bounds and quanta of its service.

The rule must decide the whole size by itself: HPA with pods of one core, and `multi`. HPA that leaves the CPU
of pods as it is would leave it as the broken policy made it, and does not do as a rule to fall back on.

    make bench-pod-guard ARGS="--services 12"    # a trial; it misses the bar on the number of decisions
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from benchmarks.results import Row, at_least, at_most, finish
from trimtab.core.randomness import uniform
from trimtab.pod_autoscaling.deployment import Deployment
from trimtab.pod_autoscaling.episode import Episode
from trimtab.pod_autoscaling.guarding import GuardedPolicy
from trimtab.pod_autoscaling.policies import make_policy
from trimtab.pod_autoscaling.problem import Decider, Floats, PodPolicy, Services, Snapshot
from trimtab.pod_autoscaling.simulator.simulator import simulate_batch
from trimtab.pod_autoscaling.workload.applications import application_names, make_application
from trimtab.pod_autoscaling.workload.presets import TraceSettings, draw_trace

SERVICES = 60
DECISIONS = 100_000
TRAFFIC = ("diurnal", "noisy", "bursty")
HEURISTICS = ("hpa:target=70,cpu=1", "multi")
BAR = 1.3
BEHIND = 40


@dataclass
class Broken:
    """A policy that answers by a function of the services, what is seen, and the number of the decision."""

    name: str
    answer: Callable[[Services, Snapshot, int], Floats]

    def begin(self, services: Services) -> Decider:
        return _Answering(services, self.answer)


@dataclass
class _Answering:
    services: Services
    answer: Callable[[Services, Snapshot, int], Floats]
    decided: int = 0

    def decide(self, snapshot: Snapshot) -> Floats:
        self.decided += 1
        return self.answer(self.services, snapshot, self.decided)


def at_random(services: Services, snapshot: Snapshot, decided: int) -> Floats:
    """Any size, each decision anew; small ones as often as large ones."""
    rows, columns = np.indices(snapshot.size.shape)
    share = uniform(7, rows, columns, decided)
    return services.least * (services.most / services.least) ** share


@dataclass
class Behind:
    """A good rule that sees what was ten minutes ago, and does not say so."""

    name: str = "ten minutes behind"

    def begin(self, services: Services) -> Decider:
        return _Late(make_policy("multi").begin(services))


@dataclass
class _Late:
    rule: Decider
    answers: list[Floats] = field(default_factory=list[Floats])

    def decide(self, snapshot: Snapshot) -> Floats:
        self.answers = [*self.answers, self.rule.decide(snapshot)][-BEHIND:]
        return self.answers[0]


@dataclass
class Watched:
    """Counts what leaves a policy, and what of it lies outside the bounds or off the grid."""

    policy: PodPolicy
    decisions: int = 0
    outside: int = 0

    @property
    def name(self) -> str:
        return self.policy.name

    def begin(self, services: Services) -> Decider:
        self._services, self._decider = services, self.policy.begin(services)
        return self

    def decide(self, snapshot: Snapshot) -> Floats:
        size, services = self._decider.decide(snapshot), self._services
        steps = size / services.quantum
        wrong = ~(np.isfinite(size) & (size >= services.least - 1e-9) & (size <= services.most + 1e-9))
        wrong |= ~(np.abs(steps - np.round(steps)) < 1e-6)
        self.decisions += len(size)
        self.outside += int(wrong.any(1).sum())
        return size


BROKEN = (
    Broken("random", at_random),
    Broken("always least", lambda services, snapshot, decided: services.least),
    Broken("always most", lambda services, snapshot, decided: services.most),
    Broken("not a number", lambda services, snapshot, decided: np.full(snapshot.size.shape, np.nan)),
    Behind(),
)


def violations(episodes: Sequence[Episode]) -> float:
    """Requests that were late or failed, over all."""
    return sum(int(one.late.sum()) for one in episodes) / sum(int(one.finished.sum()) for one in episodes)


def core_hours(episodes: Sequence[Episode]) -> float:
    """Cores held by a service on average, over a day."""
    return float(np.mean([one.metrics()["core_hours"] for one in episodes]))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Broken policies behind the guard.")
    parser.add_argument("--services", type=int, default=SERVICES, help="services to live through an hour")
    asked = parser.parse_args(arguments)
    started = time.perf_counter()
    applications = [make_application(name) for name in application_names("test")[: asked.services]]
    traces = [
        draw_trace(
            TraceSettings(name=TRAFFIC[at % 3], mean_cores=3, hours=1), one, seed=900 + at, part="test"
        )
        for at, one in enumerate(applications)
    ]

    def play(policy: PodPolicy) -> list[Episode]:
        seeds = range(len(applications))
        return simulate_batch(policy, applications, traces, Deployment(), seeds=seeds, threads=2)

    rows: list[Row] = []
    decisions = outside = 0
    for heuristic in HEURISTICS:
        alone = play(make_policy(heuristic))
        least = play(BROKEN[1])
        harm = violations(least) / violations(alone)
        rows += [
            Row(f"{heuristic} alone: violations", violations(alone), "none", True),
            Row(f"{heuristic} alone: core-hours a day", core_hours(alone), "none", True),
            at_least(f"always least without a guard: violations, times those of {heuristic}", harm, 5),
        ]
        for broken in BROKEN:
            watched = Watched(GuardedPolicy(broken, make_policy(heuristic)))
            found = play(watched)
            decisions, outside = decisions + watched.decisions, outside + watched.outside
            told = f"{broken.name} beside {heuristic}"
            harm, cost = violations(found) / violations(alone), core_hours(found) / core_hours(alone)
            rows.append(at_most(f"{told}: violations, times those of the rule alone", harm, BAR))
            rows.append(Row(f"{told}: core-hours, times those of the rule alone", cost, "none", True))
    rows += [
        at_least("decisions watched", decisions, DECISIONS),
        at_most("actions outside the bounds or off the grid", outside, 0),
        Row("minutes this benchmark took", (time.perf_counter() - started) / 60, "none", True),
    ]
    finish("pod-guard", rows)


if __name__ == "__main__":
    main()
