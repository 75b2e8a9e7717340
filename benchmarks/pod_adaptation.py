"""`make bench-pod-adaptation`: how fast a meta-learned policy gets used to services it has never seen.

AWARE's experiment (Qiu et al., ATC 2023), in its setting: direct control of replicas, CPU and memory, its
reward and its state (see `aware.adaptation`), episodes of 40 decisions. Learners (`aware.adaptation_arms`)
were trained on applications of the part for training, with the same number of decisions (TL and TL+ share it
among eight candidates): `python -m benchmarks.pod_adaptation --train` writes their bundles. Each of them, and
one that begins with nothing, then goes on learning on each of 50 unseen applications, one learner per
application, at the same hours. ``meta`` takes smaller steps and scratch explores more (`fine_tuning`).

A learner has got used to a service at the first episode at which the mean reward of the last ten episodes (or
of as many as there were) is at least 95 % of what learning from scratch comes to in its last 50 episodes, and
stays there for ten episodes; one that never does counts as the budget plus one. Scratch has 150 episodes, not
the 400 that AWARE shows, to keep this short; the others have 60, which can only make the ratios smaller. The
encoder of contexts rests after the training, so nobody is told a true profile.

The bars are about AWARE's TL and TL+, trained on one application. ``pooled`` has no bar: it has no context
either, but was trained on as many applications as ``meta``, and tells how much of the gain is due to these.

    make bench-pod-adaptation ARGS="--episodes 30 --scratch-episodes 60"    # a trial
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.decima_settings import BUNDLES, Numbers, finish_after, reported
from benchmarks.results import ROOT, Row, at_least
from trimtab.core.bundle import save_bundle
from trimtab.core.errors import TrimtabError
from trimtab.core.randomness import split
from trimtab.core.statistics import Estimate, bootstrap, mean_interval
from trimtab.learning.agent import Parameters
from trimtab.pod_autoscaling.aware.adaptation import AdaptationTask, Episodes, Life, Lived, life_of, live
from trimtab.pod_autoscaling.aware.adaptation_arms import ARMS, Arm, fine_tuned, load_arm, pre_trained
from trimtab.pod_autoscaling.aware.profile import PROFILE, profile_of
from trimtab.pod_autoscaling.aware.services import Ground
from trimtab.pod_autoscaling.aware.task import PRESETS, AwareSettings
from trimtab.pod_autoscaling.drawing.embedding import draw_embedding
from trimtab.pod_autoscaling.workload.applications import application_names
from trimtab.pod_autoscaling.workload.presets import Part

APPLICATIONS, EPISODES, SCRATCH_EPISODES = 50, 60, 150
SHARE, MOVING, STAYS, ASYMPTOTE, ADAPTED = 0.95, 10, 10, 50, 20
STRICTER = (0.98, 1.0)
ZERO_SHOT = 10
BARS = {"transfer": (3.0, " (paper 5.5)"), "transfer-plus": (2.0, " (paper 4.6)"), "pooled": (None, "")}
DROP_BAR = 10.0
KNOWN, OUTSIDE, SETTLED = 200, 50, 6
"""Training applications that contexts are compared with, those with unknown functions, episodes they live."""
SCRATCH_EXPLORATION = 0.3


@dataclass(frozen=True)
class Tuned:
    """What fine-tuning of one arm on all services came to."""

    rewards: Numbers
    """[episodes, services]"""
    cpu_s: float
    lived: Episodes

    def last(self, episodes: int) -> Numbers:
        """The mean reward of the last episodes, of each service."""
        return self.rewards[-episodes:].mean(0)


def clock() -> datetime:
    return datetime.now(UTC)


def folder_of(arm: Arm) -> Path:
    return BUNDLES / f"pod-{arm.name}"


def train(arms: Sequence[Arm]) -> None:
    """Pre-train and write the bundles."""
    for arm in arms:
        with TemporaryDirectory() as folder:

            def told(done: int, total: int, score: float | None, pace: float, left_s: float) -> None:
                if score is not None:
                    print(f"{done} of {total}: mean reward {-score:.4f}, {left_s / 60:.1f} min left")

            bundle = pre_trained(arm, Path(folder) / "run", clock=clock, progress=told)
        print(f"written to {save_bundle(folder_of(arm), bundle).relative_to(ROOT)}")


def lives_of(names: Sequence[str], ground: Ground, part: Part) -> list[Life]:
    """One life for each of these applications."""
    return [life_of(name, ground, split(0, "life", number), part) for number, name in enumerate(names)]


def fine_tuning(arm: Arm, settings: AwareSettings, *, members: int, episodes: int) -> AwareSettings:
    """How everybody goes on learning: the settings of the training, with fewer updates and little noise."""
    training = settings.training
    changes: dict[str, Any] = {
        "members": members,
        "iterations": episodes,
        "reset_every": episodes,
        "checkpoint_every": episodes,
        "validate_every": episodes,
        "warmup": members * training.horizon,
        "updates_per_step": 1,
        "batch": 64,
        "exploration": 0.05,
        "final_exploration": 0.02,
        "frozen_encoder": arm.name == "meta",
    }
    if arm.name == "meta":
        # On 12 validation services it earned 0.83 without learning; in its first ten episodes 0.79 with the
        # usual steps and twice the noise, 0.82 with these.
        changes |= {"actor_learning_rate": 2e-4, "critic_learning_rate": 5e-4}
    if not arm.trained:
        changes["exploration"] = SCRATCH_EXPLORATION
    return settings.model_copy(update={"training": training.model_copy(update=changes)})


def episodes_needed(rewards: Numbers, target: Numbers) -> Numbers:
    """For each column of [episodes, services] the first episode that is good enough and stays so, from 1 on.

    >>> rewards = np.array([[0.2] * 5 + [1.0] * 25, [0.1] * 30]).T
    >>> episodes_needed(
    ...     rewards, np.array([0.9, 0.9])
    ... ).tolist()  # at 14 only one of ten is 0.2: the mean is 0.92
    [14.0, 31.0]
    """
    count = len(rewards)
    sums = np.cumsum(np.concatenate([np.zeros((1, rewards.shape[1])), rewards]), axis=0)
    first = np.maximum(np.arange(1, count + 1) - MOVING, 0)
    moving = (sums[1:] - sums[first]) / (np.arange(1, count + 1) - first)[:, None]
    good = moving >= target
    needed = np.full(rewards.shape[1], count + 1.0)
    for start in range(count - STAYS, -1, -1):
        needed[good[start : start + STAYS].all(0)] = start + 1
    return needed


def ratio_of_medians(theirs: Numbers, ours: Numbers) -> Estimate:
    return bootstrap(lambda a, b: np.median(a, axis=-1) / np.median(b, axis=-1), theirs, ours, seed=0)


def median(values: Numbers) -> Estimate:
    return bootstrap(lambda one: np.median(one, axis=-1), values, seed=0)


def area_under_curve(inside: Numbers, outside: Numbers) -> float:
    """The chance that one from outside scores higher than one from inside; half for equals.

    >>> area_under_curve(np.array([0.0, 1.0]), np.array([1.0, 2.0]))
    0.875
    """
    above = outside[:, None] > inside
    return float((above + 0.5 * (outside[:, None] == inside)).mean())


def strangeness(contexts: Any, known: Any) -> Numbers:
    """How far contexts lie from known ones, in their deviations (the distance of Mahalanobis), squared."""
    centred = np.asarray(known, np.float64) - np.mean(known, axis=0)
    spread = centred.T @ centred / len(centred) + 1e-6 * np.eye(centred.shape[1])
    off = np.asarray(contexts, np.float64) - np.mean(known, axis=0)
    return (off @ np.linalg.inv(spread) * off).sum(1)


def explained(missed: Any, true: Any) -> Numbers:
    """Share of the variance of each number of the profiles that was told (R squared): [numbers].

    >>> explained(np.array([[0.0], [1.0], [0.0]]), np.array([[1.0], [2.0], [3.0]])).tolist()
    [0.5]
    """
    true = np.asarray(true, np.float64)
    return 1 - np.square(missed).sum(0) / np.square(true - true.mean(0)).sum(0)


def drop(lived: Lived, tuned: Tuned) -> Estimate:
    """How much less is earned before anything is learned than after, in per cent of the latter."""
    first, last = lived.rewards.mean(0), tuned.last(ADAPTED)
    return bootstrap(lambda a, b: 100 * (1 - a.mean(-1) / b.mean(-1)), first, last, seed=0)


def adaptation_rows(tuned: Mapping[str, Tuned], share: float, *, barred: bool) -> list[Row]:
    """Episodes until a share of what scratch comes to, against those of meta."""
    asymptote = tuned["scratch"].last(ASYMPTOTE)
    needed = {name: episodes_needed(one.rewards, share * asymptote) for name, one in tuned.items()}
    told = f"to {share:.0%} of scratch's asymptote"
    rows: list[Row] = []
    for name, (bar, goal) in BARS.items():
        ratio = ratio_of_medians(needed[name], needed["meta"])
        text = f"{name} / meta: median episodes {told}{goal if barred else ''}"
        verdict = (f">= {bar:g}", ratio.value >= bar) if barred and bar else ("none", True)
        rows.append(Row(text, ratio.value, *verdict, ratio.low, ratio.high))
    for name, one in needed.items():
        budget = len(tuned[name].rewards)
        rows += [
            reported(f"{name}: median episodes {told}", median(one)),
            reported(f"{name}: 90th percentile of episodes {told}", float(np.quantile(one, 0.9))),
            reported(f"{name}: per cent of services that never came {told}", 100 * (one > budget).mean()),
        ]
    if barred:
        each = {name: one.cpu_s / one.rewards.size for name, one in tuned.items()}
        rows += [
            reported(f"{name}: CPU seconds {told}, mean of services", each[name] * float(one.mean()))
            for name, one in needed.items()
        ]
        rows += [
            reported(
                f"meta: CPU seconds saved against {name}, per cent (paper 68-72)",
                100 * (1 - each["meta"] * needed["meta"].mean() / (each[name] * needed[name].mean())),
            )
            for name in BARS
        ]
    return rows


def used_of(lived: Episodes) -> dict[str, Numbers]:
    """Shares of CPU and memory that were used, of each service over these episodes."""
    sums = Episodes(*(one.sum(0) for one in lived))
    return {"CPU": sums.cores_used / sums.cores_held, "memory": sums.memory_used / sums.memory_held}


def late_of(lived: Episodes) -> tuple[Numbers, Numbers]:
    """Late or failed requests and all of them, of each service."""
    return lived.late.sum(0), lived.finished.sum(0)


def deficit_rows(tuned: Mapping[str, Tuned]) -> list[Row]:
    """What is lost while a learner gets used to services: utilisation, and requests in time.

    The deficit is what utilisation lacks to that of scratch in its last 50 episodes, as a share of it; less
    than nothing where somebody uses more than that.
    """
    first = {name: Episodes(*(part[:ADAPTED] for part in one.lived)) for name, one in tuned.items()}
    wanted = used_of(Episodes(*(part[-ASYMPTOTE:] for part in tuned["scratch"].lived)))
    told, rows = f"while adapting, first {ADAPTED} episodes", list[Row]()
    for what, goal in wanted.items():
        rows += [
            reported(
                f"{told}, {name}: deficit of {what} utilisation, share",
                bootstrap(lambda a, b: 1 - a.mean(-1) / b.mean(-1), used_of(one)[what], goal, seed=0),
            )
            for name, one in first.items()
        ]
    rows += [
        reported(
            f"{told}, {name}: late or failed requests, share",
            bootstrap(lambda a, b: a.sum(-1) / b.sum(-1), *late_of(one), seed=0),
        )
        for name, one in first.items()
    ]
    for name in BARS:
        ratio = bootstrap(
            lambda a, b, c, d: (a.sum(-1) / b.sum(-1)) / np.maximum(c.sum(-1) / d.sum(-1), 1e-12),
            *late_of(first[name]),
            *late_of(first["meta"]),
            seed=0,
        )
        rows.append(reported(f"{told}, {name} / meta: late or failed requests (paper 7.1)", ratio))
    return rows


class Known:
    """An arm at work on services without learning anything but contexts."""

    def __init__(self, arm: Arm) -> None:
        self.arm = arm
        try:
            self.parameters, self.settings = load_arm(folder_of(arm), arm)
        except TrimtabError as missing:
            sys.exit(f"error: {str(missing).replace(f'{ROOT}/', '')}")

    def live(self, lives: Sequence[Life], episodes: int) -> Lived:
        task = AdaptationTask(self.settings, told=self.arm.told, lives=lives)
        return live(self.parameters, task, episodes=episodes)


def tune(
    arm: Arm, start: Parameters | None, settings: AwareSettings, lives: Sequence[Life], episodes: int
) -> Tuned:
    """Go on learning on every service."""
    asked = fine_tuning(arm, settings, members=len(lives), episodes=episodes)
    began = time.process_time()
    with TemporaryDirectory() as folder:
        rewards, lived = fine_tuned(arm, start, asked, lives, Path(folder) / "run", clock=clock)
    used = time.process_time() - began
    first, last = rewards[:10].mean(), rewards[-10:].mean()
    print(f"{arm.name}: {first:.4f} at first, {last:.4f} at last, {used:.0f} CPU s", flush=True)
    return Tuned(rewards, used, lived)


def context_rows(meta: Known, test: Sequence[Life], picture: Path | None = None) -> list[Row]:
    """What contexts tell of services that were never seen, and of some that are like nothing seen."""
    ground = meta.settings.ground
    known = lives_of(application_names("training")[:KNOWN], ground, "training")
    outside = lives_of([f"storage:{number}" for number in range(OUTSIDE)], ground, "test")
    found = {
        name: meta.live(lives, SETTLED)
        for name, lives in (("training", known), ("test", test), ("storage", outside))
    }
    true = np.stack([profile_of(one.application) for one in test])
    told = explained(found["test"].missed, true)
    far = {name: strangeness(one.contexts, found["training"].contexts) for name, one in found.items()}
    if picture is not None:
        drawn = [*known, *test]
        contexts = np.concatenate([np.asarray(found[name].contexts) for name in ("training", "test")])
        work_s = [one.application.cpu_s for one in drawn]
        draw_embedding(contexts, work_s, [one.part == "training" for one in drawn], picture)
    return [
        reported("meta: R2 of the profile told from contexts, unseen services, mean", float(told.mean())),
        *(reported(f"meta: R2 of {name}", float(one)) for name, one in zip(PROFILE, told, strict=True)),
        reported(
            "meta: AUC of the strangeness of contexts, functions never seen against test applications",
            area_under_curve(far["test"], far["storage"]),
        ),
    ]


def all_rows(asked: argparse.Namespace) -> list[Row]:
    """Everything that is measured."""
    known = {name: Known(arm) for name, arm in ARMS.items() if arm.trained}
    settings = {
        name: known[name].settings if arm.trained else PRESETS.load(arm.preset) for name, arm in ARMS.items()
    }
    lives = lives_of(application_names("test")[: asked.applications], settings["meta"].ground, "test")
    lived = {name: one.live(lives, ZERO_SHOT) for name, one in known.items()}
    tuned: dict[str, Tuned] = {}
    for name, arm in ARMS.items():
        start = known[name].parameters if arm.trained else None
        episodes = asked.episodes if arm.trained else asked.scratch_episodes
        tuned[name] = tune(arm, start, settings[name], lives, episodes)
    drops = {name: drop(lived[name], tuned[name]) for name in known}
    ours = drops["meta"]
    return [
        at_least("unseen applications", len(lives), APPLICATIONS),
        *adaptation_rows(tuned, SHARE, barred=True),
        *deficit_rows(tuned),
        Row(
            "meta: zero-shot drop, per cent (paper 45.6 without)",
            ours.value, f"<= {DROP_BAR:g}", ours.value <= DROP_BAR, ours.low, ours.high,
        ),
        *(
            reported(f"{name}: zero-shot drop, per cent", one)
            for name, one in drops.items()
            if name != "meta"
        ),
        *(row for share in STRICTER for row in adaptation_rows(tuned, share, barred=False)),
        *(reported(f"{name}: reward of the first {ZERO_SHOT} episodes, nothing learned",
                   mean_interval(one.rewards.mean(0), seed=0)) for name, one in lived.items()),
        *(reported(f"{name}: reward of the last {ADAPTED} episodes",
                   mean_interval(one.last(ADAPTED), seed=0)) for name, one in tuned.items()),
        *context_rows(known["meta"], lives, asked.picture),
        reported("episodes of each", asked.episodes),
        reported("episodes of scratch", asked.scratch_episodes),
    ]  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Getting used to services that were never seen.")
    parser.add_argument("--train", action="store_true", help="pre-train and write the bundles, and end")
    parser.add_argument(
        "--arms",
        nargs="+",
        choices=[name for name, arm in ARMS.items() if arm.trained],
        default=[name for name, arm in ARMS.items() if arm.trained],
        help="of those to pre-train",
    )
    parser.add_argument("--episodes", type=int, default=EPISODES, help="of learners that were trained before")
    parser.add_argument("--scratch-episodes", type=int, default=SCRATCH_EPISODES, help="of who begins anew")
    parser.add_argument("--applications", type=int, default=APPLICATIONS, help="unseen applications")
    parser.add_argument("--picture", type=Path, help="draw the contexts of services into this file")
    asked = parser.parse_args(arguments)
    if asked.train:
        train([ARMS[name] for name in asked.arms])
        return
    started = time.perf_counter()
    finish_after("pod-adaptation", all_rows(asked), started)


if __name__ == "__main__":
    main()
