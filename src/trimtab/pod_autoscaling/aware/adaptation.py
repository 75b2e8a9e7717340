"""How fast a learned autoscaler gets used to a service it has never seen: AWARE's experiment, as a task.

The setting is AWARE's (Qiu et al., ATC 2023): the learner moves replicas, CPU and memory itself, is paid by
utilisation and latency, and sees AWARE's state alone, not what a rule would do. An episode is 40 decisions.
A service lives through many episodes, each with other hours of its traffic and another size to begin with;
what a context knows of it is kept from one episode to the next.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.core.errors import SettingsError
from trimtab.core.randomness import integers, split, uniform
from trimtab.learning.agent import Parameters
from trimtab.learning.off_policy_state import LearnerShape
from trimtab.learning.off_policy_task import Outcome
from trimtab.learning.replay import Layout
from trimtab.networks.contextual_actor import ContextualActor
from trimtab.pod_autoscaling.application import Application
from trimtab.pod_autoscaling.aware.actions import ACTION_PARTS, actuator_of
from trimtab.pod_autoscaling.aware.features import Observer
from trimtab.pod_autoscaling.aware.profile import PROFILE, profile_of
from trimtab.pod_autoscaling.aware.rewards import objective_of
from trimtab.pod_autoscaling.aware.services import Ground, Service
from trimtab.pod_autoscaling.aware.task import AwareSettings, design_of
from trimtab.pod_autoscaling.deployment import Deployment
from trimtab.pod_autoscaling.drift import STEADY
from trimtab.pod_autoscaling.heuristics.measures import known
from trimtab.pod_autoscaling.problem import Floats
from trimtab.pod_autoscaling.simulator.simulator import Simulator
from trimtab.pod_autoscaling.workload.applications import application_names, make_application
from trimtab.pod_autoscaling.workload.presets import Part, TraceSettings, draw_trace
from trimtab.pod_autoscaling.workload.profiles import PROFILES

__all__ = [
    "HAND_FEATURES",
    "STATE",
    "AdaptationTask",
    "Episodes",
    "Life",
    "Lived",
    "draw_lives",
    "earned",
    "life_of",
    "live",
]

STATE = (
    "cpu utilisation",
    "memory utilisation",
    "requests per second",
    "change of load",
    "latency",
    "replicas",
    "pod cpu",
    "pod memory",
)
"""What is seen, before the last answer: AWARE's state, as its released controller has it. Latency is in
seconds, and only the reward tells how much of it is too much here."""
HAND_FEATURES = (*(f"calls {name}" for name in PROFILES), "requests per second", "work", "memory")
"""What TL+ is told besides: which functions, how much arrives, CPU of a request, memory of a pod."""
_VALIDATION_LIVES, _VALIDATION_EPISODES = 32, 4
_USUAL_REWARD, _REWARD_SCALE = 0.8, 0.15
_LARGEST = 3.0
_MEASURED = STATE.index("replicas")
_DIRECT = ("logratio3", "discrete7")
_RATE_SCALE, _WORK_SCALE, _MEMORY_SCALE, _LATENCY_SCALE = (10.0, 2.0), (0.03, 4.0), (100.0, 1.5), (0.3, 4.0)
"""Usual values, and factors that count as one."""


@dataclass(frozen=True)
class Life:
    """A service over many episodes: one application, one kind of traffic, one level of it."""

    application: Application
    trace: str
    rate: float
    part: Part
    seed: int

    def episode(self, number: int, ground: Ground, deployment: Deployment) -> Service:
        """Its hours, and the size it begins with, in one episode; a number gives the same every time."""
        seed = split(self.seed, "episode", number) % 2**40
        settings = TraceSettings(name=self.trace, mean_rate=self.rate, hours=ground.hours)
        trace = draw_trace(settings, self.application, seed=seed, part=self.part)
        return Service(self.application, trace, STEADY, self._size(seed, ground, deployment))

    def _size(self, seed: int, ground: Ground, deployment: Deployment) -> Floats:
        def off(what: str) -> float:
            return 2.0 ** (ground.start_spread * (2 * float(uniform(split(seed, what), 0)) - 1))

        cores = off("start") * ground.start_factor * self.rate * self.application.cpu_s
        pod = float(np.clip(off("pod"), deployment.least_cpu, deployment.most_cpu))
        pods = float(np.clip(np.ceil(cores / pod), deployment.least_replicas, deployment.most_replicas))
        memory = float(np.clip(off("memory") * deployment.start_memory_mib, 256, deployment.most_memory_mib))
        return np.array([pods, pod, memory])


def life_of(name: str, ground: Ground, seed: int, part: Part) -> Life:
    """The life of one application by name; its seed draws traffic and level."""
    application = make_application(name)
    trace = ground.traces[int(integers(split(seed, "trace"), 0, high=len(ground.traces)))]
    share = float(uniform(split(seed, "cores"), 0))
    cores = ground.least_cores * (ground.most_cores / ground.least_cores) ** share
    return Life(application, trace, min(cores / application.cpu_s, ground.most_rate), part, seed)


def draw_lives(ground: Ground, seeds: Sequence[int], part: Part) -> list[Life]:
    """One life for each seed; those of two parts have neither applications nor hours in common.

    >>> one, other = draw_lives(Ground(traces=("steps",)), [1, 2], "test")
    >>> one.trace, one.application == other.application
    ('steps', False)
    """
    names = ground.applications or application_names(part)
    places = [int(integers(split(int(seed), "application"), 0, high=len(names))) for seed in seeds]
    return [life_of(names[place], ground, int(seed), part) for place, seed in zip(places, seeds, strict=True)]


def hand_features(life: Life) -> NDArray[np.float32]:
    """What somebody who knows an application writes down of it."""
    application = life.application
    called = [segment.name for segment in application.segments]
    measured = (
        (life.rate, _RATE_SCALE),
        (application.cpu_s, _WORK_SCALE),
        (application.memory_mib + application.cache_mib, _MEMORY_SCALE),
    )
    logs = [float(_scaled(np.array(value), scale)) for value, scale in measured]
    return np.array([*(float(called.count(name)) for name in PROFILES), *logs], np.float32)


def _felt(rewards: Floats) -> Floats:
    """Rewards as a learner feels them: AWARE's differ little from each other; around 0 they teach faster."""
    return (rewards - _USUAL_REWARD) / _REWARD_SCALE


def earned(felt: Floats) -> Floats:
    """The rewards that were felt so."""
    return _USUAL_REWARD + _REWARD_SCALE * felt


def _scaled(value: Floats, scale: tuple[float, float]) -> Floats:
    usual, factor = scale
    return np.clip(np.log(np.maximum(value, 1e-6) / usual) / math.log(factor), -_LARGEST, _LARGEST)


class Episodes(NamedTuple):
    """Sums over the intervals of episodes, [episodes, services] each; the truth, not what metrics told."""

    finished: Floats
    late: Floats
    cores_used: Floats
    cores_held: Floats
    memory_used: Floats
    memory_held: Floats


class AdaptationTask:
    """Services that live through many episodes; an `OffPolicyTask`.

    Without `lives` each is replaced by another one, of the part for training, after `generation` episodes.
    """

    def __init__(
        self,
        settings: AwareSettings,
        *,
        told: bool = False,
        lives: Sequence[Life] = (),
        generation: int = 6,
    ) -> None:
        if settings.actions not in _DIRECT:
            raise SettingsError(
                f"actions = {settings.actions} follow a rule, and getting used to a service is about doing "
                f"without one; set {' or '.join(_DIRECT)}"
            )
        self.settings, self.size = settings, len(lives) or settings.environments
        self._given, self._told, self._generation = list(lives), told, generation
        self._design = design_of(settings)
        objective = objective_of(self._design, settings.deployment.objective.budget)
        self._deployment = settings.deployment.model_copy(update={"objective": objective})
        parts = len(ACTION_PARTS[settings.actions])
        more = len(HAND_FEATURES) if told else 0
        self.layout = Layout(len(STATE) + parts + more, parts, privileged=len(PROFILE))
        self.shape = LearnerShape.of(settings.training, self.layout)
        self.reset(0)

    @property
    def lives(self) -> list[Life]:
        """Whoever lives now."""
        return self._lives

    def reset(self, seed: int) -> None:
        """Begin everywhere anew, with services or hours that this seed gives."""
        self._seed, self._episode = seed, 0
        self._episodes: list[Floats] = []
        self._begin()

    def observe(self) -> NDArray[np.float32]:
        return self._seen

    @property
    def episodes(self) -> Episodes:
        """What became of the services in each episode since the last reset."""
        if not self._episodes:
            raise SettingsError("no episode has been lived through; step to the end of one first")
        return Episodes(*np.stack(self._episodes, axis=1))

    def step(self, actions: NDArray[np.float32]) -> Outcome:
        """Decide everywhere and live through one interval."""
        simulator = self._simulator
        wanted = self._actuator.sized(actions, self._snapshot, self._first)
        self._snapshot, rewards, ended = simulator.step(wanted)
        truth = simulator.truth
        self._sums = self._sums + np.stack([getattr(truth, name) for name in Episodes._fields])
        self._action = np.array(actions, np.float32)
        self._seen = seen = self._state()
        over, nothing = ended.copy(), np.zeros(self.size, bool)
        renewed = nothing
        if over.all():
            self._episode += 1
            self._episodes.append(self._sums)
            renewed = over & (not self._given and self._episode % self._generation == 0)
            self._begin()
        return Outcome(_felt(rewards), nothing, over, renewed, seen)

    def privileged(self) -> NDArray[np.float32]:
        """The true profiles."""
        return self._profiles

    def teacher(self, observation: NDArray[np.float32]) -> None:
        """Nobody shows how."""

    def score(self, parameters: Parameters) -> dict[str, float]:
        """Minus the mean reward on validation services; contexts fill while they live."""
        if self.settings.training.members > 1:
            # Several learners are those of several services: nobody is to be chosen among them.
            return {"score": 0.0}
        lived = live(parameters, self._validation, episodes=_VALIDATION_EPISODES)
        first, last = lived.rewards[0].mean(), lived.rewards[-1].mean()
        found = {"score": -float(lived.rewards.mean()), "first": float(first), "last": float(last)}
        return found if lived.missed is None else {**found, "profile error": float(np.mean(lived.missed**2))}

    def describe(self) -> dict[str, Any]:
        """What is trained on."""
        return {
            "settings": self.settings.model_dump(mode="json"),
            "generation": self._generation,
            "told": self._told,
            "lives": [one.application.name for one in self._given],
        }

    @cached_property
    def _validation(self) -> AdaptationTask:
        seeds = [split(1, "validation", number) for number in range(_VALIDATION_LIVES)]
        lives = draw_lives(self.settings.ground, seeds, "validation")
        return AdaptationTask(self.settings, told=self._told, lives=lives)

    def _begin(self) -> None:
        """The next episode everywhere; of other services where a generation is over."""
        number = self._episode if self._given else self._episode % self._generation
        if number == 0:
            self._bring_to_life()
        # Other numbers for other seeds: services that are given live through other hours in each run.
        first, ground = split(self._seed, "first") % 2**30, self.settings.ground
        services = [one.episode(first + number, ground, self._deployment) for one in self._lives]
        self._snapshot = self._simulator.reset_some(
            np.arange(self.size),
            [one.trace for one in services],
            [split(self._seed, "luck", self._episode, row) % 2**31 for row in range(self.size)],
            applications=[one.application for one in services],
            sizes=np.stack([one.size for one in services]),
        )
        observer = Observer(self._simulator.services, self._design)
        self._actuator = actuator_of(self._simulator.services, self._design, observer)
        # Direct answers go by the present size alone: what was seen besides need not be fresh.
        self._first = observer.see(self._snapshot)
        self._known = np.zeros((self.size, _MEASURED))
        self._sums = np.zeros((len(Episodes._fields), self.size))
        self._action = np.zeros((self.size, self.layout.actions), np.float32)
        self._seen = self._state()

    def _bring_to_life(self) -> None:
        generation = self._episode // self._generation
        seeds = [split(self._seed, "life", generation, row) for row in range(self.size)]
        self._lives = self._given or draw_lives(self.settings.ground, seeds, "training")
        applications = [one.application for one in self._lives]
        if not hasattr(self, "_simulator"):
            self._simulator = Simulator(applications, self._deployment, threads=self.settings.threads)
        self._profiles = np.stack([profile_of(one) for one in applications])
        self._extra = np.stack([hand_features(one) for one in self._lives])

    def _state(self) -> NDArray[np.float32]:
        """`STATE`, the last answer, and `HAND_FEATURES` where they are told."""
        snapshot = self._snapshot
        samples, services, size = snapshot.samples, snapshot.services, snapshot.size
        cores = np.maximum(samples.ready[:, -1], 1.0) * np.maximum(samples.cpu_limit[:, -1], 1e-6)
        rate = samples.rate[:, -1]
        measured = np.stack(
            [
                samples.cpu[:, -1] / cores,
                samples.memory[:, -1] / np.maximum(samples.memory_limit[:, -1], 1e-6),
                _scaled(rate + 0.1, _RATE_SCALE),
                _scaled((rate + 0.1) / (samples.rate[:, -2] + 0.1), (1.0, 2.0)),
                _scaled(samples.latency_p99_s[:, -1] + 0.001, _LATENCY_SCALE),
            ],
            axis=1,
        )
        told = known(snapshot, samples.cpu, samples.rate)[:, -1:]
        # Where metrics are missing the last that were told stand.
        self._known = np.where(told & np.isfinite(measured), np.minimum(measured, _LARGEST), self._known)
        sizes = 2 * np.log(size / services.least) / np.log(services.most / services.least) - 1
        shown = [self._known, sizes, self._action, *([self._extra] if self._told else [])]
        return np.concatenate(shown, axis=1, dtype=np.float32)


class Lived(NamedTuple):
    """What became of services whose learner learned nothing but what its context told."""

    rewards: NDArray[np.float64]
    """Mean of an episode: [episodes, services]."""
    contexts: NDArray[np.float32] | None
    """After the last, [services, numbers]."""
    missed: NDArray[np.float32] | None
    """What the encoder takes for the profile, less the true one: [services, PROFILE]."""


def live(parameters: Parameters, task: AdaptationTask, *, episodes: int, seed: int = 0) -> Lived:
    """Act without noise and without updates; memories of the services go on from episode to episode."""
    task.reset(seed)
    actor = ContextualActor(parameters, task.shape.networks, task.shape.encoder, systems=task.size)
    rewards: list[NDArray[np.float64]] = []
    total, steps = np.zeros(task.size), 0
    while len(rewards) < episodes:
        observation = task.observe()
        action = actor.decide(observation)
        outcome = task.step(action)
        actor.tell(observation, action, outcome.rewards, outcome.truncated, outcome.renewed)
        total, steps = total + outcome.rewards, steps + 1
        if outcome.truncated.all():
            rewards.append(earned(total / steps))
            total, steps = np.zeros(task.size), 0
    profile = actor.profile
    missed = None if profile is None else profile - task.privileged()
    return Lived(np.stack(rewards), actor.context, missed)
