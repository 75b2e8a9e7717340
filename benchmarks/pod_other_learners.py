"""`python -m benchmarks.pod_other_learners`: the table "Other learners and other answers" of the docs.

Every learner is trained once from a preset with few changes, for five to nine minutes on one core, and then
plays 200 validation services of the ground of `aware`, the same for everybody. Cost, cores and memory are
over those of the rule that learners step around, with 95 % intervals over services; late are shares of all
requests. The table is printed as it stands in docs/pod-autoscaling.md, one line after the other; nothing is
written unless ``--keep`` names a folder for the runs.

    python -m benchmarks.pod_other_learners --learners ppo    # only this one
    python -m benchmarks.pod_other_learners --learners        # only `aware` and the rules: nothing is trained
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from trimtab.core.settings import load_settings
from trimtab.core.statistics import paired_ratio
from trimtab.pod_autoscaling.aware.policy import load_policy
from trimtab.pod_autoscaling.aware.rewards import objective_of
from trimtab.pod_autoscaling.aware.services import draw_services, play_services
from trimtab.pod_autoscaling.aware.task import PRESETS, AwareSettings, design_of
from trimtab.pod_autoscaling.aware.training import train_aware
from trimtab.pod_autoscaling.episode import Episode
from trimtab.pod_autoscaling.policies import make_policy
from trimtab.pod_autoscaling.problem import PodPolicy

FIRST_SEED, SERVICES = 1_010_000, 200
RULE = "multi:slack=1,cpu=4"
RULES = ("multi", "hpa:target=70", "hpa-vpa")
SHIPPED = "aware"
HEAD = (
    "| learner | answers | learns from | decisions | minutes | cost | cores | late | memory |\n"
    "|---|---|---|---|---|---|---|---|---|"
)
LEARNS_FROM = {"aware": "AWARE's reward", "lagrangian": "the cost"}
_FIRM = {"environments": 8, "training.validate_every": 5, "training.checkpoint_every": 5}
_TD3 = {"training.context": "none", "training.iterations": 120, "training.validate_every": 24}
_PPO = {
    "actions": "logratio3",
    "environments": 64,
    # The network and the discount of the preset `td3`.
    "training": {"hidden": (128, 128), "discount": 0.9, "exploration": 0.3, "final_exploration": 0.1},
    # The numbers of the preset `ppo`.
    "ppo": {"epochs": 10, "minibatches": 8, "learning_rate": 3e-4, "final_learning_rate": 3e-5},
}


@dataclass(frozen=True)
class Recipe:
    """A learner of the table: the preset it begins from (or the usual settings), and what is changed."""

    words: str
    preset: str | None
    changes: Mapping[str, Any]

    @property
    def settings(self) -> AwareSettings:
        if self.preset is None:
            return load_settings(AwareSettings, None, self.changes)
        return PRESETS.load(self.preset, self.changes)


LEARNERS = {
    "firm": Recipe("DDPG (`firm`)", "firm", {**_FIRM, "training.iterations": 55}),
    "firm-cost": Recipe(
        "DDPG (`firm`)", "firm", {**_FIRM, "training.iterations": 75, "reward": "lagrangian"}
    ),
    "td3-discrete7": Recipe("TD3", "td3", {**_TD3, "actions": "discrete7"}),
    "td3-knobs2": Recipe("TD3", "td3", {**_TD3, "actions": "knobs2"}),
    "td3-logratio3": Recipe("TD3", "td3", {**_TD3, "actions": "logratio3"}),
    "ppo": Recipe("PPO", None, {**_PPO, "training.iterations": 60}),
    "ppo-long": Recipe("PPO", None, {**_PPO, "training.iterations": 150}),
}


def decisions_of(settings: AwareSettings) -> int:
    """Decisions of a whole training.

    >>> decisions_of(LEARNERS["firm"].settings)
    132000
    """
    return settings.training.iterations * settings.training.horizon * settings.environments


def judged(policy: PodPolicy, services: int) -> list[Episode]:
    """Validation services of `aware` under a policy; nobody's training or choice has seen these hours."""
    settings = PRESETS.load(SHIPPED)
    objective = objective_of(design_of(settings), settings.deployment.objective.budget)
    deployment = settings.deployment.model_copy(update={"objective": objective})
    seeds = range(FIRST_SEED, FIRST_SEED + services)
    drawn = draw_services(settings.ground, deployment, seeds, "validation")
    return play_services(policy, drawn, deployment)


def columns(found: Sequence[Episode], rule: Sequence[Episode]) -> list[str]:
    """The last four columns of a line: cost, cores, late, memory."""
    ours, theirs = [one.metrics() for one in found], [one.metrics() for one in rule]

    def over(measure: str) -> Any:
        return paired_ratio([one[measure] for one in ours], [one[measure] for one in theirs], seed=0)

    cost, late = over("cost"), sum(one.late.sum() for one in found) / sum(one.finished.sum() for one in found)
    told = f"{cost.value:.3g} [{cost.low:.3g}, {cost.high:.3g}]" if found is not rule else "1"
    return [told, f"{over('core_hours').value:.3g}", f"{late:.1%}", f"{over('memory_gib_hours').value:.3g}"]


def line(cells: Sequence[str]) -> str:
    """A line of the table.

    >>> line(["PPO", ""])
    '| PPO |  |'
    """
    return "| " + " | ".join(cells) + " |"


def trained(name: str, folder: Path) -> tuple[PodPolicy, float]:
    """One learner, and the minutes it took."""
    started = time.perf_counter()
    path = train_aware(LEARNERS[name].settings, folder / name, name=name, clock=lambda: datetime.now(UTC))
    return load_policy(path), (time.perf_counter() - started) / 60


def show(learners: Sequence[str], folder: Path, services: int) -> None:
    """Train, play and print."""
    rule = judged(make_policy(RULE), services)
    print(HEAD, flush=True)
    for name in learners:
        recipe, (policy, minutes) = LEARNERS[name], trained(name, folder)
        settings = recipe.settings
        told = [recipe.words, f"`{settings.actions}`", LEARNS_FROM[settings.reward]]
        told += [f"{decisions_of(settings):,}", f"{minutes:.0f}"]
        print(line([*told, *columns(judged(policy, services), rule)]), flush=True)
    shipped = ["lessons (`aware`, as shipped)", "`around3`", "the cost, at every price", "", ""]
    print(line([*shipped, *columns(judged(make_policy(SHIPPED), services), rule)]), flush=True)
    print(line([f"none: `{RULE}`", "", "", "", "", *columns(rule, rule)]), flush=True)
    for name in RULES:
        found = judged(make_policy(name), services)
        print(line([f"none: `{name}`", "", "", "", "", *columns(found, rule)]), flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description="Train other learners of services for minutes, and judge them."
    )
    parser.add_argument("--learners", nargs="*", choices=list(LEARNERS), default=list(LEARNERS))
    parser.add_argument("--services", type=int, default=SERVICES, help="validation services to be judged by")
    parser.add_argument("--keep", type=Path, help="folder for the runs; without it they are thrown away")
    asked = parser.parse_args(arguments)
    with TemporaryDirectory() as folder:
        show(asked.learners, asked.keep or Path(folder), asked.services)


if __name__ == "__main__":
    main()
