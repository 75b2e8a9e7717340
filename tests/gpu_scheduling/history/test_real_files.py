"""The compact public traces beside the checkout: row counts and sums that their notes state."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from trimtab.gpu_scheduling.cluster import Cluster
from trimtab.gpu_scheduling.history.alibaba_pai_2020 import write_pai_machines
from trimtab.gpu_scheduling.history.gpu_jobs_csv import import_gpu_jobs_csv
from trimtab.gpu_scheduling.history.openb_2023 import import_openb_2023, write_openb_machines
from trimtab.gpu_scheduling.workload import Workload
from trimtab.gpu_scheduling.workload.clusters import TRACE_TYPES, find_cluster
from trimtab.gpu_scheduling.workload.presets import filtered, jobs_in_a_row


def file_of(shared_data: Path, name: str) -> str:
    path = shared_data / name
    if not path.exists():
        pytest.skip(f"{name} is not among the shared data")
    return str(path)


def quantiles_s(jobs: Workload, *percentages: float) -> list[int]:
    return [round(value / 1000) for value in np.percentile(jobs.duration_ms, percentages)]


def test_venus(shared_data: Path) -> None:
    jobs, report = import_gpu_jobs_csv(file_of(shared_data, "helios_venus/helios_venus_gpu_jobs.csv.gz"))
    assert jobs.job_count == 125_303
    assert not report.dropped
    assert quantiles_s(jobs, 50, 100) == [204, 172_800]
    assert (jobs.gpus == 1).mean() == pytest.approx(0.52, abs=0.005)
    assert (jobs.gpus == 8).mean() == pytest.approx(0.25, abs=0.005)
    assert jobs.gpus.max() == 200
    assert jobs.arrival_ms[-1] == pytest.approx(194 * 86_400_000, rel=0.005)


def test_the_common_thousand_of_venus(shared_data: Path) -> None:
    """Rows 60,000 to 60,999 of those with at most 64 GPUs offer 0.85 of 64 x 8 GPUs over 276,362 s."""
    jobs, _ = import_gpu_jobs_csv(file_of(shared_data, "helios_venus/helios_venus_gpu_jobs.csv.gz"))
    thousand = jobs_in_a_row(filtered(jobs, most_gpus=64), 60_000, 1000)
    assert thousand.job_count == 1000
    assert thousand.ids[0] == filtered(jobs, most_gpus=64).ids[60_000]
    assert thousand.gpu_ms.sum() / (512 * thousand.arrival_ms[-1]) == pytest.approx(0.85, abs=0.005)
    # If every job ran at once, the last would end when the simulated span is over.
    assert (thousand.arrival_ms + thousand.duration_ms).max() == pytest.approx(276_362_000, abs=1000)


def test_philly(shared_data: Path) -> None:
    jobs, report = import_gpu_jobs_csv(file_of(shared_data, "philly/philly_jobs.csv.gz"))
    assert jobs.job_count == 82_247
    assert not report.dropped
    assert quantiles_s(jobs, 50, 99) == [1144, 254_758]
    assert (jobs.gpus == 1).mean() == pytest.approx(0.93, abs=0.005)
    # The 15 virtual clusters stand for users.
    assert len(np.unique(jobs.user)) == 15


def test_pai(shared_data: Path) -> None:
    jobs, report = import_gpu_jobs_csv(file_of(shared_data, "alibaba_pai_v2020/pai_gpu_tasks_60k.csv.gz"))
    assert jobs.job_count == 60_105
    assert not report.dropped
    assert quantiles_s(jobs, 10, 50, 90, 99) == [41, 618, 12_201, 66_192]
    assert (jobs.gpus == 1).mean() == pytest.approx(0.770, abs=0.001)
    assert jobs.gpus.max() == 400
    assert jobs.arrival_ms[-1] / 86_400_000 == pytest.approx(63.7, abs=0.05)
    small = filtered(jobs, most_gpus=16, shortest_s=60)
    assert small.gpus.mean() == pytest.approx(2.2, abs=0.05)


@pytest.mark.parametrize(("variant", "rows", "without"), [("default", 8152, 1088), ("gpuspec33", 8152, 1088)])
def test_openb(variant: str, rows: int, without: int, shared_data: Path) -> None:
    path = file_of(shared_data, f"alibaba_gpu_v2023_openb/openb_pod_list_{variant}.csv.gz")
    jobs, report = import_openb_2023(path, keep_pending=True)
    assert report.read["rows"] == rows
    assert report.dropped["pod without GPUs"] == without
    assert jobs.job_count + sum(report.dropped.values()) == rows
    assert (jobs.gpus == 8).sum() == 44
    # 4,166 rows below one GPU, those without any among them; one of them was deleted when it was created.
    assert report.dropped["job that took no time"] == 1
    assert (jobs.gpu_milli < 1000).sum() == 4166 - without - 1
    assert (jobs.allowed_types > 0).sum() == (0 if variant == "default" else 8152 - 5764)


def test_openb_without_times(shared_data: Path) -> None:
    path = file_of(shared_data, "alibaba_gpu_v2023_openb/openb_pod_list_multigpu50.csv.gz")
    jobs, report = import_openb_2023(path)
    assert jobs.job_count == sum(report.filled.values())


@pytest.mark.parametrize(
    ("write", "name", "preset", "machines", "gpus"),
    [
        (
            write_openb_machines,
            "alibaba_gpu_v2023_openb/openb_node_list_all_node.csv.gz",
            "openb",
            1213,
            6212,
        ),
        (
            write_openb_machines,
            "alibaba_gpu_v2023_openb/openb_node_list_gpu_node.csv.gz",
            "openb",
            1213,
            6212,
        ),
        (write_pai_machines, "alibaba_pai_v2020/pai_machine_spec.csv.gz", "pai", 1814, 6742),
    ],
)
def test_machines_of_the_traces_are_those_of_the_presets(
    write: Callable, name: str, preset: str, machines: int, gpus: int, shared_data: Path, tmp_path: Path
) -> None:
    out = tmp_path / "machines.csv"
    write(file_of(shared_data, name), out)
    table = Cluster(table=str(out), gpu_types=TRACE_TYPES).machine_table
    assert (len(table.names), table.gpus.sum()) == (machines, gpus)
    known = find_cluster(preset).machine_table

    def kinds(of: object) -> list[tuple[str, int, int, int]]:
        models = [of.types[kind].name for kind in of.gpu_type]
        return sorted(zip(models, of.gpus, of.cpu_milli, of.memory_mib, strict=True))

    assert kinds(table) == kinds(known)
