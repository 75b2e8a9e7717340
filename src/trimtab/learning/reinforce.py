"""REINFORCE: one step per iteration along the plain policy gradient over whole episodes.

Whatever is subtracted from the returns (see `trimtab.learning.baselines`) changes how noisy the
gradient is, not where it points.
"""

import jax

from trimtab.learning.agent import Agent, Parameters
from trimtab.learning.passes import Loss, Metrics, weighted_mean
from trimtab.learning.ppo import Experience, Weights, auxiliary_loss, value_error, with_critic

__all__ = ["reinforce_loss"]


def reinforce_loss(agent: Agent, weights: Weights, *, value_weight: float) -> Loss:
    """Build the loss whose gradient is the policy gradient, minus an entropy bonus.

    Several agents that act together sum their log-probabilities: together they are one decision.
    """

    def loss(parameters: Parameters, rows: Experience) -> tuple[jax.Array, Metrics]:
        judged = agent.judge(parameters, rows.observation, rows.action)
        log_prob = judged.log_prob if judged.log_prob.ndim == 1 else judged.log_prob.sum(axis=-1)
        policy_loss = -weighted_mean(log_prob * rows.advantage, rows.weight)
        value_loss = value_error(judged.value, rows, 0.0)
        entropy = weighted_mean(judged.entropy, rows.weight)
        total = with_critic(policy_loss, value_loss, value_weight) - weights.entropy * entropy
        metrics = {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy}
        if judged.auxiliary is not None:
            metrics["auxiliary_loss"] = auxiliary_loss(judged, rows)
            total += metrics["auxiliary_loss"]
        return total, metrics

    return loss
