"""The network: its masks are the simulator's, numpy and JAX agree, and no input makes it lose its head."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.dag_scheduling.random_instances import random_profile
from tests.dag_scheduling.test_decima_view import (
    FOUR_SIZES,
    course_of,
    course_on,
    look,
    masked_choices,
    observe,
    rule,
    view_in,
)

from trimtab.core.bundle import flatten
from trimtab.dag_scheduling.cluster import Cluster
from trimtab.dag_scheduling.decima import view as v
from trimtab.dag_scheduling.decima.agent import decima_agent
from trimtab.dag_scheduling.decima.features import (
    CLUSTER_FEATURES,
    JOB_FEATURES,
    STAGE_FEATURES,
    facts_of,
    paper_features,
    rich_features,
)
from trimtab.dag_scheduling.decima.network import (
    FUTURE_FEATURES,
    Design,
    limit_scores,
    limits_of,
    new_network,
    stage_scores,
    summary,
    value,
)
from trimtab.dag_scheduling.decima.policy import DecimaPolicy, make_bundle
from trimtab.dag_scheduling.decima.rollouts import Course, RolloutEnvironment
from trimtab.dag_scheduling.decima.view import View, child_words, view_of, words_for
from trimtab.dag_scheduling.problem import Action, Snapshot, choices, executors_sent

# Played as plain Python, as the coverage run does, these take minutes; test_decima_tiny.py is for that.
pytestmark = pytest.mark.slow

SMALL = Design(hidden=8, embedding=4)
STREAM = course_of(Cluster(executors=9), name="tpch", jobs=6, arrivals="poisson", load=1.2)
FOUR_STREAM = course_of(FOUR_SIZES, name="tpch", jobs=6, arrivals="poisson", load=1.2, random_memory=True)
DESIGNS = {
    "ours": SMALL,
    "every limit": replace(SMALL, limits=0),
    "paper, every limit": replace(SMALL, limits=0, paper=True),
    "no limit head": replace(SMALL, limit_head=False),
    "no graph": replace(SMALL, graph=False),
    "ready, bent": replace(SMALL, ready=True, largest_score=2.0),
}
COURSES = {
    "tpch": course_of(Cluster(executors=10), name="tpch", jobs=3),
    "stream": STREAM,
    "synthetic": course_of(Cluster(executors=7), rule("fair"), name="synthetic", jobs=3),
    "tiny": course_of(Cluster(executors=1), name="tiny:two-jobs", jobs=3),
    "random": course_on(Cluster(executors=4, moving_delay_ms=0), random_profile(35), 5, 400.0),
    "four sizes": FOUR_STREAM,
}


def classed(design: Design, course: Course) -> Design:
    return replace(design, classes=len(course.cluster.class_memory))


# --- the masks --------------------------------------------------------------------------------------


@pytest.mark.parametrize("design_name", DESIGNS)
@pytest.mark.parametrize("course_name", COURSES)
def test_whatever_the_masks_allow_the_simulator_carries_out(course_name, design_name):
    """Whole episodes of any masked answers: a refusal would raise, a teacher outside the mask is one too."""
    course = COURSES[course_name]
    design = classed(DESIGNS[design_name], course)
    parameters, random = new_network(design, 0), np.random.default_rng(1)
    playing = RolloutEnvironment([course], design, size=3, jobs_shown=course.draw(0).job_count)
    playing.reset_to(range(3))
    ended = np.zeros(3, bool)
    while not ended.all():
        observation = observe(playing)
        view, teacher = view_in(observation), observation["teacher"]
        answers, choice_mask, limit_mask = masked_choices(
            parameters, view, design, course.cluster.executors, random
        )
        assert choice_mask.any(1).all() and limit_mask.any(1).all()
        allowed = np.take_along_axis(choice_mask, teacher[:, :1].astype(np.int64), 1)[:, 0]
        # The published agent never idles, whatever its teacher does.
        assert (allowed | (design.paper & (teacher[:, 0] == choice_mask.shape[1] - 1))).all()
        ended |= playing.step(answers).ended


def offered_limits(snapshot: Snapshot, design: Design) -> dict[tuple[int, int], list[int]]:
    """By (stage, class) in the choice mask: the limits in the limit mask."""
    bits = child_words(snapshot.child_offset, snapshot.child, words_for(len(snapshot.scratch)))
    shown = view_of(snapshot, bits)
    parameters = new_network(design, 0)
    scores = stage_scores(parameters, shown.view, design, np)
    offered = {}
    for choice in np.flatnonzero(scores.mask[0, :-1]):
        _, mask, limits = limit_scores(
            parameters, scores, np.array([choice]), design, snapshot.executor_count, np
        )
        action = v.action_of(shown, snapshot, int(choice), 0)
        offered[int(action.stage), int(action.executor_class)] = limits[0][mask[0]].astype(int).tolist()
    return offered


def sent(snapshot: Snapshot, stage: int, limits: Sequence[int], executor_class: int) -> list[int]:
    job = int(np.searchsorted(snapshot.first_stage, stage, side="right")) - 1
    return [int(executors_sent(snapshot, job, stage, limit, executor_class)) for limit in limits]


@pytest.mark.parametrize("design_name", ["ours", "paper, every limit", "no limit head"])
@pytest.mark.parametrize("course_name", ["stream", "four sizes"])
def test_all_that_is_on_offer_sends_somebody_and_nothing_is_left_out(course_name, design_name):
    """The choice mask is `problem.choices`; the limit mask has one limit for each number it can send."""
    course = COURSES[course_name]
    design = classed(DESIGNS[design_name], course)
    count = course.cluster.executors
    known = limits_of(np.array([count], np.float32), design, count, np)[0].astype(int).tolist()
    playing = RolloutEnvironment([course], design, size=3, jobs_shown=6)
    playing.reset_to(range(3))
    parameters, random = new_network(design, 0), np.random.default_rng(2)
    for _ in range(25):
        for snapshot in look(playing):
            offered = offered_limits(snapshot, design)
            active = {
                (int(stage), int(kind))
                for stage, kind in np.argwhere(choices(snapshot))
                if stage // len(snapshot.scratch) in snapshot.jobs
            }
            assert offered.keys() == active and active
            for (stage, kind), limits in offered.items():
                counts = sent(snapshot, stage, limits, kind)
                assert limits and min(counts) > 0
                if not design.limit_head:
                    assert limits == [count]
                elif design.limits == 0:
                    every = sent(snapshot, stage, range(count, 0, -1), kind)
                    assert len(limits) == sum(number > 0 for number in every)
                else:
                    possible = {number for number in sent(snapshot, stage, known, kind) if number > 0}
                    assert len(counts) == len(set(counts)) and set(counts) == possible
        answers, _, _ = masked_choices(parameters, view_in(observe(playing)), design, count, random)
        playing.step(answers)


def test_idling_is_on_offer_where_it_cannot_stop_the_cluster_and_never_in_the_paper():
    parameters = new_network(SMALL, 0)
    playing = RolloutEnvironment([STREAM], SMALL, size=4, jobs_shown=6)
    playing.reset_to(range(4))
    random, seen = np.random.default_rng(0), set()
    paper = DESIGNS["paper, every limit"]
    for _ in range(30):
        view = view_in(observe(playing))
        may_idle = [bool(snapshot.may_idle) for snapshot in look(playing)]
        answers, mask, _ = masked_choices(parameters, view, SMALL, 9, random)
        assert mask[:, -1].tolist() == may_idle
        assert not stage_scores(new_network(paper, 0), view, paper, np).mask[:, -1].any()
        seen.update(may_idle)
        playing.step(answers)
    assert seen == {True, False}


def play_crowded(course: Course, design: Design, shown: int) -> None:
    """A while with more jobs than room: something must always be on offer."""
    parameters, random = new_network(design, 0), np.random.default_rng(0)
    playing = RolloutEnvironment([course], design, size=8, jobs_shown=shown)
    playing.reset_to(range(8))
    for _ in range(100):
        observation = observe(playing)
        answers, mask, _ = masked_choices(
            parameters, view_in(observation), design, course.cluster.executors, random
        )
        assert mask.any(1).all(), "nothing on offer"
        labels = np.take_along_axis(mask, observation["teacher"][:, :1].astype(np.int64), 1)
        assert course.teacher is None or labels.all(), "the teacher's choice is not on offer"
        playing.step(answers)


def crowd(cluster: Cluster, *, taught: bool = False, **settings: Any) -> Course:
    course = course_of(cluster, name="tpch", jobs=12, **settings)
    return course if taught else replace(course, teacher=None)


@pytest.mark.parametrize("shown", [1, 2, 5])
def test_with_more_jobs_than_room_something_is_on_offer(shown):
    play_crowded(crowd(Cluster(executors=10)), SMALL, shown)


def test_with_more_jobs_than_room_something_is_on_offer_to_every_class():
    play_crowded(crowd(FOUR_SIZES, random_memory=True), replace(SMALL, classes=4), 2)


def test_one_row_is_enough_for_the_paper():
    play_crowded(crowd(Cluster(executors=10)), DESIGNS["paper, every limit"], 1)


def test_with_more_jobs_than_room_the_teacher_stays_inside_the_mask():
    play_crowded(crowd(Cluster(executors=10), taught=True), SMALL, 3)


def test_with_every_limit_on_offer_clusters_of_two_sizes_share_a_network():
    design = DESIGNS["every limit"]
    courses = [course_of(Cluster(executors=size), name="tiny:two-jobs", jobs=2) for size in (3, 8)]
    playing = RolloutEnvironment(courses, design, size=4, jobs_shown=2)
    playing.reset_to(range(4))
    # First the numbering itself: what lies behind the end of an array may pass for a limit by chance.
    for shard, size in zip(playing._shards, (3, 8), strict=True):
        numbered = limits_of(np.array([size], np.float32), design, 8, np)[0]
        np.testing.assert_array_equal(shard._limits, numbered)
    parameters, random = new_network(design, 0), np.random.default_rng(0)
    for _ in range(50):
        answers, _, _ = masked_choices(parameters, view_in(observe(playing)), design, 8, random)
        playing.step(answers)


# --- numpy = JAX ------------------------------------------------------------------------------------

# Jobs of at most three stages: compiling takes as many seconds as a job has stages. As jobs arrive apart
# and stages differ, no two choices are equal, so there is one best.
BRIEF = course_on(Cluster(executors=9), random_profile(21), 4, 900.0)
BRIEF_FOUR = replace(BRIEF, cluster=FOUR_SIZES)
ROOM = 4


class Recorded(NamedTuple):
    """States of played episodes, with what numpy alone decides in each."""

    observation: dict[str, Any]
    slots: np.ndarray
    actions: list[tuple[int, ...]]  # as in `by_position`
    parameters: Any
    design: Design
    course: Course


def scaled(parameters: Any, scale: float) -> Any:
    """Larger weights, so that scores lie well apart."""
    return jax.tree.map(lambda leaf: (scale * leaf).astype(np.float32), parameters)


def quick_jit(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile with less care: most of the time of these tests is compiling."""
    return jax.jit(function, compiler_options={"xla_backend_optimization_level": 0})


def by_position(action: Action, snapshot: Snapshot) -> tuple[int, ...]:
    """(slot, stage within the job, limit, class); the paddings of the two views differ."""
    if action.stage < 0:
        return (-1,)
    size = len(snapshot.scratch)
    return (action.stage // size, action.stage % size, action.limit, action.executor_class)


def record(course: Course, design: Design, states: int, scale: float = 3.0) -> Recorded:
    parameters, random = scaled(new_network(design, 5), scale), np.random.default_rng(3)
    most = course.cluster.executors
    bundle = make_bundle("random", parameters, design, most_executors=most, trained={}, scores={})
    policy = DecimaPolicy(bundle)
    playing = RolloutEnvironment([course], design, size=20, jobs_shown=ROOM)
    playing.reset(seed=2, mean_episode_s=float("inf"))
    observations, slots, actions = [], [], []
    for _ in range(states // 20):
        observation = observe(playing)
        observations.append(observation)
        slots.append(playing._slots)
        actions += [by_position(policy.decide(snapshot), snapshot) for snapshot in look(playing)]
        answers, _, _ = masked_choices(parameters, view_in(observation), design, most, random)
        playing.step(answers)
    joined = {name: np.concatenate([one[name] for one in observations]) for name in observations[0]}
    return Recorded(joined, np.concatenate(slots), actions, parameters, design, course)


@pytest.fixture(scope="module")
def ours() -> Recorded:
    return record(BRIEF, SMALL, 1000)


@pytest.fixture(scope="module")
def four_classes() -> Recorded:
    return record(BRIEF_FOUR, replace(SMALL, classes=4, limits=0, graph=False), 400)


@pytest.fixture(scope="module")
def paper() -> Recorded:
    # Sums over stages and jobs, layer upon layer: three times the weights would give scores of 10^8.
    return record(BRIEF, replace(SMALL, paper=True), 400, scale=1.0)


RECORDS = ["ours", "four_classes", "paper"]


@pytest.mark.parametrize("name", RECORDS)
def test_numpy_and_jax_decide_alike(name, request):
    """The served policy reads snapshots with numpy, the trained one padded screens with JAX."""
    known: Recorded = request.getfixturevalue(name)
    most = known.course.cluster.executors
    agent = decima_agent(known.design, most_executors=most)
    best = np.asarray(quick_jit(agent.best)(known.parameters, known.observation))
    stages, classes = known.observation["stages"].shape[2], known.design.classes
    limits = limits_of(np.array([most], np.float32), known.design, most, np)[0].astype(int)
    decided = []
    for (choice, limit), slots in zip(best.tolist(), known.slots, strict=True):
        if choice == ROOM * stages * classes:
            decided.append((-1,))
        else:
            row, rest = divmod(choice, stages * classes)
            decided.append((int(slots[row]), rest // classes, int(limits[limit]), rest % classes))
    assert decided == known.actions
    # Otherwise agreement is cheap: several jobs, stages and limits were chosen.
    chosen = [part for part in decided if len(part) > 1]
    assert len(set(decided)) > 15 and all(len({part[place] for part in chosen}) > 2 for place in range(3))


def test_numpy_and_jax_score_alike(ours):
    """Scores of choices and limits, the critic's values and the summary, all within 1e-4."""
    rows = {name: field[::16] for name, field in ours.observation.items()}
    parameters = new_network(ours.design, 6)

    def judged(observation: dict[str, Any], xp: Any) -> Any:
        scores = stage_scores(parameters, view_in(observation), ours.design, xp)
        limits = limit_scores(parameters, scores, scores.mask.argmax(1), ours.design, 9, xp)
        foretold = value(parameters, scores.facts, observation["future"], xp)
        return scores.logits, scores.mask, limits, foretold, summary(view_in(observation), 1, xp)

    plain = judged(rows, np)
    compiled = quick_jit(lambda given: judged(given, jnp))(rows)
    for one, other in zip(jax.tree.leaves(plain), jax.tree.leaves(compiled), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)
    assert plain[0][plain[1]].std() > 0.01


def test_sampled_actions_are_allowed_and_judged_as_they_were_drawn(ours):
    """And a critic that may not see the future does not: to it, nothing is to come."""
    rows = {name: field[::16] for name, field in ours.observation.items()}
    agent = decima_agent(ours.design, most_executors=9)
    blind = decima_agent(ours.design, most_executors=9, sees_future=False)

    def thought(parameters: Any, observation: dict[str, Any]) -> Any:
        acted = agent.act(parameters, observation, jax.random.key(0))
        of_blind = blind.judge(parameters, observation, acted.action)
        return acted, agent.judge(parameters, observation, acted.action), of_blind.value

    acted, judged, blind_value = quick_jit(thought)(ours.parameters, rows)
    np.testing.assert_allclose(acted.log_prob, judged.log_prob, rtol=1e-4, atol=1e-4)
    assert (np.asarray(acted.log_prob) > -50).all() and (np.asarray(judged.entropy) >= 0).all()
    scores = stage_scores(ours.parameters, view_in(rows), ours.design, np)
    action = np.asarray(acted.action)
    assert np.take_along_axis(scores.mask, action[:, :1], 1).all()
    _, offered, _ = limit_scores(ours.parameters, scores, action[:, 0], ours.design, 9, np)
    idle = action[:, 0] == scores.mask.shape[1] - 1
    assert (np.take_along_axis(offered, action[:, 1:], 1)[:, 0] | idle).all()
    assert not action[idle, 1].any()
    foretold, unknown = (
        value(ours.parameters, scores.facts, future, np) for future in (rows["future"], 0 * rows["future"])
    )
    np.testing.assert_allclose(acted.value, foretold, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(blind_value, unknown, rtol=1e-3, atol=1e-3)
    assert not np.allclose(foretold, unknown)


# --- laws of the network ----------------------------------------------------------------------------


def permuted(view: View, order: np.ndarray) -> View:
    return view._replace(
        stages=view.stages[:, order], children=view.children[:, order], jobs=view.jobs[:, order]
    )


@pytest.mark.parametrize("name", RECORDS)
def test_permuted_jobs_permute_the_chances(name, request):
    known: Recorded = request.getfixturevalue(name)
    view = view_in({name: field[::40] for name, field in known.observation.items()})
    order = np.array([3, 0, 1, 2])
    chances = []
    for shown in (view, permuted(view, order)):
        logits = stage_scores(known.parameters, shown, known.design, np).logits.astype(np.float64)
        odds = np.exp(logits - logits.max(1, keepdims=True))
        chances.append(odds / odds.sum(1, keepdims=True))
    by_job = chances[0][:, :-1].reshape(len(view.stages), ROOM, -1)
    np.testing.assert_allclose(
        chances[1][:, :-1].reshape(by_job.shape), by_job[:, order], rtol=5e-3, atol=1e-4
    )
    np.testing.assert_allclose(chances[1][:, -1], chances[0][:, -1], rtol=5e-3, atol=1e-4)
    assert (by_job.sum(-1).max(1) < 0.999).any()


def test_rows_without_a_job_change_nothing(ours):
    """Six more empty rows and 30 more empty stages: the same scores where something may be chosen."""
    view = view_in({name: field[::40] for name, field in ours.observation.items()})
    envs, jobs, stages, _ = view.stages.shape
    # Some views must be full, or there would be empty rows on both sides.
    assert view.jobs[..., v.PRESENT].all(1).any() and not view.jobs[..., v.PRESENT].all()
    wider = View(
        np.pad(view.stages, ((0, 0), (0, 6), (0, 30), (0, 0))),
        np.pad(view.children, ((0, 0), (0, 6), (0, 30), (0, 1))),
        np.pad(view.jobs, ((0, 0), (0, 6), (0, 0))),
        view.cluster,
    )
    scores, padded = (stage_scores(ours.parameters, one, ours.design, np) for one in (view, wider))
    np.testing.assert_allclose(padded.logits[:, -1], scores.logits[:, -1], rtol=1e-4, atol=1e-3)
    inner = padded.logits[:, :-1].reshape(envs, jobs + 6, stages + 30)[:, :jobs, :stages]
    np.testing.assert_allclose(inner.reshape(envs, -1), scores.logits[:, :-1], rtol=1e-4, atol=1e-3)
    assert padded.mask.sum() == scores.mask.sum()


def extreme_views() -> dict[str, View]:
    """One environment each: nothing, the least, the most, and everything mixed."""
    flags = v.RUNNABLE_FLAG + v.SCHEDULABLE_FLAG + 4
    nothing = View(
        np.zeros((1, 2, 2, v.STAGE_FIELDS), np.int16),
        np.zeros((1, 2, 2, 1), np.uint32),
        np.zeros((1, 2, v.JOB_FIELDS), np.float32),
        np.array([[1, 0, 0, 0, 0, 1]], np.float32),
    )

    def filled(unstarted: int, task_ms: float, cluster: list[float], age_s: float, work_s: float) -> View:
        stages, jobs = nothing.stages.copy(), nothing.jobs.copy()
        stages[..., v.UNSTARTED] = stages[..., v.DEMAND] = stages[..., v.RUNNING] = unstarted
        stages[..., v.TASK_MS] = round(v.LOG_SCALE * np.log2(1 + task_ms))
        stages[..., v.SLOWDOWN] = round(v.LOG_SCALE * 10)
        stages[..., v.FLAGS] = flags
        jobs[..., v.AGE_S], jobs[..., v.TOTAL_WORK_S], jobs[..., v.PRESENT] = age_s, work_s, 1
        jobs[:, 0, v.SOURCE], jobs[..., v.EXECUTORS] = 1, cluster[4]
        children = np.broadcast_to(np.array([[2], [0]], np.uint32), (1, 2, 2, 1))
        return View(stages, children, jobs, np.array([cluster], np.float32))

    return {
        "nothing": nothing,
        "no free executor": filled(3, 1000, [5, 1, 0, 0, 0, 1], 0, 9),
        "one executor": filled(1, 1, [1, 0, 0, 0, 1, 1], 0, 0.003),
        "10,000 tasks": filled(10_000, 1000, [100_000, 1, 1e6, 1000, 100_000, 1], 1e7, 3e4),
        "tasks of 0 ms": filled(10, 0, [10, 1, 0, 0, 10, 1], 0, 0),
        "tasks of a month": filled(32_767, 2.6e9, [1, 1, 0, 0, 1, 1], 1e8, 2.6e11),
    }


@pytest.mark.parametrize("name", extreme_views())
def test_extreme_inputs_give_finite_numbers(name):
    view = extreme_views()[name]
    facts = facts_of(view, 1, np)
    parts = [rich_features(facts, np), rich_features(facts, np, paths=False), paper_features(facts, np)]
    for features in parts:
        for part in features:
            assert np.isfinite(part).all()
    for features in parts[:2]:
        # Ours are on logarithmic or relative scales, so that nothing drowns the rest.
        assert max(np.abs(part).max() for part in features) < 30
    for design in DESIGNS.values():
        parameters = new_network(design, 0)
        scores = stage_scores(parameters, view, design, np)
        logits, mask, limits = limit_scores(parameters, scores, np.array([0]), design, 4, np)
        assert np.isfinite(scores.logits).all() and np.isfinite(logits).all() and np.isfinite(limits).all()
        assert mask.any() == (name not in ("nothing", "no free executor"))
    assert np.isfinite(
        value(new_network(SMALL, 0), facts, np.ones((1, FUTURE_FEATURES), np.float32), np)
    ).all()
    assert np.isfinite(summary(view, 1, np)).all()


def test_extreme_inputs_give_finite_gradients():
    views = extreme_views()
    joined = View(*(np.concatenate(parts) for parts in zip(*views.values(), strict=True)))
    agent = decima_agent(SMALL, most_executors=4)
    observation = {**joined._asdict(), "future": np.zeros((len(views), FUTURE_FEATURES), np.float32)}

    def loss(parameters: Any) -> jax.Array:
        judged = agent.judge(parameters, observation, jnp.zeros((len(views), 2), jnp.int32))
        return (judged.value + judged.entropy + jnp.maximum(judged.log_prob, -50.0)).sum()

    gradients = jax.tree.leaves(quick_jit(jax.grad(loss))(new_network(SMALL, 0)))
    assert all(np.isfinite(leaf).all() for leaf in gradients)
    assert sum(float(np.abs(leaf).sum()) for leaf in gradients) > 0


# --- sizes ------------------------------------------------------------------------------------------


def parameter_count(tree: Any) -> int:
    return sum(leaf.size for leaf in flatten(tree).values())


def test_the_paper_reads_five_numbers_of_a_stage_and_three_of_a_job():
    """The fifth of a stage is its tasks / 200, the fourth its work / 100 s; those of its job come first."""
    view = extreme_views()["no free executor"]
    facts = facts_of(view, 1, np)
    features = paper_features(facts, np)
    assert features.stages.shape[-1] == 5 and features.jobs.shape[-1] == 3 and features.cluster.size == 0
    # 0 executors, source (2) or not (-2), none free; 3 tasks of 1 s.
    np.testing.assert_allclose(features.stages[0, 0, 0], [0, 2, 0, 0.03, 0.015], rtol=1e-3)
    np.testing.assert_allclose(features.jobs[0, 1], [0, -2, 0])
    rich = rich_features(facts, np)
    counts = (rich.stages.shape[-1], rich.jobs.shape[-1], rich.cluster.shape[-1])
    assert counts == (len(STAGE_FEATURES), len(JOB_FEATURES), len(CLUSTER_FEATURES)) == (14, 14, 9)


def test_networks_are_as_small_as_the_published_one():
    """The published network has 12,736 parameters."""
    assert 10_000 < parameter_count(new_network(Design(), 0)["actor"]) < 25_000
    assert 5_000 < parameter_count(new_network(Design(paper=True), 0)["actor"]) < 13_000
    without = new_network(Design(limit_head=False), 0)["actor"]
    assert not any(name.startswith("limit") for name in without)
    assert "encoder" not in new_network(Design(graph=False), 0)["actor"]


def test_limits_by_hand():
    """Log-spaced: 50 / 1, 1.41, 2, 2.83 … rounded up, down to 1; or every number, up to the cluster's."""
    design = Design(limits=6)
    assert limits_of(np.array([50.0], np.float32), design, 50, np)[0].tolist() == [50, 36, 25, 18, 13, 9]
    assert limits_of(np.array([3.0], np.float32), design, 3, np)[0].tolist() == [3, 3, 2, 2, 1, 1]
    every = limits_of(np.array([3.0], np.float32), Design(limits=0), 5, np)[0].tolist()
    assert every == [3, 3, 3, 2, 1]


def test_the_same_seed_draws_the_same_network():
    one, again, other = (flatten(new_network(Design(), seed)) for seed in (1, 1, 2))
    assert all(np.array_equal(one[name], again[name]) for name in one)
    assert not all(np.array_equal(one[name], other[name]) for name in one)


def first_look(name: str) -> dict[str, Any]:
    playing = RolloutEnvironment([COURSES[name]], SMALL, size=2, jobs_shown=3)
    playing.reset(0, float("inf"))
    return observe(playing)


def test_bent_scores_stay_within_bounds_and_keep_their_order():
    view, parameters = view_in(first_look("tpch")), new_network(SMALL, 0)
    plain = stage_scores(parameters, view, SMALL, np)
    bound = float(np.abs(plain.logits[plain.mask]).max()) / 2
    bent = stage_scores(parameters, view, replace(SMALL, largest_score=bound), np)
    assert np.abs(bent.logits[bent.mask]).max() < bound
    np.testing.assert_array_equal(plain.logits.argmax(1), bent.logits.argmax(1))


def test_a_stage_knows_when_its_parents_are_done():
    """A chain of two stages: 6 tasks of 2 s, 3 running, 2 not begun: done in 2 * (2/3 + 1/2) s."""
    facts = facts_of(view_in(first_look("tiny")), 1, np)
    shape = (1, 1, 2)
    stages = {
        "unstarted": np.array([[[2.0, 4.0]]], np.float32),
        "running": np.array([[[3.0, 0.0]]], np.float32),
        "task_s": np.full(shape, 2.0, np.float32),
        "unfinished": np.ones(shape, np.float32),
        "children": np.array([[[[0.0, 1.0], [0.0, 0.0]]]], np.float32),
    }
    zeros = {name: np.zeros(shape, np.float32) for name in ("demand", "memory", "slowdown", "runnable")}
    zeros |= {name: np.zeros(shape, np.float32) for name in ("schedulable", "work_s")}
    jobs = {
        name: getattr(facts, name)[:1, :1]
        for name in ("executors", "source", "age_s", "total_work_s", "present", "job_work_s")
    }
    cluster = {
        name: getattr(facts, name)[:1]
        for name in ("executor_count", "may_idle", "gap_s", "hidden_jobs", "free", "class_memory")
    }
    known = facts._replace(**stages, **zeros, **jobs, **cluster, choice=np.zeros((*shape, 1), bool))
    ready = rich_features(known, np, ready=True).stages[0, 0, :, -1]
    np.testing.assert_allclose(ready, [0.0, np.log1p(2 * (2 / 3 + 0.5)) / 3], rtol=1e-5)
