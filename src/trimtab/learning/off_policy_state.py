"""What off-policy learning changes: parameters, their slow copies, optimisers; and how it begins.

A tree of parameters has ``actor``, ``critics`` and, where there is one, ``encoder``. With several members
every leaf has their number as first axis.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from trimtab.core.errors import SettingsError
from trimtab.learning.agent import Parameters
from trimtab.learning.off_policy_settings import OffPolicySettings
from trimtab.learning.replay import Layout
from trimtab.networks.actor_critic import ActorCriticDesign, new_actor, new_critic
from trimtab.networks.context_encoder import ContextDesign, Memory, new_context_encoder, new_memory

__all__ = [
    "LearnerShape",
    "OffPolicyState",
    "Playing",
    "adam",
    "begun",
    "begun_playing",
    "learned_with_critics",
    "new_parameters",
]


class OffPolicyState(NamedTuple):
    """Everything that learning changes."""

    parameters: Parameters
    targets: Parameters
    """Slow copies of actor and critics."""
    start: Parameters
    """The actor at the beginning, where the run is held to it; else nothing."""
    actor_optimiser: Any
    critic_optimiser: Any
    """Of critics and encoder together."""


class Playing(NamedTuple):
    """What acting carries along for every environment."""

    noise: jax.Array
    memory: Memory


class LearnerShape(NamedTuple):
    """Sizes and designs of everything."""

    layout: Layout
    networks: ActorCriticDesign
    encoder: ContextDesign | None

    @staticmethod
    def of(settings: OffPolicySettings, layout: Layout) -> "LearnerShape":
        """What the settings ask for, on a task with steps of this layout."""
        sizes = {"observation": layout.observation, "actions": layout.actions}
        networks = settings.actor_critic(**sizes, privileged=layout.privileged)
        encoder = settings.context_encoder(token=layout.token, privileged=layout.privileged)
        return LearnerShape(layout, networks, encoder)


def new_parameters(shape: LearnerShape, random: np.random.Generator) -> Parameters:
    """Draw the parameters of one learner."""
    networks = shape.networks
    drawn = {
        "actor": new_actor(random, networks),
        "critics": [new_critic(random, networks) for _ in range(networks.critics)],
    }
    return drawn if shape.encoder is None else drawn | {"encoder": new_context_encoder(random, shape.encoder)}


def adam(learning_rate: float, gradient_norm: float) -> optax.GradientTransformation:
    """The optimiser of one kind of network; a norm of 0 shortens nothing."""
    steps = optax.adam(learning_rate)
    return optax.chain(optax.clip_by_global_norm(gradient_norm), steps) if gradient_norm else steps


def learned_with_critics(parameters: Parameters) -> Parameters:
    """All but the actor: what the errors of the critics move."""
    return {name: part for name, part in parameters.items() if name != "actor"}


def begun(
    settings: OffPolicySettings,
    shape: LearnerShape,
    random: np.random.Generator,
    start: Parameters | None = None,
) -> OffPolicyState:
    """Draw the first state, or begin from parameters learned earlier (any of actor, critics, encoder)."""
    states = [_begun(settings, shape, random, start) for _ in range(settings.members)]
    if settings.members == 1:
        # An update uses up its state buffer by buffer: no two leaves may share one.
        return jax.tree.map(lambda leaf: jnp.array(leaf, copy=True), states[0])
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)


def begun_playing(settings: OffPolicySettings, shape: LearnerShape, environments: int) -> Playing:
    """What acting carries along before anything was done."""
    each = environments // settings.members
    memory = {} if shape.encoder is None else new_memory(shape.encoder, each, jnp)
    playing = Playing(jnp.zeros((each, shape.layout.actions)), memory)
    if settings.members == 1:
        return playing
    return jax.tree.map(lambda leaf: jnp.repeat(leaf[None], settings.members, axis=0), playing)


def _begun(
    settings: OffPolicySettings, shape: LearnerShape, random: np.random.Generator, start: Parameters | None
) -> OffPolicyState:
    drawn = new_parameters(shape, random)
    parameters = drawn if start is None else _taken(start, drawn)
    targets = {name: parameters[name] for name in ("actor", "critics")}
    if settings.targets_apart and start is None:
        apart = new_parameters(shape, random)
        targets = {name: apart[name] for name in targets}
    held = settings.anchor > 0 and settings.anchor_to == "start"
    return OffPolicyState(
        parameters,
        targets,
        parameters["actor"] if held else {},
        adam(settings.actor_learning_rate, settings.gradient_norm).init(parameters["actor"]),
        adam(settings.critic_learning_rate, settings.gradient_norm).init(learned_with_critics(parameters)),
    )


def _taken(start: Parameters, drawn: Parameters) -> Parameters:
    """Parameters to begin from, with what they lack drawn anew; refuse any of another form."""
    unknown = sorted(set(start) - set(drawn))
    if unknown:
        raise SettingsError(
            f"no {unknown[0]} in this learner to begin from; set context as it was trained with"
        )
    for name, part in start.items():
        same = jax.tree.structure(part) == jax.tree.structure(drawn[name]) and all(
            np.shape(one) == np.shape(other)
            for one, other in zip(jax.tree.leaves(part), jax.tree.leaves(drawn[name]), strict=True)
        )
        if not same:
            raise SettingsError(
                f"the {name} to begin from has other sizes than the settings and the task ask for; "
                "begin with the settings it was trained with"
            )
    return drawn | start
