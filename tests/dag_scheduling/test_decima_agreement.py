"""States of played episodes: numpy and JAX decide alike, in whatever order and room jobs are shown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.dag_scheduling.decima_networks import SMALL, quick_jit
from tests.dag_scheduling.random_instances import random_profile
from tests.dag_scheduling.test_decima_view import (
    FOUR_SIZES,
    course_on,
    look,
    masked_choices,
    observe,
    view_in,
)

from trimtab.dag_scheduling.cluster import Cluster
from trimtab.dag_scheduling.decima import view as v
from trimtab.dag_scheduling.decima.agent import decima_agent
from trimtab.dag_scheduling.decima.network import (
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
from trimtab.dag_scheduling.decima.view import View
from trimtab.dag_scheduling.problem import Action, Snapshot

# Played as plain Python, as the coverage run does, these take minutes; test_decima_tiny.py is for that.
pytestmark = pytest.mark.slow

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
def four_sizes() -> Recorded:
    return record(BRIEF_FOUR, replace(SMALL, classes=4, sizes=True), 400)


@pytest.fixture(scope="module")
def paper() -> Recorded:
    # Sums over stages and jobs, layer upon layer: three times the weights would give scores of 10^8.
    return record(BRIEF, replace(SMALL, paper=True), 400, scale=1.0)


RECORDS = ["ours", "four_classes", "four_sizes", "paper"]


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


# --- the order of jobs and empty rows ----------------------------------------------------------------


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
