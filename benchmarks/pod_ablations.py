"""`make bench-pod-ablations`: what the weight in AWARE's reward decides, and what its encoder is worth.

**The weight** of utilisation (alpha; 0.3 in AWARE's released code, not published in the paper) is put to 0.1
and 0.5. Five policies play the workloads of `pod_services`, one stretch each: none of them learns from this
reward, so the same hours are valued three times. Beside them stands one learner (TD3 without a context,
AWARE's state and its direct control) that was trained with each weight, judged by what it holds and how many
requests are late, and by the reward with the usual weight.

**The encoder** of the meta-learner: as usual (a recurrent unit reads time, causally), a window of the last 32
steps read over time in both directions, the same window with the axes swapped, which is what the released
code does by mistake, and none at all. ``bidirectional`` against ``features`` is the mistake alone. Besides,
the usual one plays with its context put to nought: the actor was trained with one, so this tells how much it
goes by it and not what a policy without one could do.

The learners were trained alike (`pod_ablation_training`), three times each with other seeds, and live on 50
unseen applications for ten episodes of 40 decisions, nothing learned but contexts. Every number is a mean of
the three; intervals are over applications, of just these trainings, so how the trainings differ stands beside
them. No bar: the paper has no number for any of this. Bootstrapping and the guard, on and off, are in
`make bench-pod-bootstrap` and `make bench-pod-guard`.

    make bench-pod-ablations ARGS="--applications 12"    # a trial
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from benchmarks.decima_settings import Numbers, finish_after, reported
from benchmarks.pod_ablation_training import (
    TRAININGS,
    USUAL_WEIGHT,
    VARIANTS,
    WEIGHTS,
    Variant,
    loaded,
    weighted,
)
from benchmarks.pod_adaptation import ZERO_SHOT, explained, lives_of
from benchmarks.pod_services import (
    HeldOutSuite,
    Played,
    Workload,
    play,
    same_for_all,
    started_workers,
    workloads,
)
from benchmarks.results import Row
from trimtab.core.statistics import Estimate, bootstrap, mean_interval, paired_difference, paired_ratio
from trimtab.learning.agent import Parameters
from trimtab.pod_autoscaling.aware.adaptation import AdaptationTask, Episodes, live
from trimtab.pod_autoscaling.aware.profile import profile_of
from trimtab.pod_autoscaling.aware.task import AwareSettings
from trimtab.pod_autoscaling.policies import make_policy
from trimtab.pod_autoscaling.workload.applications import application_names

SEEDS, APPLICATIONS = 1, 50
POLICIES = {
    "hpa-50": "hpa:target=50,cpu=1",
    "hpa-70": "hpa:target=70,cpu=1",
    "hpa-vpa": "hpa-vpa",
    "multi": "multi",
    "aware": "aware",
}
COMPARED_WITH = "hpa-70"
ENCODERS = ("gru", "bidirectional", "features", "none")
EMPTIED = "gru, context put to nought"
DIFFERENCES = (
    ("gru", "none"),
    ("gru", "features"),
    ("bidirectional", "features"),
    ("features", "none"),
    ("gru", EMPTIED),
)


@dataclass(frozen=True)
class Learned:
    """What trainings of one learner came to on unseen applications, [trainings, applications] each."""

    reward: Numbers
    """With the usual weight, mean of all episodes."""
    lived: Episodes
    """Sums over all intervals."""
    told: Numbers | None
    """Share of the variance of the true profiles that contexts tell, [trainings, numbers]."""

    def mean(self, measure: str) -> Numbers:
        """A sum of each application, mean of the trainings."""
        return getattr(self.lived, measure).mean(0)


# --- the weight ----------------------------------------------------------------------------------


def reweighted(one: Played, weight: float, *, was: float = USUAL_WEIGHT) -> Numbers:
    """AWARE's reward of every workload with another weight of utilisation than it `was` played with.

    >>> played = Played("", {"reward": np.array([0.85]), "share_used": np.array([0.5])})
    >>> reweighted(played, 0.5).round(3).tolist()  # 0.3 x 0.5 + 0.7 x 1 was earned
    [0.75]
    """
    preserved = (one["reward"] - was * one["share_used"]) / (1 - was)
    return weight * one["share_used"] + (1 - weight) * preserved


def means_of_services(values: Numbers, played: Sequence[Workload]) -> Numbers:
    """One mean for each service, over its traffic and seeds."""
    names = np.array([one.service for one in played])
    return np.array([values[names == name].mean() for name in dict.fromkeys(names.tolist())])


def turned_pairs(rewards: Mapping[str, Numbers], usual: Mapping[str, Numbers]) -> tuple[int, int]:
    """Pairs of policies whose order is another one than usual, and those of them that are sure of both."""
    turned = sure = 0
    for a, b in combinations(rewards, 2):
        now = paired_difference(rewards[a], rewards[b], seed=0)
        then = paired_difference(usual[a], usual[b], seed=0)
        other = now.value * then.value < 0
        turned += other
        sure += other and all(one.low > 0 or one.high < 0 for one in (now, then))
    return turned, sure


def weight_rows(found: Mapping[str, Played], played: Sequence[Workload]) -> list[Row]:
    """How policies that were not trained with it fare with each weight."""
    usual = {name: reweighted(one, USUAL_WEIGHT) for name, one in found.items()}
    rows: list[Row] = []
    for weight in WEIGHTS:
        rewards = {name: reweighted(one, weight) for name, one in found.items()}
        rows += [
            replace(row, name=f"weight {weight:g}: {row.name}") for row in _valued(rewards, usual, played)
        ]
    return rows


def _valued(
    rewards: Mapping[str, Numbers], usual: Mapping[str, Numbers], played: Sequence[Workload]
) -> list[Row]:
    """Rewards with one weight: of each policy, against each other, and against those with the usual one."""
    means = {name: float(values.mean()) for name, values in rewards.items()}
    spreads = [means_of_services(values, played).std(ddof=1) for values in rewards.values()]
    turned, sure = turned_pairs(rewards, usual)
    rows = [reported(f"reward of {name}", mean_interval(one, seed=0)) for name, one in rewards.items()]
    for name, one in rewards.items():
        less = paired_difference(one, rewards[COMPARED_WITH], seed=0)
        place = 1 + sum(other > means[name] for other in means.values())
        if name != COMPARED_WITH:
            rows.append(reported(f"reward of {name} less that of {COMPARED_WITH}", less))
        rows.append(reported(f"place of {name} among {len(means)}", place))
    ours, rule = rewards["aware"], rewards["multi"]
    return [
        *rows,
        reported("reward of aware less that of multi", paired_difference(ours, rule, seed=0)),
        reported("best policy less worst", max(means.values()) - min(means.values())),
        reported("deviation of a policy's reward over services", float(np.mean(spreads))),
        reported(f"pairs of policies in another order than with {USUAL_WEIGHT:g}", turned),
        reported("of these, sure in both orders", sure),
    ]


def trained_weight_rows(tested: Mapping[str, Learned]) -> list[Row]:
    """What a learner holds, and how late requests are, that was trained with each weight."""
    usual = tested[weighted(USUAL_WEIGHT)]
    rows: list[Row] = []
    for weight in WEIGHTS:
        told, one = f"trained with weight {weight:g}", tested[weighted(weight)]
        rows.append(reported(f"{told}: late or failed requests, share", late_share(one)))
        for what in ("cores", "memory"):
            rows.append(reported(f"{told}: share of {what} used", share_used(one, what)))
            if one is not usual:
                held = paired_ratio(one.mean(f"{what}_held"), usual.mean(f"{what}_held"), seed=0)
                rows.append(reported(f"{told} / with {USUAL_WEIGHT:g}: {what} held", held))
        reward = mean_interval(one.reward.mean(0), seed=0)
        rows.append(reported(f"{told}: reward with weight {USUAL_WEIGHT:g}", reward))
        rows += training_rows(told, one)
    return rows


def late_share(one: Learned) -> Estimate:
    """Late or failed requests over all."""
    return bootstrap(lambda a, b: a.sum(-1) / b.sum(-1), one.mean("late"), one.mean("finished"), seed=0)


def share_used(one: Learned, what: str) -> Estimate:
    """The share of the cores or the memory held that is in use, mean of applications."""
    used, held = getattr(one.lived, f"{what}_used"), getattr(one.lived, f"{what}_held")
    return mean_interval((used / held).mean(0), seed=0)


def training_rows(told: str, one: Learned) -> list[Row]:
    """How far the trainings are apart."""
    rewards = one.reward.mean(1)
    return [
        reported(f"{told}: reward of the worst training", float(rewards.min())),
        reported(f"{told}: reward of the best training", float(rewards.max())),
    ]


# --- the encoder ---------------------------------------------------------------------------------


def encoder_rows(tested: Mapping[str, Learned]) -> list[Row]:
    """The meta-learner with each encoder, and each against another."""
    rows: list[Row] = []
    for name in (*ENCODERS, EMPTIED):
        one = tested[name]
        rows += [
            reported(f"encoder {name}: reward", mean_interval(one.reward.mean(0), seed=0)),
            *training_rows(f"encoder {name}", one),
            reported(f"encoder {name}: late or failed requests, share", late_share(one)),
        ]
        if one.told is not None and name != EMPTIED:
            rows.append(
                reported(f"encoder {name}: R2 of the profile told from contexts", float(one.told.mean()))
            )
    for name, other in DIFFERENCES:
        ours, theirs = tested[name].reward, tested[other].reward
        gained = paired_difference(ours.mean(0), theirs.mean(0), seed=0)
        more = int((ours.mean(1) > theirs.mean(1)).sum())
        rows += [
            reported(f"encoder {name} less {other}: reward", gained),
            reported(f"encoder {name} less {other}: trainings of {len(ours)} that earn more", more),
        ]
    return rows


def without_context(parameters: Parameters) -> Parameters:
    """The same learner whose context is nought, whatever happened: the tanh of nothing."""
    encoder = parameters["encoder"]
    last = {name: np.zeros_like(values) for name, values in encoder["embedding"].items()}
    return {**parameters, "encoder": {**encoder, "embedding": last}}


def judged(settings: AwareSettings) -> AwareSettings:
    """The settings of a training with the usual weight in the reward, which everybody is judged by."""
    objective = settings.deployment.objective.model_copy(update={"utilisation_weight": USUAL_WEIGHT})
    deployment = settings.deployment.model_copy(update={"objective": objective})
    return settings.model_copy(update={"deployment": deployment})


def tried(variant: Variant, names: Sequence[str], *, emptied: bool = False) -> Learned:
    """Every training of a learner on these applications."""
    rewards: list[Numbers] = []
    sums: list[Episodes] = []
    told: list[Numbers] = []
    for seed in range(TRAININGS):
        parameters, settings = loaded(variant, seed)
        lives = lives_of(names, settings.ground, "test")
        task = AdaptationTask(judged(settings), told=variant.arm.told, lives=lives)
        lived = live(without_context(parameters) if emptied else parameters, task, episodes=ZERO_SHOT)
        rewards.append(lived.rewards.mean(0))
        sums.append(Episodes(*(one.sum(0) for one in task.episodes)))
        if lived.missed is not None:
            true = np.stack([profile_of(one.application) for one in lives])
            told.append(explained(lived.missed, true))
    print(f"{variant.name}{' emptied' if emptied else ''}: {np.mean(rewards):.4f}", flush=True)
    stacked = Episodes(*(np.stack(parts) for parts in zip(*sums, strict=True)))
    return Learned(np.stack(rewards), stacked, np.stack(told) if told else None)


def all_rows(asked: argparse.Namespace) -> list[Row]:
    """Everything that is measured."""
    names = application_names("test")[: asked.applications]
    tested = {name: tried(variant, names) for name, variant in VARIANTS.items()}
    tested[EMPTIED] = tried(VARIANTS["gru"], names, emptied=True)
    suite = HeldOutSuite()
    contestants = [same_for_all(name, make_policy(policy)) for name, policy in POLICIES.items()]
    with started_workers() as workers:
        found = play(workers, suite, contestants, seeds=asked.seeds)
    return [
        *weight_rows(found, workloads(suite, asked.seeds)),
        *trained_weight_rows(tested),
        *encoder_rows(tested),
        reported("workloads that policies play", len(workloads(suite, asked.seeds))),
        reported("unseen applications that learners live on", len(names)),
        reported("trainings of each learner", TRAININGS),
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="The weight in AWARE's reward, and its encoder.")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="stretches of each workload of the policies")
    parser.add_argument(
        "--applications", type=int, default=APPLICATIONS, help="unseen applications of learners"
    )
    asked = parser.parse_args(arguments)
    if min(asked.seeds, asked.applications) < 1:
        parser.error("--seeds and --applications: give at least 1 of each")
    started = time.perf_counter()
    finish_after("pod-ablations", all_rows(asked), started)


if __name__ == "__main__":
    main()
