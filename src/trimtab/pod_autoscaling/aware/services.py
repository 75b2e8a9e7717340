"""Services to practise on: applications, what arrives, how they begin and how they change, by seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trimtab.core.randomness import integers, split, uniform
from trimtab.core.settings import Field, Settings
from trimtab.pod_autoscaling.application import Application
from trimtab.pod_autoscaling.deployment import Deployment
from trimtab.pod_autoscaling.drift import STEADY, Change, Drift
from trimtab.pod_autoscaling.episode import Episode
from trimtab.pod_autoscaling.problem import Floats, PodPolicy
from trimtab.pod_autoscaling.simulator.simulator import simulate_batch
from trimtab.pod_autoscaling.workload.applications import application_names, make_application
from trimtab.pod_autoscaling.workload.presets import Part, TraceSettings, draw_trace, own_rate_of
from trimtab.pod_autoscaling.workload.starts import size_for
from trimtab.rates.traces import RateTrace

__all__ = ["Ground", "Service", "draw_services", "play_services"]


class Ground(Settings):
    """What services to draw.

    >>> Ground().hours
    1.0
    """

    applications: tuple[str, ...] = Field(
        default=(), description="Applications by name or file; none: the synthetic ones of the part."
    )
    traces: tuple[str, ...] = Field(
        default=("diurnal", "noisy", "bursty", "azure-like", "flash-crowd", "steps"),
        min_length=1,
        description="What arrives, by name or file.",
    )
    hours: float = Field(default=1.0, gt=0, le=8784, description="Length of an episode.")
    mean_rate: float | None = Field(
        default=None,
        gt=0,
        le=1e9,
        description="Requests per second on average; unless given, a trace file keeps its rates, and what "
        "arrives of a named trace is drawn by the next three.",
    )
    least_cores: float = Field(
        default=1.0, gt=0, le=100_000, description="The work of the requests needs so many cores or more."
    )
    most_cores: float = Field(default=6.0, gt=0, le=100_000, description="Or at most so many.")
    most_rate: float = Field(
        default=120.0, gt=0, le=1e9, description="But no more requests per second on average."
    )
    start_factor: float = Field(
        default=2.0, gt=0, le=1000, description="They begin with cores for so many times their mean need."
    )
    start_spread: float = Field(
        default=0.5, ge=0, le=4, description="Up to 2 to this more or fewer, and likewise their memory."
    )
    drift_share: float = Field(
        default=0.3, ge=0, le=1, description="Share of the services that change in mid-episode."
    )
    largest_drift: float = Field(
        default=1.6, ge=1, le=10, description="Their work, waits and memory change by up to this factor."
    )


@dataclass(frozen=True)
class Service:
    """An application, what arrives at it, and how it begins and changes."""

    application: Application
    trace: RateTrace
    drift: Drift
    size: Floats


def draw_services(ground: Ground, deployment: Deployment, seeds: Sequence[int], part: Part) -> list[Service]:
    """One service for each seed; those of two parts have neither applications nor hours in common."""
    return [_drawn(ground, deployment, int(seed), part) for seed in seeds]


def play_services(
    policy: PodPolicy, services: Sequence[Service], deployment: Deployment, *, threads: int = 1
) -> list[Episode]:
    """A whole episode of each, all at once, with the luck of its place among them."""
    return simulate_batch(
        policy,
        [one.application for one in services],
        [one.trace for one in services],
        deployment,
        seeds=range(len(services)),
        drifts=[one.drift for one in services],
        sizes=np.stack([one.size for one in services]),
        threads=threads,
    )


def _drawn(ground: Ground, deployment: Deployment, seed: int, part: Part) -> Service:
    names = ground.applications or application_names(part)
    name = names[int(integers(split(seed, "application"), 0, high=len(names)))]
    application = make_application(name, seed=seed)
    trace = ground.traces[int(integers(split(seed, "trace"), 0, high=len(ground.traces)))]
    rate = _mean_rate(ground, trace, application, seed)
    settings = TraceSettings(name=trace, mean_rate=rate, hours=ground.hours)
    drift = STEADY
    if _chance(seed, "drift") < ground.drift_share:
        drift = _changed(seed, ground)
    return Service(
        application,
        draw_trace(settings, application, seed=seed, part=part),
        drift,
        _first_size(application, rate, ground, deployment, seed),
    )


def _mean_rate(ground: Ground, trace: str, application: Application, seed: int) -> float:
    """What is asked for, or the rate of a trace file, or else one that gives work for some cores."""
    given = own_rate_of(trace) if ground.mean_rate is None else ground.mean_rate
    if given is not None:
        return given
    cores = ground.least_cores * (ground.most_cores / ground.least_cores) ** _chance(seed, "cores")
    return min(cores / application.cpu_s, ground.most_rate)


def _first_size(
    application: Application, rate: float, ground: Ground, deployment: Deployment, seed: int
) -> Floats:
    off = 2.0 ** (ground.start_spread * (2 * _chance(seed, "start") - 1))
    need = off * ground.start_factor * rate * application.cpu_s
    pod = 2.0 ** (ground.start_spread * (2 * _chance(seed, "pod") - 1))
    room = 2.0 ** (ground.start_spread * _chance(seed, "memory"))
    return size_for(application, deployment, cores=need, pod_cpu=pod, memory_factor=room)


def _changed(seed: int, ground: Ground) -> Drift:
    def factor(what: str) -> float:
        return float(ground.largest_drift ** (2 * _chance(seed, what) - 1))

    at_s = round(3600 * ground.hours * (0.2 + 0.6 * _chance(seed, "moment")))
    change = Change(
        at_s=at_s,
        cpu=factor("work"),
        io=factor("waits"),
        memory=factor("idle"),
        request_memory=factor("each"),
    )
    return Drift(changes=(change,))


def _chance(seed: int, what: str) -> float:
    return float(uniform(split(seed, what), 0))
