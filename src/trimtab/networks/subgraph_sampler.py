"""A neural variational sampler: which few of many candidates to look at, learned from what comes of it.

After SURE (IJCAI 2022). Every candidate has a Gaussian latent number; a draw of them, put through a softmax,
gives the chances with which candidates are picked one after the other and never twice. Adding Gumbel noise
and taking the largest does just that (Kool et al., ICML 2019). Which candidate is picked has no gradient, so
each pick is weighed by a relaxed count of how often it is picked (Xie and Ermon, IJCAI 2019), of value 1 but
with a slope: thereby the gradient of the reward reaches the latents.

    score --bend--> mean -+- + deviation * noise --> latent --softmax, Gumbel--> the k largest
                    log variance

Without noise the largest scores are picked: the same decision every time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from trimtab.networks.array_tools import Tools
from trimtab.networks.layers import Array

__all__ = ["Latents", "Picked", "cross_entropy", "divergence", "latents_of", "log_volume", "pick"]
__all__ += ["relaxed_counts", "softmax"]

_NEVER = -1e9
# Beyond these the noise is a hundredth of the prior's, or its double.
_LEAST_LOG_VARIANCE, _MOST_LOG_VARIANCE = -9.0, 1.4


class Latents(NamedTuple):
    """Gaussian latents of candidates along the last axis; those not `allowed` are never picked."""

    score: Array
    """The mean before it is bent: of the same order, but free of ties where the bend is flat."""
    mean: Array
    log_variance: Array
    allowed: Array


class Picked(NamedTuple):
    """Candidates picked along the last axis, in rising order of their positions."""

    positions: Array
    real: Array
    """False where there were fewer candidates than picks."""
    slope: Array | None
    """1 everywhere, with the slope of how often the candidate is picked; None where nothing was drawn."""
    omega: Array | None
    """The latents drawn, of all candidates; None where nothing was drawn."""


def latents_of(score: Array, log_variance: Array, allowed: Array, *, reach: float, xp: Any) -> Latents:
    """Bend scores into means within plus and minus `reach`, and keep variances in bounds."""
    bounded = xp.clip(log_variance, _LEAST_LOG_VARIANCE, _MOST_LOG_VARIANCE)
    return Latents(score, reach * xp.tanh(score / reach), xp.broadcast_to(bounded, score.shape), allowed)


def divergence(latents: Latents, xp: Any) -> Array:
    """Kullback-Leibler divergence from N(0, 1), summed over allowed candidates of the last axis.

    >>> import numpy as np
    >>> one = Latents(np.array([2.0]), np.array([2.0]), np.array([0.0]), np.array([True]))
    >>> float(divergence(one, np))
    2.0
    """
    variance = xp.exp(latents.log_variance)
    each = 0.5 * (variance + latents.mean * latents.mean - 1 - latents.log_variance)
    return xp.where(latents.allowed, each, 0.0).sum(-1)


def pick(
    latents: Latents,
    count: int,
    *,
    normal: Array | None,
    gumbel: Array | None,
    temperature: float,
    tools: Tools,
) -> Picked:
    """Pick `count` candidates of the last axis: at random with noise, the highest scores without.

    >>> import numpy as np
    >>> from trimtab.networks.array_tools import PLAIN
    >>> scores = np.array([[0.1, 5.0, 3.0, 9.0]])
    >>> latents = latents_of(
    ...     scores, np.zeros((1, 4)), np.array([[True, True, True, False]]), reach=4.0, xp=np
    ... )
    >>> pick(latents, 2, normal=None, gumbel=None, temperature=0.5, tools=PLAIN).positions.tolist()
    [[1, 2]]
    """
    xp = tools.xp
    omega = slope = None
    keys = xp.where(latents.allowed, latents.score, _NEVER)
    if normal is not None and gumbel is not None:
        omega = latents.mean + xp.exp(0.5 * latents.log_variance) * normal
        keys = xp.where(latents.allowed, omega + gumbel, _NEVER)
    positions = xp.sort(tools.largest(tools.stopped(keys), count), axis=-1)
    if omega is not None:
        counts = relaxed_counts(keys, count, temperature, tools)
        soft = xp.take_along_axis(counts, positions, -1)
        slope = 1 + soft - tools.stopped(soft)
    real = xp.take_along_axis(xp.broadcast_to(latents.allowed, keys.shape), positions, -1)
    return Picked(positions, real, slope, omega)


def relaxed_counts(keys: Array, count: int, temperature: float, tools: Tools) -> Array:
    """How often each candidate of the last axis is picked, softly: the numbers add up to `count`.

    A soft pick makes what it took unlikelier in the next; at temperature 0 these are the hard picks.

    >>> import numpy as np
    >>> from trimtab.networks.array_tools import PLAIN
    >>> relaxed_counts(np.array([4.0, 0.0, 3.0]), 2, 0.1, PLAIN).round(3).tolist()
    [1.0, 0.0, 1.0]
    """
    xp = tools.xp

    def once_more(state: tuple[Array, Array], _: Array) -> tuple[tuple[Array, Array], None]:
        total, left = state
        soft = softmax(left / temperature, xp)
        return (total + soft, left + xp.log(xp.maximum(1 - soft, 1e-6))), None

    # A loop, since ten rounds written out take JAX long to compile.
    return tools.scan(once_more, (xp.zeros_like(keys), keys), xp.zeros(count))[0][0]


def softmax(values: Array, xp: Any) -> Array:
    """Over the last axis."""
    weights = xp.exp(values - values.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def log_chances(latents: Latents, omega: Array, xp: Any) -> Array:
    """Log of softmax over the allowed candidates of the last axis; 0 where not allowed."""
    shown = xp.where(latents.allowed, omega, _NEVER)
    top = shown.max(-1, keepdims=True)
    total = xp.log(xp.exp(shown - top).sum(-1, keepdims=True)) + top
    return xp.where(latents.allowed, omega - total, 0.0)


def cross_entropy(latents: Latents, picked: Picked, xp: Any) -> Array:
    """How surprising the picks are under the chances they were picked with, summed over them: [...]."""
    assert picked.omega is not None
    found = xp.take_along_axis(log_chances(latents, picked.omega, xp), picked.positions, -1)
    return -xp.where(picked.real, found, 0.0).sum(-1)


def log_volume(latents: Latents, xp: Any) -> Array:
    """Half the log of the determinant of the covariance: all that the density of a draw depends on."""
    return 0.5 * xp.where(latents.allowed, latents.log_variance, 0.0).sum(-1)
