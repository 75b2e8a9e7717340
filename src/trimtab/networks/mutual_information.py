"""How much a part tells about the whole: the Jensen-Shannon estimator of mutual information.

As in Deep InfoMax (Hjelm et al., ICLR 2019) and f-GAN (Nowozin et al., NeurIPS 2016): a part and a whole that
belong together should score high, those that do not should score low,

    I = E_together[ log 2 - softplus(-T) ] - E_apart[ softplus(-T) + T - log 2 ],   T = part . whole / sqrt(n)

It lies between -infinity and 2 log 2, is 0 for a critic that says nothing (T = 0), and grows with how well
the two kinds of pairs are told apart.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trimtab.networks.layers import Array

__all__ = ["jensen_shannon_information"]

_LOG_TWO = float(np.log(2.0))


def jensen_shannon_information(parts: Array, wholes: Array, counts: Array, xp: Any) -> Array:
    """By row: parts [rows, n, size], wholes [rows, size], counts [rows, n] which parts there are -> [rows].

    A row's parts belong to its whole; the wholes of all other rows are those they do not belong to.

    >>> codes = 4 * np.eye(3, dtype=np.float32)
    >>> told_apart = jensen_shannon_information(codes[:, None], codes, np.ones((3, 1)), np)
    >>> nothing_said = jensen_shannon_information(0 * codes[:, None], codes, np.ones((3, 1)), np)
    >>> bool((told_apart > 0.6).all()), bool(abs(nothing_said).max() < 1e-6)
    (True, True)
    """
    rows, n, size = parts.shape
    scores = (parts.reshape(rows * n, size) @ wholes.T).reshape(rows, n, rows) / math.sqrt(size)
    together = xp.eye(rows, dtype=scores.dtype)[:, None, :]
    weight = counts / xp.maximum(counts.sum(-1, keepdims=True), 1)
    good = ((_LOG_TWO - _softplus(-scores, xp)) * together).sum(-1)
    bad = ((_softplus(-scores, xp) + scores - _LOG_TWO) * (1 - together)).sum(-1) / max(rows - 1, 1)
    return ((good - bad) * weight).sum(-1)


def _softplus(values: Array, xp: Any) -> Array:
    return xp.maximum(values, 0) + xp.log1p(xp.exp(-xp.abs(values)))
