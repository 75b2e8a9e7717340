"""`make bench-decima-variance`: how much noise a baseline that knows the input takes out of the gradient.

The published environment (`load_balance.py`): two servers with rates 2 and 4, and the ten of its authors'
example; 1,000 jobs an episode. The policy is a network at three points of its training, which is imitation
of the quickest-server rule: fresh (random), the first that made half of the improvement (half trained), and
the last (trained). Each job sequence is played 16 times, as in Decima. The same rollouts are credited with

- the state-value baseline: the cost of the jobs present, which the state tells, plus the best linear fit of
  what is to come and a network on top, from 2,048 other sequences; its explained variance is a row;
- the same-sequence baseline as published: the mean of the other 15 rollouts at the same time
  (`learning/baselines.py`). It knows the input and not the state: a rollout that has fallen behind the others
  is measured against those that have not;
- the same-sequence baseline with the state (ours, `baseline = "same_sequence_value"`): that, and what the
  difference between this rollout's state and theirs is worth, fitted to differences between rollouts of one
  sequence, from as many other episodes as the state-value baseline (128 sequences, 16 rollouts of each);
- none.

Variance is the trace of the covariance matrix, at fixed parameters: of one rollout's gradient, the classical
measure, and of a batch's, the mean over whole sequences with all their rollouts, which training steps on (the
ratio does not depend on how many sequences). A part of both is there because sequences differ in where their
gradient points; it is the same for all baselines, and 16 rollouts shrink all but that. So the true ratio of a
batch is not below that of rollouts around their sequence's mean; where the measured one is, that is chance.

The bar, chosen before anything was measured: one rollout, two servers, half trained, all seeds pooled, at
most 1/5. The published form missed it on the first four seeds (0.29); that is why there is ours, which was
made on those four and is judged on four more as well. All else is told without a bar. Intervals come from
resampling job sequences. Sizes have no finite variance, so a few giant jobs decide every number here: the
rows for single seeds show how much.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import product
from multiprocessing import get_context
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from benchmarks.decima_settings import PROCESSES, finish_after, reported
from benchmarks.load_balance import (
    TEN_SERVERS,
    TWO_SERVERS,
    Input,
    Network,
    Played,
    costs_to_come,
    descended,
    draw_input,
    draw_luck,
    drawn_server,
    fresh_network,
    fresh_policy,
    imitated,
    in_parts,
    log_chances,
    optimiser,
    outputs,
    play,
)
from benchmarks.results import Row
from trimtab.core.randomness import split
from trimtab.core.statistics import Estimate, bootstrap
from trimtab.learning.baselines import others_at_same_time
from trimtab.learning.distributions import choice_log_prob

Numbers = NDArray[np.float64]

BAR = 0.2
SEEDS = {TWO_SERVERS: range(8), TEN_SERVERS: range(2)}
SEEN = 4
"""On so many seeds of two servers the baseline with the state was made."""
NAMES = {TWO_SERVERS: "two servers", TEN_SERVERS: "ten servers"}
POINTS = ("random", "half trained", "trained")
SAME, STATE, NONE = "same sequence", "state value", "none"
OURS = "same sequence with the state"
# Costs are in millions of seconds: an episode is then about 1, and single precision suffices.
UNIT_S = 1e6
DRAWS = 2000
_ROWS_A_STEP = 2048


@dataclass(frozen=True)
class Sizes:
    """How much is played; `fit_episodes` are those the values of states are learned from."""

    sequences: int = 128
    rollouts: int = 16
    jobs: int = 1000
    fit_episodes: int = 2048
    fit_epochs: int = 8
    rounds: int = 30
    round_episodes: int = 32


class Moments(NamedTuple):
    """What variances of gradients are computed from, for any choice of sequences.

    `square` [sequences] is the mean squared length of a rollout's gradient, `products` [sequences, sequences]
    are the inner products of the sequences' mean gradients.
    """

    square: Numbers
    products: Numbers

    def of_rollout(self, weights: Numbers) -> Numbers:
        return weights @ self.square - self._mean_square(weights)

    def of_batch(self, weights: Numbers) -> Numbers:
        """Of one sequence with all its rollouts; that of more is this over their number."""
        return weights @ np.diag(self.products) - self._mean_square(weights)

    def within(self, weights: Numbers, rollouts: int) -> Numbers:
        """Of a rollout's gradient around the mean of its sequence."""
        return weights @ (self.square - np.diag(self.products)) * rollouts / (rollouts - 1)

    def _mean_square(self, weights: Numbers) -> Numbers:
        return ((weights @ self.products) * weights).sum(axis=-1)


class Found(NamedTuple):
    """One policy: moments for each baseline, and how much of the return the state-value baseline explains."""

    moments: dict[str, Moments]
    explained: float


def policies(rates: tuple[float, ...], seed: int, sizes: Sizes) -> dict[str, Network]:
    """The policy at the three points of its training."""
    fresh = fresh_policy(jax.random.PRNGKey(np.uint32(split(seed, "policy") % 2**32)), len(rates))
    course = list(
        imitated(fresh, rates, seed=seed, rounds=sizes.rounds, episodes=sizes.round_episodes, jobs=sizes.jobs)
    )
    (first, worst), (last, best) = course[0], course[-1]
    half = next(network for network, cost in course if cost <= (worst + best) / 2)
    return dict(zip(POINTS, (first, half, last), strict=True))


def measure(rates: tuple[float, ...], seed: int, network: Network, sizes: Sizes) -> Found:
    """Play one policy, and take the moments of its gradients under every baseline."""
    blind, beside = (
        fitted_value(rates, split(seed, "fit"), network, sizes, rollouts=rollouts)
        for rollouts in (1, sizes.rollouts)
    )
    own = split(seed, "measure")
    given = draw_input(own, sequences=sizes.sequences, rollouts=sizes.rollouts, jobs=sizes.jobs)
    played = play(drawn_server, network, given, draw_luck(own, *given.size.shape), rates)
    cost, present = (part / UNIT_S for part in costs_to_come(given, played))
    seen = state_features(given, played)
    foretold, worth = present + blind(seen), present + beside(seen)
    times, valid = jnp.asarray(given.arrival_s, jnp.float32), jnp.ones(cost.shape, bool)

    def others(values: Numbers) -> Numbers:
        return np.asarray(_others(jnp.asarray(values, jnp.float32), times, valid, sizes.rollouts), np.float64)

    advantages = {
        SAME: others(cost) - cost,
        OURS: worth + others(cost - worth) - cost,
        STATE: foretold - cost,
        NONE: -cost,
    }
    moments = {
        name: gradient_moments(network, played, credit, sizes.rollouts) for name, credit in advantages.items()
    }
    return Found(moments, 1 - float(np.square(foretold - cost).mean() / cost.var()))


_others = jax.jit(others_at_same_time, static_argnums=3)


def state_features(given: Input, played: Played) -> NDArray[np.float32]:
    """All that the future depends on: work waiting, size, and how many jobs are still to come."""
    left = np.linspace(1, 0, len(given.size), endpoint=False)[:, None, None]
    waiting, seen = np.asarray(played.waiting_s) / 1e4, np.asarray(played.seen)
    left = np.broadcast_to(left, (*given.size.shape, 1))
    columns = (waiting, waiting * left, given.size[..., None] / 1e4, seen, seen * left, left, left**2)
    return np.concatenate(columns, axis=-1, dtype=np.float32)


def fitted_value(
    rates: tuple[float, ...], seed: int, network: Network, sizes: Sizes, *, rollouts: int
) -> Any:
    """Fit what jobs still to come will cost; from features [jobs, episodes, k] to [jobs, episodes].

    The best linear fit, and then a network on top of it by gradient steps, the last of them tiny. With
    several rollouts of each sequence it is fitted to how they differ from their mean.
    """
    sequences = sizes.fit_episodes // rollouts
    given = draw_input(seed, sequences=sequences, rollouts=rollouts, jobs=sizes.jobs)
    played = play(drawn_server, network, given, draw_luck(seed, *given.size.shape), rates)
    cost, present = costs_to_come(given, played)
    # Neighbouring decisions have nearly the same future: every eighth tells as much.
    rows = state_features(given, played)[::8].reshape(-1, rollouts, 4 * len(rates) + 5)
    target = _compared(((cost - present) / UNIT_S)[::8].reshape(-1, rollouts))
    middle, spread, scale = rows.mean(axis=(0, 1)), rows.std(axis=(0, 1)), target.std()

    def columns(rows: Any) -> Any:
        return jnp.concatenate([(rows - middle) / spread, jnp.ones((*rows.shape[:-1], 1))], axis=-1)

    known, wanted = np.asarray(columns(rows)), (target / scale).astype(np.float32)
    compared = _compared(known.astype(np.float64)).reshape(-1, known.shape[-1])
    linear = np.linalg.lstsq(compared, wanted.ravel(), rcond=None)[0]
    layers = fresh_network(jax.random.PRNGKey(seed % 2**31), (known.shape[-1], 32, 32, 1))
    layers[-1] = jax.tree.map(jnp.zeros_like, layers[-1])
    model: Any = (layers, jnp.asarray(linear, jnp.float32))
    state, generator = optimiser().init(model), np.random.default_rng(seed % 2**32)
    parts = max(wanted.size // _ROWS_A_STEP, 1)
    for number in range(sizes.fit_epochs):
        order = generator.permutation(len(wanted))[: len(wanted) // parts * parts]
        rows_in_parts = in_parts((known[order], wanted[order]), parts)
        model, state = descended(_error, model, state, rows_in_parts, 1e-3 * 0.5**number)
    return lambda features: np.asarray(_foretold(model, columns(features)), np.float64) * scale


def _compared(values: Any) -> Any:
    """Of [moments, rollouts, ...]: how each differs from its rollouts' mean; one alone stays as it is."""
    return values - values.mean(axis=1, keepdims=True) if values.shape[1] > 1 else values


def _foretold(model: Any, columns: jax.Array) -> jax.Array:
    layers, linear = model
    # A giant job must not throw the network out of where it learned; the linear part goes on.
    return outputs(layers, 3 * jnp.tanh(columns / 3))[..., 0] + columns @ linear


def _error(model: Any, columns: jax.Array, wanted: jax.Array) -> jax.Array:
    return jnp.square(_compared(_foretold(model, columns)) - wanted).mean()


@jax.jit
def _gradients(network: Network, seen: jax.Array, server: jax.Array, credit: jax.Array) -> jax.Array:
    """The policy gradient of every rollout by itself; [rollouts, parameters]."""

    def gain(network: Network, seen: jax.Array, server: jax.Array, credit: jax.Array) -> jax.Array:
        return jnp.sum(choice_log_prob(log_chances(network, seen), server) * credit)

    found = jax.vmap(jax.grad(gain), in_axes=(None, 1, 1, 1))(network, seen, server, credit)
    return jnp.concatenate([leaf.reshape(len(leaf), -1) for leaf in jax.tree.leaves(found)], axis=1)


def gradient_moments(
    network: Network, played: Played, advantages: Numbers, rollouts: int, sequences_at_once: int = 8
) -> Moments:
    """Moments of the policy gradient, given the advantages [jobs, episodes] of all decisions."""
    episodes = advantages.shape[1]
    squares, means = [], []
    for start in range(0, episodes, sequences_at_once * rollouts):
        some = slice(start, start + sequences_at_once * rollouts)
        credit = jnp.asarray(advantages[:, some], jnp.float32)
        gradients = np.asarray(
            _gradients(network, played.seen[:, some], played.server[:, some], credit), np.float64
        )
        by_sequence = gradients.reshape(-1, rollouts, gradients.shape[-1])
        squares.append(np.square(by_sequence).sum(axis=-1).mean(axis=1))
        means.append(by_sequence.mean(axis=1))
    mean = np.concatenate(means)
    return Moments(np.concatenate(squares), mean @ mean.T)


def pooled_ratio(above: Sequence[Any], below: Sequence[Any], sequences: int) -> Estimate:
    """Sum over seeds of one variance over that of another, both functions of the sequences' weights."""
    seeds = len(above)
    of_row = np.repeat(np.arange(seeds), sequences)

    def statistic(picks: Numbers) -> Numbers:
        draws, rows = picks.shape
        places = picks.astype(np.intp) + rows * np.arange(draws)[:, None]
        weights = np.bincount(places.ravel(), minlength=draws * rows).reshape(draws, seeds, -1) / sequences
        sums = (
            np.sum([one(weights[:, at]) for at, one in enumerate(side)], axis=0) for side in (above, below)
        )
        return np.divide(*sums)

    return bootstrap(statistic, np.arange(seeds * sequences), seed=0, strata=of_row, draws=DRAWS)


def ratio_of(found: Sequence[Found], kind: Any, above: str = SAME, below: str = STATE) -> Estimate:
    """Ratio of a kind of variance under two baselines; `kind` is a function of moments and weights."""
    upper, lower = ([partial(kind, one.moments[name]) for one in found] for name in (above, below))
    return pooled_ratio(upper, lower, len(found[0].moments[STATE].square))


def between_share(found: Sequence[Found], rollouts: int) -> Estimate:
    """How much of a batch's variance, with the state-value baseline, is there between sequences.

    That part is the same under both baselines; the quieter gradients tell it better.
    """

    def between(moments: Moments, weights: Numbers) -> Numbers:
        return moments.of_batch(weights) - moments.within(weights, rollouts) / rollouts

    upper = [partial(between, one.moments[SAME]) for one in found]
    lower = [partial(Moments.of_batch, one.moments[STATE]) for one in found]
    return pooled_ratio(upper, lower, len(found[0].moments[STATE].square))


def typical_ratio(found: Sequence[Found]) -> Estimate:
    """Median over sequences of how far rollouts spread around their mean, same-sequence over state-value."""
    spreads = {
        name: np.concatenate(
            [one.moments[name].square - np.diag(one.moments[name].products) for one in found]
        )
        for name in (SAME, STATE)
    }
    return bootstrap(partial(np.median, axis=-1), spreads[SAME] / spreads[STATE], seed=0, draws=DRAWS)


def rows_of(where: str, found: Sequence[Found], rollouts: int) -> list[Row]:
    """What is told of one set-up and point, without a bar."""
    share = f"same-sequence / state-value, {where}"
    within = partial(Moments.within, rollouts=rollouts)
    explained = float(np.mean([one.explained for one in found]))
    return [
        reported(f"{share}: one rollout", ratio_of(found, Moments.of_rollout)),
        reported(f"{share}: batch", ratio_of(found, Moments.of_batch)),
        reported(f"{share}: rollouts around their sequence's mean", ratio_of(found, within)),
        reported(f"{share}: the same, median over sequences", typical_ratio(found)),
        reported(
            f"same-sequence with the state / state-value, {where}: one rollout",
            ratio_of(found, Moments.of_rollout, OURS),
        ),
        reported(
            f"same-sequence with the state / state-value, {where}: batch",
            ratio_of(found, Moments.of_batch, OURS),
        ),
        reported(
            f"no baseline / state-value, {where}: one rollout", ratio_of(found, Moments.of_rollout, NONE)
        ),
        reported(
            f"state-value, {where}: share of a batch's variance between sequences",
            between_share(found, rollouts),
        ),
        reported(f"state-value, {where}: explained variance of returns", explained),
    ]


def measured(unit: tuple[tuple[float, ...], int], sizes: Sizes) -> dict[str, Found]:
    rates, seed = unit
    course = policies(rates, seed, sizes)
    return {point: measure(rates, seed, network, sizes) for point, network in course.items()}


def rows_of_all(found: Mapping[tuple[Any, int], Mapping[str, Found]], sizes: Sizes) -> list[Row]:
    rows = []
    for rates, point in product(SEEDS, POINTS):
        of_seeds = [one[point] for (at, _), one in found.items() if at == rates]
        rows += rows_of(f"{NAMES[rates]}, {point}", of_seeds, sizes.rollouts)
    judged = {seed: one["half trained"] for (rates, seed), one in found.items() if rates == TWO_SERVERS}
    where = "state-value, two servers, half trained: one rollout"
    rows += [
        reported(f"seed {seed}: {told} / {where}", ratio_of([one], Moments.of_rollout, name))
        for told, name in (("same-sequence", SAME), ("same-sequence with the state", OURS))
        for seed, one in judged.items()
    ]
    fresh = [one for seed, one in judged.items() if seed >= SEEN]
    if fresh:
        told = f"seeds from {SEEN}: same-sequence with the state / {where}"
        rows.append(reported(told, ratio_of(fresh, Moments.of_rollout, OURS)))
    ratio = ratio_of(list(judged.values()), Moments.of_rollout, OURS)
    name = (
        "same-sequence baseline with the state: variance of the gradient / state-value baseline's, "
        "two servers, half trained"
    )
    return [Row(name, ratio.value, f"<= {BAR:g}", ratio.value <= BAR, ratio.low, ratio.high), *rows]


def main() -> None:
    started = time.perf_counter()
    sizes = Sizes()
    units = [(rates, seed) for rates, seeds in SEEDS.items() for seed in seeds]
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        found = dict(zip(units, pool.map(partial(measured, sizes=sizes), units), strict=True))
    finish_after("decima-variance", rows_of_all(found, sizes), started)


if __name__ == "__main__":
    main()
