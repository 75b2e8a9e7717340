"""The public traces that GPU benchmarks play, and the clusters they play them on."""

from __future__ import annotations

import csv
import gzip
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from benchmarks.results import shared_data
from trimtab.gpu_scheduling.cluster import Cluster, MachineGroup
from trimtab.gpu_scheduling.history import HISTORY
from trimtab.gpu_scheduling.workload import Workload
from trimtab.gpu_scheduling.workload.clusters import find_cluster
from trimtab.gpu_scheduling.workload.presets import filtered, jobs_in_a_row, with_unknown_filled

V1000_ROWS = range(60_000, 61_000)
CALM = {"contention": 0.0, "communication": 0.0}


@lru_cache
def imported(source: str, path: str) -> Workload:
    """A trace beside the checkout, as `trimtab import` reads it; it says so when there is none."""
    found = shared_data() / path
    if not found.is_file():
        raise SystemExit(f"error: {found} is missing; the folder of outside traces is not complete")
    workload, _report = HISTORY.load(source)(str(found))
    return workload


def venus() -> Workload:
    """All GPU jobs of Helios' Venus cluster: 125,303 of 194 days."""
    return imported("gpu-jobs-csv", "helios_venus/helios_venus_gpu_jobs.csv.gz")


@lru_cache
def v1000() -> Workload:
    """The common trace of the simulators: of the jobs with at most 64 GPUs, rows 60,000 to 60,999."""
    return jobs_in_a_row(filtered(venus(), most_gpus=64), V1000_ROWS.start, len(V1000_ROWS))


@lru_cache
def pai(most_gpus: int = 640) -> Workload:
    """60 thousand tasks of Alibaba's PAI: those that 80 machines of 8 GPUs can hold."""
    return filtered(
        imported("gpu-jobs-csv", "alibaba_pai_v2020/pai_gpu_tasks_60k.csv.gz"), most_gpus=most_gpus
    )


def disturbed(workload: Workload) -> Workload:
    """The same jobs with made-up sensitivities and communication, as the product fills what a trace omits."""
    return with_unknown_filled(workload, sensitivity_spread=0.5, communication=0.1)


def homogeneous(machines: int, gpus: int, **settings: object) -> Cluster:
    """Equal machines in racks of four."""
    group = MachineGroup(count=machines, gpus=gpus, rack_size=4)
    return Cluster.model_validate({"machines": (group,), **settings})


def openb_cluster() -> Cluster:
    """1,213 machines with 6,212 GPUs; nothing slows anybody down, because nothing ends there."""
    return find_cluster("openb").model_copy(update=CALM)


@dataclass(frozen=True)
class OpenbArrivals:
    """Pods of openb in random order; those without GPUs come between the others."""

    jobs: Workload
    cpu_pods: list[tuple[int, int, int]]  # when (ms), thousandths of CPUs, MiB
    cpu_nodes: np.ndarray  # [nodes without GPUs, 2]: thousandths of CPUs, MiB


def openb_arrivals(seed: int, *, capacity: float) -> OpenbArrivals:
    """All pods in random order, then drawn again, until they ask for `capacity` GPUs; none ever ends.

    They come a millisecond apart and stay for ten years.
    """
    pods, without_gpus, cpu_nodes = _openb()
    random = np.random.default_rng(seed)
    count = pods.job_count + len(without_gpus)
    order = np.concatenate([random.permutation(count), random.integers(count, size=count)])
    gpus = np.concatenate([pods.gpus, np.zeros(len(without_gpus))])
    order = order[: int(np.searchsorted(np.cumsum(gpus[order]), capacity)) + 1]
    has_gpus = order < pods.job_count
    when = np.arange(len(order), dtype=np.int64)
    drawn = pods.chosen(order[has_gpus]).arriving(when[has_gpus])
    beside = [
        (int(moment), *without_gpus[place - pods.job_count])
        for moment, place in zip(when[~has_gpus], order[~has_gpus], strict=True)
    ]
    return OpenbArrivals(drawn, beside, cpu_nodes)


@lru_cache
def _openb() -> tuple[Workload, list[tuple[int, int]], np.ndarray]:
    """Pods with GPUs as the product imports them, and what it has no room for: CPU-only pods and nodes."""
    folder = shared_data() / "alibaba_gpu_v2023_openb"
    path = folder / "openb_pod_list_default.csv.gz"
    imported_pods, _report = HISTORY.load("openb-2023")(str(path), keep_pending=True)
    count = imported_pods.job_count
    pods = replace(
        imported_pods,
        ids=(),
        arrival_ms=np.zeros(count, np.int64),
        duration_ms=np.full(count, 315_360_000_000, np.int64),
    )
    without_gpus = [
        (int(row["cpu_milli"]), int(row["memory_mib"])) for row in _rows(path) if row["num_gpu"] == "0"
    ]
    nodes = [row for row in _rows(folder / "openb_node_list_all_node.csv.gz") if row["gpu"] == "0"]
    return pods, without_gpus, np.array([(int(row["cpu_milli"]), int(row["memory_mib"])) for row in nodes])


def _rows(path: Path) -> list[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return list(csv.DictReader(file))
