"""What the benchmarks of learned pod autoscalers share: services, what arrives, and what came of it.

Eight services are chosen among the 214 test applications by a rule, and not by what came of it. All are
ranked by the CPU work of a request, by how much that varies, and by the share of an unloaded request's time
that is spent outside. In this space of ranks stand eight points, a Latin hypercube: every eighth of each rank
has one. The service nearest to a point is taken, in the order of the points.

Each service meets five kinds of traffic. Seeds differ from pair to pair, so no two workloads see the same
hours. The work of the requests needs four cores on average, or what 100 requests per second need: they are
simulated one by one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.decima_settings import PROCESSES, Numbers
from trimtab.benchmark.playing import Workers
from trimtab.benchmark.pod_autoscaling.suites import Ground, ServiceSuite, first_size
from trimtab.benchmark.suite import FIRST_TEST_SEED, Scenario
from trimtab.core.settings import Field
from trimtab.pod_autoscaling.application import Application
from trimtab.pod_autoscaling.deployment import Deployment
from trimtab.pod_autoscaling.drift import STEADY, Drift
from trimtab.pod_autoscaling.episode import Episode
from trimtab.pod_autoscaling.heuristics.oracle import Oracle
from trimtab.pod_autoscaling.heuristics.rule import Rule
from trimtab.pod_autoscaling.problem import PodPolicy
from trimtab.pod_autoscaling.simulator.drawn import Drawn
from trimtab.pod_autoscaling.simulator.simulator import simulate_batch
from trimtab.pod_autoscaling.workload.applications import application_names, make_application
from trimtab.pod_autoscaling.workload.presets import TraceSettings, mean_rate_of
from trimtab.rates.traces import RateTrace

SERVICES = 8
MOST_BYTES = 2**30
"""For draws that policies share, in each process."""
TRAFFIC = ("diurnal", "noisy", "bursty", "azure-like", "twitter-like")
HOURS = 1.5
MEAN_CORES, MOST_RATE = 4.0, 100.0
FIRST_HOUR_S = 3600.0
ONE_POD_SIZE = ("hpa", "mpc")
"""Rules whose pods keep the size that they are told."""
SEEDS_PER_WORKLOAD = 100
"""Seeds of one pair of service and traffic lie within so many."""


@lru_cache(maxsize=1)
def held_out_services() -> tuple[str, ...]:
    """The names of the eight, from little work per request to much.

    >>> len(set(held_out_services()) & set(application_names("test")))
    8
    """
    names = application_names("test")
    ranks = _ranks([make_application(name) for name in names])
    places = [int(((ranks - point) ** 2).sum(1).argmin()) for point in _points(SERVICES)]
    return tuple(names[place] for place in sorted(set(places), key=lambda place: ranks[place, 0]))


def _ranks(applications: Sequence[Application]) -> Numbers:
    """Work, its variation and the share of time outside as ranks between 0 and 1, [applications, 3]."""
    values = np.array([(one.cpu_s, one.cpu_variation, one.io_s / one.unloaded_s) for one in applications])
    order = np.argsort(np.argsort(values, axis=0, kind="stable"), axis=0, kind="stable")
    return (order + 0.5) / len(applications)


def _points(count: int) -> Numbers:
    """A Latin hypercube of three dimensions: 3 and 5 have no divisor in common with eight."""
    place = np.arange(count)
    return (np.stack([place, 3 * place % count, (5 * place + 2) % count], 1) + 0.5) / count


class Measures(NamedTuple):
    """What one episode came to; `late` and `finished` are requests, `late_kills` those after an hour.

    `share_used` is the part of `reward` that utilisation has: the mean share of CPU and of memory in use.
    """

    core_hours: float
    late: float
    finished: float
    late_share: float
    memory_used: float
    memory_held: float
    settled_memory_used: float
    settled_memory_held: float
    kills: float
    late_kills: float
    reward: float
    share_used: float


def measured(episode: Episode, from_s: float) -> Measures:
    """Measures of an episode from a moment on."""
    begins_s = episode.interval_s * np.arange(len(episode.arrived))
    span, settled = begins_s >= from_s, begins_s >= FIRST_HOUR_S
    late, finished = episode.late[span].sum(), episode.finished[span].sum()
    cpu = episode.cores_used / np.maximum(episode.cores_held, 1e-12)
    memory = episode.memory_used / np.maximum(episode.memory_held, 1e-12)
    return Measures(
        core_hours=float(24 * episode.cores_held[span].mean()),
        late=float(late),
        finished=float(finished),
        late_share=float(late / max(finished, 1)),
        memory_used=float(episode.memory_used[span].sum()),
        memory_held=float(episode.memory_held[span].sum()),
        settled_memory_used=float(episode.memory_used[settled].sum()),
        settled_memory_held=float(episode.memory_held[settled].sum()),
        kills=float(episode.kills[span].sum()),
        late_kills=float(episode.kills[settled].sum()),
        reward=float(episode.rewards_aware[span].mean()),
        share_used=float(((cpu + memory) / 2)[span].mean()),
    )


class Stretch(NamedTuple):
    """One workload: a service, and hours of its traffic."""

    scenario: Scenario
    seed: int
    application: Application
    trace: RateTrace


class HeldOutSuite(ServiceSuite):
    """Services that nothing was trained or tuned on, each with every kind of traffic."""

    seeds_together: ClassVar[int] = SEEDS_PER_WORKLOAD
    # A decision for 15 services costs little more than one for five; the draws of 15 episodes take 0.5 GiB.
    episodes_together: ClassVar[int] = 15

    hours: float = Field(default=HOURS, gt=0, le=24, description="Length of an episode.")
    seeds: int = Field(default=5, ge=1, le=SEEDS_PER_WORKLOAD, description="Episodes of each pair.")
    drift: Drift = Field(default=STEADY, description="How every service changes while it runs.")
    from_s: float = Field(default=0.0, ge=0, description="What was before this second does not count.")

    def scenarios(self) -> tuple[Scenario, ...]:
        """One for each service and kind of traffic."""
        return tuple(
            Scenario(f"{name} {trace}", Ground(f"{name} {trace}", name, (trace,)))
            for name in held_out_services()
            for trace in TRAFFIC
        )

    def seeds_of(self, place: int, count: int, *, test: bool = True) -> tuple[int, ...]:
        """The seeds of the pair at this place among the scenarios."""
        first = SEEDS_PER_WORKLOAD * place + (FIRST_TEST_SEED if test else 0)
        return tuple(range(first, first + count))

    def arriving(self, scenario: Scenario, seed: int) -> TraceSettings:
        """What arrives at the service."""
        return TraceSettings(
            name=scenario.workload.traces[0], mean_cores=MEAN_CORES, most_rate=MOST_RATE, hours=self.hours
        )

    def deployment_of(self, application: Application) -> Deployment:
        """The same for every service."""
        return self.deployment

    def stretches(self, scenario: Scenario, seeds: Sequence[int]) -> list[Stretch]:
        """What is played under these seeds."""
        return [Stretch(scenario, seed, *self.draw(scenario, seed)) for seed in seeds]

    def play(
        self, scenario: Scenario, seeds: Sequence[int], policies: Sequence[Any], *, record: bool = False
    ) -> list[list[Episode]]:
        """Whole episodes, by policy and seed."""
        stretches = self.stretches(scenario, seeds)
        drawn = room_for(stretches)
        return [self.play_together(stretches, policy, drawn) for policy in policies]

    def play_together(self, stretches: Sequence[Stretch], policy: Any, drawn: Drawn) -> list[Episode]:
        """Whole episodes of one service, side by side."""
        applications = [one.application for one in stretches]
        deployment = self.deployment_of(applications[0]).model_copy(update={"start_cpu": pod_cores(policy)})
        first = [
            first_size(
                one.application,
                self.arriving(one.scenario, one.seed),
                deployment,
                factor=self.start_factor,
            )
            for one in stretches
        ]
        return simulate_batch(
            policy,
            applications,
            [one.trace for one in stretches],
            deployment,
            seeds=[one.seed for one in stretches],
            drifts=[self.drift] * len(stretches),
            sizes=np.stack(first),
            drawn=drawn,
        )


def pod_cores(policy: PodPolicy) -> float:
    """Cores of a pod that a policy begins with: those of its rule, where these never change, or one.

    HPA with pods of four cores would make eight pods of one core so large that it holds 32 cores for the five
    minutes that it waits before it scales down: how services come into being is not what is compared.

    >>> from trimtab.pod_autoscaling.policies import make_policy
    >>> [pod_cores(make_policy(name)) for name in ("hpa:target=70,cpu=4", "mpc", "keda", "multi")]
    [4.0, 2.0, 1.0, 1.0]
    """
    if isinstance(policy, Oracle):
        return policy.cpu
    if isinstance(policy, Rule) and policy.name.partition(":")[0] in ONE_POD_SIZE:
        return policy.values["cpu"] or 1.0
    return 1.0


@dataclass(frozen=True)
class Pair:
    """A service and its traffic: the seeds that are played, and the policies that play them."""

    scenario: Scenario
    seeds: tuple[int, ...]
    policies: tuple[PodPolicy, ...]


@dataclass(frozen=True)
class ServiceUnit:
    """Pairs of one service, which share their decisions' cost in numpy, their deployment and their luck's.

    Episodes stay where they were played; what they came to is handed over. A policy that two contestants
    have for a pair, such as a tuned one that is the usual one, plays it once.
    """

    suite: HeldOutSuite
    pairs: tuple[Pair, ...]

    @property
    def policies(self) -> tuple[PodPolicy, ...]:
        return tuple(policy for pair in self.pairs for policy in pair.policies)

    @property
    def episodes(self) -> int:
        return sum(len(pair.seeds) * len(pair.policies) for pair in self.pairs)

    def play(self) -> list[list[list[Measures]]]:
        """Measures by pair, policy and seed."""
        by_pair = [self.suite.stretches(pair.scenario, pair.seeds) for pair in self.pairs]
        drawn = room_for([one for stretches in by_pair for one in stretches])
        played = [
            (policy, dict(zip(places, self._measures(policy, places, by_pair, drawn), strict=True)))
            for policy, places in self.plays()
        ]
        return [
            [next(found[at] for one, found in played if one == policy) for policy in pair.policies]
            for at, pair in enumerate(self.pairs)
        ]

    def plays(self) -> list[tuple[PodPolicy, list[int]]]:
        """Policies, and which pairs each of them plays; equal policies are one."""
        found: list[tuple[PodPolicy, list[int]]] = []
        for at, pair in enumerate(self.pairs):
            for policy in pair.policies:
                places = next((places for one, places in found if one == policy), None)
                if places is None:
                    found.append((policy, [at]))
                elif at not in places:
                    places.append(at)
        return found

    def _measures(
        self, policy: PodPolicy, places: Sequence[int], by_pair: Sequence[list[Stretch]], drawn: Drawn
    ) -> list[list[Measures]]:
        """Of some pairs, by pair and seed."""
        ends = np.cumsum([0, *(len(stretches) for stretches in by_pair)]).tolist()
        if len(places) < len(by_pair):
            drawn = drawn.only([row for at in places for row in range(ends[at], ends[at + 1])])
        stretches = [one for at in places for one in by_pair[at]]
        episodes = iter(self.suite.play_together(stretches, policy, drawn))
        return [[measured(next(episodes), self.suite.from_s) for _ in by_pair[at]] for at in places]


def room_for(stretches: Sequence[Stretch]) -> Drawn:
    """Room for what chance decides, which all policies share."""
    return Drawn.room(
        [one.application for one in stretches],
        [one.trace for one in stretches],
        [one.seed for one in stretches],
        most_bytes=MOST_BYTES,
    )


@dataclass(frozen=True)
class Contestant:
    """Who plays: a name for tables, and the policy for each pair of service and traffic."""

    name: str
    policy: Callable[[Scenario], PodPolicy]


def same_for_all(name: str, policy: PodPolicy) -> Contestant:
    """One policy for every service: nothing of it was fitted to any."""
    return Contestant(name, lambda scenario: policy)


@dataclass(frozen=True)
class Played:
    """Measures of every workload, in the same order for everybody, of one contestant."""

    name: str
    values: Mapping[str, Numbers]

    def __getitem__(self, measure: str) -> Numbers:
        return self.values[measure]

    @property
    def late_share(self) -> float:
        """Late requests of all workloads over all requests."""
        return float(self["late"].sum() / self["finished"].sum())

    def only(self, chosen: Sequence[bool] | NDArray[np.bool_]) -> Played:
        """Some of the workloads."""
        return Played(self.name, {name: column[np.asarray(chosen)] for name, column in self.values.items()})


@dataclass(frozen=True)
class Workload:
    """What everybody plays: a service, the traffic it meets, and the number of the seed among theirs."""

    service: str
    traffic: str
    number: int


def workloads(suite: HeldOutSuite, seeds: int) -> list[Workload]:
    """The workloads in the order of `Played`.

    >>> workloads(HeldOutSuite(), 2)[1]
    Workload(service='synthetic:860', traffic='diurnal', number=1)
    """
    return [
        Workload(one.workload.application, one.workload.traces[0], number)
        for one in suite.scenarios()
        for number in range(seeds)
    ]


def started_workers() -> Workers:
    """Processes with one thread of linear algebra each: with more, threads wait for one another."""
    os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
    return Workers(PROCESSES)


def play(
    workers: Workers,
    suite: HeldOutSuite,
    contestants: Sequence[Contestant],
    *,
    seeds: int,
    test: bool = True,
) -> dict[str, Played]:
    """Everybody on every workload; pairs with most requests first, so that no process waits long."""
    scenarios = suite.scenarios()
    pairs = [
        Pair(one, suite.seeds_of(place, seeds, test=test), tuple(who.policy(one) for who in contestants))
        for place, one in enumerate(scenarios)
    ]
    together = _together(suite, seeds)
    units = [ServiceUnit(suite, tuple(pairs[place] for place in places)) for places in together]
    order = sorted(range(len(units)), key=lambda at: -_requests_per_s(units[at]))
    answers = workers.play([units[at] for at in order])
    by_place: dict[int, list[list[Any]]] = {
        place: found
        for at, unit in zip(order, answers, strict=True)
        for place, found in zip(together[at], unit, strict=True)
    }
    return {
        who.name: _collected(who.name, [one for place in range(len(pairs)) for one in by_place[place][at]])
        for at, who in enumerate(contestants)
    }


def _together(suite: HeldOutSuite, seeds: int) -> list[list[int]]:
    """Places of the pairs that are played side by side: those of one service, as many as the suite likes.

    >>> [len(places) for places in _together(HeldOutSuite(), 5)][:4]
    [3, 2, 3, 2]
    """
    by_service: dict[str, list[int]] = {}
    for place, one in enumerate(suite.scenarios()):
        by_service.setdefault(one.workload.application, []).append(place)
    most = max(1, suite.episodes_together // seeds)
    return [
        places[first : first + most]
        for places in by_service.values()
        for first in range(0, len(places), most)
    ]


def _requests_per_s(unit: ServiceUnit) -> float:
    """Of all that one policy plays."""
    return sum(
        len(pair.seeds)
        * mean_rate_of(
            unit.suite.arriving(pair.scenario, 0), make_application(pair.scenario.workload.application)
        )
        for pair in unit.pairs
    )


def _collected(name: str, found: Sequence[Measures]) -> Played:
    columns = np.array(found).T
    return Played(name, dict(zip(Measures._fields, columns, strict=True)))
