from collections.abc import Callable

import pytest

from trimtab.dag_scheduling.policies import POLICIES as OF_DAG
from trimtab.dag_scheduling.workload.presets import WORKLOADS
from trimtab.gpu_scheduling.policies import POLICIES as OF_GPU
from trimtab.gpu_scheduling.workload.clusters import CLUSTERS
from trimtab.gpu_scheduling.workload.presets import WORKLOADS as GPU_WORKLOADS
from trimtab.pod_autoscaling.policies import POLICIES as OF_POD
from trimtab.pod_autoscaling.workload.applications import APPLICATIONS
from trimtab.pod_autoscaling.workload.presets import TRACES as POD_TRACES
from trimtab.stream_autoscaling.policies import POLICIES as OF_STREAM
from trimtab.stream_autoscaling.workload.jobs import JOBS
from trimtab.stream_autoscaling.workload.presets import TRACES


def test_policies_lists_all_with_a_sentence(run: Callable) -> None:
    answer = run("policies")
    assert answer.code == 0
    lines = [line.split()[:2] for line in answer.out.splitlines()]
    for name in (*OF_DAG, *OF_STREAM, *OF_POD, *OF_GPU):
        assert name.split("/") in lines
    listed = run("policies", "--json").json
    assert len(listed) == len(OF_DAG) + len(OF_STREAM) + len(OF_POD) + len(OF_GPU)
    weighted = next(entry for entry in listed if entry["name"] == "weighted-fair")
    assert weighted["settings"][0]["tunable"] is True
    assert all(entry["description"] for entry in listed)


def test_policies_of_one_wing(run: Callable) -> None:
    assert {entry["wing"] for entry in run("policies", "stream", "--json").json} == {"stream"}
    assert "weighted-fair " not in run("policies", "stream").out
    assert "disciplines: strict, backfill, patient, easy" in run("policies", "gpu").out


@pytest.mark.parametrize("wing", ["dag", "stream", "pod", "gpu"])
def test_every_preset_has_a_whole_sentence(run: Callable, wing: str) -> None:
    for preset in run("train", wing, "--presets", "--json").json:
        assert preset["description"].endswith("."), preset


def test_workloads_lists_names_and_sources(run: Callable) -> None:
    answer = run("workloads")
    for name in (*WORKLOADS, *JOBS, *TRACES, *APPLICATIONS, *POD_TRACES, *GPU_WORKLOADS, *CLUSTERS):
        assert f"\n{name.rpartition('/')[2]} " in answer.out
    listed = run("workloads", "--json").json
    assert {"spark", "flink", "azure-functions", "slurm-sacct"} <= {*listed["history"]}
    assert len(listed["history"]) == len({*listed["history"]})
    assert {entry["name"] for entry in listed["workloads"]} >= {"tpch", "synthetic", "tiny"}
