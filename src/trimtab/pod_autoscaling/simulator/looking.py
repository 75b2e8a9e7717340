"""The status of pods, as the API server and the metrics server tell it."""

from __future__ import annotations

import numpy as np

from trimtab.pod_autoscaling.deployment import Deployment
from trimtab.pod_autoscaling.problem import Flags, Pods
from trimtab.pod_autoscaling.simulator.settings import window_s
from trimtab.pod_autoscaling.simulator.state import ABSENT, ENDING, PULLING, READY, WAITING, State

__all__ = ["pods_of", "resizing_of"]


def pods_of(state: State, deployment: Deployment) -> Pods:
    """All pods, [E, P]; times of day. A pod keeps its column as long as it exists."""
    run, pods = state.run[:, 0], state.pods
    what = pods["state"]
    exists = what != ABSENT
    pending = (what == WAITING) | (what == PULLING)
    start_s = run["start_s"][:, None]
    window = window_s(deployment)
    # The newest scrape that is at least as old as metrics are when they arrive.
    number = np.floor((run["second"] - deployment.metric_lag_s) / window).astype(np.int64)
    place = np.maximum(number, 0) % state.scrapes.shape[2]
    seen = state.scrapes[np.arange(len(run)), :, place]
    measured = exists & (number[:, None] > 0) & (seen[:, :, 0] == pods["number"] + 1)
    return Pods(
        exists=exists,
        pending=pending,
        ending=what == ENDING,
        ready=what == READY,
        started_s=np.where(pending, np.nan, start_s + pods["started_s"]),
        ready_changed_s=start_s + pods["ready_changed_s"],
        cpu_request=pods["cpu_asked"].copy(),
        memory_request=pods["memory_asked"].copy(),
        measured=measured,
        measured_s=np.broadcast_to(start_s + (number * window)[:, None], what.shape).copy(),
        cpu=np.where(measured, seen[:, :, 1], 0.0),
        memory=np.where(measured, seen[:, :, 2], 0.0),
        killed_s=start_s + pods["killed_s"],
        killed_at=pods["killed_at"].copy(),
    )


def resizing_of(state: State) -> Flags:
    """Whether some pod, not counting those on their way out, has not what was asked for last; [E]."""
    run, pods = state.run, state.pods
    counts = (pods["state"] != ABSENT) & (pods["state"] != ENDING)
    differs = (pods["cpu"] != run["cpu"]) | (pods["memory"] != run["memory"])
    return (counts & differs).any(1)
