"""One iteration's learning, compiled as a whole: credit, then gradient steps."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from trimtab.core.errors import SettingsError
from trimtab.core.randomness import split
from trimtab.learning.advantages import (
    AverageRate,
    Credit,
    ReturnSpread,
    differential_rewards,
    update_average_rate,
    update_return_spread,
)
from trimtab.learning.agent import Agent, Parameters
from trimtab.learning.baselines import (
    Baseline,
    critic_baseline,
    foreseen_baseline,
    no_baseline,
    same_sequence_baseline,
)
from trimtab.learning.imitation import imitation_loss
from trimtab.learning.natural import natural_step
from trimtab.learning.passes import Metrics, gradient_passes, make_optimiser, summed_step, weighted_mean
from trimtab.learning.ppo import Experience, Weights, experience_rows, ppo_loss, rows_that_count
from trimtab.learning.reinforce import reinforce_loss
from trimtab.learning.rollouts import Rollout
from trimtab.learning.settings import BaselineName, Schedule, TrainingSettings
from trimtab.learning.value_networks import (
    meta_baseline,
    multi_value_baseline,
    same_sequence_value_baseline,
    state_value_baseline,
    summary_size,
)
from trimtab.learning.weighing import weighing_loss

__all__ = ["LearnerState", "Update", "begin", "imitation_update", "make_baseline", "make_update", "rescaled"]


class LearnerState(NamedTuple):
    """Everything that learning changes."""

    parameters: Parameters
    average: Parameters
    """Averaged over iterations, without the noise of the last steps: what is scored and kept."""
    optimiser: Any
    rate: AverageRate
    spread: ReturnSpread
    baseline: Any


Update: TypeAlias = Callable[[LearnerState, Rollout, jax.Array, Schedule], tuple[LearnerState, Metrics]]
"""(state, rollout, key, schedule) -> (state, metrics). The state passed in is used up."""


def begin(agent: Agent, settings: TrainingSettings, baseline: Baseline, environments: int) -> LearnerState:
    """Draw the first parameters; compiled, since drawing them one by one takes long."""

    def drawn(key: jax.Array) -> LearnerState:
        agent_key, baseline_key = jax.random.split(key)
        parameters = agent.init(agent_key)
        return LearnerState(
            parameters,
            parameters,
            make_optimiser(settings.gradient_norm).init(parameters),
            AverageRate.unknown(),
            ReturnSpread.unknown(environments),
            baseline.init(baseline_key),
        )

    state = jax.jit(drawn)(jax.random.PRNGKey(np.uint32(split(settings.seed, "parameters") % 2**32)))
    # An update uses up its state buffer by buffer: no two leaves may share one.
    return jax.tree.map(lambda leaf: jnp.array(leaf, copy=True), state)


def rescaled(
    state: LearnerState, rollout: Rollout, settings: TrainingSettings
) -> tuple[LearnerState, Rollout]:
    """Bring rewards into the form that is learned from, updating the running statistics first."""
    counts = jnp.asarray(rollout.valid)
    rewards = jnp.where(counts, rollout.rewards, 0.0)
    elapsed_s = jnp.where(counts, rollout.elapsed_s, 0.0)
    ended = jnp.asarray(rollout.ended)
    rate, spread = state.rate, state.spread
    if settings.differential:
        rate = update_average_rate(rate, rewards, elapsed_s, window=settings.average_over)
        rewards = differential_rewards(rewards, elapsed_s, rate)
    if settings.scale_rewards:
        # Steps of whole episodes that do not count are sums of 0 here, so the spread comes out about a tenth
        # too large; advantages are brought to deviation 1 afterwards.
        spread = update_return_spread(spread, rewards, elapsed_s, ended, discount_s=settings.discount_time_s)
        rewards = rewards / spread.deviation
    if rollout.beyond is not None:
        # An episode that was merely cut short is no end: its last step is valued like any other.
        rewards = rewards + jnp.exp(-elapsed_s / settings.discount_time_s) * rollout.beyond
    scaled = rollout._replace(rewards=rewards, elapsed_s=elapsed_s)  # pyright: ignore[reportArgumentType]
    return state._replace(rate=rate, spread=spread), scaled


def make_baseline(
    agent: Agent, settings: TrainingSettings, observation: Mapping[str, Any], *, rollouts: int
) -> Baseline:
    """Build the baseline that the settings name; `observation` is any, for its shapes."""
    name, discount_s = settings.baseline, settings.discount_time_s
    _refuse_baseline(name, agent, observation, rollouts)
    if name == "critic":
        return critic_baseline(discount_s=discount_s, smoothing=settings.smoothing)
    if name == "foreseen":
        return foreseen_baseline(discount_s=discount_s, smoothing=settings.smoothing)
    if name == "none":
        return no_baseline(discount_s=discount_s)
    if name == "same_sequence":
        return same_sequence_baseline(rollouts=rollouts, discount_s=discount_s)
    features = summary_size(agent, observation)
    if name == "state_value":
        return state_value_baseline(agent, settings, features=features)
    if name == "same_sequence_value":
        return same_sequence_value_baseline(agent, settings, rollouts=rollouts, features=features)
    if name == "multi_value":
        return multi_value_baseline(agent, settings, features=features)
    return meta_baseline(agent, settings, rollouts=rollouts, features=features)


def _refuse_baseline(name: BaselineName, agent: Agent, observation: Mapping[str, Any], rollouts: int) -> None:
    if name in ("same_sequence", "same_sequence_value", "meta") and rollouts < 2:
        raise SettingsError(
            f"baseline = {name} compares rollouts of one workload, and every workload is played once; "
            "give the task at least 2 rollouts each"
        )
    if name == "meta" and rollouts % 2:
        raise SettingsError(
            f"baseline = meta learns from one half of the rollouts for the other, and {rollouts} is odd; "
            "give the task an even number of rollouts"
        )
    if name in ("state_value", "same_sequence_value", "multi_value", "meta") and agent.summary is None:
        raise SettingsError(
            f"baseline = {name} needs an agent that offers a summary of its observations; choose another"
        )
    if name == "multi_value" and "sequence" not in observation:
        raise SettingsError(
            "baseline = multi_value needs observations that name their workload (sequence); choose another"
        )


def make_update(agent: Agent, settings: TrainingSettings, baseline: Baseline) -> Update:
    """Compile an iteration of the algorithm that the settings name."""
    learn = {
        "ppo": _clipped_passes,
        "reinforce": _one_step,
        "natural": _natural_step,
        "weighing": _weighing_passes,
    }[settings.algorithm]

    def update(
        state: LearnerState,
        rollout: Rollout,
        kept: jax.Array | None,
        key: jax.Array,
        learning_rate: jax.Array,
        weights: Weights,
        averaging: jax.Array,
    ) -> tuple[LearnerState, Metrics]:
        state, rollout = rescaled(state, rollout, settings)
        credit, baseline_state, baseline_metrics = baseline.credit(state.baseline, state.parameters, rollout)
        rows = experience_rows(
            rollout,
            credit,
            kept=kept,
            multiple_of=settings.minibatches,
            normalised=settings.normalise_advantages,
            largest_advantage=settings.advantage_clip,
        )
        parameters, optimiser, metrics = learn(agent, settings, state, rows, key, learning_rate, weights)
        state = _moved(state, parameters, averaging)._replace(optimiser=optimiser, baseline=baseline_state)
        return state, {**metrics, **baseline_metrics, **_summary(state, rollout, credit)}

    compiled = jax.jit(update, donate_argnums=0)

    def scheduled(
        state: LearnerState, rollout: Rollout, key: jax.Array, schedule: Schedule
    ) -> tuple[LearnerState, Metrics]:
        weights = Weights(np.float32(schedule.entropy), np.float32(schedule.anchor))
        rate, averaging = np.float32(schedule.learning_rate), np.float32(schedule.averaging)
        kept = rows_that_count(np.asarray(rollout.valid))
        return compiled(state, rollout, kept, key, rate, weights, averaging)

    return scheduled


def _moved(state: LearnerState, parameters: Parameters, averaging: jax.Array) -> LearnerState:
    """The state with new parameters; their average keeps a share of what it was."""

    def drawn_on(average: jax.Array, new: jax.Array) -> jax.Array:
        return new + averaging * (average - new)

    return state._replace(parameters=parameters, average=jax.tree.map(drawn_on, state.average, parameters))


def _clipped_passes(
    agent: Agent,
    settings: TrainingSettings,
    state: LearnerState,
    rows: Experience,
    key: jax.Array,
    learning_rate: jax.Array,
    weights: Weights,
) -> tuple[Parameters, Any, Metrics]:
    loss = ppo_loss(
        agent,
        weights,
        clip=settings.clip,
        value_weight=_critic_weight(settings),
        value_clip=settings.value_clip,
        anchored=settings.anchor > 0,
    )
    return gradient_passes(
        loss,
        make_optimiser(settings.gradient_norm),
        state.parameters,
        state.optimiser,
        rows,
        key,
        learning_rate=learning_rate,
        epochs=settings.epochs,
        minibatches=settings.minibatches,
        largest_kl=settings.target_kl,
    )


def _weighing_passes(
    agent: Agent,
    settings: TrainingSettings,
    state: LearnerState,
    rows: Experience,
    key: jax.Array,
    learning_rate: jax.Array,
    weights: Weights,
) -> tuple[Parameters, Any, Metrics]:
    return gradient_passes(
        weighing_loss(agent, weights),
        make_optimiser(settings.gradient_norm),
        state.parameters,
        state.optimiser,
        rows,
        key,
        learning_rate=learning_rate,
        epochs=settings.epochs,
        minibatches=settings.minibatches,
    )


def _one_step(
    agent: Agent,
    settings: TrainingSettings,
    state: LearnerState,
    rows: Experience,
    key: jax.Array,
    learning_rate: jax.Array,
    weights: Weights,
) -> tuple[Parameters, Any, Metrics]:
    return summed_step(
        reinforce_loss(agent, weights, value_weight=_critic_weight(settings)),
        make_optimiser(settings.gradient_norm),
        state.parameters,
        state.optimiser,
        rows,
        rows.weight,
        learning_rate=learning_rate,
        parts=settings.minibatches,
    )


def _natural_step(
    agent: Agent,
    settings: TrainingSettings,
    state: LearnerState,
    rows: Experience,
    key: jax.Array,
    learning_rate: jax.Array,
    weights: Weights,
) -> tuple[Parameters, Any, Metrics]:
    return natural_step(
        reinforce_loss(agent, weights, value_weight=0.0),
        agent,
        make_optimiser(settings.gradient_norm),
        state.parameters,
        state.optimiser,
        rows,
        key,
        length=learning_rate,
        parts=settings.minibatches,
        scored=settings.scored,
        damping=settings.damping,
    )


def _critic_weight(settings: TrainingSettings) -> float:
    """The agent's value head is trained only where it is the baseline."""
    return settings.value_weight if settings.baseline == "critic" else 0.0


def imitation_update(agent: Agent, settings: TrainingSettings) -> Update:
    """Compile an iteration of copying the teacher."""
    critic = critic_baseline(discount_s=settings.discount_time_s, smoothing=settings.smoothing)

    def update(
        state: LearnerState, rollout: Rollout, key: jax.Array, learning_rate: jax.Array
    ) -> tuple[LearnerState, Metrics]:
        state, rollout = rescaled(state, rollout, settings)
        credit, _, _ = critic.credit((), state.parameters, rollout)
        parameters, optimiser, metrics = gradient_passes(
            imitation_loss(agent, value_weight=settings.value_weight),
            make_optimiser(settings.gradient_norm),
            state.parameters,
            state.optimiser,
            experience_rows(rollout, credit, multiple_of=settings.minibatches, normalised=False),
            key,
            learning_rate=learning_rate,
            epochs=settings.epochs,
            minibatches=settings.minibatches,
        )
        state = _moved(state, parameters, jnp.zeros(()))._replace(optimiser=optimiser)
        return state, {**metrics, **_summary(state, rollout, credit)}

    compiled = jax.jit(update, donate_argnums=0)

    def scheduled(
        state: LearnerState, rollout: Rollout, key: jax.Array, schedule: Schedule
    ) -> tuple[LearnerState, Metrics]:
        return compiled(state, rollout, key, np.float32(schedule.learning_rate))

    return scheduled


def _summary(state: LearnerState, rollout: Rollout, credit: Credit) -> Metrics:
    weights = jnp.asarray(rollout.valid, jnp.float32)

    def variance(values: jax.Array) -> jax.Array:
        return weighted_mean(jnp.square(values - weighted_mean(values, weights)), weights)

    return {
        "explained_variance": 1 - variance(credit.advantages) / jnp.maximum(variance(credit.targets), 1e-12),
        "reward_scale": state.spread.deviation,
    }
