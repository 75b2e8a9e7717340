"""Practice: rivals play simulated services and keep what they learned as bundles.

    python -m trimtab.pod_autoscaling.rivals.practice q-learning simppo

Services are training applications under the training days of four kinds of traffic, new ones in every round.
All of them teach one agent, whose tries become fewer from round to round. Live code does not come here: it
needs the simulator.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from trimtab.core.bundle import Bundle, save_bundle
from trimtab.core.errors import RegistryError
from trimtab.core.randomness import integers, split, uniform
from trimtab.core.settings import Field, Settings
from trimtab.pod_autoscaling.application import Application
from trimtab.pod_autoscaling.deployment import Deployment
from trimtab.pod_autoscaling.problem import Floats
from trimtab.pod_autoscaling.rivals.a_sarsa import ASarsa
from trimtab.pod_autoscaling.rivals.adrl import Adrl
from trimtab.pod_autoscaling.rivals.deepscaling import DeepScaling
from trimtab.pod_autoscaling.rivals.miras import Miras
from trimtab.pod_autoscaling.rivals.q_learning import QLearning
from trimtab.pod_autoscaling.rivals.rival import BUNDLES, WING, Manner, Rival
from trimtab.pod_autoscaling.rivals.simppo import Simppo
from trimtab.pod_autoscaling.simulator.simulator import Simulator
from trimtab.pod_autoscaling.workload.applications import application_names, make_application
from trimtab.pod_autoscaling.workload.presets import TraceSettings, draw_trace
from trimtab.pod_autoscaling.workload.starts import size_for
from trimtab.rates.traces import RateTrace

__all__ = ["RIVALS", "Practice", "practise"]

RIVALS: dict[str, type[Rival]] = {
    kind.name: kind for kind in (QLearning, ASarsa, Miras, Adrl, Simppo, DeepScaling)
}
_TRAFFIC = ("diurnal", "noisy", "bursty", "azure-like")
_DEPLOYMENT = Deployment(most_replicas=40)


class Practice(Settings):
    """How much is played, and on what.

    >>> Practice(rounds=2).services
    32
    """

    services: int = Field(default=32, ge=1, le=10_000, description="Services played at a time.")
    rounds: int = Field(default=7, ge=1, le=10_000, description="Times that new ones are begun.")
    hours: float = Field(default=1.0, gt=0, le=24, description="Hours that each is played.")
    mean_cores: tuple[float, float] = Field(
        default=(1.0, 8.0), description="Cores that a service needs on average: from, to."
    )
    start_factor: tuple[float, float] = Field(
        default=(0.5, 4.0), description="Times its mean need that a service begins with: from, to."
    )
    most_rate: float = Field(
        default=75.0, gt=0, le=1e6, description="But no more requests per second than this on average."
    )
    explore_first: float = Field(default=0.3, ge=0, le=1, description="Share of tries in the first round.")
    explore_last: float = Field(default=0.02, ge=0, le=1, description="And in the last.")
    seed: int = Field(default=0, ge=0, description="Luck.")


def practise(
    kind: type[Rival], practice: Practice, *, told: Callable[[str], None] = lambda line: None
) -> Bundle:
    """Let a rival learn from nothing; what it knows at the end is a bundle."""
    started = time.perf_counter()
    rival: Rival | None = None
    scores: list[dict[str, float]] = []
    for number in range(practice.rounds):
        ground = _drawn(practice, number)
        simulator = Simulator(ground.applications, _DEPLOYMENT, recording=True)
        snapshot = simulator.reset(ground.traces, ground.seeds, sizes=ground.sizes)
        manner = Manner(explore=_explore(practice, number), together=True, seed=practice.seed)
        if rival is None:
            fresh = kind.fresh(practice.seed)
            rival = kind(simulator.services, {}, knowledge=fresh, manner=manner)
        rival.manner = manner
        rival.restart(simulator.services)
        while not simulator.ended.all():
            snapshot, _, _ = simulator.step(rival.decide(snapshot))
        found = [one.metrics() for one in simulator.episodes(kind.name)]
        scores.append({key: float(np.mean([one[key] for one in found])) for key in _SHOWN})
        shown = ", ".join(f"{key} {value:.4g}" for key, value in scores[-1].items())
        told(f"{kind.name} round {number}: {shown} ({time.perf_counter() - started:.0f} s)")
    assert rival is not None
    manifest = {
        "settings": {},
        "trained": {**practice.model_dump(), "traffic": list(_TRAFFIC), "part": "training"},
        "scores": {"last_round": scores[-1]},
    }
    return Bundle(kind.name, WING, kind.name, manifest, dict(rival.knowledge()))


_SHOWN = ("core_hours", "late_share", "cpu_utilisation")


class _Ground(NamedTuple):
    """What one round is played on, an entry for each service."""

    applications: list[Application]
    traces: list[RateTrace]
    seeds: list[int]
    sizes: Floats


def _drawn(practice: Practice, number: int) -> _Ground:
    names, count = application_names("training"), practice.services
    luck, places = split(practice.seed, "practice", number), np.arange(practice.services)
    picked = integers(split(luck, "applications"), places, high=len(names))
    applications = [make_application(names[place]) for place in picked.tolist()]
    cores = _between(practice.mean_cores, uniform(split(luck, "cores"), places))
    factors = _between(practice.start_factor, uniform(split(luck, "start"), places))
    rates = [
        min(practice.most_rate, float(need) / one.cpu_s)
        for need, one in zip(cores, applications, strict=True)
    ]
    traces = [
        draw_trace(
            TraceSettings(name=_TRAFFIC[place % len(_TRAFFIC)], hours=practice.hours, mean_rate=rates[place]),
            one,
            seed=split(luck, "trace", place) % 2**31,
            part="training",
        )
        for place, one in enumerate(applications)
    ]
    sizes = [
        size_for(one, _DEPLOYMENT, cores=float(factor) * rate * one.cpu_s, pod_cpu=_DEPLOYMENT.start_cpu)
        for one, factor, rate in zip(applications, factors, rates, strict=True)
    ]
    return _Ground(applications, traces, [number * count + place for place in range(count)], np.stack(sizes))


def _between(span: tuple[float, float], draws: Floats) -> Floats:
    """Small and large as often, in proportion."""
    return span[0] * (span[1] / span[0]) ** draws


def _explore(practice: Practice, number: int) -> float:
    """Fewer tries from round to round, in even proportions; the last tenth are as few as they get."""
    if practice.explore_first <= 0:
        return 0.0
    done = min(1.0, number / max(0.9 * (practice.rounds - 1), 1))
    last = max(practice.explore_last, 1e-9)
    return practice.explore_first * (last / practice.explore_first) ** done


def main(names: Sequence[str]) -> None:
    """Practise with the rivals named, or with all, and put their bundles where they are shipped from."""
    unknown = [name for name in names if name not in RIVALS]
    if unknown:
        raise RegistryError(f"no rival {unknown[0]!r}; there are {', '.join(RIVALS)}")
    for name in names or RIVALS:
        bundle = practise(RIVALS[name], Practice(), told=lambda line: _say(line))
        _say(f"written to {save_bundle(Path(BUNDLES) / name, bundle)}")


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
