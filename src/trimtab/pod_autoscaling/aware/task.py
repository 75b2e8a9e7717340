"""What a learned autoscaler of services is trained on: settings with presets, services, and the score."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.core.bundle import flatten, unflatten
from trimtab.core.errors import SettingsError
from trimtab.core.randomness import split, uniform
from trimtab.core.settings import Field, Presets, Settings
from trimtab.learning.agent import Parameters
from trimtab.learning.off_policy_settings import OffPolicySettings
from trimtab.learning.off_policy_state import LearnerShape
from trimtab.learning.off_policy_task import Outcome
from trimtab.learning.on_policy_settings import PpoSettings, refuse_meaningless, training_settings
from trimtab.learning.replay import Layout
from trimtab.learning.settings import TrainingSettings, check_lessons_from
from trimtab.pod_autoscaling.application import Application
from trimtab.pod_autoscaling.aware.actions import ACTION_PARTS, Actuator, actuator_of
from trimtab.pod_autoscaling.aware.design import ActionKind, Design, RewardKind
from trimtab.pod_autoscaling.aware.features import FEATURES, Observer, Seen
from trimtab.pod_autoscaling.aware.policy import LearnedPolicy
from trimtab.pod_autoscaling.aware.profile import PROFILE, profile_of
from trimtab.pod_autoscaling.aware.rewards import objective_of, reward_of, spent_of
from trimtab.pod_autoscaling.aware.services import Ground, Service, draw_services, play_services
from trimtab.pod_autoscaling.aware.surprise import SILENT
from trimtab.pod_autoscaling.deployment import Deployment
from trimtab.pod_autoscaling.episode import Episode
from trimtab.pod_autoscaling.policies import make_policy
from trimtab.pod_autoscaling.problem import PodPolicy
from trimtab.pod_autoscaling.simulator.simulator import Simulator
from trimtab.pod_autoscaling.workload.applications import application_names, make_application
from trimtab.pod_autoscaling.workload.presets import TraceSettings, draw_trace

__all__ = [
    "PRESETS",
    "AwareSettings",
    "AwareTask",
    "check_settings",
    "design_of",
    "layout_of",
    "member_of",
    "ppo_training_of",
]

_COMPARED = ("core_hours", "memory_gib_hours", "late_share", "kills", "reward_aware")
_VALIDATION_SEEDS = 1_000_000


class AwareSettings(Settings):
    """Everything a training run of a learned autoscaler of services can be told.

    >>> AwareSettings().actions
    'around3'
    """

    ground: Ground = Field(default=Ground(), description="Services to practise on.")
    deployment: Deployment = Field(
        default=Deployment(most_replicas=40), description="Where and how they run; objective is set below."
    )
    actions: ActionKind = Field(
        default="around3", description="What is answered: around3, logratio3, discrete7 or knobs2."
    )
    reward: RewardKind = Field(default="lagrangian", description="Which reward is learned from.")
    multiplier: float = Field(
        default=20.0,
        gt=0,
        le=1e6,
        description="Fine for late requests, in cores per core needed; at work it moves to hold the budget.",
    )
    least_price: float = Field(default=4.0, gt=0, le=1e6, description="Not below this, nor in training.")
    most_price: float = Field(default=80.0, gt=0, le=1e6, description="Not above this.")
    smoothing: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="At work, answers are gone towards by this share of the way; in training at once.",
    )
    base_slack: float = Field(
        default=1.0, ge=0.1, le=2, description="Of the rule `multi` that is stepped around."
    )
    base_cpu: float = Field(default=4.0, gt=0, le=256, description="Likewise: cores of a calm pod.")
    base_margin: float = Field(default=1.15, ge=1, le=10, description="Likewise: memory over its peak.")
    base_reserve: float = Field(default=2.0, ge=0, le=100, description="Likewise: for peaks to come.")
    environments: int = Field(default=32, ge=1, le=65_536, description="Services practised on at a time.")
    threads: int = Field(default=1, ge=1, le=256, description="Threads that simulate them.")
    services: int = Field(
        default=0, ge=0, le=1_000_000, description="Practise only so many services; 0: ever new ones."
    )
    validation_services: int = Field(
        default=24, ge=1, le=10_000, description="Services of validation hours that the score is made of."
    )
    logged_steps: int = Field(
        default=240,
        ge=1,
        le=1_000_000,
        description="Intervals of the rule to learn from offline, where that is asked for without lessons.",
    )
    lessons: int = Field(
        default=0,
        ge=0,
        le=10_000_000,
        description="Try answers in copies of so many moments, then learn from that; 0: from rewards alone.",
    )
    lessons_rounds: int = Field(
        default=1, ge=1, le=10, description="Collect so often; after the first time what was learned acts."
    )
    lessons_from: str = Field(
        default="", description="Folder with the lessons of an earlier run; empty: collect them."
    )
    lessons_hold: int = Field(default=4, ge=1, le=240, description="Intervals for which answers are tried.")
    lessons_prices: int = Field(
        default=3, ge=1, le=100, description="Each lesson is told for so many prices of lateness."
    )
    lessons_caution: float = Field(
        default=0.1, ge=0, le=100, description="What a step of 1 away from whoever acted must be worth."
    )
    lessons_follow: int = Field(
        default=6, ge=0, le=960, description="Intervals after that which count too, whoever acts acting."
    )
    seed: int = Field(default=0, ge=0, description="Another number gives another run.")
    training: OffPolicySettings = Field(default=OffPolicySettings(), description="The learning algorithm.")
    ppo: PpoSettings | None = Field(
        default=None, description="Where there is this table, PPO learns, and not from replayed steps."
    )


PRESETS = Presets("trimtab.pod_autoscaling.aware", AwareSettings)
"""``aware`` (ours), ``firm``, ``td3``, ``ppo`` and those of AWARE's experiments; see their files."""


def layout_of(settings: AwareSettings) -> Layout:
    """Sizes of observations and answers."""
    parts = len(ACTION_PARTS[settings.actions])
    priced = settings.reward == "lagrangian"
    return Layout(observation=len(FEATURES) + priced + parts, actions=parts, privileged=len(PROFILE))


def design_of(settings: AwareSettings) -> Design:
    """The design that these settings train."""
    shape = LearnerShape.of(settings.training, layout_of(settings))
    return Design(
        networks=shape.networks,
        encoder=shape.encoder,
        actions=settings.actions,
        reward=settings.reward,
        utilisation_weight=settings.deployment.objective.utilisation_weight,
        memory_price=settings.deployment.objective.memory_price,
        multiplier=settings.multiplier,
        least_price=settings.least_price,
        most_price=settings.most_price,
        smoothing=settings.smoothing,
        base_slack=settings.base_slack,
        base_cpu=settings.base_cpu,
        base_margin=settings.base_margin,
        base_reserve=settings.base_reserve,
    )


def ppo_training_of(settings: AwareSettings) -> TrainingSettings | None:
    """How PPO is to learn, where these settings ask for it."""
    if settings.ppo is None:
        return None
    refuse_meaningless(settings.training)
    interval_s = settings.deployment.interval_s
    return training_settings(settings.training, settings.ppo, interval_s=interval_s, seed=settings.seed)


def check_settings(settings: AwareSettings) -> None:
    """Refuse early what cannot work: unknown services and traces, lessons that nothing would learn from."""
    ground, training = settings.ground, settings.training
    design_of(settings)
    for name in ground.applications:
        make_application(name)
    for name in ground.traces:
        draw_trace(TraceSettings(name=name, hours=ground.hours), Application(), seed=0, part="validation")
    # Half a second for hours that are no round number of intervals: 40 of 15 s are 0.1666 h.
    interval_s = settings.deployment.interval_s
    decisions = int((3600 * ground.hours + 0.5) // interval_s)
    if decisions <= SILENT:
        raise SettingsError(
            f"ground.hours = {ground.hours:g} is {decisions} decisions, one every {interval_s} s, and the "
            f"first {SILENT} do not tell what is familiar; raise it"
        )
    if ground.least_cores > ground.most_cores:
        raise SettingsError(
            f"least_cores = {ground.least_cores:g} is above most_cores = {ground.most_cores:g}; lower "
            "the one or raise the other"
        )
    if settings.least_price > settings.most_price:
        raise SettingsError(
            f"least_price = {settings.least_price:g} is above most_price = {settings.most_price:g}; "
            "lower the one or raise the other"
        )
    played = ppo_training_of(settings)
    if played is not None:
        if settings.lessons:
            raise SettingsError("PPO learns from what it plays; set lessons = 0, or leave the table ppo out")
        played.check_batch(settings.environments)
    else:
        training.check_environments(settings.environments)
    check_lessons_from(settings.lessons_from, settings.lessons)
    if settings.lessons and not training.needs_log:
        raise SettingsError(
            "lessons are copied, in iterations of their own; set training.cloning_iterations too"
        )
    if settings.lessons and (settings.actions, settings.reward) != ("around3", "lagrangian"):
        raise SettingsError("lessons need actions = around3 and reward = lagrangian; set both, or no lessons")
    if settings.lessons and training.context != "none":
        raise SettingsError(
            "lessons are single moments and have no past to read; set training.context = none"
        )


class AwareTask:
    """Services that step together; an `OffPolicyTask`."""

    def __init__(self, settings: AwareSettings) -> None:
        self.settings, self.design = settings, design_of(settings)
        budget = settings.deployment.objective.budget
        self._deployment = settings.deployment.model_copy(
            update={"objective": objective_of(self.design, budget)}
        )
        self.layout, self.size = layout_of(settings), settings.environments
        self._episode = 0
        self._seed = 0
        self._begin()

    def reset(self, seed: int) -> None:
        """Begin everywhere anew with services that this seed gives."""
        self._seed, self._episode = seed, 0
        self._begin()

    def observe(self) -> NDArray[np.float32]:
        return self._seen.observation

    def step(self, actions: NDArray[np.float32]) -> Outcome:
        """Decide everywhere and live through one interval."""
        simulator = self._simulator
        wanted = self._actuator.sized(actions, self._snapshot, self._seen)
        self._observer.acted(actions)
        self._snapshot, _, ended = simulator.step(wanted)
        self._at_s += self._snapshot.interval_s
        self._seen = self._observer.see(self._snapshot)
        truth, services = simulator.truth, simulator.services
        usual, prices = self._seen.usual_cores, self._observer.prices
        rewards = reward_of(truth, services.slo_s, services.budget, usual, prices, self.design)
        spent = spent_of(truth, services.budget, usual, self.design)
        seen, over = self._seen.observation, ended.copy()
        measured = {
            "cores": truth.cores_held,
            "late": truth.late / np.maximum(truth.finished, 1),
            "kills": truth.kills,
            "held": spent.held,
            "fined": spent.late,
        }
        if ended.all():
            self._episode += 1
            self._begin()
        nothing = np.zeros(self.size, bool)
        return Outcome(rewards, nothing, over, over, seen, measured=measured)

    def copied(self, rows: NDArray[np.int64]) -> AwareTask:
        """These services as they are now, to go another way with; a row may be named twice."""
        copy = object.__new__(AwareTask)
        copy.__dict__.update(self.__dict__)
        copy.size = len(rows)
        copy._services = [self._services[row] for row in rows]
        copy._simulator = self._simulator.copied(rows)
        copy._observer = self._observer.taken(copy._simulator.services, rows)
        copy._actuator = actuator_of(copy._simulator.services, self.design, copy._observer)
        copy._snapshot = copy._simulator.snapshot()
        copy._seen = Seen(*(_taken(field, rows) for field in self._seen))
        return copy

    def privileged(self) -> NDArray[np.float32]:
        """The true profiles, as they are now."""
        return np.stack([profile_of(one.application, one.drift, self._at_s) for one in self._services])

    def teacher(self, observation: NDArray[np.float32]) -> NDArray[np.float32]:
        """What the rule would do."""
        return self._actuator.taught(self._snapshot, self._seen)

    def score(self, parameters: Parameters) -> dict[str, float]:
        """Cost on validation services over that of the rule, and what it is made of."""
        found = self.played(
            LearnedPolicy("learned", member_of(parameters, self.settings.training.members), self.design)
        )
        ours, theirs = [one.metrics() for one in found], [one.metrics() for one in self._taught]
        ratios = [a["cost"] / b["cost"] for a, b in zip(ours, theirs, strict=True)]
        means = {
            f"{name} over the rule": float(
                np.mean([one[name] for one in ours]) / max(np.mean([one[name] for one in theirs]), 1e-9)
            )
            for name in _COMPARED
        }
        return {"score": float(np.mean(ratios)), **means}

    def played(self, policy: PodPolicy) -> list[Episode]:
        """Validation services under a policy."""
        return play_services(policy, self._validation, self._deployment, threads=self.settings.threads)

    def describe(self) -> dict[str, Any]:
        """What is trained on."""
        settings = self.settings
        return {
            "design": self.design.as_manifest(),
            "applications": list(settings.ground.applications)
            or [f"{len(application_names('training'))} synthetic applications"],
            "traces": list(settings.ground.traces),
            "ground": settings.ground.model_dump(mode="json"),
            "deployment": self._deployment.model_dump(mode="json"),
            "teacher": self.design.teacher,
            "validation_services": settings.validation_services,
            "members": settings.training.members,
        }

    @cached_property
    def _validation(self) -> list[Service]:
        seeds = [_VALIDATION_SEEDS + number for number in range(self.settings.validation_services)]
        return draw_services(self.settings.ground, self._deployment, seeds, "validation")

    @cached_property
    def _taught(self) -> list[Episode]:
        return self.played(make_policy(self.design.teacher))

    def _set_prices(self) -> None:
        """Prices of lateness, one for each service: a network must know what to do at every price."""
        low, high = self.design.least_price, self.design.most_price
        key = split(self._seed, "price", self._episode)
        self._observer.set_prices(low * (high / low) ** uniform(key, np.arange(self.size)))

    def _drawn(self) -> list[Service]:
        """The services of the next episode."""
        count = self.settings.services
        seeds = [
            split(self._seed, "service", self._episode, row) % (count or 2**40) for row in range(self.size)
        ]
        return draw_services(self.settings.ground, self._deployment, seeds, "training")

    def _new_actuator(self) -> Actuator:
        return actuator_of(self._simulator.services, self.design, self._observer)

    def _begin(self) -> None:
        """Other services everywhere."""
        self._services = self._drawn()
        applications = [one.application for one in self._services]
        if not hasattr(self, "_simulator"):
            self._simulator = Simulator(applications, self._deployment, threads=self.settings.threads)
            self._observer = Observer(self._simulator.services, self.design)
        self._snapshot = self._simulator.reset_some(
            np.arange(self.size),
            [one.trace for one in self._services],
            [split(self._seed, "luck", self._episode, row) % 2**31 for row in range(self.size)],
            applications=applications,
            drifts=[one.drift for one in self._services],
            sizes=np.stack([one.size for one in self._services]),
        )
        self._actuator = self._new_actuator()
        if self.design.priced:
            self._set_prices()
        self._at_s = 0.0
        self._seen = self._observer.see(self._snapshot)


def _taken(field: Any, rows: NDArray[np.int64]) -> Any:
    """Rows of an array, or of every array of a tuple."""
    return type(field)(*(_taken(one, rows) for one in field)) if isinstance(field, tuple) else field[rows]


def member_of(parameters: Any, members: int, number: int = 0) -> Any:
    """What one of several learners side by side has learned; the first of them is scored, and kept."""
    if members == 1:
        return parameters
    return unflatten({name: np.asarray(leaf)[number] for name, leaf in flatten(parameters).items()})
