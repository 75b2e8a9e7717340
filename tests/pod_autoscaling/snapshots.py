"""Snapshots made by hand, for tests of rules: every number is said or plain."""

from __future__ import annotations

from typing import Any

import numpy as np

from trimtab.pod_autoscaling.problem import Pods, Samples, Services, Snapshot


def services_of(
    environments: int = 1,
    *,
    least: Any = (1, 0.1, 64),
    most: Any = (20, 4, 4096),
    quantum: Any = (1, 0.01, 16),
    slo_s: Any = 0.4,
    budget: Any = 0.01,
) -> Services:
    """Services with the usual bounds; whatever is given broadcasts to [E, 3] or [E]."""

    def sizes(values: Any) -> np.ndarray:
        return np.broadcast_to(np.asarray(values, float), (environments, 3)).copy()

    def each(values: Any) -> np.ndarray:
        return np.broadcast_to(np.asarray(values, float), (environments,)).copy()

    return Services(sizes(least), sizes(most), sizes(quantum), each(slo_s), each(budget))


def snapshot_of(
    services: Services,
    *,
    size: Any = (4, 1.0, 512),
    history: int = 20,
    pods: int | None = None,
    interval_s: float = 15.0,
    metric_window_s: float = 15.0,
    **given: Any,
) -> Snapshot:
    """A snapshot of services that have run unchanged for long; whatever is given replaces what is usual.

    Arrays of samples may be given as anything that broadcasts to [E, L], those of pods (`pod_...`) as
    anything that broadcasts to [E, P]; the first pods of each service exist, as many as its replicas.
    Unless they are given, every pod is ready and uses its share of the service's CPU, as measured just now.
    """
    count = len(services.slo_s)
    asked = np.broadcast_to(np.asarray(size, float), (count, 3)).copy()
    wide = int(asked[:, 0].max()) if pods is None else pods
    now_s = np.broadcast_to(np.asarray(given.pop("now_s", 36_000.0), float), (count,)).copy()

    def taken(name: str, usual: Any, width: int, kind: type = float) -> Any:
        return np.broadcast_to(np.asarray(given.pop(name, usual), kind), (count, width)).copy()

    def one_each(name: str, usual: Any, kind: type) -> Any:
        return np.broadcast_to(np.asarray(given.pop(name, usual), kind), (count,)).copy()

    rate = taken("rate", 100.0, history)
    cpu = taken("cpu", 2.0, history)
    ready = taken("samples_ready", asked[:, :1], history)
    samples = Samples(
        present=taken("present", True, history, bool),
        complete=taken("complete", True, history, bool),
        rate=rate,
        late=taken("late", 0.0, history),
        failed=taken("failed", 0.0, history),
        latency_s=taken("latency_s", 0.05, history),
        latency_p50_s=taken("latency_p50_s", 0.04, history),
        latency_p99_s=taken("latency_p99_s", 0.2, history),
        in_flight=taken("in_flight", 5.0, history),
        cpu=cpu,
        throttled=taken("throttled", 0.0, history),
        memory=taken("memory", 400.0, history),
        kills=taken("kills", 0.0, history),
        replicas=taken("replicas", asked[:, :1], history),
        ready=ready,
        cpu_limit=taken("cpu_limit", asked[:, 1:2], history),
        memory_limit=taken("memory_limit", asked[:, 2:], history),
    )
    exists = taken("pod_exists", np.arange(wide) < asked[:, :1], wide, bool)
    pending = taken("pod_pending", False, wide, bool)
    began_s = now_s[:, None] - 7200.0
    share = np.where(exists, cpu[:, -1:] / np.maximum(exists.sum(1, keepdims=True), 1), 0.0)
    found = Pods(
        exists=exists,
        pending=pending,
        ending=taken("pod_ending", False, wide, bool),
        ready=taken("pod_ready", exists & ~pending, wide, bool),
        started_s=taken("pod_started_s", np.where(exists & ~pending, began_s, np.nan), wide),
        ready_changed_s=taken(
            "pod_ready_changed_s", np.where(exists & ~pending, began_s + 10.0, np.nan), wide
        ),
        cpu_request=taken("pod_cpu_request", np.where(exists, asked[:, 1:2], 0.0), wide),
        memory_request=taken("pod_memory_request", np.where(exists, asked[:, 2:], 0.0), wide),
        measured=taken("pod_measured", exists & ~pending, wide, bool),
        measured_s=taken("pod_measured_s", now_s[:, None], wide),
        cpu=taken("pod_cpu", share, wide),
        memory=taken("pod_memory", np.where(exists, samples.memory[:, -1:], 0.0), wide),
        killed_s=taken("pod_killed_s", np.nan, wide),
        killed_at=taken("pod_killed_at", np.nan, wide),
    )
    made = Snapshot(
        now_s=now_s,
        interval_s=interval_s,
        metric_window_s=metric_window_s,
        services=services,
        size=asked,
        ready=one_each("ready", (found.exists & found.ready).sum(1), np.int64),
        resizing=one_each("resizing", False, bool),
        infeasible=one_each("infeasible", False, bool),
        samples=samples,
        pods=found,
    )
    assert not given, f"unknown: {sorted(given)}"
    return made


def one_row(snapshot: Snapshot, row: int) -> Snapshot:
    """One service of a batch, alone."""

    def cut(parts: tuple) -> list:
        return [part[row : row + 1] for part in parts]

    each = ("now_s", "size", "ready", "resizing", "infeasible")
    return snapshot._replace(
        services=Services(*cut(snapshot.services)),
        samples=Samples(*cut(snapshot.samples)),
        pods=Pods(*cut(snapshot.pods)),
        **{name: getattr(snapshot, name)[row : row + 1] for name in each},
    )
