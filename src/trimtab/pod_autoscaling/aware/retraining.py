"""Learning on services that are already there: what metrics tell of them, fitted, simulated, practised on.

A policy that meets one service, be it at the very beginning or after the service has changed, can practise
where it does no harm: on a copy. `MetricsLog` keeps what metrics said, `fit_services` makes applications of
it (`trimtab.pod_autoscaling.fitting`), `practice_services` puts them under the traffic that was seen, and
`retrained` goes on from given parameters on such copies, one learner for each service.

A copy meets the rates that were measured, with luck of its own on top: it is somewhat more restless.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.core.errors import SettingsError
from trimtab.core.randomness import integers, split
from trimtab.core.run_folder import Clock
from trimtab.learning.agent import Parameters
from trimtab.learning.off_policy import train_off_policy
from trimtab.learning.off_policy_task import Outcome
from trimtab.pod_autoscaling.application import Application
from trimtab.pod_autoscaling.aware.actions import Actuator
from trimtab.pod_autoscaling.aware.features import Seen
from trimtab.pod_autoscaling.aware.rewards import as_measured, reward_of
from trimtab.pod_autoscaling.aware.services import Service
from trimtab.pod_autoscaling.aware.task import AwareSettings, AwareTask
from trimtab.pod_autoscaling.deployment import Deployment
from trimtab.pod_autoscaling.drift import STEADY
from trimtab.pod_autoscaling.fitting import fit_application, service_history
from trimtab.pod_autoscaling.problem import Flags, Floats, Snapshot
from trimtab.rates.traces import Provenance, RateTrace

__all__ = [
    "Draw",
    "GivenServices",
    "MetricsLog",
    "Outcomes",
    "fit_services",
    "practice_services",
    "retrained",
]

Draw = Callable[[int], Sequence[Service]]
"""Services by seed, always as many."""

EVERY = slice(None)
"""The whole of a log."""

_LEAST_RATE = 1e-3
_MOST_STARTS = 10_000
"""Starts of pods that are remembered of a service: enough for a median, whatever its pods do for years."""


class Outcomes(NamedTuple):
    """What became of services, [T, E] each: the truth, except for `reward`, which is as metrics told it."""

    finished: Floats
    late: Floats
    cores_used: Floats
    cores_held: Floats
    memory_used: Floats
    memory_held: Floats
    kills: Floats
    reward: Floats
    """NaN where monitoring did not answer."""


class GivenServices(AwareTask):
    """Services that are given, in place of ever new ones; where `by_rule` says so, the rule acts.

    What is answered for those is not carried out: the size is exactly that of the rule.
    """

    def __init__(self, settings: AwareSettings, draw: Draw) -> None:
        if settings.ppo is not None:
            raise SettingsError("given services are learned from by replayed steps; leave the table ppo out")
        self._draw, self._lived = draw, list[tuple[Floats, ...]]()
        self.at_work = False
        """From the next reset on policies act as they do alone: answers are smoothed, and prices of lateness
        move to hold the budget. In training neither is so. What is earned is told at the usual price."""
        self.by_rule: Flags = np.zeros(len(draw(0)), bool)
        super().__init__(settings.model_copy(update={"environments": len(self.by_rule)}))

    @property
    def snapshot(self) -> Snapshot:
        """What an outsider knows now."""
        return self._snapshot

    @property
    def applications(self) -> list[Application]:
        """The true ones; nobody who learns may look."""
        return [one.application for one in self._services]

    @property
    def lived(self) -> Outcomes:
        """Everything since the last reset."""
        if not self._lived:
            raise SettingsError("no interval has been lived through; step first")
        return Outcomes(*(np.stack(column) for column in zip(*self._lived, strict=True)))

    def measured(self) -> tuple[Floats, Floats]:
        """Reward and utilisation of the last interval as metrics told them, [E]; NaN where they did not."""
        samples, services = self._snapshot.samples, self._snapshot.services
        told, as_told = samples.present[:, -1] & samples.complete[:, -1], as_measured(self._snapshot)
        cpu = as_told.cores_used / np.maximum(as_told.cores_held, 1e-9)
        memory = as_told.memory_used / np.maximum(as_told.memory_held, 1e-9)
        busy = (np.minimum(cpu, 1.0) + np.minimum(memory, 1.0)) / 2
        # A price that moves would make the same lateness another reward: nothing to watch or to compare by.
        prices = np.full(self.size, self.design.multiplier) if self.at_work else self._observer.prices
        usual_cores = self._seen.usual_cores
        reward = reward_of(as_told, services.slo_s, services.budget, usual_cores, prices, self.design)
        return np.where(told, reward, np.nan), np.where(told, busy, np.nan)

    def reset(self, seed: int) -> None:
        self._lived.clear()
        super().reset(seed)

    def step(self, actions: NDArray[np.float32]) -> Outcome:
        episode = self._episode
        outcome = super().step(self._observer.moved_towards(actions) if self.at_work else actions)
        # A new episode has begun where the number moved on; of its truth there is nothing yet.
        if self._episode == episode:
            one = self._simulator.truth
            self._lived.append(
                (
                    one.finished,
                    one.late,
                    one.cores_used,
                    one.cores_held,
                    one.memory_used,
                    one.memory_held,
                    one.kills,
                    self.measured()[0],
                )
            )
        return outcome

    def score(self, parameters: Parameters) -> dict[str, float]:
        """Minus the mean reward since the last reset: these services are all there is to judge by."""
        return {"score": -float(np.nanmean(self.lived.reward))}

    def _drawn(self) -> list[Service]:
        services = list(self._draw(split(self._seed, "episode", self._episode)))
        if len(services) != len(self.by_rule):
            raise SettingsError(
                f"{len(services)} services where there were {len(self.by_rule)}; draw as many"
            )
        return services

    def _set_prices(self) -> None:
        if self.at_work:
            # They begin with that of the design, as nothing is known of the services yet.
            self._observer.holds_budget = True
        else:
            super()._set_prices()

    def _new_actuator(self) -> Actuator:
        return _Either(super()._new_actuator(), self.by_rule)


class _Either(Actuator):
    """The size that was answered, or the rule's where it acts; flags are looked at when it decides."""

    def __init__(self, own: Actuator, by_rule: Flags) -> None:
        self._own, self._by_rule = own, by_rule

    def sized(self, answers: NDArray[np.float32], snapshot: Snapshot, seen: Seen) -> Floats:
        return np.where(self._by_rule[:, None], seen.rule, self._own.sized(answers, snapshot, seen))

    def taught(self, snapshot: Snapshot, seen: Seen) -> NDArray[np.float32]:
        return self._own.taught(snapshot, seen)


class MetricsLog:
    """What metrics said of some services, interval after interval; enough to fit applications to.

    >>> len(MetricsLog(keep=240))
    0
    """

    def __init__(self, keep: int = 960) -> None:
        if keep < 1:
            raise SettingsError(f"a log of {keep} intervals; keep at least 1")
        self._keep = keep
        self._rows: list[dict[str, Floats]] = []
        self._starts: list[dict[tuple[int, float], float]] = []  # by pod and its beginning
        self._interval_s = 0.0

    def __len__(self) -> int:
        return len(self._rows)

    def note(self, snapshot: Snapshot) -> None:
        """Take in the last interval."""
        samples, pods = snapshot.samples, snapshot.pods
        told = samples.present[:, -1] & samples.complete[:, -1]
        serving = pods.exists & pods.ready & pods.measured
        served = np.maximum(serving.sum(1), 1)
        columns = {
            "rate": samples.rate[:, -1],
            "cpu": samples.cpu[:, -1],
            "memory_mib": np.where(
                serving.any(1), np.where(serving, pods.memory, 0.0).sum(1) / served, np.nan
            ),
            "latency_s": samples.latency_s[:, -1],
            "latency_p50_s": samples.latency_p50_s[:, -1],
            "latency_p99_s": samples.latency_p99_s[:, -1],
            "in_flight": samples.in_flight[:, -1],
            "replicas": samples.ready[:, -1],
            "cpu_limit": samples.cpu_limit[:, -1],
        }
        row = {name: np.where(told, column, np.nan) for name, column in columns.items()}
        row |= {"size": snapshot.size.copy(), "now_s": snapshot.now_s.copy()}
        self._rows = [*self._rows[1 - self._keep :], row] if self._keep > 1 else [row]
        self._interval_s = snapshot.interval_s
        self._note_starts(snapshot)

    def application(
        self, row: int, *, slo_s: float, deployment: Deployment, span: slice = EVERY
    ) -> Application:
        """The application that a service seems to be, by what was seen in a span of the log."""
        rows = self._rows[span]
        columns = {name: np.array([one[name][row] for one in rows]) for name in self._rows[0]}
        interval_s = float(deployment.interval_s)
        del columns["size"], columns["now_s"]
        # Intervals in which nobody was answered say nothing of latency.
        for name in ("latency_s", "latency_p50_s", "latency_p99_s"):
            columns[name] = np.where(columns[name] > 0, columns[name], np.nan)
        crossed = columns["latency_p50_s"] > columns["latency_p99_s"]
        columns["latency_p50_s"] = np.where(crossed, columns["latency_p99_s"], columns["latency_p50_s"])
        history = service_history(f"service {row}", interval_s, columns, starts_s=self.starts_s(row))
        balancing = "random" if deployment.balancing == "random" else "two-choices"
        found, _ = fit_application(history, slo_ms=1000 * slo_s, balancing=balancing)
        return found

    def service(
        self, row: int, application: Application, *, steps: int, seed: int, span: slice = EVERY
    ) -> Service:
        """That application under a stretch of the traffic that was seen, in the size that it had then."""
        rows = self._rows[span]
        if len(rows) < steps:
            raise SettingsError(f"a stretch of {steps} intervals from {len(rows)}; observe longer")
        first = int(integers(split(seed, "stretch", row), 0, high=len(rows) - steps + 1))
        stretch = rows[first : first + steps]
        rates = np.array([one["rate"][row] for one in stretch])
        usual = float(np.nanmean(rates)) if np.isfinite(rates).any() else _LEAST_RATE
        rates = np.maximum(np.where(np.isfinite(rates), rates, usual), _LEAST_RATE)
        # Not the time between two rows: a trace that is over begins anew, at an earlier time of day.
        trace = RateTrace(
            rates, self._interval_s, Provenance("measured"), start_s=float(stretch[0]["now_s"][row])
        )
        return Service(application, trace, STEADY, stretch[0]["size"][row])

    def starts_s(self, row: int) -> Floats:
        """How long each pod that was seen of a service took to be ready; NaN where nobody knows."""
        return np.array(list(self._starts[row].values()))

    def _note_starts(self, snapshot: Snapshot) -> None:
        """Seconds from the beginning of a pod until it was ready, each pod once."""
        pods = snapshot.pods
        if not self._starts:
            self._starts = [{} for _ in range(len(pods.exists))]
        lasted = pods.ready_changed_s - pods.started_s
        for row, pod in np.argwhere(pods.exists & pods.ready):
            # What is seen first counts: a pod that was killed and came back is ready again much later, and of
            # one that was there from the beginning nobody knows.
            took_s = float(lasted[row, pod]) if lasted[row, pod] > 0 else np.nan
            self._starts[row].setdefault((int(pod), float(pods.started_s[row, pod])), took_s)
        for row, starts in enumerate(self._starts):
            if len(starts) > _MOST_STARTS:
                there = {(pod, float(pods.started_s[row, pod])) for pod in np.flatnonzero(pods.exists[row])}
                gone = [one for one in starts if one not in there]
                for one in gone[: len(starts) - _MOST_STARTS]:
                    del starts[one]


def fit_services(
    log: MetricsLog, task: GivenServices, rows: Sequence[int], *, span: slice = EVERY
) -> dict[int, Application]:
    """Applications fitted to what metrics said of these services."""
    slo_s, deployment = task.snapshot.services.slo_s, task.settings.deployment
    return {
        row: log.application(row, slo_s=float(slo_s[row]), deployment=deployment, span=span) for row in rows
    }


def practice_services(
    log: MetricsLog,
    fitted: dict[int, Application],
    rows: Sequence[int],
    *,
    copies: int,
    steps: int,
    seed: int,
    span: slice = EVERY,
) -> list[Service]:
    """So many copies of each of these services, those of one service side by side."""
    return [
        log.service(row, fitted[row], steps=steps, seed=split(seed, "copy", row, copy), span=span)
        for row in rows
        for copy in range(copies)
    ]


def retrained(
    settings: AwareSettings,
    start: Parameters,
    draw: Draw,
    folder: str | Path,
    *,
    clock: Clock,
    seed: int = 0,
) -> Any:
    """Go on from parameters on given services, one learner (`members`) for each; theirs are stacked.

    `draw` gives as many services for each member, side by side.
    """
    task = GivenServices(settings, draw)
    result = train_off_policy(task, settings.training, folder, clock=clock, seed=seed, start=start)
    return result.parameters
