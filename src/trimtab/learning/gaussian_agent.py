"""An agent whose actions are numbers: a bell curve around the answer of an actor, and a critic beside it.

Actor, critic and context encoder are those of off-policy learning (`trimtab.networks.actor_critic`,
`trimtab.networks.context_encoder`), so a trained actor serves without its bell curve like any other: the mean
is what it answers. The spread is one learned number for each part of an action.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from trimtab.learning.agent import Acted, Agent, Judged, Observation, Parameters
from trimtab.learning.context import profile_loss, window_contexts
from trimtab.learning.distributions import Gaussian, gaussian_entropy, gaussian_log_prob, sample_gaussian
from trimtab.learning.off_policy_settings import OffPolicySettings
from trimtab.learning.off_policy_state import LearnerShape, begun
from trimtab.networks.actor_critic import action_values, actor_actions

__all__ = ["gaussian_agent"]


def gaussian_agent(
    settings: OffPolicySettings, shape: LearnerShape, *, seed: int, start: Parameters | None = None
) -> Agent:
    """Build the agent; `start` are parameters to begin from, what they lack is drawn.

    Its observations have ``seen``, where wanted ``past`` [rows, window + 1, token + 2] and ``privileged``.
    The spread begins with `settings.exploration` and is never below `settings.final_exploration`.
    """
    networks, encoder = shape.networks, shape.encoder
    drawn = begun(settings, shape, np.random.default_rng(seed), start).parameters
    first = {name: part for name, part in drawn.items() if name != "critics"}
    first["critic"] = drawn["critics"][0]
    first["log_spread"] = jnp.full(networks.actions, math.log(max(settings.exploration, 1e-6)))
    least = math.log(max(settings.final_exploration, 1e-6))

    def context_of(parameters: Parameters, observation: Observation) -> jax.Array | None:
        if encoder is None:
            return None
        past = jnp.swapaxes(observation["past"], 0, 1)
        return window_contexts(parameters["encoder"], past, encoder, shape.layout, 1).before

    def curve_of(parameters: Parameters, observation: Observation, context: jax.Array | None) -> Gaussian:
        # As in off-policy learning the actor takes contexts as given.
        known = None if context is None else jax.lax.stop_gradient(context)
        mean = actor_actions(parameters["actor"], observation["seen"], known, networks, jnp)
        return Gaussian(mean, jnp.broadcast_to(jnp.maximum(parameters["log_spread"], least), mean.shape))

    def value_of(parameters: Parameters, observation: Observation, context: jax.Array | None) -> jax.Array:
        seen, known = observation["seen"], observation.get("privileged")
        # A critic of actions that is always shown the same one values what is seen.
        same = jnp.zeros((len(seen), networks.actions))
        return action_values(parameters["critic"], seen, same, context, known, networks, jnp)

    def act(parameters: Parameters, observation: Observation, key: jax.Array) -> Acted:
        context = context_of(parameters, observation)
        curve = curve_of(parameters, observation, context)
        action = sample_gaussian(key, curve)
        value = value_of(parameters, observation, context)
        return Acted(action, gaussian_log_prob(curve, action), value)

    def judge(parameters: Parameters, observation: Observation, action: jax.Array) -> Judged:
        context = context_of(parameters, observation)
        curve, auxiliary = curve_of(parameters, observation, context), None
        if context is not None and "profile" in parameters["encoder"]:
            missed = profile_loss(parameters["encoder"], context, observation["privileged"])
            auxiliary = settings.auxiliary_weight * missed
        value = value_of(parameters, observation, context)
        return Judged(gaussian_log_prob(curve, action), gaussian_entropy(curve), value, auxiliary)

    def best(parameters: Parameters, observation: Observation) -> jax.Array:
        return curve_of(parameters, observation, context_of(parameters, observation)).mean

    def init(key: jax.Array) -> Any:
        return jax.tree.map(jnp.asarray, first)

    return Agent(init, act, judge, best)
