"""How fast a learned autoscaler gets used to a service it has never seen: AWARE's experiment, as a task.

The setting is AWARE's (Qiu et al., ATC 2023): the learner moves replicas, CPU and memory itself, is paid by
utilisation and latency, and sees AWARE's state alone, not what a rule would do. An episode is 40 decisions.
A service lives through many episodes, each with other hours of its traffic and another size to begin with;
what a context knows of it is kept from one episode to the next.

Who is compared, in AWARE's words:

``meta``           an encoder reads what the service did so far into a context, beside the state.
``transfer``       TL: the same learner without the context, trained on the same services.
``transfer-plus``  TL+: that with numbers about the application in the state (`HAND_FEATURES`), which somebody
                   who knows it wrote down.
``scratch``        begins with nothing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.core.bundle import Bundle, flatten, load_bundle, unflatten
from trimtab.core.errors import BundleError, SettingsError
from trimtab.core.randomness import integers, split, uniform
from trimtab.core.run_folder import Clock, RunFolder
from trimtab.learning.agent import Parameters
from trimtab.learning.off_policy import train_off_policy
from trimtab.learning.off_policy_settings import OffPolicySettings
from trimtab.learning.off_policy_state import LearnerShape
from trimtab.learning.off_policy_task import Outcome, recorded
from trimtab.learning.replay import Layout, Replay
from trimtab.learning.runs import best_of_run
from trimtab.learning.training import Progress
from trimtab.networks.contextual_actor import ContextualActor
from trimtab.pod_autoscaling.application import Application
from trimtab.pod_autoscaling.aware.actions import ACTION_PARTS, actuator_of
from trimtab.pod_autoscaling.aware.design import Design
from trimtab.pod_autoscaling.aware.features import FEATURES, Observer
from trimtab.pod_autoscaling.aware.profile import PROFILE, profile_of
from trimtab.pod_autoscaling.aware.services import Ground, Service
from trimtab.pod_autoscaling.aware.task import PRESETS, AwareSettings, AwareTask
from trimtab.pod_autoscaling.deployment import Deployment
from trimtab.pod_autoscaling.drift import STEADY
from trimtab.pod_autoscaling.problem import Floats
from trimtab.pod_autoscaling.simulator.simulator import Simulator
from trimtab.pod_autoscaling.workload.applications import application_names, make_application
from trimtab.pod_autoscaling.workload.presets import Part, TraceSettings, draw_trace
from trimtab.pod_autoscaling.workload.profiles import PROFILES

__all__ = [
    "ARMS",
    "HAND_FEATURES",
    "STATE",
    "AdaptationTask",
    "Arm",
    "Life",
    "Lived",
    "draw_lives",
    "fine_tuned",
    "load_arm",
    "live",
    "pre_trained",
]

STATE = FEATURES[: FEATURES.index("metrics missing") + 1]
"""What is seen, before the answer before: AWARE's state. What the rule `multi` measured comes after it."""
HAND_FEATURES = (*(f"calls {name}" for name in PROFILES), "requests per second", "work", "memory")
"""What TL+ is told besides: which functions, how much arrives, CPU of a request, memory of a pod."""
WING, KIND = "pod_autoscaling", "adaptation"
_VALIDATION_LIVES, _VALIDATION_EPISODES = 32, 4
_LOGGED_STEPS = 240
_RATE_SCALE, _WORK_SCALE, _MEMORY_SCALE = (10.0, 2.0), (0.03, 4.0), (100.0, 1.5)
"""Usual values, and factors that count as one."""


@dataclass(frozen=True)
class Arm:
    """One way to begin on a service that is new."""

    name: str
    preset: str
    told: bool = False
    """Whether the state has `HAND_FEATURES`."""
    trained: bool = True
    """Whether it has seen other services before."""


ARMS = {
    one.name: one
    for one in (
        Arm("meta", "meta"),
        Arm("transfer", "transfer"),
        Arm("transfer-plus", "transfer-plus", told=True),
        Arm("scratch", "transfer", trained=False),
    )
}


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


def draw_lives(ground: Ground, seeds: Sequence[int], part: Part) -> list[Life]:
    """One life for each seed; those of two parts have neither applications nor hours in common.

    >>> one, other = draw_lives(Ground(traces=("steps",)), [1, 2], "test")
    >>> one.trace, one.application == other.application
    ('steps', False)
    """
    return [_drawn_life(ground, int(seed), part) for seed in seeds]


def _drawn_life(ground: Ground, seed: int, part: Part) -> Life:
    names = ground.applications or application_names(part)
    application = make_application(names[int(integers(split(seed, "application"), 0, high=len(names)))])
    trace = ground.traces[int(integers(split(seed, "trace"), 0, high=len(ground.traces)))]
    share = float(uniform(split(seed, "cores"), 0))
    cores = ground.least_cores * (ground.most_cores / ground.least_cores) ** share
    return Life(application, trace, min(cores / application.cpu_s, ground.most_rate), part, seed)


def hand_features(life: Life) -> NDArray[np.float32]:
    """What somebody who knows an application writes down of it."""
    application = life.application
    called = [segment.name for segment in application.segments]
    measured = (
        (life.rate, _RATE_SCALE),
        (application.cpu_s, _WORK_SCALE),
        (application.memory_mib + application.cache_mib, _MEMORY_SCALE),
    )
    logs = [math.log(value / usual) / math.log(factor) for value, (usual, factor) in measured]
    return np.array([*(float(called.count(name)) for name in PROFILES), *logs], np.float32)


class AdaptationTask(AwareTask):
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
        if lives:
            settings = settings.model_copy(update={"environments": len(lives)})
        self._given, self._told, self._generation = list(lives), told, generation
        super().__init__(settings)
        parts = len(ACTION_PARTS[settings.actions])
        more = len(HAND_FEATURES) if told else 0
        self.layout = Layout(len(STATE) + parts + more, parts, privileged=len(PROFILE))
        shape = LearnerShape.of(settings.training, self.layout)
        self.design = replace(self.design, networks=shape.networks, encoder=shape.encoder)

    @property
    def lives(self) -> list[Life]:
        """Whoever lives now."""
        return self._lives

    def observe(self) -> NDArray[np.float32]:
        return self._looked(super().observe())

    def step(self, actions: NDArray[np.float32]) -> Outcome:
        """Decide everywhere; a service is another one only where its life is over."""
        extra = self._extra
        outcome = super().step(actions)
        renewed = outcome.renewed & (not self._given and self._episode % self._generation == 0)
        return outcome._replace(renewed=renewed, seen=self._looked(outcome.seen, extra))

    def privileged(self) -> NDArray[np.float32]:
        return self._profiles

    def score(self, parameters: Parameters) -> dict[str, float]:
        """Minus the mean reward on validation services, of which it learns while they live."""
        if self.settings.training.members > 1:
            # Several learners are those of several services: nobody is to be chosen among them.
            return {"score": 0.0}
        lived = live(parameters, self.design, self._validation_task(), episodes=_VALIDATION_EPISODES)
        first, last = lived.rewards[0].mean(), lived.rewards[-1].mean()
        found = {"score": -float(lived.rewards.mean()), "first": float(first), "last": float(last)}
        return found if lived.missed is None else {**found, "profile error": float(np.mean(lived.missed**2))}

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "generation": self._generation, "told": self._told}

    def _validation_task(self) -> AdaptationTask:
        seeds = [split(1, "validation", number) for number in range(_VALIDATION_LIVES)]
        lives = draw_lives(self.settings.ground, seeds, "validation")
        return AdaptationTask(self.settings, told=self._told, lives=lives)

    def _looked(self, seen: NDArray[np.float32], extra: NDArray[np.float32] | None = None) -> Any:
        parts = len(ACTION_PARTS[self.settings.actions])
        shown = [seen[:, : len(STATE)], seen[:, -parts:]]
        if self._told:
            shown.append(self._extra if extra is None else extra)
        return np.concatenate(shown, axis=1)

    def _begin(self) -> None:
        """The next episode everywhere; of other services where a generation is over."""
        number = self._episode if self._given else self._episode % self._generation
        if number == 0:
            self._bring_to_life()
        ground = self.settings.ground
        # Other numbers for other seeds: a service that is given lives through other hours in each run.
        first = split(self._seed, "first") % 2**30
        self._services = [one.episode(first + number, ground, self._deployment) for one in self._lives]
        self._snapshot = self._simulator.reset_some(
            np.arange(self.size),
            [one.trace for one in self._services],
            [split(self._seed, "luck", self._episode, row) % 2**31 for row in range(self.size)],
            applications=[one.application for one in self._services],
            sizes=np.stack([one.size for one in self._services]),
        )
        self._actuator = actuator_of(self._simulator.services, self.design, self._observer)
        self._at_s = 0.0
        self._seen = self._observer.see(self._snapshot)

    def _bring_to_life(self) -> None:
        generation = self._episode // self._generation
        seeds = [split(self._seed, "life", generation, row) for row in range(self.size)]
        self._lives = self._given or draw_lives(self.settings.ground, seeds, "training")
        applications = [one.application for one in self._lives]
        if not hasattr(self, "_simulator"):
            self._simulator = Simulator(applications, self._deployment, threads=self.settings.threads)
            self._observer = Observer(self._simulator.services, self.design)
        self._profiles = np.stack([profile_of(one) for one in applications])
        self._extra = np.stack([hand_features(one) for one in self._lives])


class Lived(NamedTuple):
    """What became of services whose learner learned nothing but what its context told."""

    rewards: NDArray[np.float64]
    """Mean of an episode: [episodes, services]."""
    contexts: NDArray[np.float32] | None
    """After the last, [services, numbers]."""
    missed: NDArray[np.float32] | None
    """What the encoder takes for the profile, less the true one: [services, PROFILE]."""


def live(
    parameters: Parameters, design: Design, task: AdaptationTask, *, episodes: int, seed: int = 0
) -> Lived:
    """Act without noise and without updates; memories of the services go on from episode to episode."""
    task.reset(seed)
    actor = ContextualActor(parameters, design.networks, design.encoder, systems=task.size)
    rewards: list[NDArray[np.float64]] = []
    total, steps = np.zeros(task.size), 0
    while len(rewards) < episodes:
        observation = task.observe()
        action = actor.decide(observation)
        outcome = task.step(action)
        actor.tell(observation, action, outcome.rewards, outcome.truncated, outcome.renewed)
        total, steps = total + outcome.rewards, steps + 1
        if outcome.truncated.all():
            rewards.append(total / steps)
            total, steps = np.zeros(task.size), 0
    profile = actor.profile
    missed = None if profile is None else profile - task.privileged()
    return Lived(np.stack(rewards), actor.context, missed)


def pre_trained(
    arm: Arm,
    folder: str | Path,
    *,
    clock: Clock,
    changes: dict[str, Any] | None = None,
    progress: Progress | None = None,
) -> Bundle:
    """Train an arm on the services for training; its best parameters, critics and all."""
    settings = PRESETS.load(arm.preset, changes)
    task = AdaptationTask(settings, told=arm.told)
    train_off_policy(
        task, settings.training, folder, clock=clock, progress=progress, seed=settings.seed, log=_log(task)
    )
    best = best_of_run(RunFolder.open(folder, clock=clock))
    manifest = {
        "settings": {"arm": arm.name, "asked": settings.model_dump(mode="json")},
        "features": {"state": list(STATE), "told": list(HAND_FEATURES) if arm.told else []},
        "trained": best.history,
        "scores": {"validation": best.score, "at iteration": best.iteration, **best.measured},
    }
    tensors = {key: np.asarray(one, np.float32) for key, one in flatten(best.parameters).items()}
    return Bundle(arm.name, WING, KIND, manifest, tensors)


def _log(task: AdaptationTask) -> Replay | None:
    """What the rule does, where a run begins with copying it."""
    training = task.settings.training
    if not training.needs_log:
        return None
    random = np.random.default_rng(split(task.settings.seed, "log"))

    def noisy_rule(observation: NDArray[np.float32]) -> NDArray[np.float32]:
        # A rule that never errs shows no way back.
        answers = task.teacher(observation)
        return np.clip(answers + random.normal(0, 0.3, answers.shape), -1, 1).astype(np.float32)

    return recorded(task, noisy_rule, steps=_LOGGED_STEPS, seed=task.settings.seed)


def fine_tuned(
    arm: Arm,
    start: Parameters | None,
    settings: AwareSettings,
    lives: Sequence[Life],
    folder: str | Path,
    *,
    clock: Clock,
    seed: int = 0,
    progress: Progress | None = None,
) -> tuple[NDArray[np.float64], Parameters]:
    """One learner per service, side by side: mean reward of each episode [episodes, services], and all they
    learned."""
    task = AdaptationTask(settings, told=arm.told, lives=lives)
    result = train_off_policy(
        task, settings.training, folder, clock=clock, progress=progress, seed=seed, start=start
    )
    rows = RunFolder.open(folder, clock=clock).read_metrics()
    return np.array([row["member_rewards"] for row in rows]), result.parameters
