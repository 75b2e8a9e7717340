"""Learn from what several actions would have earned: none has to be tried to be judged.

Where the environment can say what each of a few actions leads to (a simulator that looks ahead), the policy
gradient needs no sampled action: the loss is minus the gain expected under the policy, over these actions
(Sun et al., ICML 2017, after Ross and Bagnell 2014; over all actions: Allen et al. 2017). Observations have

    alternatives  [batch, alternatives, parts]   actions
    offered       [batch, alternatives]          which of them count; none where nothing was looked at
    gains         [batch, alternatives]          what each earns, against anything that is the same for all
"""

import jax
import jax.numpy as jnp

from trimtab.learning.agent import Agent, Parameters
from trimtab.learning.passes import Loss, Metrics, weighted_mean
from trimtab.learning.ppo import Experience, Weights

__all__ = ["ALTERNATIVES", "weighing_loss"]

ALTERNATIVES = ("alternatives", "offered", "gains")
"""What observations must have."""
_MASKED = -1e9


def weighing_loss(agent: Agent, weights: Weights) -> Loss:
    """Build the loss: minus the expected gain, and a bonus for staying undecided between alternatives."""

    def loss(parameters: Parameters, rows: Experience) -> tuple[jax.Array, Metrics]:
        seen = rows.observation
        actions = jnp.moveaxis(seen["alternatives"], 1, 0).astype(rows.action.dtype)
        offered = jnp.moveaxis(seen["offered"], 1, 0)
        # What does not depend on the action, the network above all, is computed once for all of them.
        judged = jax.vmap(lambda action: agent.judge(parameters, seen, action))(actions)
        log_prob = _joined(judged.log_prob, actions[..., 0], offered)
        shares = jax.nn.softmax(jnp.where(offered, log_prob, _MASKED), axis=0) * offered
        gains = jnp.where(offered, jnp.moveaxis(seen["gains"], 1, 0), 0.0)
        looked = rows.weight * offered.any(0)
        gain = weighted_mean((shares * gains).sum(0), looked)
        entropy = weighted_mean(-(shares * jnp.log(jnp.maximum(shares, 1e-12))).sum(0), looked)
        total = -gain - weights.entropy * entropy
        best = weighted_mean(jnp.where(offered, gains, -jnp.inf).max(0, where=offered, initial=0.0), looked)
        metrics = {"gain": gain, "largest_gain": best, "entropy": entropy, "looked_at": looked.sum()}
        if judged.auxiliary is not None:
            auxiliary = jnp.mean(judged.auxiliary)
            metrics["auxiliary_loss"] = auxiliary
            total = total + auxiliary
        return total, metrics

    return loss


def _joined(log_prob: jax.Array, first: jax.Array, offered: jax.Array) -> jax.Array:
    """One log-probability for each alternative, [alternatives, batch]; where it has parts, in two stages.

    An action of many parts is one of so many that none has much probability, and an alternative that has but
    one part would always be likelier. So the first part counts as it is, and of the others only how they
    compare with those of the alternatives that begin alike.
    """
    if log_prob.ndim == 2:
        return log_prob
    others = log_prob[..., 1:].sum(-1)
    alike = (first[:, None] == first[None]) & offered[None]
    total = jax.nn.logsumexp(jnp.where(alike, others[None], _MASKED), axis=1)
    return log_prob[..., 0] + others - total
