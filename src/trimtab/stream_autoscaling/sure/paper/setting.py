"""Jobs, rewards and episodes of the published table.

The paper names neither its six jobs nor how it normalises rewards. The jobs here are the six frozen ones as
the published rules see them: one record is one record at every task, and what a task costs is such that the
heaviest keeps `HEAVIEST` instances busy when ClarkNet's mean of 166 records arrives in a minute. Its busiest
hours, 1.8 times the mean, then need 7.4 of the 10 instances a task may have.

Latency and utilisation are each brought to a scale of their own (published: one for both), that of a fixed
allocation that is half busy on average: 0 is as good as that, 1 is one standard deviation of its hours
better. A single hour counts at most `LARGEST`, as published; on the small jobs a minute of latency is 0.6 to
0.9 of a standard deviation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.stream_autoscaling.episode import Episode
from trimtab.stream_autoscaling.job import Job, Vertex
from trimtab.stream_autoscaling.problem import Integers, Snapshot, StreamPolicy
from trimtab.stream_autoscaling.simulator.paper import MINUTE_S, PaperRules, PaperSimulator
from trimtab.stream_autoscaling.workload.jobs import make_job
from trimtab.stream_autoscaling.workload.presets import TraceSettings, draw_trace
from trimtab.stream_autoscaling.workload.traces import RateTrace

__all__ = [
    "HEAVIEST",
    "LARGEST",
    "MEAN_RATE",
    "Scale",
    "by_the_minute",
    "half_busy",
    "normalised",
    "paper_job",
]
__all__ += ["play_hours", "rewards_of", "scale_of"]

MEAN_RATE = 166.04 / 60
"""ClarkNet's records per second, on average over its two weeks."""
HEAVIEST = 4.0
LARGEST = 10.0
_SCALE_SEEDS = range(8)
_SCALE_DAYS = 3

Numbers = NDArray[np.float64]


def paper_job(name: str) -> Job:
    """A job by name, with the shape it has and the numbers that the published rules know.

    >>> job = paper_job("small-1")
    >>> round(max(vertex.service_ms for vertex in job.vertices) * job.usual_rate / 1000, 6)  # instances busy
    4.0
    """
    job = make_job(name)
    busy = HEAVIEST * job.demand_ms / job.demand_ms.max()
    vertices = tuple(
        Vertex(name=vertex.name, service_ms=float(1000 * one / MEAN_RATE))
        for vertex, one in zip(job.vertices, busy, strict=True)
    )
    return replace(job, vertices=vertices, usual_rate=MEAN_RATE)


class Scale(NamedTuple):
    """What hours are measured against; each field is one number, or one for each environment."""

    latency_min: Numbers | float
    latency_spread: Numbers | float
    utilisation: Numbers | float
    utilisation_spread: Numbers | float


def half_busy(job: Job, rules: PaperRules) -> Integers:
    """Instances of each task so that half of them are busy at the usual rate, rounded up."""
    busy = np.array([vertex.service_ms for vertex in job.vertices]) * job.usual_rate / 1000
    return np.clip(np.ceil(2 * busy - 1e-9), 1, rules.most).astype(np.int64)


def scale_of(name: str, rules: PaperRules, trace: str = "clarknet-like") -> Scale:
    """Means and deviations over the hours of training days, with a fixed allocation that is half busy."""
    return _scale_of(name, rules.model_dump_json(), trace)


@lru_cache(maxsize=64)
def _scale_of(name: str, rules_json: str, trace: str) -> Scale:
    job, rules = paper_job(name), PaperRules.model_validate_json(rules_json)
    settings = TraceSettings(name=trace, days=_SCALE_DAYS)
    traces = [draw_trace(settings, job, seed=seed, part="training") for seed in _SCALE_SEEDS]
    begun = np.tile(half_busy(job, rules), (len(traces), 1))
    simulator = PaperSimulator(
        [job] * len(traces), traces, rules, seeds=list(_SCALE_SEEDS), parallelism=begun
    )
    hours = []
    while not simulator.ended.all():
        simulator.step(simulator.snapshot().parallelism)
        hours.append(simulator.components)
    latency_min, utilisation = np.array(hours).transpose(1, 0, 2)
    return Scale(latency_min.mean(), latency_min.std(), utilisation.mean(), utilisation.std())


def normalised(
    latency_min: Numbers,
    utilisation: Numbers,
    scale: Scale,
    latency_weight: float,
    *,
    largest: float = LARGEST,
) -> Numbers:
    """Rewards of some hours: lambda x norm(-latency) + (1 - lambda) x norm(utilisation).

    >>> usual = Scale(3.0, 1.0, 0.4, 0.1)
    >>> normalised(np.array([3.0, 2.0, 99.0]), np.array([0.4, 0.3, 0.5]), usual, 0.7).round(6).tolist()
    [0.0, 0.4, -6.7]
    """
    quick = (scale.latency_min - latency_min) / scale.latency_spread
    used = (utilisation - scale.utilisation) / scale.utilisation_spread
    quick, used = (np.clip(one, -largest, largest) for one in (quick, used))
    return latency_weight * quick + (1 - latency_weight) * used


def rewards_of(episode: Episode, scale: Scale, latency_weight: float) -> Numbers:
    """The normalised rewards of an episode's hours, [T]."""
    return normalised(episode.latency_s / MINUTE_S, episode.busy.mean(1), scale, latency_weight)


def by_the_minute(snapshot: Snapshot) -> Snapshot:
    """As rules want it: they take `interval_s` for the time between samples, which here is a minute."""
    return snapshot._replace(interval_s=MINUTE_S)


def play_hours(
    policy: StreamPolicy, job: Job, traces: Sequence[RateTrace], rules: PaperRules, *, seeds: Sequence[int]
) -> list[Episode]:
    """Episodes of one job under a policy. Nobody decides about the first hour: nothing is known then."""
    simulator = PaperSimulator([job] * len(traces), list(traces), rules, seeds=seeds)
    decider = policy.begin(simulator.graph)
    simulator.step(simulator.snapshot().parallelism)
    while not simulator.ended.all():
        simulator.step(decider.decide(by_the_minute(simulator.snapshot())))
    return [_without_first(episode) for episode in simulator.episodes(policy.name)]


def _without_first(episode: Episode) -> Episode:
    hours = {name: value[1:] for name, value in vars(episode).items() if isinstance(value, np.ndarray)}
    return replace(episode, start_s=episode.start_s + episode.interval_s, **hours)
