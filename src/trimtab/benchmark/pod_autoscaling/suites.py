"""The suites of pod autoscaling: which services, what arrives, and who scales them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from trimtab.benchmark.pod_autoscaling.wing import POD
from trimtab.benchmark.suite import (
    FIRST_TEST_SEED,
    SEEDS_PER_DRAW,
    Scenario,
    Suite,
    Wing,
    few_episodes_told,
)
from trimtab.core.errors import SettingsError
from trimtab.core.settings import Field, load_settings
from trimtab.pod_autoscaling.application import Application
from trimtab.pod_autoscaling.deployment import Deployment
from trimtab.pod_autoscaling.episode import Episode
from trimtab.pod_autoscaling.simulator.drawn import Drawn
from trimtab.pod_autoscaling.simulator.simulator import refuse_unplayable, simulate_batch
from trimtab.pod_autoscaling.workload.applications import application_names, make_application
from trimtab.pod_autoscaling.workload.presets import (
    Part,
    TraceSettings,
    draw_trace,
    mean_rate_of,
    own_rate_of,
    separate_episodes,
)
from trimtab.pod_autoscaling.workload.starts import size_for
from trimtab.rates.traces import Floats, RateTrace

__all__ = [
    "USUAL_CORES",
    "USUAL_DEPLOYMENT",
    "USUAL_START",
    "Ground",
    "ServiceSuite",
    "ServicesSuite",
    "UnseenSuite",
    "arriving",
    "first_size",
]

RULES = (
    "static",
    "hpa:target=50",
    "hpa:tuned",
    "vpa:tuned",
    "hpa-vpa:tuned",
    "keda:tuned",
    # The season of the traces; that of a day needs days of history.
    "predictive-hpa:period_s=3600",
    "autothrottle:tuned",
    "mpc:tuned",
    "multi:tuned",
)
SERVICES = ("textbook", "thumbnails", "inference", "video")
SHAPES = ("diurnal", "noisy", "bursty")
USUAL_CORES = 6.0
"""Cores that the work of the requests needs on average, where nothing else is said."""
ANY_RATE = 1e9
USUAL_MOST_RATE = 400.0
"""Requests per second on average, where nothing else is said: they are simulated one by one."""
USUAL_DEPLOYMENT = Deployment(most_replicas=40)
"""Room for bursts of three times that, half busy, in pods of one core."""
USUAL_START = 2.0
"""Times the mean need that services begin with: how they come into being is not what is compared."""


@dataclass(frozen=True)
class Ground:
    """What one scenario plays: an application, or "" for others at every seed, and the traces."""

    name: str
    application: str
    traces: tuple[str, ...]


def arriving(
    trace: str,
    *,
    hours: float,
    mean_cores: float | None = None,
    mean_rate: float | None = None,
    most_rate: float | None = None,
) -> TraceSettings:
    """What arrives at a service: as much as is asked for; a trace file else keeps the rates it has.

    >>> arriving("diurnal", hours=2).mean_cores, arriving("diurnal", hours=2).most_rate
    (6.0, 400.0)
    """
    if mean_cores is not None and mean_rate is not None:
        raise SettingsError(
            f"mean_cores = {mean_cores:g} and mean_rate = {mean_rate:g} both say how much arrives; give one "
            "of the two"
        )
    if mean_cores is None and mean_rate is None:
        mean_rate = own_rate_of(trace)
    if most_rate is None:
        most_rate = USUAL_MOST_RATE if mean_cores is None else ANY_RATE
    cores = USUAL_CORES if mean_cores is None else mean_cores
    flags = {"name": trace, "hours": hours, "mean_cores": cores, "mean_rate": mean_rate}
    return load_settings(TraceSettings, None, {**flags, "most_rate": most_rate})


def first_size(
    application: Application, settings: TraceSettings, deployment: Deployment, *, factor: float
) -> Floats:
    """Pods for so many times the mean need, with memory for as many requests as they work on at a time.

    >>> app = make_application("textbook")
    >>> first_size(app, arriving("diurnal", hours=1), Deployment(), factor=2.0).tolist()
    [12.0, 1.0, 512.0]
    """
    need = factor * mean_rate_of(settings, application) * application.cpu_s
    return size_for(application, deployment, cores=need, pod_cpu=deployment.start_cpu)


class ServiceSuite(Suite):
    """A comparison of autoscalers of services."""

    wing: ClassVar[Wing] = POD
    # Requests take most of the time, so many seeds at once save little; few keep all cores at work.
    seeds_together: ClassVar[int] = 3

    traces: tuple[str, ...] = Field(
        default=SHAPES, min_length=1, description="What arrives, by name or file; seeds take them in turn."
    )
    hours: float = Field(default=2.0, gt=0, le=8784, description="Length of an episode.")
    mean_cores: float | None = Field(
        default=None,
        gt=0,
        le=100_000,
        description="Cores that the work of the requests needs, on average; unless given, 6, and a trace "
        "file keeps the rates it has.",
    )
    mean_rate: float | None = Field(
        default=None, gt=0, le=ANY_RATE, description="Requests per second on average, instead."
    )
    most_rate: float | None = Field(
        default=None,
        gt=0,
        le=ANY_RATE,
        description="But no more than so many where cores say how much arrives; unless given, 400 for the "
        "usual 6 cores.",
    )
    start_factor: float = Field(
        default=USUAL_START,
        ge=0,
        le=1000,
        description="Services begin with pods for so many times their mean need; 0: as the deployment says.",
    )
    deployment: Deployment = Field(default=USUAL_DEPLOYMENT, description="Where and how the services run.")
    policies: tuple[str, ...] = Field(
        default=RULES, min_length=1, description="Policies; `:tuned` takes the tuned settings."
    )
    baseline: str = Field(default="hpa:tuned", description="Policy that the others are measured against.")
    seeds: int = Field(default=12, ge=2, le=SEEDS_PER_DRAW, description="Test episodes of each policy.")
    training_seeds: int = Field(
        default=6, ge=2, le=FIRST_TEST_SEED, description="Episodes `trimtab tune` judges by."
    )

    def application(self, scenario: Scenario, seed: int) -> Application:
        """The service that is played under this seed."""
        return make_application(scenario.workload.application)

    def arriving(self, scenario: Scenario, seed: int) -> TraceSettings:
        """What arrives at the service; seeds take the traces in turn."""
        traces = scenario.workload.traces
        return arriving(
            traces[seed % len(traces)],
            hours=self.hours,
            mean_cores=self.mean_cores,
            mean_rate=self.mean_rate,
            most_rate=self.most_rate,
        )

    def draw(self, scenario: Scenario, seed: int) -> tuple[Application, RateTrace]:
        """The service and what arrives at it: hours of the part of time that the seed belongs to."""
        application = self.application(scenario, seed)
        settings = self.arriving(scenario, seed)
        return application, draw_trace(settings, application, seed=seed, part=_part(seed))

    def play(
        self, scenario: Scenario, seeds: Sequence[int], policies: Sequence[Any], *, record: bool = False
    ) -> list[list[Episode]]:
        """Whole episodes, by policy and seed; they always hold what pictures need."""
        drawn = [self.draw(scenario, seed) for seed in seeds]
        applications, traces = [one for one, _ in drawn], [trace for _, trace in drawn]
        sizes = None
        if self.start_factor:
            sizes = np.stack(
                [
                    first_size(one, self.arriving(scenario, seed), self.deployment, factor=self.start_factor)
                    for one, seed in zip(applications, seeds, strict=True)
                ]
            )
        drawn = Drawn.room(applications, traces, seeds) if len(policies) > 1 else None
        return [
            simulate_batch(
                policy, applications, traces, self.deployment, seeds=seeds, sizes=sizes, drawn=drawn
            )
            for policy in policies
        ]

    def check(self) -> None:
        """Refuse unknown applications and traces, pods too large to run, and traces too short to be split."""
        for scenario in self.scenarios():
            # So many seeds in a row have every trace among them.
            for turn in range(len(scenario.workload.traces)):
                for seed in (turn, FIRST_TEST_SEED + turn):
                    refuse_unplayable(*self.draw(scenario, seed), self.deployment)

    def notes(self) -> list[str]:
        """Which trace files are too short to give every seed hours of its own."""
        said: list[str] = []
        for scenario in self.scenarios():
            played = Counter(self.arriving(scenario, seed) for seed in self.test_seeds())
            for trace, seeds in played.items():
                said += few_episodes_told(trace.name, separate_episodes(trace, "test"), seeds)
        return list(dict.fromkeys(said))


class ServicesSuite(ServiceSuite):
    """Services of different kinds, each with settings of its own: every rule."""

    applications: tuple[str, ...] = Field(
        default=SERVICES, min_length=1, description="Services by name or file, each a table of its own."
    )

    def scenarios(self) -> tuple[Scenario, ...]:
        """One for each service."""
        return tuple(Scenario(name, Ground(name, name, self.traces)) for name in self.applications)


class UnseenSuite(ServiceSuite):
    """Services that nobody has seen before, another one at every seed: one setting for all of them."""

    policies: tuple[str, ...] = Field(
        default=(*RULES, "aware"), min_length=1, description="Policies; `:tuned` takes the tuned settings."
    )

    def scenarios(self) -> tuple[Scenario, ...]:
        """One for each trace."""
        return tuple(Scenario(name, Ground(name, "", (name,))) for name in self.traces)

    def application(self, scenario: Scenario, seed: int) -> Application:
        """Training and test seeds have chains of functions that the others do not have."""
        names = application_names(_part(seed))
        return make_application(names[seed % len(names)], seed=seed)


def _part(seed: int) -> Part:
    return "test" if seed >= FIRST_TEST_SEED else "training"
