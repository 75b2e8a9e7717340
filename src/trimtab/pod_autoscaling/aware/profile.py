"""The true profile of an application in numbers about one: what a context should come to know.

Only a simulator knows it. In training critics may see it, and the context encoder learns to tell it; at work
nobody is told.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from trimtab.pod_autoscaling.application import Application
from trimtab.pod_autoscaling.drift import Drift

__all__ = ["PROFILE", "profile_of"]

PROFILE = (
    "work of a request",
    "variation of work",
    "time outside",
    "limit over unloaded tail",
    "memory of a pod",
    "memory of a request",
    "time to start",
)

# (usual value, factor that counts as one), after the training applications.
_SCALES = ((0.03, 4.0), (0.6, 2.0), (0.01, 4.0), (2.0, 1.5), (75.0, 1.3), (3.0, 2.5), (8.0, 2.0))


def profile_of(
    application: Application, drift: Drift | None = None, at_s: float = 0.0
) -> NDArray[np.float32]:
    """Logarithms of an application's numbers at a moment of its drift, each in its own scale.

    >>> [round(float(number), 1) for number in profile_of(Application())]
    [-0.3, 0.8, -1.7, 0.0, -0.9, -1.1, 0.0]
    """
    change = None
    if drift is not None:
        change = next((one for one in reversed(drift.changes) if one.at_s <= at_s), None)
    cpu, io, memory, request, start = (
        (1.0,) * 5
        if change is None
        else (change.cpu, change.io, change.memory, change.request_memory, change.start)
    )
    values = (
        application.cpu_s * cpu,
        application.cpu_variation + 0.05,
        application.io_s * io + 0.001,
        application.slo_s / application.unloaded_p99_s,
        application.memory_mib * memory,
        application.memory_per_request_mib * request + 0.1,
        application.start_s * start,
    )
    return np.array(
        [
            math.log(value / usual) / math.log(factor)
            for value, (usual, factor) in zip(values, _SCALES, strict=True)
        ],
        np.float32,
    )
