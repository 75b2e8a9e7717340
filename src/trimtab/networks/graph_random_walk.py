"""The random-walk kernel between whole graphs, and the Gaussian process DAS puts on it; for comparison.

DAS (Xing et al., KDD 2023) sees the cluster as a graph of machines with transition matrix P, one for each job
and moment, and compares graphs by the walks that can be made in both of them at once (eq. 13-14 of the talk):

    k(G, G') = q^T (I - p P x P')^-1 r = sum over l of p^l (q^T P^l r)(q'^T P'^l r')

where x is the Kronecker product, and r and q weigh where a walk starts and stops. So the kernel is an inner
product of **walk counts** c_l = q^T P^l r, each a property of one graph: it is positive semi-definite
whatever the weights, and graphs are compared by a few numbers instead of a system of machines^2 unknowns. The
rest of the sum after L steps is at most p^L / (1 - p) of the largest product of counts; see `walk_steps`.

**Low rank.** With P = U V^T (machines x rank each), P^l = U A^(l-1) V^T and A = V^T U is rank x rank. Counts
are made by doubling, [B, A^n B] of B = [b, A b, ..., A^(n-1) b] and b = V^T r, in real arithmetic, without
eigenvectors: A is not symmetric, so these are complex, ill-conditioned where eigenvalues are nearly equal,
and without a finite gradient where they are equal.

**Why only for comparison.** As printed, r and q are all ones. Rows of P sum to 1, so P^l 1 = 1, every count
is the number of machines, and k = machines^2 / (1 - p) for every pair of graphs: `printed_kernel`. Weights
that depend on the state tell graphs of a few machines apart, but hardly those of many, since P^l r tends to a
constant vector (numbers: `make bench-gpu-gp`). A covariance between machines does not have this defect:
`node_gaussian_process`.

Arrays have any axes before those named. Persistence and deviations are numbers, or [..., 1].
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from trimtab.core.errors import SettingsError
from trimtab.networks.layers import Array

__all__ = ["GraphGaussian", "draw_affinities", "graph_log_probability", "graph_posterior", "printed_kernel"]
__all__ += ["transition_factors", "walk_counts", "walk_kernel", "walk_steps"]

_LOG_TAU = math.log(2 * math.pi)


class GraphGaussian(NamedTuple):
    """Affinities of jobs for machines: jobs depend on each other, and do so alike on every machine."""

    mean: Array
    """[..., jobs, machines]"""
    covariance: Array
    """[..., jobs, jobs]"""


def walk_steps(persistence: float, *, error: float = 1e-12) -> int:
    """How many steps of walk leave at most a share `error` of the largest product of counts.

    >>> walk_steps(0.5), walk_steps(0.9), walk_steps(0.99)
    (41, 285, 3208)
    """
    if not 0 <= persistence < 1:
        raise SettingsError(f"persistence = {persistence} of a random walk; at least 0 and below 1")
    if not 0 < error < 1:
        raise SettingsError(f"error = {error} of a kernel; between 0 and 1")
    if persistence == 0:
        return 1
    return math.ceil(math.log(error * (1 - persistence)) / math.log(persistence))


def transition_factors(features: Array, xp: Any, real: Array | None = None) -> tuple[Array, Array]:
    """Factors U, V [..., machines, rank] of a walk that prefers machines with similar features >= 0.

    Rows of U V^T sum to 1; those of machines that are not `real`, or have no features, are 0.

    >>> import numpy as np
    >>> left, right = transition_factors(np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 2.0]]), np)
    >>> (left @ right.T).round(3).tolist()
    [[0.333, 0.333, 0.333], [0.333, 0.333, 0.333], [0.143, 0.143, 0.714]]
    """
    right = features if real is None else xp.where(real[..., None], features, 0)
    total = xp.matmul(right, right.sum(-2)[..., None])
    return right * xp.where(total > 0, 1 / xp.where(total > 0, total, 1), 0), right


def walk_counts(left: Array, right: Array, start: Array, stop: Array, *, steps: int, xp: Any) -> Array:
    """c_l = stop^T (left right^T)^l start for l = 0 ... steps - 1: [..., steps].

    Factors are [..., machines, rank], weights [..., machines].

    >>> import numpy as np
    >>> cycle = np.array([[0.0, 1.0], [1.0, 0.0]])  # two machines, the walk always goes to the other
    >>> first = np.array([1.0, 0.0])
    >>> walk_counts(cycle, np.eye(2), first, first, steps=5, xp=np).tolist()
    [1.0, 0.0, 1.0, 0.0, 1.0]
    """
    if steps < 1:
        raise SettingsError(f"steps = {steps} of a random walk; at least 1")
    counts = (start * stop).sum(-1)[..., None]
    if steps == 1:
        return counts
    power = xp.matmul(xp.swapaxes(right, -1, -2), left)
    block = xp.matmul(xp.swapaxes(right, -1, -2), start[..., None])
    while block.shape[-1] < steps - 1:
        block = xp.concatenate([block, xp.matmul(power, block)], axis=-1)
        power = xp.matmul(power, power)
    later = xp.matmul(xp.matmul(stop[..., None, :], left), block)[..., 0, : steps - 1]
    return xp.concatenate([counts, later], axis=-1)


def walk_kernel(first: Array, second: Array, *, persistence: Array | float, xp: Any) -> Array:
    """Counts [..., n, steps] and [..., m, steps] of two lists of graphs -> [..., n, m].

    >>> import numpy as np
    >>> walk_kernel(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]]), persistence=0.5, xp=np).tolist()
    [[7.0]]
    """
    lengths = xp.arange(first.shape[-1], dtype=first.dtype)
    weights = xp.asarray(persistence, dtype=first.dtype)[..., None] ** lengths
    return xp.matmul(first * weights, xp.swapaxes(second, -1, -2))


def graph_posterior(
    now: Array,
    history: Array,
    targets: Array,
    *,
    persistence: Array | float,
    noise_deviation: Array | float,
    xp: Any,
) -> GraphGaussian:
    """Eq. 13-14: of graphs seen before and what machines did then, the affinities of the graphs of now.

    `now` [..., jobs, steps] and `history` [..., moments, steps] are walk counts, `targets` [..., moments,
    machines] what was observed. A moment whose counts are all 0 counts for nothing.

    Of the only graph ever seen, with kernel 3 and noise of variance 1, three quarters are believed.

    >>> import numpy as np
    >>> seen = np.array([[3**0.5]])
    >>> found = graph_posterior(seen, seen, np.array([[4.0]]), persistence=0.5, noise_deviation=1.0, xp=np)
    >>> float(found.mean[0, 0].round(6)), float(found.covariance[0, 0].round(6))
    (3.0, 0.75)
    """
    noise = xp.asarray(noise_deviation, dtype=history.dtype)
    variance = (noise * noise)[..., None] * xp.eye(history.shape[-2], dtype=history.dtype)
    gram = walk_kernel(history, history, persistence=persistence, xp=xp)
    root = xp.linalg.cholesky(gram + variance)
    across = xp.linalg.solve(root, walk_kernel(history, now, persistence=persistence, xp=xp))
    back = xp.swapaxes(across, -1, -2)
    mean = xp.matmul(back, xp.linalg.solve(root, targets))
    covariance = walk_kernel(now, now, persistence=persistence, xp=xp) - xp.matmul(back, across)
    return GraphGaussian(mean, covariance)


def draw_affinities(gaussian: GraphGaussian, noise: Array, *, own_deviation: Array | float, xp: Any) -> Array:
    """Affinities of standard normals `noise` [..., jobs, machines].

    Graphs of different jobs are so alike that their covariance is singular but for rounding;
    `own_deviation` is what every job varies on its own.

    >>> import numpy as np
    >>> alike = GraphGaussian(np.zeros((2, 1)), np.full((2, 2), 3.0))
    >>> draw_affinities(alike, np.array([[1.0], [0.0]]), own_deviation=1.0, xp=np).tolist()
    [[2.0], [1.5]]
    """
    return gaussian.mean + xp.matmul(_root(gaussian.covariance, own_deviation, xp), noise)


def graph_log_probability(
    gaussian: GraphGaussian,
    affinities: Array,
    *,
    own_deviation: Array | float,
    xp: Any,
    jobs: Array | None = None,
    machines: Array | None = None,
) -> Array:
    """Log density of affinities [..., jobs, machines]: [...]; `jobs` and `machines` say which are real.

    >>> import numpy as np
    >>> alone = GraphGaussian(np.zeros((1, 1)), np.zeros((1, 1)))
    >>> float(graph_log_probability(alone, np.ones((1, 1)), own_deviation=1.0, xp=np).round(6))
    -1.418939
    """
    shape, dtype = gaussian.mean.shape, gaussian.mean.dtype
    real_jobs = xp.broadcast_to(xp.asarray(True if jobs is None else jobs), shape[:-1])
    across = (*shape[:-2], shape[-1])
    real_machines = xp.broadcast_to(xp.asarray(True if machines is None else machines), across)
    together = real_jobs[..., :, None] & real_jobs[..., None, :]
    root = _root(xp.where(together, gaussian.covariance, 0), own_deviation, xp)
    real = real_jobs[..., :, None] & real_machines[..., None, :]
    apart = xp.linalg.solve(root, xp.where(real, affinities - gaussian.mean, 0))
    by_job = xp.log(xp.diagonal(root, axis1=-2, axis2=-1)) + 0.5 * _LOG_TAU
    by_machine = xp.where(real_jobs, by_job, 0).sum(-1)
    return -0.5 * (apart * apart).sum((-2, -1)) - by_machine * real_machines.astype(dtype).sum(-1)


def printed_kernel(first: Array, second: Array, *, persistence: float, xp: Any) -> Array:
    """The kernel of the talk, term by term, of two transition matrices: all walks of the product graph.

    For rows that sum to 1 it is machines x machines / (1 - persistence), whatever the graphs. It takes a
    system of machines^2 unknowns; kept to show just that.

    >>> import numpy as np
    >>> stay, swap = np.eye(2), np.eye(2)[::-1]
    >>> [float(printed_kernel(one, swap, persistence=0.5, xp=np)) for one in (stay, swap)]
    [8.0, 8.0]
    """
    product = xp.kron(first, second)
    identity = xp.eye(product.shape[0], dtype=product.dtype)
    return xp.linalg.solve(identity - persistence * product, xp.ones_like(product[0])).sum()


def _root(covariance: Array, own_deviation: Array | float, xp: Any) -> Array:
    own = xp.asarray(own_deviation, dtype=covariance.dtype)
    identity = xp.eye(covariance.shape[-1], dtype=covariance.dtype)
    return xp.linalg.cholesky(covariance + (own * own)[..., None] * identity)
