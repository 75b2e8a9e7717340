"""Made-up services to try the guard on: a daily curve with bursts, pods that start late, queues, memory.

Latency follows rho^2 / (1 - rho) and the share of late requests its exponential tail, fitted to what the
research notes measured for HPA at 50, 70 and 80 % (0.04, 0.16 and 0.37 % of requests). What does not get
done waits for the next tick. A pod whose memory is below its working set is killed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from trimtab.control.evidence import Evidence, Needs
from trimtab.control.guard import Guard
from trimtab.control.guard_settings import Dimension, GuardSettings
from trimtab.control.limits import product_of
from trimtab.core.randomness import uniform

INTERVAL_S = 15.0
WORK_S = 0.02  # CPU seconds of a request
SLO_S = 0.35
REQUEST_CORES = 1.0  # the size of pod that the heuristic uses

PODS = (
    Dimension(name="replicas", least=1, most=60, joint=True),
    Dimension(name="cpu", unit="cores", quantum=0.01, least=0.1, most=4, joint=True),
    Dimension(name="memory", unit="MiB", quantum=16, least=64, most=4096),
)


def pod_guard(**settings: object) -> Guard:
    """A guard for these services."""
    return Guard(
        GuardSettings(dimensions=PODS, **settings),  # pyright: ignore[reportArgumentType]
        capacity=product_of(0, 1),
        cost=lambda amounts: amounts[:, 0] * (amounts[:, 1] + amounts[:, 2] / 4096),
    )


class View(NamedTuple):
    """What is seen of the last tick, [E] each, and the present amounts [E, 3]."""

    rate: np.ndarray
    utilisation: np.ndarray
    latency_ratio: np.ndarray
    bad: np.ndarray
    total: np.ndarray
    memory_peak: np.ndarray
    current: np.ndarray


@dataclass
class Services:
    """E services, stepped together."""

    environments: int
    ticks: int
    seed: int = 0

    def __post_init__(self) -> None:
        self.rates = _rates(self.environments, self.ticks, self.seed)
        self.tick = 0
        start = np.maximum(np.ceil(self.rates[0] * WORK_S / 0.6), 1)
        self.amounts = np.stack([start, np.full_like(start, 1.0), np.full_like(start, 512.0)], axis=1)
        self.replicas_before = start.copy()
        self.waiting_s = np.zeros(self.environments)  # CPU seconds left over
        self.peaks = np.zeros((20, self.environments))
        self.view = self.step(self.amounts)

    def step(self, amounts: np.ndarray) -> View:
        """Live through one tick with these amounts."""
        rate = self.rates[self.tick]
        self.tick += 1
        ready = np.minimum(amounts[:, 0], self.replicas_before)  # new pods take longer than one tick
        self.replicas_before = amounts[:, 0].copy()
        cores = np.maximum(ready, 1) * amounts[:, 1]
        wanted = rate * WORK_S + self.waiting_s / INTERVAL_S
        rho = wanted / cores
        left = np.maximum(rho - 1, 0) * cores * INTERVAL_S
        self.waiting_s = np.minimum(left, cores * 10)  # a queue of ten seconds; the rest is turned away
        busy = np.minimum(rho, 0.97)
        ratio = 0.5 * (1 + 0.25 * busy**2 / (1 - busy)) + self.waiting_s / cores / SLO_S
        late = 0.01 ** (1 / np.maximum(ratio, 0.05)) + (left - self.waiting_s) / (rate * WORK_S * INTERVAL_S)
        in_flight = np.minimum(rate * SLO_S * ratio / np.maximum(ready, 1), 200)
        working_set = 120 + 4 * in_flight
        killed = working_set > amounts[:, 2]
        self.peaks[self.tick % len(self.peaks)] = np.where(killed, amounts[:, 2] * 1.2, working_set)
        total = rate * INTERVAL_S
        bad = np.minimum(late + 0.5 * killed, 1.0) * total
        self.amounts = amounts.copy()
        self.view = View(
            rate, np.minimum(rho, 1.0), ratio, bad, total, self.peaks.max(axis=0), amounts.copy()
        )
        return self.view

    def needs(self, settings: GuardSettings) -> Needs:
        """Floors by present usage, as a wing would work them out."""
        view = self.view
        floor = np.zeros((self.environments, 3))
        floor[:, 1] = 1.05 * view.utilisation * view.current[:, 1]
        floor[:, 2] = 1.1 * view.memory_peak
        return Needs.of(settings, view.current, floor=floor, capacity=view.rate * WORK_S / 0.95)

    def evidence(self, **others: object) -> Evidence:
        view = self.view
        return Evidence.of(
            self.environments,
            latency_ratio=view.latency_ratio,
            bad=view.bad,
            total=view.total,
            **others,  # pyright: ignore[reportArgumentType]
        )


def _rates(environments: int, ticks: int, seed: int) -> np.ndarray:
    """Requests per second, [ticks + 1, E]: a daily curve of two to four hours, noise, bursts of minutes."""
    generator = np.random.default_rng(seed)
    time = np.arange(ticks + 1)[:, None]
    period, phase = generator.uniform(480, 960, environments), generator.uniform(0, 2 * np.pi, environments)
    daily = 1 + 0.5 * np.sin(2 * np.pi * time / period + phase)
    noise = np.zeros((ticks + 1, environments))
    for at in range(1, ticks + 1):
        noise[at] = 0.8 * noise[at - 1] + generator.normal(0, 0.03, environments)
    bursts = np.zeros((ticks + 1, environments))
    shape = np.concatenate([np.linspace(0, 1, 4), np.ones(8), np.linspace(1, 0, 6)])
    for row in range(environments):
        for begin in generator.integers(0, ticks, generator.poisson(ticks / 200)):
            end = min(begin + len(shape), ticks + 1)
            bursts[begin:end, row] += shape[: end - begin] * generator.uniform(0.2, 0.8)
    return generator.uniform(60, 600, environments) * daily * np.exp(noise) * (1 + bursts)


class HpaAndMemory:
    """HPA at a target with a window of 300 s, pods of one core, and memory 15 % above the peak."""

    def __init__(self, target: float = 0.7) -> None:
        self.target, self.asked = target, list[np.ndarray]()

    def __call__(self, view: View) -> np.ndarray:
        replicas, cores = view.current[:, 0], view.current[:, 1]
        ratio = view.utilisation * cores / REQUEST_CORES / self.target
        wanted = np.where(np.abs(ratio - 1) <= 0.1, replicas, np.ceil(ratio * replicas))
        wanted = np.clip(wanted, 1, np.maximum(2 * replicas, 4))
        self.asked = [*self.asked, wanted][-21:]
        settled = np.where(wanted < replicas, np.minimum(replicas, np.max(self.asked, axis=0)), wanted)
        memory = np.maximum(np.ceil(1.15 * view.memory_peak / 16) * 16, 256)
        return np.stack([np.minimum(settled, 60), np.full_like(cores, REQUEST_CORES), memory], axis=1)


Policy = Callable[[View, int], np.ndarray]


class Outcome(NamedTuple):
    """What came of it."""

    violations: float  # share of requests
    core_hours: float
    acted: float  # share of decisions that were the policy's
    outside: int  # actions outside the bounds or between quanta


def play_alone(services: Services, heuristic: Callable[[View], np.ndarray]) -> Outcome:
    """The heuristic without anybody."""
    bad = total = cores = 0.0
    for _ in range(services.ticks):
        view = services.step(heuristic(services.view))
        bad, total = bad + view.bad.sum(), total + view.total.sum()
        cores += (services.amounts[:, 0] * services.amounts[:, 1]).sum()
    return Outcome(bad / total, cores * INTERVAL_S / 3600, 0.0, 0)


def play_guarded(
    guard: Guard,
    services: Services,
    policy: Policy,
    evidence: Callable[[Services, int], Evidence] | None = None,
) -> Outcome:
    """A policy behind the guard, with HPA beside it."""
    heuristic, state = HpaAndMemory(), guard.begin(services.environments)
    quantum = np.array([one.quantum for one in PODS])
    least, most = np.array([one.least for one in PODS]), np.array([one.most for one in PODS])
    bad = total = cores = acted = 0.0
    outside = 0
    for tick in range(services.ticks):
        shown = services.evidence() if evidence is None else evidence(services, tick)
        answer = policy(services.view, tick)
        needs = services.needs(guard.settings)
        state, guarded = guard.step(state, answer, heuristic(services.view), shown, needs)
        quanta = guarded.action / quantum
        inside = (guarded.action >= least - 1e-9) & (guarded.action <= most + 1e-9)
        outside += int((~inside | (np.abs(quanta - np.rint(quanta)) > 1e-6)).any(axis=1).sum())
        acted += float((guarded.acting == 1).mean())
        view = services.step(guarded.action)
        bad, total = bad + view.bad.sum(), total + view.total.sum()
        cores += (services.amounts[:, 0] * services.amounts[:, 1]).sum()
    return Outcome(bad / total, cores * INTERVAL_S / 3600, acted / services.ticks, outside)


def always(*amounts: float) -> Policy:
    """The same whatever happens."""

    def policy(view: View, tick: int) -> np.ndarray:
        return np.tile(np.array(amounts, float), (len(view.rate), 1))

    return policy


def at_random(view: View, tick: int) -> np.ndarray:
    """Anything between the bounds."""
    draws = uniform(1, np.arange(len(view.rate))[:, None], tick, np.arange(3)[None])
    least, most = np.array([one.least for one in PODS]), np.array([one.most for one in PODS])
    return least + draws * (most - least)
