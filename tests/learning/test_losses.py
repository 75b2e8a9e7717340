"""The losses of single decisions, by hand."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from trimtab.learning.advantages import Credit
from trimtab.learning.agent import Acted, Agent, Judged
from trimtab.learning.imitation import act_beside_teacher, imitation_loss
from trimtab.learning.ppo import Experience, Weights, experience_rows, ppo_loss, rows_that_count
from trimtab.learning.reinforce import reinforce_loss
from trimtab.learning.rollouts import Rollout

WEIGHTS = Weights(entropy=np.float32(0.1), anchor=np.float32(2.0))


def judging(log_prob: Any, value: float = 0.0) -> Agent:
    """An agent that always judges alike, with entropy 0.5; its parameters are not used."""

    def judge(parameters: Any, observation: Any, action: Any) -> Judged:
        given = jnp.asarray(log_prob) * jnp.ones((len(action), *jnp.shape(log_prob)))
        return Judged(given, jnp.full_like(given, 0.5), jnp.full(len(action), value))

    def refuse(*arguments: Any) -> Any:
        raise AssertionError("not asked for here")

    return Agent(refuse, refuse, judge, refuse)


def row(advantage: float, log_prob: Any = 0.0, target: float = 0.0, value: float = 0.0) -> Experience:
    one = jnp.ones(1)
    observation = {"teacher": jnp.zeros((1, 1), jnp.int32)}
    taken = jnp.zeros((1, 1), jnp.int32)
    return Experience(
        observation, taken, jnp.asarray([log_prob]), value * one, advantage * one, target * one, one
    )


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss"),
    [
        (1.1, 2.0, -2.2),  # within the clip
        (1.5, 2.0, -2.4),  # likelier than allowed: no more gain
        (1.5, -2.0, 3.0),  # likelier though bad: the whole loss
        (0.5, 2.0, -1.0),  # unlikelier though good: the whole loss
        (0.5, -2.0, 1.6),  # unlikelier than allowed: no more gain
    ],
)
def test_ratios_are_clipped_on_the_gaining_side_only(ratio: float, advantage: float, loss: float) -> None:
    agent = judging(np.log(ratio))
    total, metrics = ppo_loss(agent, WEIGHTS, clip=0.2, value_weight=0.0)({}, row(advantage))
    assert float(metrics["policy_loss"]) == pytest.approx(loss)
    assert float(total) == pytest.approx(loss - 0.1 * 0.5)
    assert float(metrics["clip_fraction"]) == (abs(ratio - 1) > 0.2)
    assert float(metrics["kl"]) == pytest.approx(ratio - 1 - np.log(ratio), rel=1e-4)


def test_each_agent_has_its_own_ratio() -> None:
    """One agent is clipped at 1.2, the other is not: the mean of 2.4 and 2.0 is gained."""
    agent = judging(np.log([1.5, 1.0]))
    _, metrics = ppo_loss(agent, WEIGHTS, clip=0.2, value_weight=0.0)({}, row(2.0, log_prob=[0.0, 0.0]))
    assert float(metrics["policy_loss"]) == pytest.approx(-2.2)


def test_the_critic_is_held_near_what_it_said() -> None:
    """It said 1 and says 3 now, near the target of 4; clipped to 1.5, it is still 2.5 off."""
    for clip, error in ((0.0, 1.0), (0.5, 6.25)):
        loss = ppo_loss(judging(0.0, value=3.0), WEIGHTS, clip=0.2, value_weight=1.0, value_clip=clip)
        _, metrics = loss({}, row(0.0, target=4.0, value=1.0))
        assert float(metrics["value_loss"]) == pytest.approx(0.5 * error)


@pytest.mark.parametrize(
    "build",
    [
        lambda agent: ppo_loss(agent, WEIGHTS, clip=0.2, value_weight=0.0),
        lambda agent: reinforce_loss(agent, WEIGHTS, value_weight=0.0),
        lambda agent: imitation_loss(agent, value_weight=0.0),
    ],
)
def test_a_critic_that_nobody_goes_by_is_reported_but_has_no_part_in_the_loss(build: Any) -> None:
    """Not even 0 times its error, whose gradient would be worked out: 0 times infinity is no number."""
    total, metrics = build(judging(0.0, value=np.inf))({}, row(1.0))
    assert np.isinf(metrics["value_loss"])
    assert np.isfinite(total)


def test_the_anchor_is_the_cross_entropy_to_the_teacher() -> None:
    agent = judging(np.log(0.25))
    loss = ppo_loss(agent, WEIGHTS, clip=0.2, value_weight=0.0, anchored=True)
    total, metrics = loss({}, row(0.0))
    assert float(metrics["anchor_loss"]) == pytest.approx(np.log(4))
    assert float(total) == pytest.approx(2 * np.log(4) - 0.05)


def test_imitation_copies_and_foretells() -> None:
    total, _ = imitation_loss(judging(np.log(0.25), value=1.0), value_weight=0.5)({}, row(0.0, target=3.0))
    assert float(total) == pytest.approx(np.log(4) + 0.5 * 0.5 * 4)


def test_reinforce_weighs_the_log_probability_of_the_joint_decision() -> None:
    agent = judging(np.log([0.5, 0.5]))
    _, metrics = reinforce_loss(agent, WEIGHTS, value_weight=0.0)({}, row(3.0))
    assert float(metrics["policy_loss"]) == pytest.approx(3 * np.log(4))


def test_the_teacher_takes_its_share_of_decisions() -> None:
    """Its label is 1; the learner always does 0."""

    def act(parameters: Any, observation: Any, key: Any) -> Acted:
        return Acted(jnp.zeros((4000, 1), jnp.int32), jnp.zeros(4000), jnp.zeros(4000))

    mixed = act_beside_teacher(judging(0.0)._replace(act=act))
    observation = {"teacher": jnp.ones((4000, 1))}
    key = np.array([0, 1], np.uint32)
    shares = [float(mixed(({}, share), observation, key).action.mean()) for share in (0.0, 0.3, 1.0)]
    # Five standard errors of 4,000 coins: 0.036.
    assert shares == pytest.approx([0, 0.3, 1], abs=0.036)
    assert shares[0] == 0 and shares[2] == 1


def test_rows_are_normalised_by_those_that_count_and_filled_up() -> None:
    nothing = np.zeros((2, 3), np.float32)
    valid = np.array([[True, True, True], [True, False, False]])
    credit = Credit(jnp.array([[1.0, 2.0, 3.0], [6.0, 99.0, 99.0]]), jnp.asarray(nothing))
    rollout = Rollout(
        {"seen": jnp.arange(6).reshape(2, 3)},
        *(jnp.asarray(nothing) for _ in range(3)),
        jnp.zeros(3),
        nothing,
        nothing,
        ~valid,
        valid,
    )
    rows = experience_rows(rollout, credit, multiple_of=4)
    assert rows.observation["seen"].tolist() == [0, 1, 2, 3, 4, 5, 5, 5]
    assert rows.weight.tolist() == [1, 1, 1, 1, 0, 0, 0, 0]
    # Mean 3, variance (4 + 1 + 0 + 9) / 4.
    np.testing.assert_allclose(rows.advantage[:4], np.array([-2, -1, 0, 3]) / 3.5**0.5, rtol=1e-5)

    # The mean absolute advantage of those that count is 3; the 6 is cut to 4.5, of the others none.
    cut = experience_rows(rollout, credit, normalised=False, largest_advantage=1.5)
    assert cut.advantage[:4].tolist() == [1, 2, 3, 4.5]


def test_rows_beyond_the_end_of_an_episode_are_left_out() -> None:
    """All that count are kept, each once; what fills up to a number compiled before does not count."""
    random = np.random.default_rng(0)
    for size in (1, 7, 100, 1000):
        valid = random.random((size, 3)) < 0.4
        valid[0, 0], valid[-1, -1] = True, False
        kept = rows_that_count(valid)
        assert kept is not None
        assert len(set(kept.tolist())) == len(kept) <= min(valid.size, 1.15 * valid.sum())
        assert valid.ravel()[kept].sum() == valid.sum()
    assert rows_that_count(np.ones((2, 3), bool)) is None

    valid = np.array([[True, True, True], [True, False, False]])
    nothing = np.zeros((2, 3), np.float32)
    none = jnp.asarray(nothing)
    seen = {"seen": jnp.arange(6).reshape(2, 3)}
    rollout = Rollout(seen, none, none, none, jnp.zeros(3), nothing, nothing, ~valid, valid)
    credit = Credit(jnp.array([[1.0, 2.0, 3.0], [6.0, 99.0, 99.0]]), none)
    whole = experience_rows(rollout, credit)
    rows = experience_rows(rollout, credit, kept=jnp.asarray(rows_that_count(valid)))
    assert rows.observation["seen"].tolist() == [0, 1, 2, 3]
    assert rows.advantage.tolist() == whole.advantage[:4].tolist()


def test_what_an_agent_wants_small_besides_is_added_as_it_is() -> None:
    """By row or as one number; rows of weight 0 do not count, and without any nothing is reported."""
    rows = row(0.0)
    two = Experience(
        {"teacher": jnp.zeros((2, 1), jnp.int32)},
        jnp.zeros((2, 1), jnp.int32),
        *[jnp.zeros(2)] * 4,
        jnp.array([1.0, 0.0]),
    )
    plain = judging(0.0)
    for build in (
        lambda agent: ppo_loss(agent, WEIGHTS, clip=0.2, value_weight=0.0),
        lambda agent: reinforce_loss(agent, WEIGHTS, value_weight=0.0),
    ):
        before, metrics = build(plain)({}, rows)
        assert "auxiliary_loss" not in metrics
        for wanted, given, batch in ((3.0, jnp.array(3.0), rows), (5.0, jnp.array([5.0, 99.0]), two)):

            def judge(*arguments: Any, given: Any = given) -> Judged:
                return plain.judge(*arguments)._replace(auxiliary=given)

            after, metrics = build(plain._replace(judge=judge))({}, batch)
            assert float(metrics["auxiliary_loss"]) == wanted
            assert float(after) == pytest.approx(float(before) + wanted)
            copying = imitation_loss(plain._replace(judge=judge), value_weight=0.0)
            assert float(copying({}, batch)[0]) == 0  # which leaves it out
