"""What Decima is trained on: presets, the score that counts, and settings that do not go together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest
from tests.dag_scheduling.decima_networks import SMALL, first_look
from tests.dag_scheduling.test_decima_view import observe, view_in

from trimtab.core.bundle import flatten
from trimtab.core.errors import SettingsError
from trimtab.dag_scheduling.cluster import Cluster, ExecutorClass
from trimtab.dag_scheduling.decima.network import Design, feature_names, new_network, stage_scores, told_more
from trimtab.dag_scheduling.decima.policy import DecimaPolicy, make_bundle
from trimtab.dag_scheduling.decima.rollouts import TRAINING_SEEDS
from trimtab.dag_scheduling.decima.task import (
    CourseSettings,
    DecimaSettings,
    DecimaTask,
    NetworkSettings,
    load_preset,
    preset_names,
)
from trimtab.dag_scheduling.heuristics import Rule
from trimtab.dag_scheduling.policies import make_policy
from trimtab.dag_scheduling.simulator import simulate
from trimtab.dag_scheduling.workload.presets import WorkloadSettings

# Played as plain Python, as the coverage run does, these take minutes; test_decima_tiny.py is for that.
pytestmark = pytest.mark.slow

TINY = CourseSettings(
    workload=WorkloadSettings(name="tiny:two-jobs", jobs=3), cluster=Cluster(executors=4), teacher="fair"
)
NETWORK = NetworkSettings(hidden=8, embedding=4)


def settings_of(*courses: CourseSettings, **changes: Any) -> DecimaSettings:
    values = {"courses": courses, "network": NETWORK, "environments": 2, "jobs_shown": 3, "validation": 2}
    return DecimaSettings.model_validate({**values, **changes})


@pytest.fixture(scope="module")
def task() -> DecimaTask:
    return DecimaTask(settings_of(TINY))


@pytest.mark.parametrize("name", preset_names())
def test_presets_load_and_make_a_task(name):
    """And its lanes can be made: the numbers of environments, rollouts and threads go together."""
    settings = load_preset(name)
    made = DecimaTask(settings)
    for lane in made.lanes:
        assert lane.size == settings.environments and lane.rollouts == settings.rollouts
    assert len(made.lanes) == settings.lanes
    decisions = settings.training.horizon * settings.environments
    assert decisions * settings.lanes % settings.training.minibatches == 0


def test_there_is_a_preset_and_changes_go_on_top():
    assert "decima-tpch-batch" in preset_names()
    changed = load_preset("decima-tpch-batch", {"jobs_shown": 7})
    assert changed.jobs_shown == 7 and changed.courses == load_preset("decima-tpch-batch").courses


def test_settings_of_a_file_are_read_and_unknown_presets_refused(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text("lanes = 3\n")
    assert load_preset(str(path)).lanes == 3
    for name, told in (
        ("decima-nothing", r"no preset .*decima-tpch-batch.*, or give a .toml file"),
        (str(tmp_path / "none.toml"), r"none\.toml: no such settings file"),
    ):
        with pytest.raises(SettingsError, match=told) as caught:
            load_preset(name)
        assert "\n" not in str(caught.value)
    path.write_text("lane = 3\n")
    with pytest.raises(SettingsError, match="lane"):
        load_preset(str(path))


def test_the_score_is_the_cost_of_the_served_policy_over_the_teachers(task):
    """What JAX plays in the training environments is what numpy plays in the simulator, to the second."""
    parameters = task.agent.init(jax.random.key(0))
    score = task.score(parameters)
    assert score.keys() == {"score", "over_fair", "course_0"}
    assert score["score"] == score["course_0"] == score["over_fair"]  # the teacher is Fair
    bundle = make_bundle(
        "x", jax.device_get(parameters), task.design, most_executors=4, trained={}, scores={}
    )
    course, seeds = task._courses[0], range(TRAINING_SEEDS, TRAINING_SEEDS + 2)
    costs = []
    for policy in (DecimaPolicy(bundle), make_policy("fair")):
        episodes = [simulate(course.draw(seed), policy, course.cluster, seed=seed) for seed in seeds]
        costs.append(sum(int(episode.jct_ms.sum()) for episode in episodes))
    assert score["score"] == pytest.approx(costs[0] / costs[1], rel=1e-5)


def test_a_decision_of_the_teacher_costs_about_one(task):
    """Rewards are scaled so on every course; here on the four workloads the scale was taken from."""
    course = task._courses[0]
    assert course.teacher == make_policy("fair")
    episodes = [simulate(course.draw(seed), course.teacher, course.cluster, seed=seed) for seed in range(4)]
    total_s = sum(-episode.reward for episode in episodes) / 1000
    assert total_s / course.cost_scale_s == pytest.approx(sum(episode.decisions for episode in episodes))


def test_a_task_describes_itself_well_enough_to_be_built_again(task):
    described = task.describe()
    assert (described["wing"], described["kind"]) == ("dag_scheduling", "decima")
    assert Design(**described["design"]) == task.design == Design(hidden=8, embedding=4)
    assert described["most_executors"] == 4
    assert [CourseSettings.model_validate(course) for course in described["courses"]] == [TINY]


def test_few_sequences_come_again_under_their_numbers():
    """With 3 sequences, all environments together meet workloads 0, 1 and 2 and no other."""
    course = TINY.model_copy(update={"sequences": 3})
    lane = DecimaTask(settings_of(course, environments=16)).lanes[0]
    lane.reset(0, float("inf"))
    assert set(lane.observe()["sequence"].tolist()) == {0, 1, 2}


def test_training_may_start_from_a_bundle_of_the_same_design(task):
    """Actor from the bundle, critic drawn anew."""
    parameters = DecimaTask(settings_of(TINY, training={"seed": 9})).agent.init(jax.random.key(0))
    bundle = make_bundle("x", parameters, task.design, most_executors=4, trained={}, scores={})
    started = DecimaTask(settings_of(TINY), start=bundle).agent.init(jax.random.key(0))
    own = task.agent.init(jax.random.key(0))
    actor, expected = flatten(started["actor"]), flatten(parameters["actor"])
    assert actor.keys() == expected.keys()
    assert all(np.array_equal(actor[name], expected[name]) for name in actor)
    assert not np.array_equal(flatten(own["actor"])["score/0/weights"], actor["score/0/weights"])
    assert flatten(started["critic"]).keys() == flatten(own["critic"]).keys()


@pytest.mark.parametrize("sizes", [False, True])
@pytest.mark.parametrize("kind", ["plain", "four classes", "no graph"])
def test_a_network_that_is_told_more_decides_as_before(kind, sizes):
    """What it had not been told, before what it had or behind it, weighs nothing yet."""
    had = replace(SMALL, classes=4 if kind == "four classes" else 1, graph=kind != "no graph", sizes=sizes)
    wanted = replace(had, ready=True, sizes=True)
    view = view_in(first_look("four sizes" if kind == "four classes" else "stream"))
    before = new_network(had, 3)
    after = {**before, "actor": told_more(before["actor"], had, wanted)}
    drawn = new_network(wanted, 3)
    assert {name: leaf.shape for name, leaf in flatten(after).items()} == {
        name: leaf.shape for name, leaf in flatten(drawn).items()
    }
    old, new = stage_scores(before, view, had, np), stage_scores(after, view, wanted, np)
    np.testing.assert_allclose(new.logits, old.logits, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(new.contexts, old.contexts, rtol=1e-5, atol=1e-5)
    # Otherwise equality is cheap: what is told does matter to a network that heeds it.
    assert not np.allclose(stage_scores(drawn, view, wanted, np).logits, old.logits, atol=1e-2)


def test_training_may_start_from_a_bundle_that_is_told_less_but_not_more(task):
    less = make_bundle(
        "less", new_network(task.design, 0), task.design, most_executors=4, trained={}, scores={}
    )
    more = DecimaTask(
        settings_of(TINY, network=NETWORK.model_copy(update={"ready": True, "sizes": True})), start=less
    )
    started = more.agent.init(jax.random.key(0))
    known = flatten(started["actor"])["stage_known/weights"]
    width = len(feature_names(task.design)[0])
    assert not known[width : width + 4].any() and known[:width].any() and known[width + 4 :].any()
    told = make_bundle("told", started, more.design, most_executors=4, trained={}, scores={})
    with pytest.raises(SettingsError, match=r"told has another network \(ready = True, sizes = True\)"):
        DecimaTask(settings_of(TINY), start=told)


def test_training_may_offer_more_limits_than_its_start_had(task):
    """Limits are scored one by one, by the same numbers."""
    had = make_bundle(
        "few", new_network(task.design, 0), task.design, most_executors=4, trained={}, scores={}
    )
    more = NETWORK.model_copy(update={"limits": task.design.limits + 7})
    started = DecimaTask(settings_of(TINY, network=more), start=had)
    assert started.design.limits == task.design.limits + 7
    actor = flatten({"actor": started.agent.init(jax.random.key(0))["actor"]})
    assert all(np.array_equal(actor[name], had.tensors[name]) for name in had.tensors)


def test_a_bundle_of_another_design_is_refused_in_one_line(task):
    narrow = replace(task.design, hidden=4)
    other = make_bundle("narrow", new_network(narrow, 0), narrow, most_executors=4, trained={}, scores={})
    with pytest.raises(
        SettingsError, match=r"narrow has another network \(hidden = 4\) than asked for"
    ) as caught:
        DecimaTask(settings_of(TINY), start=other)
    assert "\n" not in str(caught.value)


def test_courses_of_different_classes_are_refused_in_one_line():
    two = Cluster(classes=(ExecutorClass(count=2, memory=0.5), ExecutorClass(count=2)))
    with pytest.raises(SettingsError, match="courses differ in their number of executor classes") as caught:
        DecimaTask(settings_of(TINY, TINY.model_copy(update={"cluster": two})))
    assert "\n" not in str(caught.value)


def test_courses_of_different_size_share_a_network():
    """The size of the largest is what the bundle will say."""
    wide = TINY.model_copy(update={"cluster": Cluster(executors=9)})
    made = DecimaTask(settings_of(TINY, wide, environments=4))
    assert made.describe()["most_executors"] == 9
    (first, _) = made.lanes
    first.reset(seed=0, mean_episode_s=float("inf"))
    assert observe(first)["cluster"][:, 0].tolist() == [4, 4, 9, 9]


def test_a_teacher_must_be_a_known_rule():
    with pytest.raises(Exception, match="no-such-rule") as caught:
        DecimaTask(settings_of(TINY.model_copy(update={"teacher": "no-such-rule"})))
    assert "\n" not in str(caught.value)
    assert isinstance(make_policy(CourseSettings().teacher), Rule)
