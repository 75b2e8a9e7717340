"""The published table: jobs, rewards, features, environments and policies under the published rules."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import jax
import numpy as np
import pytest
from tests.quick_compilation import compiling_quickly
from tests.stream_autoscaling.sure_snapshots import compiled

from trimtab.core.bundle import Bundle, load_bundle
from trimtab.core.environment import BatchEnvironment
from trimtab.core.errors import BundleError, SettingsError
from trimtab.stream_autoscaling.heuristics.measures import target_rates
from trimtab.stream_autoscaling.job import Edge, Job, Vertex
from trimtab.stream_autoscaling.policies import make_policy
from trimtab.stream_autoscaling.simulator.paper import PaperRules, PaperSimulator
from trimtab.stream_autoscaling.sure.agent import sure_agent
from trimtab.stream_autoscaling.sure.design import Design
from trimtab.stream_autoscaling.sure.paper.environment import PaperCourse, PaperEnvironment
from trimtab.stream_autoscaling.sure.paper.features import PAPER_FEATURES, HourViews
from trimtab.stream_autoscaling.sure.paper.policy import PaperPolicy, load_paper_policy
from trimtab.stream_autoscaling.sure.paper.setting import (
    HEAVIEST,
    Scale,
    half_busy,
    normalised,
    paper_job,
    play_hours,
    rewards_of,
    scale_of,
)
from trimtab.stream_autoscaling.sure.paper.task import PaperSettings, PaperTask, load_preset, preset_names
from trimtab.stream_autoscaling.sure.paper.training import train_paper
from trimtab.stream_autoscaling.workload.jobs import make_job
from trimtab.stream_autoscaling.workload.presets import TraceSettings, draw_trace
from trimtab.stream_autoscaling.workload.traces import Provenance, RateTrace

RULES = PaperRules()
DESIGN = Design(history_encoder="deepwave", actions="gaussian", hidden=4, layers=1)
TINY = {
    "jobs": ["small-2"],
    "environments": 4,
    "rollouts": 2,
    "decisions": 2,
    "validation": 1,
    "network": {"history_encoder": "deepwave", "actions": "gaussian", "hidden": 4},
    "training": {
        "iterations": 1,
        "horizon": 2,
        "minibatches": 2,
        "reset_every": 1,
        "validate_every": 1,
        "checkpoint_every": 1,
    },
}


def flat(records_per_minute: float, hours: int) -> RateTrace:
    return RateTrace(np.full(60 * hours, records_per_minute / 60), 60, Provenance("flat"))


def joined_job() -> Job:
    """Two sources and a task that reads both; 60 records a minute keep 1, 2 and 3 instances busy."""
    vertices = tuple(Vertex(name=name, service_ms=ms) for name, ms in (("a", 1e3), ("b", 2e3), ("c", 3e3)))
    return Job("join", vertices, (Edge(0, 2), Edge(1, 2)), 1.0)


def environment(size: int = 4, rollouts: int = 2, decisions: int = 3) -> PaperEnvironment:
    course = PaperCourse(
        (joined_job(),), (Scale(1.0, 0.5, 0.4, 0.1),), lambda job, seed: flat(60, 24), RULES, decisions
    )
    return PaperEnvironment(course, DESIGN, size=size, rollouts=rollouts)


@pytest.mark.parametrize("name", ["small-1", "medium-2", "large-1"])
def test_jobs_keep_their_shape_and_relative_work(name):
    before, after = make_job(name), paper_job(name)
    assert after.edges == before.edges
    busy = np.array([vertex.service_ms for vertex in after.vertices]) * after.usual_rate / 1000
    assert busy.max() == pytest.approx(HEAVIEST)
    np.testing.assert_allclose(busy / busy.max(), before.demand_ms / before.demand_ms.max())


def test_every_task_meets_every_record_once():
    simulator = PaperSimulator([paper_job("medium-1")], [flat(166, 2)], RULES, seeds=[0])
    graph = simulator.graph
    rates = target_rates(np.where(graph.is_source, 2.0, 0.0), graph.selectivity)
    np.testing.assert_allclose(rates[graph.exists], 2.0)


def test_ds2_sizes_tasks_of_a_barrier_by_their_own_work():
    # 1, 2 and 3 instances busy, aimed at half: 2, 4, 6, whatever the two inputs of c send it.
    (episode,) = play_hours(make_policy("ds2:target=0.5"), joined_job(), [flat(60, 4)], RULES, seeds=[0])
    assert episode.parallelism[-1].tolist() == [2, 4, 6]


def test_rewards_are_weighed_deviations_and_an_hour_is_cut_off():
    scale = Scale(2.0, 0.5, 0.4, 0.2)
    latency, used = np.array([1.0, 2.0, 1000.0]), np.array([0.2, 0.6, 1.0])
    # 0.7 x 2 - 0.3 x 1; 0.3 x 1; -0.7 x 10 + 0.3 x 3
    np.testing.assert_allclose(normalised(latency, used, scale, 0.7), [1.1, 0.3, -6.1])
    far = normalised(latency, used, scale, 0.7, largest=100)
    assert far[2] == pytest.approx(-70 + 0.9)


def test_the_reference_scores_nothing_on_its_own_days():
    scale, job = scale_of("small-2", RULES), paper_job("small-2")
    assert half_busy(joined_job(), RULES).tolist() == [2, 4, 6]
    assert 0 < scale.latency_spread < scale.latency_min and 0.3 < scale.utilisation < 0.5
    busy = np.array([vertex.service_ms for vertex in job.vertices]) * job.usual_rate / 1000
    assert (half_busy(job, RULES) >= np.minimum(2 * busy, RULES.most) - 1e-6).all()


def test_nobody_decides_about_the_first_hour_and_it_does_not_count():
    (episode,) = play_hours(make_policy("static"), joined_job(), [flat(60, 5)], RULES, seeds=[7])
    assert len(episode.rewards) == 4 and episode.start_s == 3600 and episode.seed == 7
    assert not episode.rescaled.any()
    # Work of a and c one after the other, 12 records for each of 5 instances: b 24 s, c 36 s.
    np.testing.assert_allclose(episode.latency_s, 60.0)
    used = (1 + 2 + 3) / 15
    rewards = rewards_of(episode, Scale(1.0, 1.0, 0.4, 0.1), 0.5)
    np.testing.assert_allclose(rewards, 0.5 * (used - 0.4) / 0.1, atol=1e-9)


def test_features_by_hand():
    jobs = [joined_job(), Job("one", (Vertex(name="a", service_ms=1e3),), (), 1.0)]
    simulator = PaperSimulator(jobs, [flat(60, 2)] * 2, RULES, seeds=[0, 1])
    simulator.step(simulator.snapshot().parallelism)
    view, offered = HourViews(simulator.graph, DESIGN).see(simulator.snapshot())
    assert view.window.shape == (2, 60, 3, len(PAPER_FEATURES)) and len(PAPER_FEATURES) == 27
    column = {name: view.window[0, -1, :, at].astype(float) for at, name in enumerate(PAPER_FEATURES)}
    np.testing.assert_allclose(column["busy"], [0.2, 0.4, 0.6], atol=1e-3)
    np.testing.assert_allclose(column["batches waiting"], 0, atol=1e-3)
    np.testing.assert_allclose(column["latency of parents"], [0, 0, np.log1p(0.6) / 2], atol=1e-3)
    np.testing.assert_allclose(column["mean latency of parents"], [0, 0, np.log1p(0.3) / 2], atol=1e-3)
    np.testing.assert_allclose(column["children"], [0.25, 0.25, 0])
    np.testing.assert_allclose(column["utilisation of the job"], 0.4, atol=1e-3)
    np.testing.assert_allclose(column["latency of the job"], np.log1p(1.0) / 2, atol=1e-3)
    # Minute 59 and depth 0, 0, 1: the first sine.
    first = (np.sin(59) + np.sin([0, 0, 1])) / 2
    np.testing.assert_allclose(column["sine 0"], first, atol=1e-3)
    assert not view.window[1, :, 1:].any()  # vertices that do not exist
    assert offered.values[0, :, 0].tolist() == [5, 5, 5]


def test_environments_satisfy_the_contract_and_share_traces():
    played = environment()
    assert isinstance(played, BatchEnvironment)
    played.reset(3, np.inf)
    shown = played.observe()
    assert shown["window"].shape[:3] == (4, 60, 3) and shown["present"].all()
    assert shown["future"].shape == (4, 8)
    held = played.step(np.zeros((4, 3), np.float32))
    # Latency 1 minute, utilisation 0.4: as good as the scale.
    np.testing.assert_allclose(held.rewards, 0, atol=1e-6)
    assert (held.elapsed_s == 3600).all() and not held.ended.any()
    played.step(np.ones((4, 3), np.float32))
    assert played.observe()["parallelism"].tolist() == [[10, 10, 10]] * 4
    assert played.step(np.zeros((4, 3), np.float32)).ended.all()
    assert played.observe()["parallelism"].tolist() == [[5, 5, 5]] * 4


def test_steps_are_rounded_so_that_one_instance_can_become_two():
    played = environment()
    played.reset(0, np.inf)
    played.observe()
    played.step(np.full((4, 3), -1, np.float32))
    assert (played.observe()["parallelism"] == 1).all()
    played.step(np.full((4, 3), 0.6, np.float32))
    assert (played.observe()["parallelism"] == 2).all()


def test_what_environments_refuse():
    with pytest.raises(SettingsError, match="choose a multiple of 2"):
        environment(size=3)
    with pytest.raises(SettingsError, match=r"set training.mean_episode_s = 0"):
        environment().reset(0, 3600.0)
    with pytest.raises(SettingsError, match="call reset first"):
        environment().observe()
    with pytest.raises(SettingsError, match=r"raise trace.days, or lower decisions"):
        environment(decisions=24).reset(0, np.inf)
    course = PaperCourse(
        (joined_job(),), (Scale(1, 1, 1, 1),), lambda job, seed: flat(60, 4), PaperRules(span_min=30)
    )
    with pytest.raises(SettingsError, match=r"network.history = 60 minutes, but a decision is made every 30"):
        PaperEnvironment(course, DESIGN, size=1)


def test_log_probabilities_apart_sum_to_the_joint_one():
    played = environment()
    played.reset(0, np.inf)
    seen = {name: jax.numpy.asarray(one) for name, one in played.observe().items()}
    apart, joint = (sure_agent(DESIGN, features=len(PAPER_FEATURES), apart=apart) for apart in (True, False))
    parameters = apart.init(jax.random.PRNGKey(0))
    actions = jax.random.normal(jax.random.PRNGKey(1), (4, 3))
    each, together = (compiled(agent.judge)(parameters, seen, actions) for agent in (apart, joint))
    assert each.log_prob.shape == (4, 3)
    np.testing.assert_allclose(each.log_prob.sum(-1), together.log_prob, rtol=1e-5)
    np.testing.assert_allclose(each.entropy.sum(-1), together.entropy, rtol=1e-5)


def test_the_presets_are_sound_and_other_actions_are_refused():
    for name in preset_names():
        settings = load_preset(name)
        settings.training.check_batch(settings.environments)
        PaperTask(settings)
    with pytest.raises(SettingsError, match="no base rule to step around"):
        PaperTask(load_preset("table-1", {"network.actions": "residual"}))


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Bundle:
    folder = tmp_path_factory.mktemp("paper") / "run"
    settings = PaperSettings.model_validate(TINY)
    with compiling_quickly():
        return load_bundle(train_paper(settings, folder, name="tiny", clock=lambda: datetime.now(UTC)))


def test_a_trained_policy_plays_on_numpy_what_jax_plays(trained):
    policy = PaperPolicy(trained)
    task = PaperTask(PaperSettings.model_validate(TINY))
    lane = task.lanes[0]
    lane.reset(5, np.inf)
    seen = lane.observe()
    best = np.asarray(compiled(task.agent.best)(policy.parameters, seen))
    simulator = lane._playing
    wanted = policy.begin(simulator.graph).decide(simulator.snapshot())
    now = simulator.snapshot().parallelism
    np.testing.assert_array_equal(wanted, np.clip(now + np.rint(np.clip(best, -1, 1) * now), 1, 10))
    manifest = trained.manifest
    assert manifest["trained"]["jobs"] == ["small-2"] and manifest["trained"]["decisions"] == 8
    job = paper_job("small-2")
    day = draw_trace(TraceSettings(), job, seed=900_000, part="validation")
    (episode,) = play_hours(policy, job, [day], RULES, seeds=[900_000])
    earned = rewards_of(episode, scale_of("small-2", RULES), RULES.latency_weight).mean()
    assert manifest["scores"]["reward"] == pytest.approx(earned)


def test_bundles_that_are_something_else_are_refused(trained, tmp_path):
    with pytest.raises(BundleError, match="the published rules need stream_autoscaling/sure-paper"):
        PaperPolicy(replace(trained, kind="sure"))
    other = {**trained.manifest, "features": {"vertex": ["busy"]}}
    with pytest.raises(BundleError, match="made for other features"):
        PaperPolicy(replace(trained, manifest=other))
    with pytest.raises(BundleError, match="does not describe a network"):
        PaperPolicy(replace(trained, manifest={**trained.manifest, "settings": {}}))
    fewer = dict(list(trained.tensors.items())[1:])
    with pytest.raises(BundleError, match="its tensors are not those of its network"):
        PaperPolicy(replace(trained, tensors=fewer))
    with pytest.raises(BundleError):
        load_paper_policy(tmp_path)
