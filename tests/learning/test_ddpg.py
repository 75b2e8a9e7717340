"""DDPG: its parts by hand, FIRM's numbers, and that FIRM's DDPG learns."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.learning.continuous_toys import Aim, Choice, Ticking

from trimtab.learning.ddpg import bellman_targets, moved_targets, value_loss, walked_noise, worth_loss
from trimtab.learning.off_policy import train_off_policy
from trimtab.learning.off_policy_learner import Learner
from trimtab.learning.off_policy_settings import OFF_POLICY_PRESETS, ActorWeights
from trimtab.learning.off_policy_state import LearnerShape, begun
from trimtab.learning.replay import Layout

FIRM = OFF_POLICY_PRESETS.load("firm")
WORTH = ActorWeights(1.0, 0.0, 0.0, 0.0, 0.0)


def test_targets_and_losses_by_hand() -> None:
    targets = bellman_targets(
        jnp.array([1.0, 2.0]), jnp.array([0.0, 1.0]), jnp.array([5.0, 5.0]), discount=0.9
    )
    assert targets.tolist() == pytest.approx([5.5, 2.0])
    assert float(value_loss(jnp.array([5.0, 4.0]), targets)) == pytest.approx((0.5**2 + 2**2) / 2)
    assert float(worth_loss(jnp.array([1.0, 2.0]))) == -1.5


def test_no_gradient_flows_into_targets() -> None:
    def loss(value):
        return value_loss(value, bellman_targets(jnp.zeros(1), jnp.zeros(1), value, discount=0.5))

    # d/dv (v - 0.5 v_target)**2 at 2 is 2 (2 - 1), not 2 (2 - 1) 0.5.
    assert jax.grad(lambda value: loss(value).sum())(jnp.array([2.0])) == pytest.approx(2.0)


def test_targets_follow_at_their_rate() -> None:
    after = moved_targets({"a": jnp.array([0.0, 4.0])}, {"a": jnp.array([1.0, 0.0])}, 0.001)
    assert after["a"].tolist() == pytest.approx([0.001, 3.996])


def test_a_walk_has_the_spread_of_an_ornstein_uhlenbeck_process() -> None:
    """At FIRM's numbers the deviation tends to 0.2 / sqrt(2 x 0.15) = 0.365; 667 steps forget all but 1/e."""

    def step(noise, normal):
        noise = walked_noise(noise, normal, pull=0.15, spread=0.2, step=0.01)
        return noise, noise

    normals = jax.random.normal(jax.random.PRNGKey(0), (8000, 400))
    _, walks = jax.jit(lambda draws: jax.lax.scan(step, jnp.zeros(400), draws))(normals)
    late = np.asarray(walks[4000:])
    assert late.std() == pytest.approx(0.2 / np.sqrt(0.3), rel=0.05)
    related = (late[:-667] * late[667:]).mean() / np.square(late).mean()
    assert related == pytest.approx(np.exp(-1), abs=0.08)


def test_the_preset_has_the_numbers_of_firm() -> None:
    assert (FIRM.hidden, FIRM.normalisation, FIRM.critics, FIRM.action_enters) == ((40, 40), "batch", 1, 1)
    assert (FIRM.actor_learning_rate, FIRM.critic_learning_rate) == (3e-4, 3e-3)
    assert (FIRM.discount, FIRM.target_rate, FIRM.policy_delay) == (0.9, 0.001, 1)
    assert (FIRM.capacity, FIRM.batch, FIRM.warmup, FIRM.updates_per_step) == (100_000, 64, 70, 1)
    assert (FIRM.walk_pull, FIRM.walk_spread, FIRM.walk_step) == (0.15, 0.2, 0.01)
    assert (FIRM.iterations, FIRM.horizon) == (9000, 300)
    # Exploration is 1 less a millionth per update, whatever the iteration.
    assert FIRM.schedule(8000, updates=0).exploration == 1
    assert FIRM.schedule(0, updates=250_000).exploration == pytest.approx(0.75)
    assert FIRM.schedule(0, updates=2_000_000).exploration == 0
    assert FIRM.schedule(3).weights == WORTH


def test_one_update_of_firm_moves_everything_as_it_should() -> None:
    """Adam's first step is the learning rate, whatever the gradient; targets follow by a thousandth."""
    layout = Layout(observation=3, actions=2)
    shape = LearnerShape.of(FIRM, layout)
    learner, state = Learner(FIRM, shape), begun(FIRM, shape, np.random.default_rng(0))
    rows = np.random.default_rng(1).normal(size=(1, 64, layout.columns)).astype(np.float32)
    kept = jax.tree.map(np.array, state)
    after, sums = learner.update(
        state, learner.nothing_measured(), rows, jax.random.PRNGKey(0), WORTH, jnp.array(True), jnp.array(0)
    )
    assert {name: float(sums[name]) for name in ("updates", "actor_steps")} == {
        "updates": 1,
        "actor_steps": 1,
    }
    for name, rate in (("actor", 3e-4), ("critics", 3e-3)):
        before, now = kept.parameters[name], after.parameters[name]
        before, now = (tree if name == "actor" else tree[0] for tree in (before, now))
        moved = np.abs(np.asarray(now["last"]["weights"]) - before["last"]["weights"])
        # Some gradients are too small for Adam's epsilon; none makes a longer step than the rate.
        assert np.median(moved) == pytest.approx(rate, rel=0.01) and moved.max() <= rate * 1.01
    for place in ("layers", "last"):
        followed = jax.tree.map(
            lambda slow, fast, found: np.allclose(found, slow + 0.001 * (np.asarray(fast) - slow), atol=1e-7),
            kept.targets["actor"][place],
            after.parameters["actor"][place],
            after.targets["actor"][place],
        )
        assert all(jax.tree.leaves(followed))
    # Targets are drawn apart from what they follow, and batch normalisation has seen its first batch.
    assert not np.allclose(
        kept.targets["actor"]["last"]["weights"], kept.parameters["actor"]["last"]["weights"]
    )
    seen = np.asarray(after.parameters["actor"]["input"]["mean"])
    assert seen == pytest.approx(0.1 * rows[0, :, :3].mean(axis=0), abs=1e-6)


QUICK = {"horizon": 20, "updates_per_step": 4, "reset_every": 10, "validate_every": 5, "checkpoint_every": 20}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("toy", "output", "enough"), [(Aim, "tanh", 0.02), (Choice, "softmax", -0.95)], ids=["aim", "choice"]
)
def test_firm_learns_numbers_and_choices(toy, output: str, enough: float, tmp_path: Path) -> None:
    """Nothing learned costs 1/6 on Aim, and a third of all choices is right by chance."""
    settings = OFF_POLICY_PRESETS.load("firm", {"iterations": 20, "output": output, **QUICK})
    result = train_off_policy(toy(settings), settings, tmp_path / "run", clock=Ticking(), seed=1)
    assert result.best_score < enough
