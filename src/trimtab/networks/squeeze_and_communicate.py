"""What one agent tells another: many things squeezed into one, let in through a gate.

After DAS (Xing et al., KDD 2023), where the agent that orders jobs hears of the machines. With s the mean
of all machines and f a linear layer,

    gate = sigmoid(W [job, f(s)] + b)        job' = gate f(s) + (1 - gate) job

number by number. The weights of W for the job and for f(s) are kept apart, which saves putting the two
side by side for every job.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trimtab.networks.layers import Array, Parameters, dense, new_dense
from trimtab.networks.recurrent import sigmoid

__all__ = ["communicated", "new_communication", "squeezed"]

# sigmoid(-2) is 0.12: at first most of a job stays what it was.
_FIRST_GATE = -2.0


def new_communication(random: np.random.Generator, width: int) -> Parameters:
    """Parameters of f and of the gate, which lets in little at first."""
    parts = {name: new_dense(random, width, width) for name in ("message", "gate_of_job", "gate_of_message")}
    parts["gate_of_job"]["bias"] += _FIRST_GATE
    # One bias is enough for a sum.
    parts["gate_of_message"] = {"weights": parts["gate_of_message"]["weights"]}
    return parts


def squeezed(things: Array, real: Array, xp: Any) -> Array:
    """The mean [batch, width] of those things [batch, n, width] that are real [batch, n]; of none it is 0.

    >>> squeezed(np.array([[[1.0], [3.0], [99.0]]]), np.array([[True, True, False]]), np).tolist()
    [[2.0]]
    """
    counts = xp.maximum(real.sum(-1), 1).astype(things.dtype)
    return xp.where(real[..., None], things, 0).sum(-2) / counts[..., None]


def communicated(parameters: Parameters, jobs: Array, squeezed_machines: Array, xp: Any) -> Array:
    """Jobs [batch, n, width] after they have heard of the machines [batch, width].

    >>> parameters = new_communication(np.random.default_rng(0), 4)
    >>> communicated(parameters, np.ones((2, 3, 4)), np.ones((2, 4)), np).shape
    (2, 3, 4)
    """
    message = dense(parameters["message"], squeezed_machines)
    heard = message @ parameters["gate_of_message"]["weights"]
    gate = sigmoid(dense(parameters["gate_of_job"], jobs) + heard[:, None, :], xp)
    return jobs + gate * (message[:, None, :] - jobs)
