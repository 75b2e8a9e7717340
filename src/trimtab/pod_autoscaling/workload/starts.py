"""The size that a service begins with: how it came into being is not what policies are compared by."""

from __future__ import annotations

import numpy as np

from trimtab.pod_autoscaling.application import Application
from trimtab.pod_autoscaling.deployment import Deployment
from trimtab.pod_autoscaling.problem import Floats

__all__ = ["size_for"]


def size_for(
    application: Application,
    deployment: Deployment,
    *,
    cores: float,
    pod_cpu: float,
    memory_factor: float = 1.0,
) -> Floats:
    """Pods of `pod_cpu` for so many cores in all, with memory for as many requests as they work on at a time.

    >>> size_for(Application(), Deployment(), cores=4.5, pod_cpu=1.0).tolist()
    [5.0, 1.0, 512.0]
    """
    pods = np.clip(np.ceil(cores / pod_cpu - 1e-9), deployment.least_replicas, deployment.most_replicas)
    busy_mib = application.memory_mib + application.cache_mib
    busy_mib += application.workers * application.memory_per_request_mib
    memory_mib = max(deployment.start_memory_mib, busy_mib) * memory_factor
    return np.array([pods, pod_cpu, min(memory_mib, deployment.most_memory_mib)])
