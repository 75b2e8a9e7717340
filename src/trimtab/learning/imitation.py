"""A warm start: copy a rule before trying to beat it.

The learner plays, the rule (``teacher`` in the observation) only says what it would do, so the
learner is corrected in the situations its own mistakes lead to. Early on, the teacher's action is
carried out now and then, so that the first states are not those of a random policy. The critic is
trained at the same time: reinforcement then starts from one that knows what usually follows.
"""

import jax
import jax.numpy as jnp

from trimtab.learning.agent import Acted, Agent, Observation, Parameters
from trimtab.learning.passes import Loss, Metrics, weighted_mean
from trimtab.learning.ppo import Experience, value_error, with_critic
from trimtab.learning.rollouts import Act

__all__ = ["act_beside_teacher", "imitation_loss"]


def act_beside_teacher(agent: Agent) -> Act:
    """Build an `act` that carries out the teacher's action instead of its own with some probability.

    Its first argument is the pair (parameters, share of decisions left to the teacher), so that the
    share can fall during training without compiling anew.
    """

    def act(guided: tuple[Parameters, jax.Array], observation: Observation, key: jax.Array) -> Acted:
        parameters, teacher_share = guided
        coin_key, act_key = jax.random.split(key)
        acted = agent.act(parameters, observation, act_key)
        taught = jax.random.uniform(coin_key, acted.value.shape) < teacher_share
        labels = observation["teacher"].astype(acted.action.dtype)
        return acted._replace(action=jnp.where(taught[:, None], labels, acted.action))

    return act


def imitation_loss(agent: Agent, *, value_weight: float) -> Loss:
    """Build the loss that copies the teacher and trains the critic on what followed.

    What an agent wants small besides (`Judged.auxiliary`) is left out.
    """

    def loss(parameters: Parameters, rows: Experience) -> tuple[jax.Array, Metrics]:
        labels = rows.observation["teacher"].astype(rows.action.dtype)
        judged = agent.judge(parameters, rows.observation, labels)
        copying = -weighted_mean(judged.log_prob, rows.weight)
        value_loss = value_error(judged.value, rows, 0.0)
        metrics = {
            "anchor_loss": copying,
            "value_loss": value_loss,
            "entropy": weighted_mean(judged.entropy, rows.weight),
        }
        return with_critic(copying, value_loss, value_weight), metrics

    return loss
