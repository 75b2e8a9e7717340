"""Training environments: groups share what happens to them, episodes begin anew, labels are the teacher's."""

from __future__ import annotations

import numpy as np
import pytest

from trimtab.core.environment import BatchEnvironment
from trimtab.core.errors import SettingsError
from trimtab.stream_autoscaling.deployment import Deployment
from trimtab.stream_autoscaling.policies import make_policy
from trimtab.stream_autoscaling.simulator.simulator import simulate
from trimtab.stream_autoscaling.sure.design import Design
from trimtab.stream_autoscaling.sure.features import FEATURES
from trimtab.stream_autoscaling.sure.rollouts import Course, RolloutEnvironment, future_rates
from trimtab.stream_autoscaling.workload.jobs import make_job
from trimtab.stream_autoscaling.workload.presets import TraceSettings, draw_trace

# In a hurry: it rescales often, which these tests want.
DESIGN = Design(
    history=6,
    snapshots=3,
    hidden=8,
    base_target=0.75,
    base_limit=0.76,
    base_saving=0.01,
    base_memory_s=300.0,
    base_recent_s=120.0,
    base_window_s=360.0,
    base_patience_s=0.0,
)
DEPLOYMENT = Deployment(history=6, substep_ms=6000)
JOBS = (make_job("linear:3"), make_job("q5"))


def draw(job, seed):
    return draw_trace(TraceSettings(), job, seed=seed, part="training")


def course(**changes) -> Course:
    values = {"jobs": JOBS, "draw": draw, "deployment": DEPLOYMENT, "teacher": make_policy(DESIGN.teacher)}
    return Course(**{**values, "span_s": 1200.0, **changes})


@pytest.fixture(scope="module")
def lane() -> RolloutEnvironment:
    return RolloutEnvironment(course(), DESIGN, size=8, rollouts=2, staggered=False)


def hold(lane: RolloutEnvironment, shown) -> np.ndarray:
    return np.zeros((lane.size, 1 + shown["exists"].shape[1]), np.int32)


def test_it_is_a_batch_environment(lane) -> None:
    assert isinstance(lane, BatchEnvironment)


def test_groups_live_through_the_same_until_they_decide_otherwise(lane) -> None:
    lane.reset(1, np.inf)
    for number in range(12):
        shown = lane.observe()
        for name in ("window", "parallelism", "future", "exists", "hops"):
            same = (shown[name][0::2] == shown[name][1::2]).all()
            assert same == (name in ("future", "exists", "hops") or number < 6)
        assert len(set(shown["luck"].tolist())) == 8  # of the sampler: each its own
        actions = hold(lane, shown)
        if number == 5:
            actions[1, :] = 1
            actions[1, 1:] = np.where(shown["mask"][1, :, 3], 3, 0)
        outcome = lane.step(actions)
        assert (outcome.rewards[2::2] == outcome.rewards[3::2]).all()
    assert len(np.unique(shown["window"][0::2, -1, 0, FEATURES.index("busy")])) == 4


def test_episodes_end_with_their_span_and_begin_anew_with_nothing_seen(lane) -> None:
    lane.reset(2, np.inf)
    for number in range(1, 41):
        shown = lane.observe()
        lived = (number - 1) % 20
        assert (shown["present"].sum(1) == min(lived, 6)).all()
        assert shown["future"][:, 7] == pytest.approx(1 - lived / 20)
        outcome = lane.step(hold(lane, shown))
        assert (outcome.ended == (number % 20 == 0)).all() and (outcome.elapsed_s == 60).all()


def test_the_same_seed_gives_the_same_and_another_something_else(lane) -> None:
    seen = []
    for seed in (3, 3, 4):
        lane.reset(seed, np.inf)
        lane.step(hold(lane, lane.observe()))
        seen.append(lane.observe())
    assert all(np.array_equal(seen[0][name], seen[1][name]) for name in seen[0])
    assert not np.array_equal(seen[0]["window"], seen[2]["window"])


def test_memoryless_ends_come_in_groups_and_as_often_as_they_should() -> None:
    lane = RolloutEnvironment(course(span_s=86_400.0), DESIGN, size=40, rollouts=2, staggered=False)
    lane.reset(1, 600.0)
    ends = 0
    for _ in range(40):
        ended = lane.step(hold(lane, lane.observe())).ended
        assert np.array_equal(ended[0::2], ended[1::2])
        ends += int(ended[0::2].sum())
    # 20 groups over 2,400 s; an end is noticed at the end of its interval, so every 630 s: 76 +- 9.
    assert 50 < ends < 102


def test_first_episodes_are_staggered() -> None:
    lane = RolloutEnvironment(course(), DESIGN, size=40, rollouts=2)
    lane.reset(1, np.inf)
    first = [lane.step(hold(lane, lane.observe())).ended[0::2] for _ in range(20)]
    when = np.argmax(first, axis=0)
    assert np.all(np.any(first, axis=0)) and len(np.unique(when)) > 6


def test_a_few_decisions_of_whole_days_meet_all_hours_alike() -> None:
    """Lessons of a few hours of play were once all of the first hours of the day."""
    lane = RolloutEnvironment(course(span_s=86_400.0), DESIGN, size=40, rollouts=2)
    lane.reset(1, np.inf)
    sine, cosine = (FEATURES.index(f"hour of day, {name}") for name in ("sine", "cosine"))
    newest = lane.observe()["window"][0::2, -1, 0].astype(np.float64)
    hours = np.arctan2(newest[:, sine], newest[:, cosine]) * 12 / np.pi % 24
    # 20 groups in four quarters of a day: none has none but once in 80 draws of the seed.
    assert np.all(np.histogram(hours, 4, (0, 24))[0] > 0)


def test_labels_are_what_the_teacher_does_and_lead_to_its_rewards() -> None:
    """A lane that follows its labels is the simulator playing the base rule, to the last digit."""
    jobs, seeds = (make_job("q5"),), 1
    whole = Course(jobs, draw, DEPLOYMENT, make_policy(DESIGN.teacher), span_s=7200.0, sequences=seeds)
    lane = RolloutEnvironment(whole, DESIGN, size=1, staggered=False)
    lane.reset(5, np.inf, imitating=True)
    rewards, ended = [], False
    while not ended:
        outcome = lane.step(lane.observe()["teacher"])
        rewards.append(outcome.rewards[0])
        ended = bool(outcome.ended[0])
    trace = lane._shards[0]._span(jobs[0], 0, 0)
    episode = simulate(jobs[0], trace, make_policy(DESIGN.teacher), DEPLOYMENT, seed=0)
    assert len(rewards) == 120 and rewards == pytest.approx(episode.rewards, abs=1e-6)
    assert episode.rescaled.any()


def test_episodes_begin_off_the_right_parallelism_within_bounds() -> None:
    plain, off = (
        RolloutEnvironment(course(start_spread=spread), DESIGN, size=16, rollouts=2, staggered=False)
        for spread in (0.0, 2.0)
    )
    for lane in (plain, off):
        lane.reset(1, np.inf)
    right, begun = (lane.observe()["parallelism"] for lane in (plain, off))
    assert np.array_equal(begun[0::2], begun[1::2]) and (begun[:, 0] >= 1).all()
    ratios = (begun / np.maximum(right, 1))[right > 4]
    assert ratios.min() < 0.8 and ratios.max() > 1.25 and ratios.max() <= 4.2


def test_threads_change_nothing() -> None:
    shown = []
    for threads in (1, 2):
        lane = RolloutEnvironment(course(), DESIGN, size=8, rollouts=2, threads=threads)
        lane.reset(1, 900.0)
        for _ in range(15):
            lane.step(lane.observe()["teacher"])
        shown.append(lane.observe())
    assert all(np.array_equal(shown[0][name], shown[1][name]) for name in shown[0])


def test_the_future_is_told_as_far_as_the_trace_goes() -> None:
    """2/s for 300 s, then 4/s for 300 s; at 150 s: 300 s ahead 3/s, further on the mean of what is left."""
    sums, one = np.array([[0.0, 600.0, 1800.0]]), np.ones(1)
    told = future_rates(sums, 300 * one, 150 * one, 600 * one, span_s=600.0)[0]
    now = 3.0  # the mean over one step from now
    assert told[0] == pytest.approx(np.log2(3.0 / now), abs=1e-6)
    assert told[1:6] == pytest.approx(np.log2((1500 / 450) / now), abs=1e-6)
    assert told[6] == pytest.approx(np.log2(now / 3.0), abs=1e-6) and told[7] == pytest.approx(0.75)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"10 environments cannot be split .* choose a multiple of 8"):
        RolloutEnvironment(course(), DESIGN, size=10, rollouts=2, threads=2)
    with pytest.raises(
        SettingsError, match="history = 60 intervals of a network, but the deployment keeps 6"
    ):
        RolloutEnvironment(course(), Design(), size=8)
