"""The networks of DAS as an agent that `trimtab.learning` can train: sample, judge, choose the best.

Order and placement are two agents with one value: `log_prob` and `entropy` are [batch, 2].

**choices**: the action is a job (or, after the last row, to hold) and a ranking of all machines, drawn one
after the other in proportion to exp of their scores, among those with room (Plackett and Luce; adding Gumbel
noise and sorting does just that). Its log-probability counts the machines the gang needs: places until the
room of those before adds up to the whole gang. As its entropy that of the first pick is taken.

**scores**: the action is a number for every job and for every machine of every job. Log-probabilities are
densities of all jobs that wait, and of their rows over all machines that are there; numbers of no job or no
machine are lower than all others.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp

from trimtab.gpu_scheduling.das.design import Design
from trimtab.gpu_scheduling.das.network import (
    Known,
    deviation_of,
    encode,
    new_network,
    order_scores,
    place_scores,
    summary,
    value,
)
from trimtab.gpu_scheduling.das.places import ENOUGH
from trimtab.gpu_scheduling.das.view import PAIR_FACTS, View
from trimtab.learning.agent import Acted, Agent, Judged
from trimtab.learning.distributions import (
    allowed_log_probs,
    choice_entropy,
    choice_log_prob,
    likeliest_choice,
    sample_choice,
)
from trimtab.networks.node_gaussian_process import MachineGaussian, draw, entropy, log_probability

__all__ = ["das_agent", "lone_cholesky", "lone_solve", "ranking_log_prob"]

NEVER = -1e9
_HALF_LOG_TWO_PI = 0.9189385332046727
_ROOM = PAIR_FACTS.index("room")


def das_agent(design: Design, *, seed: int = 0, start: Any = None) -> Agent:
    """An agent whose observations are the fields of a `View`, whatever else is among them.

    `start` holds parts of the parameters to begin from, such as those of a bundle (which has no critic).
    """
    kind = _Scores(design) if design.actions == "scores" else _Choices(design)

    def drawn(key: jax.Array) -> Any:
        return jax.tree.map(jnp.asarray, new_network(design, seed) | (start or {}))

    def act(parameters: Any, observation: dict[str, jax.Array], key: jax.Array) -> Acted:
        with _exactly():
            view = _view(observation)
            known = encode(parameters, view, design, jnp)
            action, log_prob = kind.act(parameters, view, known, key)
            return Acted(action, log_prob, value(parameters, view, jnp))

    def judge(parameters: Any, observation: dict[str, jax.Array], action: jax.Array) -> Judged:
        with _exactly():
            view = _view(observation)
            known = encode(parameters, view, design, jnp)
            log_prob, undecided = kind.judge(parameters, view, known, action)
            return Judged(log_prob, undecided, value(parameters, view, jnp))

    def best(parameters: Any, observation: dict[str, jax.Array]) -> jax.Array:
        with _exactly():
            view = _view(observation)
            return kind.best(parameters, view, encode(parameters, view, design, jnp))

    def summarised(parameters: Any, observation: dict[str, jax.Array]) -> jax.Array:
        return summary(_view(observation), jnp)

    return Agent(init=drawn, act=act, judge=judge, best=best, summary=summarised, doubting=kind.doubting)


class _Choices:
    """One job at a time, or to hold; then a ranking of machines."""

    def __init__(self, design: Design) -> None:
        self.design = design

    def act(self, parameters: Any, view: View, known: Known, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        first, second = jax.random.split(key)
        jobs = self._jobs(parameters, view, known)
        choice = sample_choice(first, jobs)
        scores, room = self._machines(parameters, view, known, choice)
        luck = jax.random.gumbel(second, scores.shape, scores.dtype)
        ranking = _ranked(jnp.where(room > 0, scores + luck, NEVER))
        ranked = jnp.where(self._starts(view, choice), ranking_log_prob(scores, room, ranking), 0.0)
        return _joined(choice, ranking), jnp.stack([choice_log_prob(jobs, choice), ranked], axis=-1)

    def judge(
        self, parameters: Any, view: View, known: Known, action: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        choice, ranking = action[:, 0], action[:, 1:]
        jobs = self._jobs(parameters, view, known)
        scores, room = self._machines(parameters, view, known, choice)
        starts = self._starts(view, choice)
        ranked = jnp.where(starts, ranking_log_prob(scores, room, ranking), 0.0)
        first_pick = choice_entropy(allowed_log_probs(scores, room > 0))
        log_prob = jnp.stack([choice_log_prob(jobs, choice), ranked], axis=-1)
        return log_prob, jnp.stack([choice_entropy(jobs), jnp.where(starts, first_pick, 0.0)], axis=-1)

    def best(self, parameters: Any, view: View, known: Known) -> jax.Array:
        choice = likeliest_choice(self._jobs(parameters, view, known))
        scores, room = self._machines(parameters, view, known, choice)
        return _joined(choice, _ranked(jnp.where(room > 0, scores, NEVER)))

    def doubting(self, parameters: Any, factor: float) -> Any:
        """Flatter scores of jobs, of holding and of machines."""
        actor = dict(parameters["actor"])
        for head in ("order", "hold"):
            actor[head] = [*actor[head][:-1], _scaled(actor[head][-1], factor)]
        actor["placement"] = _scaled(actor["placement"], factor)
        for weights in ("skip", "order_skip", "doubt_weight", "usual_place"):
            if weights in actor:
                actor[weights] = factor * actor[weights]
        if self.design.process:
            actor["process"] = {**actor["process"], "gate": factor * actor["process"]["gate"]}
        return {**parameters, "actor": actor}

    def _jobs(self, parameters: Any, view: View, known: Known) -> jax.Array:
        allowed = jnp.concatenate([view.waits & view.fits, view.may_hold[:, None]], axis=-1)
        return allowed_log_probs(order_scores(parameters, known, self.design, jnp), allowed)

    def _machines(
        self, parameters: Any, view: View, known: Known, choice: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Scores and room of machines for the chosen job; of holding, which has neither, for the last row."""
        rows = jnp.minimum(choice, view.waits.shape[1] - 1)[:, None]
        scores = place_scores(parameters, view, known, self.design, _LONE, rows).mean[:, 0]
        room = view.pairs[jnp.arange(len(rows)), rows[:, 0], :, _ROOM]
        return scores, jnp.where(view.real, room, 0.0)

    def _starts(self, view: View, choice: jax.Array) -> jax.Array:
        return choice < view.waits.shape[1]


class _Scores:
    """Gaussian scores of all jobs, and of all machines for each of them."""

    def __init__(self, design: Design) -> None:
        self.design = design

    def act(self, parameters: Any, view: View, known: Known, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        order, machine, walk = jax.random.split(key, 3)
        mean, deviation = self._jobs(parameters, known)
        places = place_scores(parameters, view, known, self.design, _LONE)
        scores = mean + deviation * jax.random.normal(order, mean.shape)
        own = jax.random.normal(machine, places.mean.shape)
        shared = jax.random.normal(walk, (*mean.shape, places.loadings.shape[-1]))
        affinities = draw(places, own, shared, _LONE)
        log_prob = self._log_prob(view, (mean, deviation, places), scores, affinities)
        return _shown(view, scores, affinities), log_prob

    def judge(
        self, parameters: Any, view: View, known: Known, action: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        mean, deviation = self._jobs(parameters, known)
        places = place_scores(parameters, view, known, self.design, _LONE)
        window = mean.shape[1]
        affinities = action[:, window:].reshape(places.mean.shape)
        log_prob = self._log_prob(view, (mean, deviation, places), action[:, :window], affinities)
        waits = view.waits.astype(jnp.float32)
        of_jobs = waits.sum(-1) * (jnp.log(deviation) + _HALF_LOG_TWO_PI + 0.5)
        of_machines = (waits * entropy(places, jnp)).sum(-1)
        return log_prob, jnp.stack([of_jobs, of_machines], axis=-1)

    def best(self, parameters: Any, view: View, known: Known) -> jax.Array:
        mean, _ = self._jobs(parameters, known)
        return _shown(view, mean, place_scores(parameters, view, known, self.design, _LONE).mean)

    def doubting(self, parameters: Any, factor: float) -> Any:
        """Wider deviations; the noise of observations is a multiple of them, so means stay as they are."""
        actor = dict(parameters["actor"])
        for name in ("order_log_deviation", "place_log_deviation"):
            actor[name] = actor[name] - jnp.log(factor)
        return {**parameters, "actor": actor}

    def _jobs(self, parameters: Any, known: Known) -> tuple[jax.Array, jax.Array]:
        mean = order_scores(parameters, known, self.design, jnp)
        return mean, deviation_of(parameters["actor"]["order_log_deviation"], jnp)

    def _log_prob(
        self,
        view: View,
        believed: tuple[jax.Array, jax.Array, MachineGaussian],
        scores: jax.Array,
        affinities: jax.Array,
    ) -> jax.Array:
        mean, deviation, places = believed
        waits = view.waits
        # What stands where no job waits is far away; its square must not meet a gradient of 0.
        apart = jnp.where(waits, scores - mean, 0.0) / deviation
        of_job = -0.5 * apart * apart - jnp.log(deviation) - _HALF_LOG_TWO_PI
        there = waits[:, :, None] & view.real[:, None, :]
        of_machines = log_probability(places, jnp.where(there, affinities, places.mean), jnp)
        both = [jnp.where(waits, of_job, 0.0).sum(-1), jnp.where(waits, of_machines, 0.0).sum(-1)]
        return jnp.stack(both, axis=-1)


def ranking_log_prob(scores: jax.Array, room: jax.Array, ranking: jax.Array) -> jax.Array:
    """Log-probability [...] of a ranking [..., M] as far as the gang needs it, picked from the best down.

    Machines without room are never picked, and where they stand does not count.

    >>> scores, room = jnp.zeros(3), jnp.array([0.5, 0.5, 1.0])
    >>> [
    ...     round(float(jnp.exp(ranking_log_prob(scores, room, jnp.array(order)))), 3)
    ...     for order in ((2, 0, 1), (0, 1, 2))
    ... ]
    [0.333, 0.167]
    """
    has_room = jnp.take_along_axis(room, ranking, axis=-1)
    ranked = jnp.where(has_room > 0, jnp.take_along_axis(scores, ranking, axis=-1), NEVER)
    left = jax.lax.cumlogsumexp(ranked, axis=ranked.ndim - 1, reverse=True)
    before = jnp.cumsum(has_room, axis=-1) - has_room
    counts = (has_room > 0) & (before < ENOUGH)
    return jnp.where(counts, ranked - left, 0.0).sum(-1)


@jax.checkpoint
def lone_cholesky(matrices: jax.Array) -> jax.Array:
    """The lower triangles L of positive matrices L L' [..., n, n], column by column.

    >>> lone_cholesky(jnp.array([[4.0, 2.0], [2.0, 5.0]])).tolist()
    [[2.0, 0.0], [1.0, 2.0]]
    """
    size = matrices.shape[-1]
    columns = []
    for at in range(size):
        column = matrices[..., :, at] / jnp.sqrt(matrices[..., at, at])[..., None]
        columns.append(jnp.where(jnp.arange(size) >= at, column, 0.0))
        matrices = matrices - columns[-1][..., :, None] * columns[-1][..., None, :]
    return jnp.stack(columns, axis=-1)


def lone_solve(triangles: jax.Array, values: jax.Array) -> jax.Array:
    """Solve with triangles [..., n, n], be they lower or upper ones, for values [..., n, m].

    One half of a triangle is itself and the other its diagonal D, so that upper^-1 D lower^-1 is its inverse.

    >>> lone_solve(jnp.array([[2.0, 0.0], [1.0, 4.0]]), jnp.array([[2.0], [9.0]])).ravel().tolist()
    [1.0, 2.0]
    """
    batch = jnp.broadcast_shapes(triangles.shape[:-2], values.shape[:-2])
    triangles = jnp.broadcast_to(triangles, (*batch, *triangles.shape[-2:]))
    values = jnp.broadcast_to(values, (*batch, *values.shape[-2:]))
    diagonal = jnp.diagonal(triangles, axis1=-2, axis2=-1)[..., None]
    values = diagonal * jax.lax.linalg.triangular_solve(triangles, values, left_side=True, lower=True)
    return jax.lax.linalg.triangular_solve(triangles, values, left_side=True, lower=False)


class _Lone:
    """`jax.numpy` with a linear algebra of which several may run at once.

    On a CPU, JAX's own factorisations of many matrices wait for threads that other such factorisations hold:
    with two cores a gradient through two of them never ends.
    """

    linalg = SimpleNamespace(cholesky=lone_cholesky, solve=lone_solve)

    def __getattr__(self, name: str) -> Any:
        return getattr(jnp, name)


_LONE = _Lone()


def _ranked(keys: jax.Array) -> jax.Array:
    """Positions from the largest down, of equals the first."""
    return jnp.argsort(-keys, axis=-1, stable=True).astype(jnp.int32)


def _joined(choice: jax.Array, ranking: jax.Array) -> jax.Array:
    return jnp.concatenate([choice[:, None].astype(jnp.int32), ranking], axis=-1)


def _shown(view: View, scores: jax.Array, affinities: jax.Array) -> jax.Array:
    """Jobs' scores, then machines' job by job; lowest where there is no job or machine."""
    there = view.waits[:, :, None] & view.real[:, None, :]
    of_machines = jnp.where(there, affinities, NEVER).reshape(len(scores), -1)
    return jnp.concatenate([jnp.where(view.waits, scores, NEVER), of_machines], axis=-1)


def _scaled(layer: dict[str, Any], factor: float) -> dict[str, Any]:
    return {name: factor * values for name, values in layer.items()}


def _exactly() -> Any:
    """Some devices round factors to 10 bits, and then judge what was sampled as if by another policy."""
    return jax.default_matmul_precision("highest")


def _view(observation: dict[str, Any]) -> View:
    return View(*(observation[name] for name in View._fields))
