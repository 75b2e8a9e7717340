"""Train a learned autoscaler of services from settings to a bundle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from trimtab.core.bundle import Bundle, load_tensors, save_bundle, save_tensors
from trimtab.core.errors import SettingsError
from trimtab.core.randomness import split
from trimtab.core.run_folder import Clock, RunFolder
from trimtab.learning.agent import Parameters
from trimtab.learning.lessons import collected_with, refuse_other_lessons
from trimtab.learning.off_policy import recorded, train_off_policy
from trimtab.learning.on_policy import OnPolicyTask
from trimtab.learning.replay import Replay, Steps
from trimtab.learning.run_files import whole_settings
from trimtab.learning.runs import best_of_run, refuse_other_network
from trimtab.learning.training import Progress, train
from trimtab.networks.actor_critic import actor_actions
from trimtab.pod_autoscaling.aware.advantages import best_answers, fitted_advantages
from trimtab.pod_autoscaling.aware.design import design_from
from trimtab.pod_autoscaling.aware.lessons import Actor, Lessons, collect_lessons
from trimtab.pod_autoscaling.aware.policy import AwarePolicy, make_bundle
from trimtab.pod_autoscaling.aware.services import Ground, Service, draw_services, play_services
from trimtab.pod_autoscaling.aware.surprise import QUANTILE, Familiar
from trimtab.pod_autoscaling.aware.task import (
    AwareSettings,
    AwareTask,
    design_of,
    member_of,
    ppo_training_of,
)
from trimtab.pod_autoscaling.deployment import Deployment
from trimtab.pod_autoscaling.policies import make_policy
from trimtab.pod_autoscaling.problem import Floats, PodPolicy, Services, Snapshot

__all__ = [
    "ASKED_FOR",
    "SCORE",
    "bundle_of_run",
    "copied_log",
    "loaded_lessons",
    "save_bundle_of_run",
    "train_aware",
    "with_familiar",
]

ASKED_FOR = "aware.toml"
"""The whole settings of a run; `settings.toml` beside it holds those of the algorithm alone."""
_TOLD_BY_LESSONS = {
    "ground", "deployment", "multiplier", "least_price", "most_price", "base_slack", "base_cpu",
    "base_margin", "base_reserve", "environments", "services", "lessons", "lessons_hold", "lessons_follow",
    "seed",
}  # fmt: skip
"""Fields of `AwareSettings` with which other lessons would have been collected."""
_FAMILIAR, _FAMILIAR_SEED = 4, 2_000_000
"""What is familiar is told by so many times the services of validation."""
_BESIDE = ("hpa:target=50,cpu=1", "hpa:target=70,cpu=1", "hpa:target=80,cpu=2")
"""Rules that may act while a policy watches: what their pods change about what it sees is no surprise."""
SCORE = "cost on validation services over the rule's"
"""What a bundle's manifest calls the score of its run."""


def train_aware(
    settings: AwareSettings,
    folder: str | Path,
    *,
    name: str,
    clock: Clock,
    progress: Progress | None = None,
    resume: bool = False,
    start: Bundle | None = None,
) -> Path:
    """Train into a run folder and leave the best policy in its folder ``bundle``."""
    texts = whole_settings(ASKED_FOR, settings, start)
    task, begun = AwareTask(settings), _begun(settings, start)
    played = ppo_training_of(settings)
    if played is not None:
        interval_s = settings.deployment.interval_s
        own = OnPolicyTask(task, settings.training, interval_s=interval_s, seed=settings.seed, start=begun)
        train(own, played, folder, progress, clock=clock, resume=resume, texts=texts)
        return save_bundle_of_run(RunFolder.open(folder, clock=clock), name)
    log: Replay | None = None
    shared: dict[str, Any] = {"clock": clock, "progress": progress, "seed": settings.seed, "start": begun}
    if settings.lessons:
        given = Path(settings.lessons_from) if settings.lessons_from else None
        own = Path(f"{folder}-lessons")
        found: list[Lessons] = []
        for number in range(1, settings.lessons_rounds + 1):
            path = (given or own) / f"round-{number}.safetensors"
            if not path.exists() and given is not None:
                raise SettingsError(f"{path}: no such lessons; leave lessons_from out to collect them")
            if not path.exists():
                actor = None
                if number > 1:
                    # Whoever has learned so far acts while more is collected, and so meets what it will meet.
                    before = Path(f"{folder}-before-round-{number}")
                    again = before.exists()
                    train_off_policy(
                        task, settings.training, before, log=log, texts=texts, resume=again, **shared
                    )
                    actor = _actor(best_of_run(RunFolder.open(before, clock=clock)).parameters, task)
                _collect(task, path, number, actor)
            found.append(loaded_lessons(path, task))
            if given is None:
                wanted = collected_with(settings, _TOLD_BY_LESSONS)
                refuse_other_lessons(path, load_tensors(path)[1], wanted)
            log = copied_log(task, Lessons.joined(found))
    elif settings.training.needs_log:
        log = recorded(task, task.teacher, steps=settings.logged_steps, seed=split(settings.seed, "log"))
    train_off_policy(task, settings.training, folder, log=log, texts=texts, resume=resume, **shared)
    return save_bundle_of_run(RunFolder.open(folder, clock=clock), name)


def _begun(settings: AwareSettings, start: Bundle | None) -> Parameters | None:
    """What to begin from; the critics are new."""
    if start is None:
        return None
    policy, wanted = AwarePolicy(start), design_of(settings)
    if policy.design.actions != wanted.actions:
        # Three numbers around a rule and three ratios fit the same network, and mean something else.
        raise SettingsError(
            f"{start.name} answers with actions = {policy.design.actions}, and {wanted.actions} is asked "
            f"for; set actions = {policy.design.actions}, or begin from nothing"
        )
    refuse_other_network(start.name, policy.design.networks, wanted.networks)
    return policy.parameters


def _actor(parameters: Parameters, task: AwareTask) -> Actor:
    """A learner that acts as it learned to, without noise."""

    def act(observation: NDArray[np.float32]) -> NDArray[np.float32]:
        return actor_actions(parameters["actor"], observation, None, task.design.networks, np)

    return act


def _collect(task: AwareTask, path: Path, number: int, actor: Actor | None) -> None:
    settings = task.settings
    lessons = collect_lessons(
        task,
        settings.lessons,
        seed=split(settings.seed, "round", number),
        actor=actor,
        hold=settings.lessons_hold,
        follow=settings.lessons_follow,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    save_tensors(path, lessons._asdict(), collected_with(settings, _TOLD_BY_LESSONS))


def loaded_lessons(path: Path, task: AwareTask) -> Lessons:
    """Lessons of an earlier run; those that this task would see otherwise are refused."""
    tensors = load_tensors(path)[0]
    if set(tensors) != set(Lessons._fields):
        raise SettingsError(f"{path}: these are no lessons; leave lessons_from out to collect some")
    lessons = Lessons(**tensors)
    had, wanted = lessons.observation.shape[-1], task.layout.observation
    if had != wanted:
        raise SettingsError(f"{path}: lessons of {had} numbers where {wanted} are seen; collect others")
    return lessons


def copied_log(task: AwareTask, lessons: Lessons) -> Replay:
    """What lessons say is best, at several prices each, as a log whose guide is to be copied."""
    settings, design = task.settings, task.design
    random = np.random.default_rng(split(settings.seed, "prices"))
    seen, worth = [], []
    for _ in range(settings.lessons_prices):
        low, high = design.least_price, design.most_price
        prices = low * (high / low) ** random.uniform(size=len(lessons.held))
        observation, worths = lessons.at_prices(prices)
        seen.append(observation)
        worth.append(worths)
    many = settings.lessons_prices
    answers, usual, profiles = (
        np.tile(part, (many, 1)) for part in (lessons.answer, lessons.usual, lessons.privileged)
    )
    observation = np.concatenate(seen)
    advantages = fitted_advantages(
        observation, answers, usual, np.concatenate(worth), seed=split(settings.seed, "mixtures") % 2**32
    )
    best = best_answers(advantages, observation, usual, caution=settings.lessons_caution)
    one = np.ones((len(best), 1), np.float32)
    steps = Steps(
        observation=observation,
        action=best,
        reward=0 * one,
        ended=one,
        renewed=one,
        next_observation=observation,
        terminated=one,
        guide=best,
        guided=one,
        privileged=profiles,
    )
    return Replay.of(task.layout, task.layout.joined(steps)[:, None])


def save_bundle_of_run(run: RunFolder, name: str) -> Path:
    """Leave the best policy so far in the run's folder ``bundle``."""
    return save_bundle(run.path / "bundle", bundle_of_run(run, name))


def bundle_of_run(run: RunFolder, name: str) -> Bundle:
    """Pack the best checkpoint of a run with its history."""
    best = best_of_run(run)
    validated = best.task.get("validation_services", AwareSettings().validation_services)
    ground = {part: best.task[part] for part in ("applications", "traces", "ground", "deployment", "teacher")}
    bundle = make_bundle(
        name,
        member_of(best.parameters, best.task.get("members", 1)),
        design_from(best.task["design"]),
        trained={**ground, **best.history},
        scores={SCORE: best.score, "at iteration": best.iteration, **best.measured},
    )
    return with_familiar(bundle, services=_FAMILIAR * validated)


def with_familiar(bundle: Bundle, *, services: int) -> Bundle:
    """A bundle that says what its policy has seen in training; what it decides stays the same.

    The policy plays so many services of the part for training, with the ground it was trained on; then it
    watches usual rules play them, a part of the services each. Behind a guard a rule acts first, and a policy
    that is surprised by it would never have its turn.
    """
    trained = bundle.manifest["trained"]
    ground = Ground.model_validate(trained["ground"])
    deployment = Deployment.model_validate(trained["deployment"])
    seeds = [split(_FAMILIAR_SEED, "service", number) % 2**40 for number in range(services)]
    drawn = draw_services(ground, deployment, seeds, "training")
    policy = AwarePolicy(bundle)
    own = _watched(policy, policy, drawn, deployment)
    if not own.means:
        raise SettingsError(f"{bundle.name}: episodes too short to tell what is familiar; set ground.hours")
    differences = []
    for place, rule in enumerate(_BESIDE[:services]):
        some = slice(place, None, len(_BESIDE))
        beside = _watched(policy, make_policy(rule), drawn[some], deployment)
        differences.append(beside.mean_of_each - own.mean_of_each[some])
    familiar = Familiar.of(np.concatenate(own.means), np.concatenate(differences))
    told = {"services": services, "beside": _BESIDE, "quantile": QUANTILE, "distance": familiar.limit}
    manifest = {**bundle.manifest, "trained": {**trained, "familiar": told}}
    deciding = {key: one for key, one in bundle.tensors.items() if key not in familiar.tensors()}
    return replace(bundle, manifest=manifest, tensors={**deciding, **familiar.tensors()})


def _watched(
    policy: AwarePolicy, acting: PodPolicy, services: Sequence[Service], deployment: Deployment
) -> _Watching:
    watching = _Watching(policy, acting)
    play_services(watching, services, deployment)
    return watching


class _Watching:
    """A policy that watches another one act, or itself, and keeps means of what it sees; itself a policy."""

    def __init__(self, policy: AwarePolicy, acting: PodPolicy) -> None:
        self.name, self._policy, self._acting = acting.name, policy, acting
        self.means: list[NDArray[np.float64]] = []

    @property
    def mean_of_each(self) -> NDArray[np.float64]:
        """Of each service over its intervals."""
        return self._sums / self._counts[:, None]

    def begin(self, services: Services) -> Self:
        self._decider = self._policy.begin(services)
        self._actor = None if self._acting is self._policy else self._acting.begin(services)
        self._sums, self._counts = np.zeros_like(self._decider.lately.mean), np.zeros(len(services.slo_s))
        return self

    def decide(self, snapshot: Snapshot) -> Floats:
        wanted, lately = self._decider.decide(snapshot), self._decider.lately
        if lately.known.any():
            self.means.append(lately.mean[lately.known])
        self._sums += np.where(lately.known[:, None], lately.mean, 0.0)
        self._counts += lately.known
        return wanted if self._actor is None else self._actor.decide(snapshot)
