"""Train schedulers of GPU clusters: compact agents, and networks."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from trimtab.cli.trainers import Asked, Families, Trainer

__all__ = ["gpu_trainer"]


def gpu_trainer(preset: str | None, resume: Path | None) -> Trainer:
    """The kind of training that the preset, or the run to go on with, is of."""
    return _gpu_networks() if _asks_for_networks(preset, resume) else _gpu()


def _gpu() -> Trainer:
    from trimtab.gpu_scheduling.das import network_task, task
    from trimtab.gpu_scheduling.das.training import DAS
    from trimtab.gpu_scheduling.policies import find_bundle

    return Trainer(
        wing="gpu",
        presets=Families((task.PRESETS, network_task.PRESETS)),
        usual_preset="das-gang",
        settings=task.DasSettings,
        asked_for=DAS.asked_for,
        score_name=DAS.score,
        score_words="of its rule's completion time and fee on validation workloads",
        flags=("workload", "cluster"),
        put_flags=_put_jobs,
        check=task.check_settings,
        train=DAS.train,
        save_bundle_of_run=DAS.save_bundle_of_run,
        find_bundle=find_bundle,
        judge=_judge_gpu,
        fitted=_fitted_jobs,
        left_out=_jobs_left_out,
    )


def _gpu_networks() -> Trainer:
    from trimtab.gpu_scheduling.das import network_task, network_training, task
    from trimtab.gpu_scheduling.policies import find_bundle

    return Trainer(
        wing="gpu",
        presets=Families((network_task.PRESETS, task.PRESETS)),
        usual_preset="das-network",
        settings=network_task.NetworkSettings,
        asked_for=network_training.ASKED_FOR,
        score_name=network_training.SCORE,
        score_words="of its rule's completion time and fee on validation workloads",
        flags=("workload", "cluster"),
        put_flags=_put_world,
        check=network_task.check_settings,
        train=network_training.train_networks,
        save_bundle_of_run=network_training.save_bundle_of_run,
        find_bundle=find_bundle,
        judge=_judge_networks,
        fitted=_fitted_jobs,
        left_out=_jobs_left_out,
    )


def _asks_for_networks(preset: str | None, resume: Path | None) -> bool:
    """Whether the network agents are meant, not the compact ones."""
    from trimtab.gpu_scheduling.das import network_task, network_training, task

    networks = Asked(network_task.PRESETS, network_training.ASKED_FOR, network_task.NetworkSettings)
    return networks.meant(preset, resume, otherwise=task.DasSettings)


def _put_world(plain: dict[str, Any], flags: Mapping[str, str]) -> dict[str, str]:
    """One workload instead of all those of the preset."""
    if "workload" in flags:
        plain["worlds"] = []
    return _put_jobs(plain, flags)


def _judge_networks(asked: Any, folder: Path) -> list[str]:
    return [_compare_gpu(asked, cluster, f"fifo+fast,smallest+fast,{folder}") for cluster in asked.clusters]


def _put_jobs(plain: dict[str, Any], flags: Mapping[str, str]) -> dict[str, str]:
    written = {}
    if "workload" in flags:
        plain["workload"]["name"] = flags["workload"]
        written["workload.name"] = f"--workload {shlex.quote(flags['workload'])}"
    if "cluster" in flags:
        plain["clusters"] = [name.strip() for name in flags["cluster"].split(",") if name.strip()]
        written["clusters"] = f"--cluster {shlex.quote(flags['cluster'])}"
    return written


def _fitted_jobs(asked: Any, preset: Any, written: Collection[str]) -> Any:
    """Of a trace, all jobs that the clusters can hold, as in comparisons."""
    from trimtab.gpu_scheduling.workload.clusters import find_cluster
    from trimtab.gpu_scheduling.workload.presets import all_that_fit

    clusters = [find_cluster(name, asked.gpu_types) for name in asked.clusters]
    said = preset.workload.model_fields_set | {name.removeprefix("workload.") for name in written}
    return asked.model_copy(update={"workload": all_that_fit(asked.workload, *clusters, said=said)})


def _jobs_left_out(asked: Any) -> str:
    from trimtab.gpu_scheduling.workload.presets import left_out_told

    return left_out_told(asked.workload)


def _judge_gpu(asked: Any, folder: Path) -> list[str]:
    """One comparison for each cluster of the run."""
    rivals = "fifo+first-fit+strict,smallest+fast,las+fast" if asked.preemptive else "fifo+fast,smallest+fast"
    return [_compare_gpu(asked, cluster, f"{rivals},{folder}") for cluster in asked.clusters]


def _compare_gpu(asked: Any, name: str, policies: str) -> str:
    """On the suite of the cluster, or on that cluster in place of a suite's; the same jobs are left out."""
    from trimtab.benchmark.suite import SUITES
    from trimtab.core.settings import toml_value
    from trimtab.gpu_scheduling.workload.clusters import find_cluster
    from trimtab.gpu_scheduling.workload.presets import WorkloadSettings, all_that_fit

    suite = f"gpu/{name}" if f"gpu/{name}" in SUITES else "gpu/das-small"
    words = ["trimtab", "compare", suite, "--policies", policies]
    if suite != f"gpu/{name}":
        words += ["--cluster", name]
    if asked.workload.name != "pai":
        words += ["--workload", asked.workload.name]
    usual = all_that_fit(WorkloadSettings(name=asked.workload.name), find_cluster(name, asked.gpu_types))
    for field in ("most_gpus", "shortest_s"):
        if getattr(asked.workload, field) != getattr(usual, field):
            words += ["--set", f"workload.{field}={getattr(asked.workload, field)}"]
    if asked.gpu_types:
        declared = toml_value(asked.model_dump(mode="json")["gpu_types"])
        words += ["--set", f"cluster.gpu_types={declared}"]
    return shlex.join(words)
