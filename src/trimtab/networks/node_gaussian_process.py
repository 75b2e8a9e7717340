"""A Gaussian process over the machines of a cluster whose covariance is a random walk among them.

After DAS (Xing et al., KDD 2023), one job at a time: machines that are similar for a job have similar
affinities. The bracket of the paper's kernel, before it is summed over all pairs of nodes, is a covariance
between machines (summed, it is a constant: see `graph_random_walk`):

    C = s^2 (I + p S + p^2 S^2 + ...) = s^2 (I - p S)^-1

with S the similarity of machines, p the persistence of the walk (its chance to go on) and s a deviation.

**Low rank.** Every machine k has non-negative features f_k (rank numbers; rank is some 16, machines may be
thousands). With d_k = f_k . (f_1 + f_2 + ...) and F the matrix of rows f_k / sqrt(d_k), S = F F' is
symmetric and its largest eigenvalue is 1 (of the vector sqrt(d)), so C exists for 0 <= p < 1. No matrix of
machines by machines is ever made. With the core K = I - p F'F = L L' (rank x rank, least eigenvalue 1 - p),

    precision     C^-1   = (I - p F F') / s^2
    volume        det C  = s^(2 machines) / det K,      log det K = 2 sum log diag L
    covariance    C      = s^2 (I + p F K^-1 F')
    draw          s (e + sqrt(p) F L'^-1 w)             e, w: as many standard normals as machines, and rank

A draw has that covariance since F L'^-1 (F L'^-1)' = F K^-1 F': luck of its own for every machine, and
luck shared by machines alike. Everything costs machines x rank^2 and needs no eigenvectors, whose gradients
are not finite where eigenvalues are equal (they are whenever rank exceeds the number of machines).

**Evidence.** If machine k was observed c_k times with mean y_k and noise n, its precision grows by
w_k = c_k / n^2. With g_k = 1 / sqrt(1 + s_k^2 w_k) the posterior precision is

    diag(1/s) (I - p F F') diag(1/s) + diag(w) = diag(1/(g s)) (I - p (gF)(gF)') diag(1/(g s))

which is the prior's form again with g s for s and gF for F. So a posterior is drawn from, scored and given
further evidence by the same functions, and its mean is the prior's plus C_posterior w (y - mean): machines
never seen borrow from those they are similar to.

Arrays are [..., machines] or [..., machines, rank]; the axes before (batch, jobs) broadcast. Persistence must
stay below 1 by more than rounding: 0.999 is safe in single precision, `persistence_of` goes no further.
Where JAX may round matrix products to fewer bits (a GPU's default), ask it for the highest precision.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from trimtab.core.errors import SettingsError
from trimtab.networks.layers import Array
from trimtab.networks.recurrent import sigmoid

__all__ = ["MachineGaussian", "draw", "entropy", "log_probability", "machine_posterior", "machine_prior"]
__all__ += ["marginal_deviation", "persistence_of"]

_LARGEST_PERSISTENCE = 0.999
_LOG_TAU = math.log(2 * math.pi)


class MachineGaussian(NamedTuple):
    """A Gaussian over machines in the form of this module, prior or posterior; made by its functions."""

    mean: Array
    """[..., machines]"""
    deviation: Array
    """[..., machines]: what would be left of the deviation if no machine were similar to any other."""
    loadings: Array
    """[..., machines, rank]: normalised features; 0 where there is no machine."""
    persistence: Array
    """[..., 1]"""
    root: Array
    """[..., rank, rank]: the lower triangle L of the core."""
    real: Array
    """[..., machines]: False where there is no machine."""


def persistence_of(logit: Array, xp: Any) -> Array:
    """A persistence in (0, 0.999) of any learned number; 0 gives one half: two steps of walk on average.

    >>> import numpy as np
    >>> persistence_of(np.array([-1e3, 0.0, 1e3]), np).tolist()
    [0.0, 0.4995, 0.999]
    """
    return _LARGEST_PERSISTENCE * sigmoid(logit, xp)


def machine_prior(
    features: Array,
    mean: Array,
    *,
    deviation: Array | float,
    persistence: Array | float,
    xp: Any,
    real: Array | None = None,
) -> MachineGaussian:
    """The process before any evidence: features [..., machines, rank] >= 0, mean [..., machines].

    `deviation` and `persistence` are numbers, or [..., 1] for one of each job. Machines that are not `real`
    [..., machines] are padding: no other machine depends on them, and their affinity is their mean. A machine
    without any features is similar to none.

    Two machines alike and one apart, with persistence 1/2: S is 1/2 among the two, 1 of the third.

    >>> import numpy as np
    >>> alike = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> prior = machine_prior(alike, np.zeros(3), deviation=1.0, persistence=0.5, xp=np)
    >>> (marginal_deviation(prior, np) ** 2).round(6).tolist()
    [1.5, 1.5, 2.0]
    """
    if isinstance(persistence, int | float) and not 0 <= persistence < 1:
        raise SettingsError(f"persistence = {persistence} of a random walk; at least 0 and below 1")
    if isinstance(deviation, int | float) and not deviation > 0:
        raise SettingsError(f"deviation = {deviation} of a Gaussian process; above 0")
    shape, dtype = features.shape[:-1], features.dtype
    there = xp.broadcast_to(xp.asarray(True if real is None else real, dtype=bool), shape)
    everyone = xp.matmul(there.astype(dtype)[..., None, :], features)
    degree = xp.matmul(features, xp.swapaxes(everyone, -1, -2))[..., 0]
    counts = there & (degree > 0)
    loadings = features * xp.where(counts, 1 / xp.sqrt(xp.where(counts, degree, 1)), 0)[..., None]
    return _gaussian(
        xp.broadcast_to(xp.asarray(mean, dtype=dtype), shape),
        xp.broadcast_to(xp.asarray(deviation, dtype=dtype), shape),
        loadings,
        xp.atleast_1d(xp.asarray(persistence, dtype=dtype)),
        there,
        xp,
    )


def machine_posterior(
    prior: MachineGaussian, counts: Array, observed: Array, *, noise_deviation: Array | float, xp: Any
) -> MachineGaussian:
    """What is believed after machines [..., machines] were observed `counts` times with mean `observed`.

    One observation has `noise_deviation` (a number, or [..., 1]); counts may be fractions, as those of a
    weighted mean are. Where they are 0 it does not matter what `observed` holds.

    Of three machines the first was seen; the second is similar to it, the third is not.

    >>> import numpy as np
    >>> alike = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> prior = machine_prior(alike, np.zeros(3), deviation=1.0, persistence=0.5, xp=np)
    >>> seen, speeds = np.array([8.0, 0.0, 0.0]), np.array([1.0, np.nan, np.nan])
    >>> machine_posterior(prior, seen, speeds, noise_deviation=1.0, xp=np).mean.round(3).tolist()
    [0.923, 0.308, 0.0]
    """
    if isinstance(noise_deviation, int | float) and not noise_deviation > 0:
        raise SettingsError(f"noise_deviation = {noise_deviation} of observations; above 0")
    dtype = prior.loadings.dtype
    noise = xp.asarray(noise_deviation, dtype=dtype)
    seen = prior.real & (counts > 0)
    weight = xp.where(seen, counts, 0).astype(dtype) / (noise * noise)
    surprise = xp.where(seen, xp.where(seen, observed, 0).astype(dtype) - prior.mean, 0)
    shrinking = 1 / xp.sqrt(1 + prior.deviation * prior.deviation * weight)
    deviation = prior.deviation * shrinking
    loadings = prior.loadings * shrinking[..., None]
    found = _gaussian(prior.mean, deviation, loadings, prior.persistence, prior.real, xp)
    pull = deviation * weight * surprise
    through = xp.linalg.solve(found.root, _towards_kinds(found, pull, xp))
    borrowed = _towards_machines(found, xp.linalg.solve(xp.swapaxes(found.root, -1, -2), through), xp)
    return found._replace(mean=prior.mean + deviation * (pull + found.persistence * borrowed))


def draw(gaussian: MachineGaussian, machine_noise: Array, walk_noise: Array, xp: Any) -> Array:
    """Affinities [..., machines], exactly from the Gaussian, of standard normals.

    `machine_noise` [..., machines] and `walk_noise` [..., rank] are apart, so that padding to more machines
    need not change anyone's luck.

    >>> import numpy as np
    >>> alike = machine_prior(np.ones((2, 1)), np.zeros(2), deviation=1.0, persistence=0.75, xp=np)
    >>> draw(alike, np.array([1.0, -1.0]), np.array([0.0]), np).tolist()
    [1.0, -1.0]
    >>> draw(alike, np.zeros(2), np.array([1.0]), np).round(4).tolist()  # both by the square root of 3/2
    [1.2247, 1.2247]
    """
    shared = xp.linalg.solve(xp.swapaxes(gaussian.root, -1, -2), walk_noise[..., None])
    together = xp.sqrt(gaussian.persistence) * _towards_machines(gaussian, shared, xp)
    return gaussian.mean + gaussian.deviation * (xp.where(gaussian.real, machine_noise, 0) + together)


def log_probability(gaussian: MachineGaussian, affinities: Array, xp: Any) -> Array:
    """Log density of affinities [..., machines], one number for each row: [...].

    >>> import numpy as np
    >>> one = machine_prior(np.ones((1, 1)), np.zeros(1), deviation=0.5, persistence=0.75, xp=np)
    >>> float(log_probability(one, np.array([1.0]), np).round(6))  # of N(0, 1): 0.25 / (1 - 0.75) = 1
    -1.418939
    """
    apart = xp.where(gaussian.real, affinities - gaussian.mean, 0) / gaussian.deviation
    kinds = _towards_kinds(gaussian, apart, xp)[..., 0]
    distance = (apart * apart).sum(-1) - gaussian.persistence[..., 0] * (kinds * kinds).sum(-1)
    return -0.5 * distance - _log_volume(gaussian, xp) - 0.5 * _LOG_TAU * _size(gaussian)


def entropy(gaussian: MachineGaussian, xp: Any) -> Array:
    """Differential entropy in nats, one number for each row: [...].

    >>> import numpy as np
    >>> one = machine_prior(np.ones((1, 1)), np.zeros(1), deviation=0.5, persistence=0.75, xp=np)
    >>> float(entropy(one, np).round(6))
    1.418939
    """
    return _log_volume(gaussian, xp) + 0.5 * (1 + _LOG_TAU) * _size(gaussian)


def marginal_deviation(gaussian: MachineGaussian, xp: Any) -> Array:
    """Standard deviation of each machine's affinity, [..., machines]; 0 where there is no machine.

    >>> import numpy as np
    >>> apart = machine_prior(np.eye(2), np.zeros(2), deviation=1.0, persistence=0.75, xp=np)
    >>> marginal_deviation(apart, np).tolist()
    [2.0, 2.0]
    """
    through = xp.linalg.solve(gaussian.root, xp.swapaxes(gaussian.loadings, -1, -2))
    variance = 1 + gaussian.persistence * (through * through).sum(-2)
    return xp.where(gaussian.real, gaussian.deviation * xp.sqrt(variance), 0)


def _gaussian(
    mean: Array, deviation: Array, loadings: Array, persistence: Array, real: Array, xp: Any
) -> MachineGaussian:
    overlap = xp.matmul(xp.swapaxes(loadings, -1, -2), loadings)
    core = xp.eye(loadings.shape[-1], dtype=loadings.dtype) - persistence[..., None] * overlap
    return MachineGaussian(mean, deviation, loadings, persistence, xp.linalg.cholesky(core), real)


def _towards_kinds(gaussian: MachineGaussian, values: Array, xp: Any) -> Array:
    """[..., machines] -> [..., rank, 1]."""
    return xp.swapaxes(xp.matmul(values[..., None, :], gaussian.loadings), -1, -2)


def _towards_machines(gaussian: MachineGaussian, kinds: Array, xp: Any) -> Array:
    """[..., rank, 1] -> [..., machines]."""
    return xp.matmul(gaussian.loadings, kinds)[..., 0]


def _size(gaussian: MachineGaussian) -> Array:
    """How many machines are real."""
    return gaussian.real.astype(gaussian.mean.dtype).sum(-1)


def _log_volume(gaussian: MachineGaussian, xp: Any) -> Array:
    """Half the log determinant of the covariance of real machines."""
    own = xp.where(gaussian.real, xp.log(gaussian.deviation), 0).sum(-1)
    return own - xp.log(xp.diagonal(gaussian.root, axis1=-2, axis2=-1)).sum(-1)
