"""`make bench-load-balance`: how much noise each baseline takes out of the policy gradient.

The example of Mao et al., "Variance reduction for reinforcement learning in input-driven
environments" (ICLR 2019): jobs of heavy-tailed size arrive at random and are sent to one of two
servers, each of which serves one job at a time in order of arrival. What an episode costs is mostly
the work of the few giant jobs in it, not of the decisions. The policy is fixed: it leans to the
shorter queue. Measured is how far the gradients of single rollouts spread, relative to a state-value
baseline. The paper reports about 50 times less with a baseline that knows the input; the bar is 5.

It takes a policy under which queues drain now and then: where they only grow, rollouts of one
workload drift apart for good, and there is little left for them to have in common.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from benchmarks.results import Row, finish
from trimtab.core.environment import BatchOutcome
from trimtab.core.randomness import exponential, integers, split, uniform
from trimtab.core.statistics import Estimate, paired_ratio
from trimtab.learning.agent import Acted, Agent, Judged, Observation, Parameters
from trimtab.learning.distributions import (
    allowed_log_probs,
    choice_entropy,
    choice_log_prob,
    likeliest_choice,
    sample_choice,
)
from trimtab.learning.learner import make_baseline
from trimtab.learning.rollouts import Rollout, collect, compiled
from trimtab.learning.settings import BaselineName, TrainingSettings

MEAN_GAP_S = 55.0
SIZE_SCALE, SIZE_SHAPE = 100.0, 1.5
# Mean size 300 every 55 s is 5.45 units of work a second: the servers are busy 91 % of the time.
RATES = np.array([3.0, 3.0])
# Heavy tails: single batches give ratios from 0.03 to 0.35, so several are pooled.
SEEDS = range(5)
WARM_UP = 60


class LoadBalance:
    """Two servers, `jobs` arrivals an episode; the reward is minus the seconds jobs spend in the system.

    With `sequences`, every episode replays one of that many fixed workloads.
    """

    def __init__(self, size: int, rollouts: int, jobs: int, sequences: int | None = None) -> None:
        self.size, self.rollouts, self.jobs = size, rollouts, jobs
        self._sequences = sequences
        self._group = np.arange(size) // rollouts
        self._rows = np.arange(size)

    def reset(self, seed: int, mean_episode_s: float, *, imitating: bool = False) -> None:
        self._seed, self._mean_episode_s = seed, mean_episode_s
        # Fixed workloads must not depend on the seed of the run.
        workloads = seed if self._sequences is None else 0
        self._gap_seed, self._size_seed = split(workloads, "gap"), split(workloads, "size")
        self._episode = np.zeros(self.size, dtype=np.int64)
        self._number = np.zeros(self.size, dtype=np.int64)
        self._now = np.zeros(self.size)
        self._free_at = np.zeros((self.size, len(RATES)))
        self._done_at = np.zeros((self.size, self.jobs))
        self._sequence = np.zeros(self.size, dtype=np.int64)
        self._limit = np.zeros(self.size)
        self._begin(np.ones(self.size, dtype=bool))

    def observe(self) -> dict[str, NDArray[Any]]:
        size, waiting = self._size(), np.maximum(self._free_at - self._now[:, None], 0)
        finish = waiting + size[:, None] / RATES
        features = [np.log(size / SIZE_SCALE)[:, None], np.log1p(waiting / 100), np.ones((self.size, 1))]
        return {
            "features": np.concatenate(features, axis=1).astype(np.float32),
            "teacher": finish.argmin(axis=1).astype(np.int32)[:, None],
            "time_s": self._now.astype(np.float32),
            "sequence": self._sequence.astype(np.int32),
        }

    def step(self, actions: NDArray[Any]) -> BatchOutcome:
        server = actions[:, 0]
        begins = np.maximum(self._now, self._free_at[self._rows, server])
        done = begins + self._size() / RATES[server]
        self._free_at[self._rows, server] = done
        self._done_at[self._rows, self._number] = done
        arrival = self._now + exponential(self._gap_seed, self._sequence, self._number, mean=MEAN_GAP_S)
        ended = (self._number + 1 == self.jobs) | (arrival > self._limit)
        until = np.where(ended, np.minimum(self._limit, self._done_at.max(axis=1)), arrival)
        until = np.maximum(until, self._now)
        present = np.minimum(self._done_at, until[:, None]) - self._now[:, None]
        cost = np.maximum(present, 0).sum(axis=1)
        elapsed = until - self._now
        self._number += 1
        self._now = arrival
        self._begin(ended)
        return BatchOutcome((-cost).astype(np.float32), elapsed.astype(np.float32), ended)

    def _begin(self, where: NDArray[np.bool_]) -> None:
        """Start the next episode in some environments; the first job arrives at time 0."""
        self._episode += where
        self._number[where], self._now[where] = 0, 0.0
        self._free_at[where], self._done_at[where] = 0.0, 0.0
        groups = self._group.max() + 1
        drawn = self._episode * groups + self._group
        if self._sequences is not None:
            drawn = integers(split(self._seed, "sequence"), self._group, self._episode, high=self._sequences)
        self._sequence = np.where(where, drawn, self._sequence)
        limit = np.full(self.size, np.inf)
        if np.isfinite(self._mean_episode_s):
            limit = exponential(
                split(self._seed, "limit"), self._group, self._episode, mean=self._mean_episode_s
            )
        self._limit = np.where(where, limit, self._limit)

    def _size(self) -> NDArray[np.float64]:
        luck = uniform(self._size_seed, self._sequence, self._number)
        return SIZE_SCALE * (1 - luck) ** (-1 / SIZE_SHAPE)


def queue_watcher() -> Agent:
    """A policy whose preferences are linear in what is seen; at first it leans to the shorter queue."""

    def init(key: jax.Array) -> Parameters:
        weight = jnp.zeros((4, 2)).at[1, 0].set(-1.0).at[2, 1].set(-1.0)
        return {"weight": weight, "value": jnp.zeros(4)}

    def chances(parameters: Parameters, observation: Observation) -> jax.Array:
        logits = observation["features"] @ parameters["weight"]
        return allowed_log_probs(logits, jnp.ones_like(logits, dtype=bool))

    def value(parameters: Parameters, observation: Observation) -> jax.Array:
        return observation["features"] @ parameters["value"]

    def act(parameters: Parameters, observation: Observation, key: jax.Array) -> Acted:
        log_probs = chances(parameters, observation)
        action = sample_choice(key, log_probs)
        return Acted(action[:, None], choice_log_prob(log_probs, action), value(parameters, observation))

    def judge(parameters: Parameters, observation: Observation, action: jax.Array) -> Judged:
        log_probs = chances(parameters, observation)
        taken = choice_log_prob(log_probs, action[:, 0])
        return Judged(taken, choice_entropy(log_probs), value(parameters, observation))

    return Agent(
        init,
        act,
        judge,
        best=lambda parameters, observation: likeliest_choice(chances(parameters, observation))[:, None],
        summary=lambda parameters, observation: observation["features"],
    )


def rollout_gradients(agent: Agent, parameters: Parameters, rollout: Rollout, advantages: Any) -> jax.Array:
    """The policy gradient of every rollout by itself; [envs, parameters]."""

    def gain(parameters: Parameters, observation: Observation, action: jax.Array, credit: jax.Array) -> Any:
        return jnp.sum(agent.judge(parameters, observation, action).log_prob * credit)

    weighed = jnp.where(rollout.valid, advantages, 0.0)
    by_rollout = jax.vmap(jax.grad(gain), in_axes=(None, 1, 1, 1))
    gradients = by_rollout(parameters, rollout.observation, rollout.action, weighed)
    return gradients["weight"].reshape(len(weighed[0]), -1)


def gradient_variance(
    baseline: BaselineName,
    *,
    groups: int,
    rollouts: int,
    jobs: int,
    warm_up: int = 0,
    sequences: int | None = None,
    seed: int = 0,
) -> float:
    """Total variance of single-rollout gradients at a fixed policy; rewards are in millions of seconds.

    Value networks learn from `warm_up` batches first. All baselines are measured on one and the same
    batch, which none of them learned from.
    """
    settings = TrainingSettings(
        baseline=baseline, reset_every=1, baseline_learning_rate=0.01, sequences=sequences or 1
    )
    field = LoadBalance(groups * rollouts, rollouts, jobs, sequences)
    agent = queue_watcher()
    parameters = agent.init(jax.random.PRNGKey(seed))
    act = compiled(agent.act)
    field.reset(seed, np.inf)
    chosen = make_baseline(agent, settings, field.observe(), rollouts=rollouts)
    credit_of = jax.jit(chosen.credit)
    state = jax.jit(chosen.init)(jax.random.PRNGKey(seed + 1))

    def played(batch: int) -> Rollout:
        field.reset(split(seed, "batch", batch), np.inf)
        key = jax.random.PRNGKey(batch)
        rollout = collect([field], act, parameters, key, jobs, whole_episodes=True)
        return rollout._replace(rewards=rollout.rewards / np.float32(1e6))

    for batch in range(warm_up, 0, -1):
        _, state, _ = credit_of(state, parameters, played(batch))
    rollout = played(0)
    credit, _, _ = credit_of(state, parameters, rollout)
    gradients = jax.jit(rollout_gradients, static_argnums=0)(agent, parameters, rollout, credit.advantages)
    return float(jnp.var(gradients, axis=0).sum())


def over_state_value(baseline: BaselineName, *, warm_up: int, sequences: int | None = None) -> Estimate:
    """Mean variance over the state-value baseline's, on the same workloads, with its interval."""
    sizes = {"groups": 32, "rollouts": 8, "jobs": 100, "sequences": sequences}
    found = [gradient_variance(baseline, **sizes, warm_up=warm_up, seed=seed) for seed in SEEDS]
    blind = [gradient_variance("state_value", **sizes, warm_up=WARM_UP, seed=seed) for seed in SEEDS]
    return paired_ratio(found, blind, seed=0)


def main() -> None:
    ratios = {
        "same_sequence": (over_state_value("same_sequence", warm_up=0), 0.2),
        "meta": (over_state_value("meta", warm_up=WARM_UP), 1.0),
        "multi_value, ten workloads": (over_state_value("multi_value", warm_up=WARM_UP, sequences=10), 1.0),
    }
    rows = [
        Row(f"{name}: variance over state_value's", e.value, f"<= {bar:g}", e.value <= bar, e.low, e.high)
        for name, (e, bar) in ratios.items()
    ]
    finish("load-balance", rows)


if __name__ == "__main__":
    main()
