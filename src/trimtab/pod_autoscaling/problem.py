"""What an autoscaler of services sees, what it may decide, and what is good.

A *service* is a Deployment: replicas of one pod behind a load balancer. Three numbers are decided once per
interval, its *size*: the replicas, and the CPU and the memory of each pod (request = limit). Columns of a
size are always in this order: `REPLICAS`, `CPU` (cores), `MEMORY` (MiB).

Arrays carry many services at once, E of them; a live service is a batch of one. What is known of single pods
comes in P columns, and `Pods.exists` says which are real.

Everything here is plain numpy, so the same words serve the simulator and a live cluster.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trimtab.core.errors import ActionError

__all__ = [
    "CPU",
    "MEMORY",
    "REPLICAS",
    "SIZE",
    "Command",
    "Decider",
    "PodPolicy",
    "Pods",
    "Samples",
    "Services",
    "Snapshot",
    "allowed",
    "decode",
    "let_through",
    "nearest_allowed",
]

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]

REPLICAS, CPU, MEMORY = 0, 1, 2
SIZE = ("replicas", "cpu", "memory")


class Services(NamedTuple):
    """The services: what does not change while they run."""

    least: Floats  # [E, 3]: a size may not be less
    most: Floats  # [E, 3]: nor more
    quantum: Floats  # [E, 3]: replicas are whole; CPU and memory come in such steps
    slo_s: Floats  # [E]: the 99th percentile of latency must not be above
    budget: Floats  # [E]: share of requests that may be late or fail


class Pods(NamedTuple):
    """What Kubernetes tells of each pod: status now, and the usage its metrics server saw last."""

    exists: Flags  # [E, P]: in the API: pending, running, or on its way out
    pending: Flags  # [E, P]: no node has room for it, or its container has not started
    ending: Flags  # [E, P]: deletion began; it drains
    ready: Flags  # [E, P]: gets requests
    started_s: Floats  # [E, P]: when the pod began; NaN while pending
    ready_changed_s: Floats  # [E, P]: when it last became ready, or ceased to be; NaN if never
    cpu_request: Floats  # [E, P]: cores
    memory_request: Floats  # [E, P]: MiB
    measured: Flags  # [E, P]: there is a sample of its usage; otherwise the three below mean nothing
    measured_s: Floats  # [E, P]: the end of the sample's window
    cpu: Floats  # [E, P]: cores used, mean over the window
    memory: Floats  # [E, P]: MiB of working set
    killed_s: Floats  # [E, P]: when memory last ran out; NaN if never
    killed_at: Floats  # [E, P]: MiB it had asked for then


class Samples(NamedTuple):
    """Metrics of whole services in the last L intervals, newest last: reported late and noisily.

    A gauge of the load balancer (rates and latencies) covers one interval. Where `complete` is false, the
    numbers of the interval repeat the last that were known, or are 0 if none were.
    """

    present: Flags  # [E, L]: the interval has been lived through
    complete: Flags  # [E, L]: monitoring answered
    rate: Floats  # [E, L]: requests per second that arrived
    late: Floats  # [E, L]: share of the finished that took longer than slo_s or failed
    failed: Floats  # [E, L]: share that failed: refused, lost in a kill, or given up
    latency_s: Floats  # [E, L]: mean of those answered
    latency_p50_s: Floats  # [E, L]
    latency_p99_s: Floats  # [E, L]
    in_flight: Floats  # [E, L]: requests inside, mean; queues included
    cpu: Floats  # [E, L]: cores used by all pods
    throttled: Floats  # [E, L]: share of the scheduler's periods in which pods were held back
    memory: Floats  # [E, L]: MiB of working set of the largest pod, its peak in the interval
    kills: Floats  # [E, L]: pods that ran out of memory
    replicas: Floats  # [E, L]: asked for, at the end of the interval
    ready: Floats  # [E, L]: pods that served, mean
    cpu_limit: Floats  # [E, L]: cores of a pod, asked for, at the end of the interval
    memory_limit: Floats  # [E, L]: MiB


class Snapshot(NamedTuple):
    """What an outsider can know at the moment of a decision."""

    now_s: Floats  # [E]: time of day counts from midnight of the first day
    interval_s: float  # between decisions
    metric_window_s: float  # over which the usage of pods is a mean
    services: Services
    size: Floats  # [E, 3]: as asked for last
    ready: Integers  # [E]: pods that get requests now
    resizing: Flags  # [E]: some pod's resources are still not those asked for
    infeasible: Flags  # [E]: a node said that it can never hold pods of this size
    samples: Samples
    pods: Pods


class Command(NamedTuple):
    """A change for one live service, in the units of its API, and why it is not what was asked for."""

    replicas: int
    cpu_millicores: int
    memory_mib: int
    because: tuple[str, ...] = ()


class Decider(Protocol):
    """A policy at work on some services; may remember what it has seen."""

    def decide(self, snapshot: Snapshot) -> Floats:
        """The size wanted for every service, [E, 3]; as it is where nothing should change."""
        ...


class PodPolicy(Protocol):
    """Any object with a name and a `begin`."""

    @property
    def name(self) -> str: ...

    def begin(self, services: Services, /) -> Decider:
        """Start afresh on these services."""
        ...


def nearest_allowed(services: Services, wanted: Floats) -> Floats:
    """The nearest size within bounds and on the grid, [E, 3]; halves are rounded up.

    >>> one = Services(*np.array([[[1, 0.1, 64.0]], [[10, 4.0, 4096]], [[1, 0.01, 16]]]), *np.ones((2, 1)))
    >>> nearest_allowed(one, np.array([[12.2, 0.256, 500.0]]))
    array([[1.00e+01, 2.60e-01, 4.96e+02]])
    """
    steps = np.floor(wanted / services.quantum + 0.5)
    # Bounds need not lie on the grid: the outermost steps within them do.
    lowest = np.ceil(services.least / services.quantum - 1e-9)
    highest = np.floor(services.most / services.quantum + 1e-9)
    return np.clip(steps, lowest, highest) * services.quantum


def allowed(snapshot: Snapshot, wanted: Floats) -> Floats:
    """The nearest to what is wanted that may be done, [E, 3].

    Sizes stay within their bounds and on their grid. While monitoring does not answer, nothing is made
    smaller: nobody knows what the service does.
    """
    known = snapshot.samples.complete[:, -1] & snapshot.samples.present[:, -1]
    return let_through(snapshot.services, snapshot.size, known, wanted)


def let_through(services: Services, size: Floats, known: Flags, wanted: Floats) -> Floats:
    """What `allowed` says, of all that it needs of a snapshot: sizes, and whether monitoring answers, [E]."""
    if wanted.shape != size.shape:
        raise ActionError(f"sizes of shape {wanted.shape} for {size.shape[0]} services of 3 numbers")
    if not np.isfinite(wanted).all():
        env, column = np.argwhere(~np.isfinite(wanted))[0]
        raise ActionError(f"service {env}: {SIZE[column]} = {wanted[env, column]} is not a finite number")
    within = nearest_allowed(services, wanted)
    return np.where(known[:, None], within, np.maximum(within, size))


def decode(snapshot: Snapshot, wanted: Floats) -> Command | None:
    """The command for a live service (a batch of one), or None where nothing is to be done."""
    if len(wanted) != 1:
        raise ActionError(f"{len(wanted)} services; a command is for one")
    done = allowed(snapshot, wanted)
    # A request off the grid is not refused, only one out of bounds or made while nothing is known.
    off = np.abs(done - wanted) > snapshot.services.quantum
    because = tuple(
        f"{SIZE[i]}: {wanted[0, i]:g} wanted, {done[0, i]:g} allowed" for i in range(3) if off[0, i]
    )
    if np.allclose(done, snapshot.size, rtol=0, atol=1e-9):
        return None
    replicas, cores, memory = done[0]
    return Command(round(replicas), round(1000 * cores), round(memory), because)
