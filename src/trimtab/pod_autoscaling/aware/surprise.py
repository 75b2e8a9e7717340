"""How unlike training a service is: how far what a policy sees of it lies from what it saw there, on numpy.

What is seen of a service is averaged over some ten minutes: single moments are wild everywhere, and it is
the mean that tells services apart. The distance of that mean x is Mahalanobis', in deviations of training:
sqrt((x - m)' C^-1 (x - m)), with the mean m and the covariance C. To the covariance of training is added
that of what changes when a rule acts on the same service: whose pods these are is no surprise. A score of 1
is what 99.5 % of training stays below; above that the guard lets its rule act (`Evidence.surprise`). Of a
service that has just begun nothing is known, and its score is 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.core.errors import BundleError

__all__ = ["QUANTILE", "SILENT", "Familiar", "Lately", "parted"]

QUANTILE = 0.995
_LEAST_DEVIATION = 0.1
"""Numbers are about one: smaller differences than this are no matter, however steady training was."""
_PREFIX = "familiar/"
_INTERVALS = 40
"""Of a mean in which what is so many intervals old counts 1/e; until then all counts alike."""
SILENT = 10
"""So many intervals say nothing yet: services begin with sizes that they never have again."""


class Familiar(NamedTuple):
    """What is familiar to a policy: where it lies, which way it spreads, how far."""

    mean: NDArray[np.float64]
    precision: NDArray[np.float64]
    """The inverse of the covariance."""
    limit: float
    """The distance that scores 1."""

    @classmethod
    def of(cls, seen: NDArray[Any], differences: NDArray[Any] | None = None) -> Familiar:
        """From means of what was seen in training, [means, numbers]; `differences` are no surprise either.

        >>> seen = np.random.default_rng(0).normal(size=(20_000, 1))
        >>> found = Familiar.of(seen)  # 99.5 % of normal numbers lie within 2.81 deviations
        >>> [round(float(one), 1) for one in found.score(np.array([[0.0], [2.8], [5.6]]))]
        [0.0, 1.0, 2.0]
        """
        numbers = np.asarray(seen, np.float64)
        mean = numbers.mean(0)
        centred = numbers - mean
        covariance = centred.T @ centred / len(centred) + _LEAST_DEVIATION**2 * np.eye(len(mean))
        if differences is not None:
            covariance += differences.T @ differences / len(differences)
        found = cls(mean, np.linalg.inv(covariance), 1.0)
        return found._replace(limit=float(np.quantile(found.score(numbers), QUANTILE)))

    def score(self, seen: NDArray[Any]) -> NDArray[np.float64]:
        """How unlike training each row is; above 1 it is further off than 99.5 % of training."""
        off = np.asarray(seen, np.float64) - self.mean
        return np.sqrt(np.maximum(((off @ self.precision) * off).sum(-1), 0.0)) / self.limit

    def tensors(self) -> dict[str, NDArray[np.float64]]:
        """As a bundle keeps it, beside the parameters."""
        return {f"{_PREFIX}{name}": np.asarray(one) for name, one in self._asdict().items()}


class Lately:
    """What was seen of some services lately, as means.

    >>> lately = Lately(1, 2)
    >>> for number in (1.0, 3.0):
    ...     lately.see(np.array([[number, 0.0]]), np.array([number == 1.0]))
    >>> lately.mean.tolist(), lately.known.tolist()
    ([[2.0, 0.0]], [False])
    """

    def __init__(self, services: int, numbers: int) -> None:
        self.mean = np.zeros((services, numbers))
        self._intervals = np.zeros(services)

    @property
    def known(self) -> NDArray[np.bool_]:
        """Of which services enough was seen for their means to say something."""
        return self._intervals > SILENT

    def see(self, numbers: NDArray[Any], fresh: NDArray[np.bool_]) -> None:
        """Take one interval in; `fresh` where another service begins."""
        self._intervals = np.where(fresh, 1.0, self._intervals + 1)
        share = 1 / np.minimum(self._intervals, _INTERVALS)
        self.mean = self.mean + share[:, None] * (numbers - self.mean)


def parted(
    name: str, tensors: Mapping[str, NDArray[Any]], numbers: int
) -> tuple[dict[str, NDArray[Any]], Familiar | None]:
    """The tensors of a bundle: those of its networks, and what is familiar to it, where it says so."""
    own = {key: one for key, one in tensors.items() if not key.startswith(_PREFIX)}
    told = {key.removeprefix(_PREFIX): one for key, one in tensors.items() if key.startswith(_PREFIX)}
    if not told:
        return own, None
    shapes = {"mean": (numbers,), "precision": (numbers, numbers), "limit": ()}
    if {key: one.shape for key, one in told.items()} != shapes or not float(told["limit"]) > 0:
        raise BundleError(f"{name}: what is familiar to it does not fit its features; train it again")
    return own, Familiar(told["mean"], told["precision"], float(told["limit"]))
