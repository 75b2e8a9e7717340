"""Load balancing with a heavy tail: the published example of an environment driven by its input.

Mao et al., "Variance reduction for reinforcement learning in input-driven environments" (ICLR 2019). Jobs
arrive at random, their sizes follow Pareto's law with infinite variance, and the policy sends each to one of
several servers of different speed, which serve in order of arrival. It sees the seconds of work that wait at
each server and the size of the job. What an episode costs is the seconds that jobs spend in the system:
mostly the work of the few giant jobs in it, not of the decisions.

Everything here is whole episodes at once, [jobs, episodes]; those of one job sequence lie side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numba
import numpy as np
from numpy.typing import NDArray

from trimtab.core.randomness import exponential, split, uniform
from trimtab.learning.distributions import allowed_log_probs, choice_log_prob
from trimtab.learning.passes import Optimiser, make_optimiser

Network: TypeAlias = list[dict[str, jax.Array]]
Choose: TypeAlias = Callable[[Any, jax.Array, jax.Array], jax.Array]
"""(parameters, seen [episodes, servers + 1], luck [episodes]) -> server [episodes]."""

# Mean size 300 every 55 s; the servers of either set-up do 6 units of work a second: busy 91 % of the time.
MEAN_GAP_S = 55.0
SIZE_SCALE, SIZE_SHAPE = 100.0, 1.5
TWO_SERVERS = (2.0, 4.0)
TEN_SERVERS = tuple(round(0.15 + 0.1 * server, 2) for server in range(10))
_WIDTH = 32
_LONGEST_GRADIENT = 10.0
_PARTS = 16


class Input(NamedTuple):
    """What comes from outside, the same whatever the policy does; [jobs, episodes]."""

    gap_s: NDArray[np.float32]
    size: NDArray[np.float32]

    @property
    def arrival_s(self) -> NDArray[np.float64]:
        return np.cumsum(self.gap_s, axis=0, dtype=np.float64)


class Played(NamedTuple):
    """Episodes; `waiting_s` [jobs, episodes, servers] is the work that a job found, in seconds."""

    seen: jax.Array
    waiting_s: jax.Array
    server: jax.Array
    sojourn_s: jax.Array


def draw_input(seed: int, *, sequences: int, rollouts: int, jobs: int) -> Input:
    """Job sequences, each repeated for its rollouts; the first job arrives at time 0."""
    job, sequence = np.arange(jobs)[:, None], np.arange(sequences)[None, :]
    gap_s = exponential(split(seed, "gap"), sequence, job, mean=MEAN_GAP_S)
    gap_s[0] = 0.0
    size = SIZE_SCALE * (1 - uniform(split(seed, "size"), sequence, job)) ** (-1 / SIZE_SHAPE)
    return Input(*(np.repeat(part, rollouts, axis=1).astype(np.float32) for part in (gap_s, size)))


def draw_luck(seed: int, jobs: int, episodes: int) -> NDArray[np.float32]:
    """A number from [0, 1) for every decision."""
    drawn = uniform(split(seed, "luck"), np.arange(jobs)[:, None], np.arange(episodes)[None, :])
    return drawn.astype(np.float32)


@partial(jax.jit, static_argnums=(0, 4))
def play(choose: Choose, parameters: Any, given: Input, luck: Any, rates: tuple[float, ...]) -> Played:
    """Play whole episodes from empty servers."""
    rate = jnp.array(rates)

    def decide(waiting_s: jax.Array, now: tuple[Any, ...]) -> tuple[jax.Array, Played]:
        gap_s, size, lucky = now
        found_s = jnp.maximum(waiting_s - gap_s[:, None], 0)
        seen = jnp.concatenate([jnp.log1p(found_s / 100), jnp.log(size / SIZE_SCALE)[:, None]], axis=1)
        server = choose(parameters, seen, lucky)
        here = jax.nn.one_hot(server, len(rates))
        left_s = found_s + here * (size[:, None] / rate)
        return left_s, Played(seen, found_s, server, (here * left_s).sum(axis=1))

    nothing = jnp.zeros((given.size.shape[1], len(rates)))
    return jax.lax.scan(decide, nothing, (given.gap_s, given.size, luck))[1]


def quickest_server(played: Played, given: Input, rates: tuple[float, ...]) -> jax.Array:
    """The rule that sends each job to where it is done first."""
    return jnp.argmin(played.waiting_s + given.size[..., None] / jnp.array(rates), axis=-1)


def costs_to_come(given: Input, played: Played) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Seconds to be spent in the system from each arrival on, and the part due to jobs that came before.

    The second is known from the state; both are [jobs, episodes].
    """
    arrival_s = given.arrival_s
    sojourn_s = np.asarray(played.sojourn_s, np.float64)
    present = _present_s(arrival_s.T.copy(), (arrival_s + sojourn_s).T.copy()).T
    return np.cumsum(sojourn_s[::-1], axis=0)[::-1] + present, present


@numba.njit
def _present_s(arrival_s: NDArray[np.float64], done_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """Seconds that the jobs already there will still stay, at each arrival; [episodes, jobs]."""
    episodes, jobs = arrival_s.shape
    found = np.zeros((episodes, jobs))
    for episode in range(episodes):
        for job in range(jobs):
            now, total = arrival_s[episode, job], 0.0
            for earlier in range(job):
                total += max(done_s[episode, earlier] - now, 0.0)
            found[episode, job] = total
    return found


def fresh_network(key: jax.Array, sizes: tuple[int, ...]) -> Network:
    """Weights as Glorot draws them, no biases."""
    keys = jax.random.split(key, len(sizes) - 1)
    return [
        {"weight": jax.random.normal(one, (a, b)) * (2 / (a + b)) ** 0.5, "bias": jnp.zeros(b)}
        for one, a, b in zip(keys, sizes[:-1], sizes[1:], strict=True)
    ]


def outputs(network: Network, seen: jax.Array) -> jax.Array:
    *hidden, last = network
    for layer in hidden:
        seen = jnp.tanh(seen @ layer["weight"] + layer["bias"])
    return seen @ last["weight"] + last["bias"]


def fresh_policy(key: jax.Array, servers: int) -> Network:
    """Two hidden layers; its choices are near random."""
    return fresh_network(key, (servers + 1, _WIDTH, _WIDTH, servers))


def log_chances(network: Network, seen: jax.Array) -> jax.Array:
    scores = outputs(network, seen)
    return allowed_log_probs(scores, jnp.ones_like(scores, dtype=bool))


def drawn_server(network: Network, seen: jax.Array, luck: jax.Array) -> jax.Array:
    """Draw a server by the policy's chances."""
    below = jnp.cumsum(jnp.exp(log_chances(network, seen)), axis=-1) <= luck[:, None]
    return jnp.minimum(below.sum(axis=-1), seen.shape[-1] - 2)


def imitated(
    network: Network,
    rates: tuple[float, ...],
    *,
    seed: int,
    rounds: int,
    episodes: int,
    jobs: int,
    learning_rate: float = 1e-3,
) -> Iterator[tuple[Network, float]]:
    """Teach a policy the quickest server on states of its own play.

    Each round's policy comes with what it cost: mean seconds of a job in the system, on the same jobs always.
    """
    given = draw_input(split(seed, "imitation"), sequences=episodes, rollouts=1, jobs=jobs)
    state = optimiser().init(network)
    for number in range(rounds):
        luck = draw_luck(split(seed, "imitation", number), jobs, episodes)
        played = play(drawn_server, network, given, luck, rates)
        yield network, float(played.sojourn_s.mean())
        best = quickest_server(played, given, rates).ravel()
        rows = played.seen.reshape(best.size, -1), best
        network, state = descended(_imitation_loss, network, state, in_parts(rows, _PARTS), learning_rate)


def _imitation_loss(network: Network, seen: jax.Array, best: jax.Array) -> jax.Array:
    return -choice_log_prob(log_chances(network, seen), best).mean()


def optimiser() -> Optimiser:
    return make_optimiser(_LONGEST_GRADIENT)


def in_parts(rows: Any, parts: int) -> Any:
    """Deal rows out like cards, so that every part has decisions of all times."""
    return jax.tree.map(lambda leaf: jnp.moveaxis(leaf.reshape(-1, parts, *leaf.shape[1:]), 1, 0), rows)


@partial(jax.jit, static_argnums=0)
def descended(
    loss: Callable[..., jax.Array], model: Any, state: Any, parts: Any, rate: Any
) -> tuple[Any, Any]:
    """One step of Adam on each part."""

    def step(carry: tuple[Any, Any], rows: Any) -> tuple[tuple[Any, Any], None]:
        change, state = optimiser().update(jax.grad(loss)(carry[0], *rows), carry[1], rate)
        return (jax.tree.map(jnp.add, carry[0], change), state), None

    return jax.lax.scan(step, (model, state), parts)[0]
