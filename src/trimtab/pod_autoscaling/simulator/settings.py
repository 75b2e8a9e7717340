"""The deployment as a record that compiled code reads."""

from __future__ import annotations

import math

import numpy as np

from trimtab.pod_autoscaling.deployment import Deployment
from trimtab.pod_autoscaling.simulator.state import Record, record

__all__ = ["RANDOM", "ROUND_ROBIN", "TWO_CHOICES", "settings_of"]

TWO_CHOICES, RANDOM, ROUND_ROBIN = range(3)

SETTINGS = record(
    "interval_s reading_s"  # the interval's metrics are read so many seconds after its beginning
    " window_s"  # between two scrapes of pods
    " nodes balancing",
    floats="node_cpu node_memory_mib period_s schedule_s pull_s drain_s resize_s restart_s backoff_s"
    " longest_backoff_s burst missing metric_noise",
    flags="quota in_place",
)


def settings_of(deployment: Deployment) -> Record:
    """Whole seconds where the engine counts in them."""
    settings = np.zeros(1, SETTINGS)[0]
    values = {
        "reading_s": deployment.interval_s - report_lag_s(deployment),
        "window_s": window_s(deployment),
        "balancing": ("two-choices", "random", "round-robin").index(deployment.balancing),
        "period_s": deployment.period_ms / 1000,
        "quota": deployment.sharing == "cfs",
        "in_place": deployment.resize == "in_place",
    }
    for name in SETTINGS.names or ():
        settings[name] = values[name] if name in values else getattr(deployment, name)
    return settings


def report_lag_s(deployment: Deployment) -> int:
    """Whole seconds, less than an interval."""
    return min(math.ceil(deployment.report_lag_s), deployment.interval_s - 1)


def window_s(deployment: Deployment) -> int:
    """Whole seconds between two scrapes."""
    return math.ceil(deployment.metric_window_s)
