"""`trimtab simulate gpu`: training jobs on a cluster under one scheduler."""

from __future__ import annotations

import hashlib
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trimtab.cli.episode import EpisodeFlags, jobs_of_trace
from trimtab.cli.targets import check_new_folder
from trimtab.cli.terminal import command_line, now, print_json, remark, say_if_compiling, table_of

if TYPE_CHECKING:
    from trimtab.gpu_scheduling.cluster import Cluster
    from trimtab.gpu_scheduling.episode import Episode
    from trimtab.gpu_scheduling.workload import Workload
    from trimtab.gpu_scheduling.workload.presets import WorkloadSettings

__all__ = ["cluster_of", "jobs_digest", "simulate_gpu", "workload_of"]

USUAL_CLUSTER = "das-small"
USUAL_WORKLOAD = "pai"
LEFT_OUT = "left_out"
PICTURES = ("episode.png", "report.html")
"""Of a run folder."""


def simulate_gpu(
    policy: str, flags: EpisodeFlags, draw: Path | None, out: Path | None, *, json: bool
) -> None:
    """Play one workload to the end and tell how its jobs fared."""
    from trimtab.benchmark.gpu_scheduling.wing import GPU
    from trimtab.core.run_folder import RunFolder
    from trimtab.gpu_scheduling.policies import make_policy
    from trimtab.gpu_scheduling.simulator.simulator import check_information, simulate
    from trimtab.gpu_scheduling.simulator.tables import refuse_misfits
    from trimtab.gpu_scheduling.workload.clusters import capacity_gpus
    from trimtab.gpu_scheduling.workload.presets import draw_workload

    check_new_folder(out)
    made, seed = make_policy(policy), flags.number()
    cluster = cluster_of(flags)
    asked = workload_of(flags, cluster)
    jobs = draw_workload(asked, gpus=capacity_gpus(cluster), seed=seed)
    refuse_misfits(jobs, cluster)
    check_information(made, cluster)
    say_if_compiling(GPU, [policy])
    recorded = draw is not None or out is not None
    episode = simulate(jobs, made, cluster, seed=seed, record_runs=recorded)
    content = {
        "wing": GPU.name,
        "policy": episode.policy,
        "seed": seed,
        "workload": asked.model_dump(mode="json"),
        "cluster": cluster.model_dump(mode="json"),
        "jobs": jobs.job_count,
        "digest": jobs_digest(jobs),
        "left_out": jobs.provenance.settings.get(LEFT_OUT, 0),
        "decisions": episode.decisions,
        "events": episode.events,
        "reward": episode.reward,
        "metrics": episode.metrics(),
        "picture": None if draw is None else str(draw),
        "run_folder": None if out is None else str(out),
    }
    if draw is not None:
        _draw(episode, draw, asked.name)
    if out is not None:
        folder = RunFolder.create(out, clock=now)
        folder.write_json("results.json", content)
        for name in PICTURES:
            _draw(episode, folder.path / name, asked.name)
        explain = shlex.join(["trimtab", "explain", str(out), "--decision", "N"])
        remark(f"results in {folder.path}; `{explain}` takes a decision apart")
    if json:
        print_json(content)
        return
    _print(episode, cluster, jobs, asked, draw)


def jobs_digest(jobs: Workload) -> str:
    """A short word that changes with the jobs, so that a run can tell whether it meets the same again."""
    digest = hashlib.sha256()
    for array in (jobs.arrival_ms, jobs.duration_ms, jobs.instances, jobs.gpu_milli, jobs.kind):
        digest.update(array.astype("<i8").tobytes())
    for array in (jobs.sensitivity, jobs.communication):
        digest.update((array * 1e6).round().astype("<i8").tobytes())
    return digest.hexdigest()[:16]


def cluster_of(flags: EpisodeFlags) -> Cluster:
    """Flags over the file over the named cluster; a tiny workload brings its own."""
    from trimtab.core.settings import load_settings
    from trimtab.gpu_scheduling.cluster import Cluster
    from trimtab.gpu_scheduling.workload.clusters import find_cluster

    in_file = Cluster() if flags.settings is None else load_settings(Cluster, flags.settings)
    named = find_cluster(_cluster_name(flags), in_file.gpu_types)
    given = ("information", "round_s", "noise", "drift")
    laid: dict[str, Any] = {
        **named.model_dump(exclude_defaults=True),
        **in_file.model_dump(include=in_file.model_fields_set - {"gpu_types"}),
        **{name: getattr(flags, name) for name in given if getattr(flags, name) is not None},
    }
    return load_settings(Cluster, None, laid)


def _cluster_name(flags: EpisodeFlags) -> str:
    if flags.cluster is not None:
        return flags.cluster
    workload = (flags.workload or "").removeprefix("gpu/")
    return workload if workload.partition(":")[0] == "tiny" else USUAL_CLUSTER


def workload_of(flags: EpisodeFlags, cluster: Cluster) -> WorkloadSettings:
    """The workload's settings; what is left open depends on whether it has arrivals of its own."""
    from trimtab.core.settings import load_settings
    from trimtab.gpu_scheduling.workload import Workload
    from trimtab.gpu_scheduling.workload.clusters import usual_load
    from trimtab.gpu_scheduling.workload.presets import WorkloadSettings, all_that_fit, find_source

    name, jobs, arrivals, load = flags.workload or USUAL_WORKLOAD, flags.jobs, flags.arrivals, flags.load
    source = find_source(name)
    paced = load is not None or flags.mean_gap_s is not None
    if isinstance(source, Workload):
        if arrivals is None:
            arrivals = "poisson" if paced else "trace"
        if arrivals == "trace":
            jobs = jobs_of_trace(jobs, name, source.job_count)
    if arrivals in (None, "poisson", "daily") and not paced:
        load = usual_load(_cluster_name(flags))
    asked = load_settings(
        WorkloadSettings,
        None,
        {
            "name": name,
            "jobs": jobs,
            "arrivals": arrivals,
            "load": load,
            "mean_gap_s": flags.mean_gap_s,
            "most_gpus": flags.most_gpus,
            "shortest_s": flags.shortest_s,
        },
    )
    return all_that_fit(asked, cluster)


def _draw(episode: Episode, path: Path, workload: str) -> None:
    if path.suffix.lower() != ".html":
        from trimtab.gpu_scheduling.drawing import draw_episodes

        draw_episodes([episode], path)
        return
    from trimtab.benchmark.gpu_scheduling.wing import GPU
    from trimtab.benchmark.report import Measured, ReportRow, ReportTable, write_report

    metrics = episode.metrics()
    numbers: list[Any] = [
        Measured(metrics[column.key], metrics[column.key], metrics[column.key])
        for column in GPU.report_columns
    ]
    write_report(
        path,
        title=f"{episode.policy} on {workload}",
        table=ReportTable(
            GPU.report_columns, [ReportRow(episode.policy, numbers)], f"One episode of {workload}."
        ),
        sections=GPU.sections([episode]),
        facts=GPU.facts([episode]),
        notes=[],
        command=command_line(),
        provenance={"Workload": workload},
    )


def _print(
    episode: Episode, cluster: Cluster, jobs: Workload, asked: WorkloadSettings, draw: Path | None
) -> None:
    from trimtab.benchmark.gpu_scheduling.wing import TIERS
    from trimtab.gpu_scheduling.episode import METRICS
    from trimtab.gpu_scheduling.workload.presets import left_out_words

    print(
        f"{episode.policy}: {jobs.job_count:,} {asked.name} jobs on {len(episode.machine_names):,} machines "
        f"with {episode.total_gpus:,} GPUs, {TIERS[cluster.information]}, seed {episode.seed}, "
        f"{episode.decisions:,} decisions, {episode.events:,} events"
    )
    left_out = jobs.provenance.settings.get(LEFT_OUT)
    if left_out:
        print(f"{left_out:,} {left_out_words(asked)}")
    print()
    rows = [[name, f"{value:,.3f}", METRICS[name]] for name, value in episode.metrics().items()]
    print(table_of(["measure", "value", "meaning"], rows))
    if draw is not None:
        print(f"\npicture: {draw}")
