"""What a learned autoscaler looks at: numbers about one, from metrics and from what a rule makes of them.

Each observation has what AWARE's state amounts to (utilisation, load, latency, size, recent past), what the
rule `multi` measured and would do, and the action before. Where an interval is missing its numbers repeat the
last that were known, and a flag says so.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.pod_autoscaling.aware.design import Design
from trimtab.pod_autoscaling.aware.rewards import as_measured, reward_of
from trimtab.pod_autoscaling.heuristics.measures import known, mean
from trimtab.pod_autoscaling.heuristics.multi import Measured, MultiDecider
from trimtab.pod_autoscaling.problem import CPU, MEMORY, REPLICAS, Flags, Floats, Integers, Services, Snapshot

__all__ = ["FEATURES", "LARGEST_FEATURE", "PRICE", "Observer", "Seen", "numbers_of", "price_number"]

FEATURES = (
    # As AWARE has them.
    "cpu utilisation",
    "memory utilisation",
    "throttled",
    "load over usual",
    "load change",
    "load change of a minute",
    "tail latency over limit",
    "median latency over limit",
    "failed",
    "requests inside per core",
    "replicas",
    "ready over replicas",
    "pod cpu",
    "pod memory",
    "out of memory lately",
    "intervals since change",
    "time of day, sine",
    "time of day, cosine",
    "reward",
    "metrics missing",
    # What the rule measured and would do.
    "forecast over use",
    "highest load over forecast",
    "rule's replicas over present",
    "rule's cpu over present",
    "rule's memory over present",
    "rule's cores over present",
    "forecast over cores",
    "work over limit",
    "time outside over limit",
    "tail over mean latency",
    "load variation",
    "late lately",
    "late",
    "memory peak over usual",
    "highest load over present",
    "lowest load over present",
    "mean load over present",
    "tail latency lately over limit",
    "usual cores",
    "resizing",
    "refused by nodes",
    "requests inside per pod",
    # What rushes were like.
    "peak of an hour over present",
    "intervals since near that peak",
    "share of time near that peak",
)
"""Then the price of lateness, where a design has one, and the action before, one number for each part."""
PRICE = "price of lateness"

_USUAL_INTERVALS = 120.0
"""Usual is a mean in which an interval of half an hour ago counts 1/e."""
_PEAK_KEPT = 1 - 1 / 720
"""Of a peak three hours ago a bit more than a third is remembered."""
_NEAR_PEAK, _PEAK_INTERVALS = 0.6, 40.0
_KILL_KEPT = 0.95
_CHANGE_INTERVALS = 20.0
_USUAL_PRICE, _PRICE_FACTOR, _LEAST_PRICE = 20.0, 4.0, 1e-6
_PRICE_RATE, _LARGEST_EXCESS = 0.01, 25.0
"""An hour without a late request cuts the price to a tenth; an interval with a tenth late adds 9 %."""
_DAY_S = 86_400.0
LARGEST_FEATURE = 3.0
"""Features are cut off here, on both sides of 0."""

_REMEMBERED = (
    "_action",
    "_acted",
    "_killed",
    "_since",
    "_cores",
    "_rate",
    "_size",
    "_peak",
    "_since_peak",
    "_near",
    "_price",
)
_UNKNOWN = ("_cores", "_rate", "_size")


class Seen(NamedTuple):
    """A snapshot as a network sees it."""

    observation: NDArray[np.float32]  # [E, features + actions]
    measured: Measured
    rule: Floats  # [E, 3]: the size that the rule wants
    reward: Floats  # [E]: of the last interval, as metrics told it
    fresh: Flags  # [E]: the service has not lived yet; what is remembered is of another
    usual_cores: Floats  # [E]: cores that the service uses in the long run
    peak_cores: Floats  # [E]: and those that it needed in the worst interval it is remembered for


class Observer:
    """Looks at services decision after decision, and remembers what a single snapshot does not hold."""

    def __init__(self, services: Services, design: Design) -> None:
        size = len(services.slo_s)
        self.rule = MultiDecider(services, design.base)
        self._design = design
        self._action = np.zeros((size, design.networks.actions), np.float32)
        self._acted = np.zeros(size, bool)
        self._killed, self._since = np.zeros(size), np.zeros(size)
        self._cores, self._rate = np.full(size, np.nan), np.full(size, np.nan)
        self._size = np.full((size, 3), np.nan)
        self._peak, self._since_peak, self._near = np.zeros(size), np.zeros(size), np.zeros(size)
        self._price = np.full(size, design.multiplier)
        self.holds_budget = design.priced
        """Whether prices move with what is late; in training they are given."""

    @property
    def prices(self) -> Floats:
        """What a share of late requests of 1 costs each service now, in cores per core needed, [E]."""
        return self._price

    def set_prices(self, prices: Floats) -> None:
        """Let the services have these prices, whatever becomes late."""
        self._price, self.holds_budget = np.array(prices, np.float64), False

    def see(self, snapshot: Snapshot) -> Seen:
        """Take a snapshot in; each is shown once."""
        services, samples = snapshot.services, snapshot.samples
        fresh = ~samples.present[:, -1]
        self._forget(fresh)
        told = known(snapshot, samples.cpu, samples.rate)[:, -1]
        self._cores = _usual(self._cores, samples.cpu[:, -1], told)
        self._rate = _usual(self._rate, samples.rate[:, -1], told)
        self._move_prices(snapshot, told & ~fresh)
        self._watch_peaks(samples.rate[:, -1], told)
        kills = np.where(samples.present[:, -1], samples.kills[:, -1], 0.0)
        self._killed = np.maximum(_KILL_KEPT * self._killed, np.minimum(kills, 1.0))
        same = (snapshot.size == self._size).all(1)
        self._since, self._size = np.where(same, self._since + 1, 0.0), snapshot.size.copy()
        measured = self.rule.measure(snapshot)
        rule = self.rule.sized(snapshot, measured)
        usual = np.maximum(np.nan_to_num(self._cores), (services.least[:, REPLICAS] * services.least[:, CPU]))
        lived = as_measured(snapshot)
        reward = reward_of(lived, services.slo_s, services.budget, usual, self._price, self._design)
        reward = np.where(fresh, 0.0, reward)
        peak = np.fmax(self._peak * measured.behaviour.work_s, measured.cores_lately)
        columns = (
            *self._state(snapshot, reward, told),
            *_ruled(snapshot, measured, rule, usual),
            *self._rushes(snapshot),
        )
        seen = np.nan_to_num(np.stack(columns, 1), nan=0.0, posinf=LARGEST_FEATURE, neginf=-LARGEST_FEATURE)
        parts = [np.clip(seen, -LARGEST_FEATURE, LARGEST_FEATURE), self._action]
        if self._design.priced:
            parts.insert(1, price_number(self._price)[:, None])
        observation = np.concatenate(parts, 1, dtype=np.float32)
        return Seen(observation, measured, rule, reward, fresh, usual, peak)

    def taken(self, services: Services, rows: Integers) -> Observer:
        """One that remembers what this one does of some rows; a row may be named twice."""
        other = Observer(services, self._design)
        for name in _REMEMBERED:
            setattr(other, name, getattr(self, name)[rows].copy())
        other.holds_budget, other.rule.crowding = self.holds_budget, self.rule.crowding.taken(rows)
        return other

    @property
    def shares(self) -> Floats:
        """How far the next action goes towards its answer, [E]: all the way where none was before."""
        return np.where(self._acted, self._design.smoothing, 1.0)

    def moved_towards(self, actions: NDArray[np.float32]) -> NDArray[np.float32]:
        """The action before, moved towards this one as far as the design has it; the first is taken as is.

        Answers that jump cost more than they are worth: pods that came for one are kept for minutes.
        """
        share = self._design.smoothing
        moved = (self._action + share * (actions - self._action)).astype(np.float32)
        return np.where(self._acted[:, None] & (share < 1), moved, actions)

    def acted(self, actions: NDArray[np.float32]) -> None:
        """Remember what was decided."""
        self._action = np.array(actions, np.float32)
        self._acted = np.ones(len(self._action), bool)

    def _forget(self, fresh: Flags) -> None:
        for name in _REMEMBERED:
            if name != "_price":
                getattr(self, name)[fresh] = np.nan if name in _UNKNOWN else 0.0
        if self.holds_budget:
            self._price[fresh] = self._design.multiplier

    def _move_prices(self, snapshot: Snapshot, told: Flags) -> None:
        """Dual ascent: up with requests that are late above the budget, down while none are."""
        if not self.holds_budget:
            return
        samples, design = snapshot.samples, self._design
        # An interval counts by what arrived in it: the budget is of requests, not of time.
        weight = np.minimum(samples.rate[:, -1] / np.maximum(self._rate, 1e-9), 3.0)
        above = np.minimum(samples.late[:, -1] / snapshot.services.budget - 1, _LARGEST_EXCESS)
        moved = self._price * np.exp(_PRICE_RATE * np.nan_to_num(weight * above))
        self._price = np.where(told, np.clip(moved, design.least_price, design.most_price), self._price)

    def _watch_peaks(self, rate: Floats, told: Flags) -> None:
        self._peak = np.where(told, np.maximum(rate, _PEAK_KEPT * self._peak), self._peak)
        near = rate >= _NEAR_PEAK * self._peak
        self._since_peak = np.where(told & near, 0.0, self._since_peak + 1)
        self._near = np.where(told, self._near + (near - self._near) / _USUAL_INTERVALS, self._near)

    def _rushes(self, snapshot: Snapshot) -> tuple[Floats, ...]:
        return (
            _log(self._peak, np.maximum(snapshot.samples.rate[:, -1], 1e-9)),
            np.minimum(self._since_peak / _PEAK_INTERVALS, 2.0),
            self._near,
        )

    def _state(self, snapshot: Snapshot, reward: Floats, told: Flags) -> tuple[Floats, ...]:
        """The numbers of AWARE's state; their order is that of `FEATURES`."""
        samples, services, size = snapshot.samples, snapshot.services, snapshot.size
        rate, slo_s = samples.rate, services.slo_s
        ready = np.maximum(samples.ready[:, -1], 1.0)
        cores = ready * np.maximum(samples.cpu_limit[:, -1], 1e-6)
        angle = 2 * math.pi * snapshot.now_s / _DAY_S
        replicas, cpu, memory = (
            _between(size[:, at], services.least[:, at], services.most[:, at])
            for at in (REPLICAS, CPU, MEMORY)
        )
        return (
            samples.cpu[:, -1] / cores,
            samples.memory[:, -1] / np.maximum(samples.memory_limit[:, -1], 1e-6),
            samples.throttled[:, -1],
            _log(rate[:, -1], self._rate),
            2 * _log(rate[:, -1], rate[:, -2]),
            _log(rate[:, -1], rate[:, -5] if rate.shape[1] >= 5 else rate[:, 0]),
            _log(samples.latency_p99_s[:, -1], slo_s),
            _log(samples.latency_p50_s[:, -1], slo_s) / 2,
            samples.failed[:, -1],
            np.log1p(samples.in_flight[:, -1] / cores) / 2,
            replicas,
            snapshot.ready / size[:, REPLICAS],
            cpu,
            memory,
            self._killed,
            np.minimum(self._since / _CHANGE_INTERVALS, 1.0),
            np.sin(angle),
            np.cos(angle),
            reward / 3,
            (~told).astype(np.float64),
        )


def _ruled(snapshot: Snapshot, measured: Measured, rule: Floats, usual: Floats) -> tuple[Floats, ...]:
    """What the rule measured and would do; their order is that of `FEATURES`."""
    samples, services, size = snapshot.samples, snapshot.services, snapshot.size
    slo_s, budget, counts = services.slo_s, services.budget, known(snapshot, samples.rate)
    rate, now = samples.rate, np.maximum(samples.rate[:, -1], 1e-9)
    held = size[:, REPLICAS] * size[:, CPU]
    both = counts[:, 1:] & counts[:, :-1]
    changes = np.where(both, _log(rate[:, 1:], rate[:, :-1]), 0.0)
    tail = known(snapshot, samples.latency_p99_s) & (samples.latency_p99_s > 0)
    return (
        _log(measured.cores, samples.cpu[:, -1]),
        _log(measured.cores_lately, measured.cores),
        _log(rule[:, REPLICAS], size[:, REPLICAS]),
        2 * _log(rule[:, CPU], size[:, CPU]),
        2 * _log(rule[:, MEMORY], size[:, MEMORY]),
        2 * _log(rule[:, REPLICAS] * rule[:, CPU], held),
        measured.cores / held,
        _log(measured.behaviour.work_s, slo_s) / 2,
        _log(measured.behaviour.outside_s, slo_s) / 2,
        np.log(np.maximum(measured.behaviour.tail, 1e-3)) / 2,
        5 * np.sqrt((changes**2).sum(1) / np.maximum(both.sum(1), 1)),
        np.log1p(mean(samples.late, counts) / budget) / 2,
        np.log1p(samples.late[:, -1] / budget) / 2,
        _log(measured.memory, measured.memory_usual),
        _log(np.where(counts, rate, 0.0).max(1), now),
        _log(np.where(counts, rate, np.inf).min(1), now),
        _log(mean(rate, counts), now),
        _log(mean(samples.latency_p99_s, tail), slo_s),
        np.log(np.maximum(usual, 1e-3)) / 2,
        snapshot.resizing.astype(np.float64),
        snapshot.infeasible.astype(np.float64),
        np.log1p(samples.in_flight[:, -1] / np.maximum(samples.ready[:, -1], 1.0)) / 2,
    )


def numbers_of(design: Design) -> tuple[str, ...]:
    """Names of what a design's network sees, without the action before."""
    return (*FEATURES, PRICE) if design.priced else FEATURES


def price_number(price: Floats) -> Floats:
    """The price of lateness as a network sees it: a logarithm, of a millionth at least where it is nothing.

    >>> price_number(np.array([5.0, 20.0, 80.0])).tolist()
    [-1.0, 0.0, 1.0]
    >>> bool(np.isfinite(price_number(np.array([0.0])))[0])
    True
    """
    return np.log(np.maximum(price, _LEAST_PRICE) / _USUAL_PRICE) / math.log(_PRICE_FACTOR)


def _log(value: Floats, reference: Floats) -> Floats:
    """Logarithm of a ratio, within +-10; NaN where either is unknown."""
    return np.log(np.clip(value / np.maximum(reference, 1e-9), math.exp(-10), math.exp(10)))


def _between(value: Floats, least: Floats, most: Floats) -> Floats:
    """Where a value lies between its bounds, -1 to 1, in proportions."""
    span = np.maximum(np.log(most / least), 1e-9)
    return 2 * np.log(value / least) / span - 1


def _usual(before: Floats, value: Floats, told: Flags) -> Floats:
    """A slow mean that begins with its first value."""
    begun = np.where(np.isnan(before), value, before)
    return np.where(told, begun + (value - begun) / _USUAL_INTERVALS, before)
