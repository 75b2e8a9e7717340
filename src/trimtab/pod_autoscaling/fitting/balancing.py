"""How much longer work takes in busy pods than in idle ones, by how requests are spread over pods."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from trimtab.pod_autoscaling.problem import Floats
from trimtab.pod_autoscaling.queueing import mean_cpu_s

__all__ = ["Balancing", "slowdown"]

Balancing: TypeAlias = Literal["two-choices", "random"]


def slowdown(utilisation: Floats, cores: Floats, *, balancing: Balancing = "random") -> Floats:
    """Mean time to get a core-second of work done, over one second; for loads below 1.

    A pod that gets its requests at random is the queue of `trimtab.pod_autoscaling.queueing`. Where each
    request goes to the emptier of two pods and these have one core, the waiting is load^2 + load^6 + load^14
    + ... instead of load / (1 - load) (Vvedenskaya et al., 1996; Mitzenmacher, 2001; for many pods). Larger
    pods are taken to gain as much.

    >>> slowdown(np.array([0.5, 0.5, 0.0]), np.array([1.0, 2.0, 0.5])).round(3).tolist()
    [2.0, 1.333, 2.0]
    >>> slowdown(np.array([0.5]), np.array([1.0]), balancing="two-choices").round(3).tolist()
    [1.266]
    """
    load = np.clip(np.asarray(utilisation, np.float64), 1e-9, 0.999)
    at_random = mean_cpu_s(load * cores, 1.0, cores)
    if balancing == "random":
        return at_random
    alone = 1 / np.minimum(cores, 1.0)
    return alone + (at_random - alone) * _gain(load)


def _gain(load: Floats) -> Floats:
    """Waiting with two choices over that with none, for pods of one core."""
    two = sum((load ** (2.0**power - 2) for power in range(2, 12)), np.zeros_like(load))
    return two * (1 - load) / load
