"""The command behind the table of other learners: what is trained, and how a line is told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.pod_other_learners import HEAD, LEARNERS, columns, decisions_of, judged, show, trained
from tests.pod_autoscaling.made_up_episodes import made_up_episode

from trimtab.pod_autoscaling.aware.task import check_settings
from trimtab.pod_autoscaling.policies import make_policy


def test_learners_have_the_decisions_of_the_table() -> None:
    found = [decisions_of(recipe.settings) for recipe in LEARNERS.values()]
    assert found == [132_000, 180_000, 153_600, 153_600, 153_600, 153_600, 384_000]


@pytest.mark.parametrize("name", LEARNERS)
def test_every_recipe_can_be_trained(name: str) -> None:
    settings = LEARNERS[name].settings
    check_settings(settings)
    assert (settings.ppo is not None) == name.startswith("ppo")
    assert settings.ground.hours == 1.0


def test_columns_are_over_the_rule() -> None:
    rule = [made_up_episode(seed=seed) for seed in range(4)]
    assert columns(rule, rule)[0] == "1"
    more = [made_up_episode(seed=seed, headroom=3.2) for seed in range(4)]
    cost, cores, late, memory = columns(more, rule)
    assert float(cost.split()[0]) > 1.5 and "[" in cost
    assert 1.7 < float(cores) < 2.2 and 1.7 < float(memory) < 2.2
    assert late.endswith("%")


@pytest.mark.pods
def test_nobody_trained_leaves_the_shipped_policy_and_the_rules(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    show([], tmp_path, 2)
    lines = capsys.readouterr().out.splitlines()
    assert "\n".join(lines[:2]) == HEAD
    assert [line.split("`")[1] for line in lines[2:]] == [
        "aware", "multi:slack=1,cpu=4", "multi", "hpa:target=70", "hpa-vpa",
    ]  # fmt: skip
    assert not list(tmp_path.iterdir())


@pytest.mark.pods
def test_services_are_the_same_for_everybody() -> None:
    one, other = (judged(make_policy(name), 2) for name in ("multi", "hpa-vpa"))
    assert [(a.arrived == b.arrived).all() for a, b in zip(one, other, strict=True)] == [True, True]
    assert one[0].application != one[1].application


@pytest.mark.pods
def test_a_learner_of_the_table_is_trained_and_can_play(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = {
        "environments": 2,
        "ground.hours": 0.2,
        "ground.most_rate": 5.0,
        "validation_services": 2,
        "training.iterations": 2,
        "training.horizon": 8,
        "training.reset_every": 1,
        "training.checkpoint_every": 1,
        "training.validate_every": 2,
    }
    recipe = replace(LEARNERS["firm"], changes={**LEARNERS["firm"].changes, **small})
    monkeypatch.setitem(LEARNERS, "firm", recipe)
    policy, minutes = trained("firm", tmp_path)
    assert policy.name == "firm" and minutes > 0
    assert (tmp_path / "firm" / "bundle").is_dir()
