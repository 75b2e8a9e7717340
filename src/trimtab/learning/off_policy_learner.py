"""The learner of off-policy training: its updates and its decisions, compiled.

DDPG, TD3, TD3+BC and behaviour cloning are one update with different numbers: how many critics, how often the
actor moves, and what it learns from (`ActorWeights`). After each step of all environments so many updates run
as one compiled loop; nothing comes back to the host but a few sums when an iteration is over.

With several members everything below runs for all of them at once, each on batches of its own.
"""

from typing import Any

import jax
import jax.numpy as jnp
import optax

from trimtab.learning.agent import Parameters
from trimtab.learning.context import profile_loss, window_contexts
from trimtab.learning.ddpg import bellman_targets, moved_targets, value_loss, walked_noise
from trimtab.learning.jax_tools import JAX_TOOLS
from trimtab.learning.off_policy_settings import ActorWeights, OffPolicySettings
from trimtab.learning.off_policy_state import (
    LearnerShape,
    OffPolicyState,
    Playing,
    adam,
    learned_with_critics,
)
from trimtab.learning.replay import Steps, Windows
from trimtab.learning.td3 import actor_loss, blurred_actions, least_values
from trimtab.networks.actor_critic import Moments, action_values, actor_actions, with_moments
from trimtab.networks.context_encoder import embedding, remembered

__all__ = ["MEASURED", "Learner"]

MEASURED = ("critic_loss", "value", "auxiliary_loss", "actor_loss", "actor_steps", "updates")
"""What updates add up; the first three per update, ``actor_loss`` per step of the actor."""


class Learner:
    """Compiled functions for one run: `update` and `act`.

    `update(state, sums, drawn, key, weights, actor_moves, before)` -> (state, sums) runs as many updates as
    `drawn` has batches, `before` being how many came earlier; it uses up state and sums.
    `act(parameters, playing, token, renewed, observation, key, exploration)` -> (actions, playing), where
    token and renewed are of the step before.
    """

    def __init__(self, settings: OffPolicySettings, shape: LearnerShape) -> None:
        self.settings, self.shape = settings, shape
        self._actor_optimiser = adam(settings.actor_learning_rate, settings.gradient_norm)
        self._critic_optimiser = adam(settings.critic_learning_rate, settings.gradient_norm)
        self.update = jax.jit(self._updates, donate_argnums=(0, 1))
        self.act = jax.jit(self._act)

    @staticmethod
    def nothing_measured() -> dict[str, jax.Array]:
        return {name: jnp.zeros(()) for name in MEASURED}

    # --- updates ----------------------------------------------------------------------------------

    def _updates(
        self,
        state: OffPolicyState,
        sums: dict[str, jax.Array],
        drawn: Any,
        key: jax.Array,
        weights: ActorWeights,
        actor_moves: jax.Array,
        before: jax.Array,
    ) -> tuple[OffPolicyState, dict[str, jax.Array]]:
        members = self.settings.members
        count = jax.tree.leaves(drawn)[0].shape[0]
        keys = jax.random.split(key, count * members).reshape(count, members, -1)
        numbers = before + 1 + jnp.arange(count)

        def step(carry: Any, item: Any) -> tuple[Any, None]:
            state, sums = carry
            batch, keys, number = item

            def one(state: OffPolicyState, batch: Any, key: jax.Array) -> Any:
                return self._one_update(state, batch, key, weights, actor_moves, number)

            if members == 1:
                state, found = one(state, batch, keys[0])
            else:
                state, found = jax.vmap(one)(state, batch, keys)
                found = jax.tree.map(jnp.mean, found)
            return (state, {name: sums[name] + found[name] for name in sums}), None

        return jax.lax.scan(step, (state, sums), (drawn, keys, numbers))[0]

    def _one_update(
        self,
        state: OffPolicyState,
        batch: Any,
        key: jax.Array,
        weights: ActorWeights,
        actor_moves: jax.Array,
        number: jax.Array,
    ) -> tuple[OffPolicyState, dict[str, jax.Array]]:
        """Critics and encoder once, then, every so often, actor and targets."""
        state, steps, context, found = self._critic_step(state, batch, key)
        turn = number % self.settings.policy_delay == 0

        def with_actor(state: OffPolicyState) -> tuple[OffPolicyState, jax.Array]:
            return self._actor_step(state, steps, context, weights, actor_moves)

        def without(state: OffPolicyState) -> tuple[OffPolicyState, jax.Array]:
            return state, jnp.zeros(())

        if self.settings.policy_delay == 1:
            state, loss = with_actor(state)
        else:
            state, loss = jax.lax.cond(turn, with_actor, without, state)
        measured = {"actor_loss": loss, "actor_steps": turn.astype(jnp.float32), "updates": jnp.ones(())}
        return state, found | measured

    def _critic_step(
        self, state: OffPolicyState, batch: Any, key: jax.Array
    ) -> tuple[OffPolicyState, Steps, jax.Array | None, dict[str, jax.Array]]:
        learned = learned_with_critics(state.parameters)
        rows = batch.rows.reshape(-1, self.shape.layout.columns) if isinstance(batch, Windows) else batch
        steps = self.shape.layout.split(rows)

        def loss(learned: Any) -> tuple[jax.Array, Any]:
            before, after, auxiliary = self._contexts(learned, batch, steps)
            targets = self._targets(state.targets, steps, after, key)
            total, values, moments = jnp.zeros(()), jnp.zeros(()), []
            for critic in learned["critics"]:
                found = self._moments()
                values = self._valued(
                    critic, steps.observation, steps.action, before, steps.privileged, found
                )
                total += value_loss(values, targets)
                moments.append(found)
            measured = {"critic_loss": total, "value": values.mean(), "auxiliary_loss": auxiliary}
            return total + self.settings.auxiliary_weight * auxiliary, (measured, before, moments)

        (_, (measured, context, moments)), gradient = jax.value_and_grad(loss, has_aux=True)(learned)
        changes, optimiser = self._critic_optimiser.update(gradient, state.critic_optimiser)
        learned: Any = optax.apply_updates(learned, changes)
        if moments[0]:
            learned["critics"] = [
                with_moments(critic, found) for critic, found in zip(learned["critics"], moments, strict=True)
            ]
        state = state._replace(parameters=state.parameters | learned, critic_optimiser=optimiser)
        return state, steps, None if context is None else jax.lax.stop_gradient(context), measured

    def _contexts(
        self, learned: Any, batch: Any, steps: Steps
    ) -> tuple[jax.Array | None, jax.Array | None, jax.Array]:
        """Contexts before and after the steps, and how badly they predict the true profile."""
        design = self.shape.encoder
        if design is None:
            return None, None, jnp.zeros(())
        encoder = learned["encoder"]
        if self.settings.frozen_encoder:
            encoder = jax.lax.stop_gradient(encoder)
        found = window_contexts(encoder, batch.past, design, self.shape.layout, self.settings.sequence_steps)
        missed = profile_loss(encoder, found.before, steps.privileged) if design.profile else jnp.zeros(())
        return found.before, found.after, missed

    def _targets(
        self, targets: Parameters, steps: Steps, context: jax.Array | None, key: jax.Array
    ) -> jax.Array:
        networks, settings = self.shape.networks, self.settings
        actions = actor_actions(
            targets["actor"], steps.next_observation, context, networks, jnp, self._moments()
        )
        if settings.target_noise:
            normal = jax.random.normal(key, actions.shape)
            actions = blurred_actions(
                actions, normal, noise=settings.target_noise, largest=settings.target_noise_limit
            )
        seen, known = steps.next_observation, steps.privileged
        values = [
            self._valued(critic, seen, actions, context, known, self._moments())
            for critic in targets["critics"]
        ]
        return bellman_targets(
            steps.reward[:, 0], steps.terminated[:, 0], least_values(values), discount=settings.discount
        )

    def _actor_step(
        self,
        state: OffPolicyState,
        steps: Steps,
        context: jax.Array | None,
        weights: ActorWeights,
        actor_moves: jax.Array,
    ) -> tuple[OffPolicyState, jax.Array]:
        networks, settings = self.shape.networks, self.settings
        begun = None
        if state.start:
            begun = actor_actions(state.start, steps.observation, context, networks, jnp)

        def loss(actor: Parameters) -> tuple[jax.Array, Moments | None]:
            found = self._moments()
            actions = actor_actions(actor, steps.observation, context, networks, jnp, found)
            critic, known = state.parameters["critics"][0], steps.privileged
            values = self._valued(critic, steps.observation, actions, context, known, self._moments())
            return actor_loss(actions, values, steps.guide, steps.guided[:, 0], begun, weights), found

        before = (state.parameters["actor"], state.actor_optimiser)
        (total, found), gradient = jax.value_and_grad(loss, has_aux=True)(before[0])
        changes, optimiser = self._actor_optimiser.update(gradient, before[1])
        moved = with_moments(optax.apply_updates(before[0], changes), found or [])
        actor, optimiser = jax.tree.map(
            lambda new, old: jnp.where(actor_moves, new, old), (moved, optimiser), before
        )
        parameters = state.parameters | {"actor": actor}
        followed = {name: parameters[name] for name in state.targets}
        targets = moved_targets(state.targets, followed, settings.target_rate)
        return state._replace(parameters=parameters, targets=targets, actor_optimiser=optimiser), total

    def _valued(
        self,
        critic: Parameters,
        observation: jax.Array,
        action: jax.Array,
        context: jax.Array | None,
        privileged: jax.Array,
        moments: Moments | None,
    ) -> jax.Array:
        networks = self.shape.networks
        return action_values(critic, observation, action, context, privileged, networks, jnp, moments)

    def _moments(self) -> Moments | None:
        """Where batch normalisation notes what a batch is like."""
        return [] if self.shape.networks.normalisation == "batch" else None

    # --- acting -----------------------------------------------------------------------------------

    def _act(
        self,
        parameters: Parameters,
        playing: Playing,
        token: jax.Array,
        renewed: jax.Array,
        observation: jax.Array,
        key: jax.Array,
        exploration: jax.Array,
    ) -> tuple[jax.Array, Playing]:
        members = self.settings.members
        if members == 1:
            return self._decide(parameters, playing, token, renewed, observation, key, exploration)

        def apart(rows: jax.Array) -> jax.Array:
            return rows.reshape(members, -1, rows.shape[-1])

        apiece = 0 if exploration.ndim else None
        decide = jax.vmap(self._decide, in_axes=(0, 0, 0, 0, 0, 0, apiece))
        told = (apart(token), apart(renewed), apart(observation))
        actions, playing = decide(parameters, playing, *told, jax.random.split(key, members), exploration)
        return actions.reshape(-1, actions.shape[-1]), playing

    def _decide(
        self,
        parameters: Parameters,
        playing: Playing,
        token: jax.Array,
        renewed: jax.Array,
        observation: jax.Array,
        key: jax.Array,
        exploration: jax.Array,
    ) -> tuple[jax.Array, Playing]:
        settings, design = self.settings, self.shape.encoder
        memory, context = playing.memory, None
        if design is not None:
            encoder = parameters["encoder"]
            memory = remembered(encoder, memory, token, renewed, design, JAX_TOOLS)
            context = embedding(encoder, memory, design, JAX_TOOLS)
        actions = actor_actions(parameters["actor"], observation, context, self.shape.networks, jnp)
        noise = jax.random.normal(key, actions.shape)
        if settings.noise == "walk":
            noise = walked_noise(
                playing.noise,
                noise,
                pull=settings.walk_pull,
                spread=settings.walk_spread,
                step=settings.walk_step,
            )
        actions = actions + exploration * noise
        if settings.clips_actions:
            actions = jnp.clip(actions, -1, 1)
        return actions, Playing(noise, memory)
