"""Straight lines through noisy points: outliers count less, and intervals know of autocorrelation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trimtab.pod_autoscaling.problem import Floats

__all__ = ["Line", "robust_line"]

HUBER = 1.345
"""Deviations beyond which a residual counts less; 95 % as good as least squares where noise is normal."""
ROUNDS = 50
Z95 = 1.959963984540054


class Line(NamedTuple):
    """Coefficients in the order of the columns, 95 % intervals, and how well the line fits."""

    coefficients: Floats
    low: Floats
    high: Floats
    r_squared: float  # share of the variance that is explained
    miss: float  # median of the absolute residuals


def robust_line(columns: Floats, values: Floats) -> Line:
    """Fit values [T] to columns [T, K] (one of ones is the intercept) by Huber's regression (1964).

    Intervals are those of Newey and West (1987): measurements a minute apart are not independent.

    >>> x = np.arange(100.0)
    >>> y = 3 + 2 * x
    >>> y[7] = 1e6
    >>> robust_line(np.column_stack([np.ones(100), x]), y).coefficients.round(3).tolist()
    [3.0, 2.0]
    """
    scale = np.abs(columns).max(0)
    scale = np.where(scale > 0, scale, 1.0)
    design = columns / scale
    weights = np.ones(len(values))
    coefficients = np.zeros(design.shape[1])
    for _ in range(ROUNDS):
        before = coefficients
        root = np.sqrt(weights)
        coefficients = np.linalg.lstsq(design * root[:, None], values * root, rcond=None)[0]
        weights = _weights(values - design @ coefficients)
        if np.allclose(coefficients, before, rtol=1e-10, atol=1e-12 * np.abs(values).max()):
            break
    residuals = values - design @ coefficients
    deviation = _deviations(design, residuals, weights)
    total = ((values - values.mean()) ** 2).sum()
    explained = 1 - (residuals**2).sum() / total if total > 0 else 1.0
    low, high = coefficients - Z95 * deviation, coefficients + Z95 * deviation
    return Line(
        coefficients / scale, low / scale, high / scale, float(explained), float(np.median(np.abs(residuals)))
    )


def _weights(residuals: Floats) -> Floats:
    # The median of a normal's absolute value is 0.6745 deviations.
    spread = np.median(np.abs(residuals)) / 0.6745
    if spread <= 0:
        # Most points lie on the line: those that do not are outliers, however near.
        return np.where(np.abs(residuals) <= 1e-12, 1.0, 1e-6)
    return np.minimum(1.0, HUBER * spread / np.maximum(np.abs(residuals), 1e-300))


def _deviations(design: Floats, residuals: Floats, weights: Floats) -> Floats:
    count, width = design.shape
    scores = design * (weights * residuals)[:, None]
    reach = min(count - 1, max(4, int(np.ceil(count ** (1 / 3)))))
    meat = scores.T @ scores
    for lag in range(1, reach + 1):
        shared = scores[lag:].T @ scores[:-lag]
        meat += (1 - lag / (reach + 1)) * (shared + shared.T)
    bread = np.linalg.pinv((design * weights[:, None]).T @ design)
    freedom = count / max(count - width, 1)
    return np.sqrt(np.maximum(np.diag(freedom * bread @ meat @ bread), 0.0))
