"""DL2: which waiting job starts next, by a small network (Peng et al., 2019; IEEE TPDS 2021).

Kept: a window of 20 jobs, their features and those of the cluster side by side through two dense layers, an
action for every job of the window and one to skip; first it copies a rule, then it learns by actor-critic.
Changed, because our jobs are gangs of a fixed size: an action starts a whole job where DL2 adds one worker or
parameter server, and the machines are those with most free (load balance, as in DL2). The window holds the
oldest jobs that fit, and time run so far takes the place of the remaining share, which nobody knows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trimtab.core.bundle import Bundle
from trimtab.gpu_scheduling.heuristics import placements
from trimtab.gpu_scheduling.heuristics.words import gang_milli, hold, other_capacity
from trimtab.gpu_scheduling.problem import WHOLE, Action, Snapshot, gang_fits, start
from trimtab.gpu_scheduling.rivals.bundles import checked

__all__ = [
    "INPUTS",
    "KIND",
    "SKIP",
    "WINDOW",
    "Dl2Policy",
    "View",
    "action_of",
    "layers",
    "shapes",
    "view_of",
]

Floats: TypeAlias = NDArray[np.float64]

KIND = "dl2"
WINDOW, SKIP = 20, 20
"""Jobs of the window; the action after them is to skip."""
JOB_FEATURES = ("GPUs", "time waited", "time run", "dominant share", "communication", "sensitivity")
CLUSTER_FEATURES = (
    "GPUs free",
    "jobs waiting",
    "jobs running",
    "jobs beyond the window",
    "GPUs of the oldest that does not fit",
    "time it has waited",
)
INPUTS = WINDOW * len(JOB_FEATURES) + len(CLUSTER_FEATURES)
HIDDEN = 64
_NO_SETTINGS = np.zeros(1)


class View(NamedTuple):
    """What the network is shown."""

    jobs: list[int]  # slots of the window
    inputs: Floats  # [INPUTS]
    mask: NDArray[np.bool_]  # [WINDOW + 1]: may be chosen


def view_of(snapshot: Snapshot) -> View:
    """The oldest jobs that fit, and the state of the cluster; times as logarithms."""
    window: list[int] = []
    beyond = 0
    stuck: int | None = None
    for job in snapshot.pending.tolist():
        fits = gang_milli(snapshot, job) <= snapshot.free_total_milli
        if fits and len(window) == WINDOW:
            beyond += 1
        elif fits and gang_fits(snapshot, job):
            window.append(job)
        elif stuck is None:
            stuck = job
    inputs = np.zeros(INPUTS)
    if window:
        shown = _job_features(snapshot, np.array(window, np.int64))
        inputs[: shown.size] = shown.ravel()
    inputs[-len(CLUSTER_FEATURES) :] = (
        snapshot.free_total_milli / (WHOLE * snapshot.total_gpus),
        math.log1p(len(snapshot.pending)) / 5.0,
        math.log1p(len(snapshot.running)) / 5.0,
        math.log1p(beyond) / 5.0,
        0.0 if stuck is None else math.log2(1.0 + gang_milli(snapshot, stuck) / WHOLE) / 4.0,
        0.0 if stuck is None else _seconds(snapshot.now_ms - snapshot.arrival_ms[stuck]),
    )
    mask = np.arange(WINDOW + 1) < len(window)
    mask[SKIP] = bool(snapshot.may_hold)
    return View(window, inputs, mask)


def _job_features(snapshot: Snapshot, jobs: NDArray[np.int64]) -> Floats:
    gpus = snapshot.instances[jobs] * snapshot.gpu_milli[jobs] / WHOLE
    cpu_capacity, memory_capacity = other_capacity(snapshot)
    share = np.maximum.reduce(
        [
            gpus / snapshot.total_gpus,
            snapshot.instances[jobs] * snapshot.cpu_milli[jobs] / max(cpu_capacity, 1),
            snapshot.instances[jobs] * snapshot.memory_mib[jobs] / max(memory_capacity, 1),
        ]
    )
    ran = snapshot.attained_ms[jobs]
    return np.stack(
        [
            np.log2(1.0 + gpus) / 4.0,
            np.log1p(np.maximum(snapshot.now_ms - snapshot.arrival_ms[jobs] - ran, 0) / 1000.0) / 10.0,
            np.log1p(ran / 1000.0) / 10.0,
            share,
            10.0 * snapshot.communication[jobs],
            snapshot.sensitivity[jobs] / 1000.0 - 1.0,
        ],
        axis=1,
    )


def _seconds(span_ms: float) -> float:
    return math.log1p(max(float(span_ms), 0.0) / 1000.0) / 10.0


def shapes() -> dict[str, tuple[int, ...]]:
    """Tensors of the network: two dense layers, and the scores of the actions."""
    widths = (INPUTS, HIDDEN, HIDDEN, WINDOW + 1)
    found: dict[str, tuple[int, ...]] = {}
    for place, (inside, outside) in enumerate(pairwise(widths)):
        found[f"w{place}"], found[f"b{place}"] = (inside, outside), (outside,)
    return found


def layers(tensors: Mapping[str, Floats], inputs: Floats) -> list[Floats]:
    """What comes out of each layer, the inputs first; the last are scores."""
    out = [inputs]
    last = len(tensors) // 2 - 1
    for place in range(last + 1):
        sums = out[-1] @ tensors[f"w{place}"] + tensors[f"b{place}"]
        out.append(sums if place == last else np.maximum(sums, 0.0))
    return out


def action_of(snapshot: Snapshot, view: View, choice: int) -> Action:
    """The action of a choice: start that job on the machines with most free, or skip."""
    if choice == SKIP:
        return hold(snapshot)
    job = view.jobs[choice]
    count, gpu = placements.load_balance(snapshot, job, _NO_SETTINGS)
    return start(job, snapshot.machine_order[:count], gpu)


class Dl2Policy:
    """The next of up to 20 waiting jobs by a network, on the machines with most free (DL2)."""

    needs_durations = False
    timed = True
    """It sees how long jobs have waited."""

    def __init__(self, bundle: Bundle) -> None:
        self.tensors = checked(bundle, KIND, shapes())
        self.name = bundle.name

    def decide(self, snapshot: Snapshot) -> Action:
        view = view_of(snapshot)
        if not view.jobs:
            return hold(snapshot)
        scores = np.where(view.mask, layers(self.tensors, view.inputs)[-1], -np.inf)
        return action_of(snapshot, view, int(np.argmax(scores)))
