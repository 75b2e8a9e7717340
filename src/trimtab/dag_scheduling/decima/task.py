"""What Decima is trained on: settings with presets, the environments, and the score that counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import cached_property
from typing import Any

import jax
import numpy as np

from trimtab.core.bundle import Bundle
from trimtab.core.errors import SettingsError, TrimtabError
from trimtab.core.settings import Field, Presets, Settings
from trimtab.dag_scheduling import heuristics
from trimtab.dag_scheduling.cluster import Cluster
from trimtab.dag_scheduling.decima.agent import decima_agent
from trimtab.dag_scheduling.decima.network import Design, told_more
from trimtab.dag_scheduling.decima.policy import DecimaPolicy
from trimtab.dag_scheduling.decima.rollouts import (
    TRAINING_SEEDS,
    Course,
    RolloutEnvironment,
    random_choices,
)
from trimtab.dag_scheduling.decima.showing import catalogue
from trimtab.dag_scheduling.decima.view import Catalogue
from trimtab.dag_scheduling.episode import Episode
from trimtab.dag_scheduling.heuristics import Rule
from trimtab.dag_scheduling.policies import make_policy
from trimtab.dag_scheduling.simulator.simulator import simulate, tables_for
from trimtab.dag_scheduling.workload import Workload
from trimtab.dag_scheduling.workload.presets import WorkloadSettings, draw_workload
from trimtab.learning.agent import Agent
from trimtab.learning.lessons import Lessons
from trimtab.learning.runs import refuse_other_network
from trimtab.learning.settings import TrainingSettings

__all__ = ["CourseSettings", "DecimaSettings", "DecimaTask", "NetworkSettings"]
__all__ += ["load_preset", "preset_names", "teacher_of"]


class NetworkSettings(Settings):
    """The design of the network (see `network.Design`)."""

    hidden: int = Field(default=32, ge=4, le=512, description="Width of the hidden layers.")
    embedding: int = Field(default=16, ge=2, le=256, description="Numbers that describe a stage.")
    limits: int = Field(default=14, ge=0, le=64, description="Log-spaced limits on offer; 0: every number.")
    graph: bool = Field(default=True, description="Whether stages hear from the stages below them.")
    limit_head: bool = Field(default=True, description="Whether jobs have parallelism limits.")
    paper: bool = Field(default=False, description="The published features, summaries and sizes.")
    ready: bool = Field(default=False, description="Whether stages know when their parents will be done.")
    sizes: bool = Field(
        default=False, description="Whether it knows what executors of several sizes are wanted for."
    )
    largest_score: float = Field(
        default=0, ge=0, le=1000, description="Bound of the scores, so that nothing is ruled out; 0: none."
    )


class CourseSettings(Settings):
    """One kind of workload to practise."""

    workload: WorkloadSettings = Field(default=WorkloadSettings(), description="Which jobs arrive, and when.")
    cluster: Cluster = Field(default=Cluster(), description="The cluster they run on.")
    teacher: str = Field(
        default="capped-srpt-local",
        min_length=1,
        description="Rule to begin from and to be measured against.",
    )
    look_ahead_s: float = Field(
        default=0.0,
        ge=0,
        le=1e6,
        description="Judge decisions against the teacher playing on for so many seconds; 0: do not.",
    )
    look_every: int = Field(default=1, ge=1, le=1000, description="Look once for so many decisions.")
    weight: int = Field(default=1, ge=1, le=100, description="Share of the environments, relative to others.")
    sequences: int = Field(
        default=0, ge=0, le=TRAINING_SEEDS, description="Practise only so many workloads; 0: ever new ones."
    )


class DecimaSettings(Settings):
    """Everything a training run of Decima can be told.

    >>> DecimaSettings().courses[0].cluster.executors
    50
    """

    courses: tuple[CourseSettings, ...] = Field(
        default=(CourseSettings(),), min_length=1, description="What is practised, side by side."
    )
    network: NetworkSettings = Field(default=NetworkSettings(), description="The design of the network.")
    training: TrainingSettings = Field(default=TrainingSettings(), description="The learning algorithm.")
    environments: int = Field(default=64, ge=1, le=1 << 20, description="Environments in each lane.")
    lanes: int = Field(default=2, ge=1, le=8, description="Groups of environments stepped in turns.")
    rollouts: int = Field(default=1, ge=1, le=1024, description="Environments that share their workloads.")
    jobs_shown: int = Field(default=20, ge=1, le=512, description="Jobs the policy sees in training.")
    threads: int = Field(default=1, ge=1, le=256, description="Threads that step the environments.")
    sees_future: bool = Field(
        default=True, description="Whether the critic is told the jobs to come: an input-dependent baseline."
    )
    validation: int = Field(default=32, ge=2, le=10_000, description="Validation workloads of each course.")


PRESETS = Presets("trimtab.dag_scheduling.decima", DecimaSettings)
preset_names, load_preset = PRESETS.names, PRESETS.load


class DecimaTask:
    """Satisfies `trimtab.learning.training.Task`."""

    def __init__(self, settings: DecimaSettings, *, start: Bundle | None = None) -> None:
        self.settings = settings
        clusters = [course.cluster for course in settings.courses]
        classes = {len(cluster.class_memory) for cluster in clusters}
        if len(classes) != 1:
            raise SettingsError(
                "courses differ in their number of executor classes; train one policy for each"
            )
        if settings.training.baseline == "multi_value" and len(settings.courses) > 1:
            raise SettingsError("multi_value numbers the workloads of one course; give one, not several")
        self.design = Design(classes=classes.pop(), **settings.network.model_dump())
        self._most = max(cluster.executors for cluster in clusters)
        self._courses = [
            _course(one, staggered=not settings.training.whole_episodes) for one in settings.courses
        ]
        self._catalogue = _catalogue(self._courses)
        self.agent: Agent = decima_agent(
            self.design,
            most_executors=self._most,
            sees_future=settings.sees_future,
            seed=settings.training.seed,
            start=None if start is None else self._checked(start),
            catalogue=self._catalogue,
        )
        self._best = jax.jit(self.agent.best)

    def _checked(self, start: Bundle) -> Any:
        """The parameters of a bundle, if they fit the network to be trained, or one that is told more."""
        policy = DecimaPolicy(start)
        had = told = policy.design
        if not had.paper:
            # Limits are scored one by one, so a network may be offered more of them, or fewer.
            told = replace(
                had,
                ready=had.ready or self.design.ready,
                sizes=had.sizes or self.design.sizes,
                limits=self.design.limits if had.limits else 0,
            )
        refuse_other_network(start.name, told, self.design)
        if told == had:
            return policy.parameters
        return {"actor": told_more(policy.parameters["actor"], had, told)}

    @property
    def lanes(self) -> Sequence[RolloutEnvironment]:
        """The environments; made when first asked for."""
        return self._lanes

    @cached_property
    def _lanes(self) -> Sequence[RolloutEnvironment]:
        s = self.settings
        return [
            RolloutEnvironment(
                self._courses,
                self.design,
                size=s.environments,
                rollouts=s.rollouts,
                jobs_shown=s.jobs_shown,
                labelled=s.training.anchor > 0,
                threads=s.threads,
                catalogue=self._catalogue,
            )
            for _ in range(s.lanes)
        ]

    @property
    def lessons(self) -> Sequence[Lessons]:
        """None: this wing learns from what it plays."""
        return ()

    def score(self, parameters: Any) -> dict[str, float]:
        """Mean cost over that of the teacher on the same validation workloads, averaged by weight."""
        costs = self.validation_costs(parameters).sum(1)
        ratios = costs / self._rule_costs["teacher"]
        over_fair = costs / self._rule_costs["fair"]
        weights = [course.weight for course in self._courses]
        return {
            "score": float(np.average(ratios, weights=weights)),
            "over_fair": float(np.average(over_fair, weights=weights)),
        } | {f"course_{number}": float(ratio) for number, ratio in enumerate(ratios)}

    def validation_costs(self, parameters: Any) -> np.ndarray:
        """Play whole episodes with the likeliest actions: [courses, seeds] in job-seconds."""
        courses = [replace(course, look_ahead_s=0.0, weight=1) for course in self._courses]
        seeds = list(self._validation_seeds)
        size = len(seeds) * len(courses)
        playing = RolloutEnvironment(courses, self.design, size=size, jobs_shown=self.settings.jobs_shown)
        playing.reset_to(seeds * len(courses))
        cost = np.zeros(size)
        going = np.ones(size, bool)
        while going.any():
            actions = self._best(parameters, jax.device_put(playing.observe()))
            outcome = playing.step(np.asarray(actions))
            cost -= np.where(going, outcome.rewards, 0.0)
            going &= ~outcome.ended
        scales = np.array([[course.cost_scale_s] for course in courses])
        return cost.reshape(len(courses), len(seeds)) * scales

    def describe(self) -> dict[str, Any]:
        return {
            "wing": "dag_scheduling",
            "kind": "decima",
            "design": asdict(self.design),
            "most_executors": self._most,
            "jobs_shown": self.settings.jobs_shown,
            "courses": [course.model_dump(mode="json") for course in self.settings.courses],
        }

    @property
    def _validation_seeds(self) -> range:
        return range(TRAINING_SEEDS, TRAINING_SEEDS + self.settings.validation)

    @cached_property
    def _rule_costs(self) -> dict[str, np.ndarray]:
        """By course: what the validation workloads cost under the teacher and under Fair."""
        seeds = self._validation_seeds
        fair = [replace(course, teacher=Rule("fair", heuristics.fair)) for course in self._courses]
        return {
            "teacher": np.array([_costs(_played(course, seeds)).sum() for course in self._courses]),
            "fair": np.array([_costs(_played(course, seeds)).sum() for course in fair]),
        }


def teacher_of(course: CourseSettings, field: str = "teacher") -> Rule:
    """The rule a course is taught by; `field` is what a refusal calls the setting."""
    try:
        teacher = make_policy(course.teacher)
    except TrimtabError as error:
        raise SettingsError(f"{field} = {course.teacher}: {error}") from None
    if not isinstance(teacher, Rule):
        raise SettingsError(f"{field} = {course.teacher}: is not a rule; name one of `trimtab policies`")
    return teacher


def _course(settings: CourseSettings, *, staggered: bool) -> Course:
    def draw(seed: int) -> Workload:
        return draw_workload(
            settings.workload, executors=settings.cluster.executors, seed=seed, part="training"
        )

    course = Course(
        settings.cluster,
        draw,
        teacher_of(settings),
        sequences=settings.sequences,
        look_ahead_s=settings.look_ahead_s,
        look_every=settings.look_every,
        weight=settings.weight,
    )
    episodes = _played(course, range(4))
    length_s = float(np.mean([episode.makespan_ms for episode in episodes])) / 1000.0
    return replace(
        course,
        cost_scale_s=_usual_cost_s(course, episodes),
        usual_length_s=length_s if staggered else 0.0,
    )


def _catalogue(courses: Sequence[Course]) -> Catalogue | None:
    """What never changes about the jobs of all courses; nothing where durations are learned on the way."""
    parts = [tables_for(course.draw(0).profile, course.cluster) for course in courses]
    if any(part.learned for part in parts):
        return None
    return catalogue(parts, max(part.stages_per_slot for part in parts))


def _usual_cost_s(course: Course, episodes: Sequence[Episode]) -> float:
    """What a decision costs, so that courses weigh alike: as it is, or its spread beyond the teacher's."""
    if course.look_ahead_s == 0:
        return float(_costs(episodes).sum() / sum(episode.decisions for episode in episodes))
    beyond = []
    random = np.random.default_rng(0)
    playing = RolloutEnvironment(
        [replace(course, weight=1)], Design(classes=len(course.cluster.class_memory)), size=8, jobs_shown=20
    )
    playing.reset_to(range(8))
    for _ in range(160):
        shown = playing.observe()
        actions = shown["teacher"].astype(np.int32)
        if random.random() < 0.1:
            actions = random_choices(shown, random)
        beyond.append(playing.step(actions).rewards)
    return max(float(np.std(beyond)), 1e-3)


def _played(course: Course, seeds: Sequence[int]) -> list[Episode]:
    """The workloads of these seeds, played by the teacher."""
    assert course.teacher is not None
    return [simulate(course.draw(seed), course.teacher, course.cluster, seed=seed) for seed in seeds]


def _costs(episodes: Sequence[Episode]) -> np.ndarray:
    return np.array([-episode.reward / 1000.0 for episode in episodes])
