"""`trimtab simulate`: one workload under one policy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from trimtab.cli.episode import USUAL_EPISODE, EpisodeFlags
from trimtab.cli.targets import check_file
from trimtab.cli.terminal import JsonFlag, command_line, print_json, say_if_compiling, table_of
from trimtab.cli.wings import WingName

if TYPE_CHECKING:
    from trimtab.dag_scheduling.cluster import Cluster
    from trimtab.dag_scheduling.episode import Episode
    from trimtab.dag_scheduling.workload.presets import WorkloadSettings

__all__ = ["simulate"]

PICTURES = (".png", ".svg", ".html")


def simulate(
    wing: WingName,
    /,
    *,
    policy: str,
    episode: EpisodeFlags = USUAL_EPISODE,
    draw: Path | None = None,
    out: Path | None = None,
    guard: Literal["shadow", "canary", "active"] | None = None,
    beside: str | None = None,
    json: JsonFlag = False,
) -> None:
    """Play one workload to the end and tell how the jobs, records or requests fared.

    Parameters
    ----------
    wing:
        What is decided: dag (jobs on executors), stream (parallelism of a streaming job), pod (replicas, CPU
        and memory of a service) or gpu (order and machines of training jobs).
    policy:
        Name, perhaps with settings: weighted-fair:alpha=-0.5. `trimtab policies` lists them; gpu takes any
        order+placement+discipline.
    draw:
        Picture to write: .png or .svg for a chart, .html for a report.
    out:
        pod, gpu: run folder to make, with results.json, report.html and pictures.
    guard:
        pod: put the policy behind the guard, which lets it advise only (shadow), act for a share of the time
        (canary), or act (active).
    beside:
        pod: the rule that the guard compares with and falls back on (default: multi:slack=1,cpu=4).
    """
    _check_picture(draw)
    episode.refuse_others(wing)
    if wing == "pod":
        from trimtab.cli.simulate_pod import simulate_pod

        simulate_pod(policy, episode, draw, out, guard=guard, beside=beside, json=json)
        return
    _refuse_guard(wing, guard, beside)
    if wing == "gpu":
        from trimtab.cli.simulate_gpu import simulate_gpu

        simulate_gpu(policy, episode, draw, out, json=json)
        return
    _refuse_folder(wing, out)
    if wing == "stream":
        from trimtab.cli.simulate_stream import simulate_stream

        simulate_stream(policy, episode, draw, json=json)
    else:
        _simulate_dag(policy, episode, draw, json=json)


def _simulate_dag(policy: str, episode: EpisodeFlags, draw: Path | None, *, json: bool) -> None:
    from trimtab.benchmark.dag_scheduling.wing import DAG
    from trimtab.dag_scheduling.policies import make_policy
    from trimtab.dag_scheduling.simulator.simulator import simulate as play
    from trimtab.dag_scheduling.workload.presets import draw_workload

    made = make_policy(policy)
    seed, cluster, asked = episode.number(), episode.dag_cluster(), episode.jobs_to_draw()
    drawn = draw_workload(asked, executors=cluster.executors, seed=seed)
    say_if_compiling(DAG, [policy])
    played = play(drawn, made, cluster, seed=seed, record_tasks=draw is not None)
    if draw is not None:
        _draw(played, draw, asked)
    content = _content(played, cluster, asked, draw)
    if json:
        print_json(content)
        return
    _print(played, content, draw)


def _check_picture(draw: Path | None) -> None:
    from trimtab.core.errors import TrimtabError

    if draw is not None and draw.suffix.lower() not in PICTURES:
        raise TrimtabError(f"{draw}: pictures are written as {', '.join(PICTURES)}; change the suffix")
    check_file(draw)


def _refuse_folder(wing: str, out: Path | None) -> None:
    from trimtab.core.errors import SettingsError

    if out is not None:
        raise SettingsError(f"--out: {wing} has no such flag; --draw writes a picture or a report")


def _refuse_guard(wing: str, guard: str | None, beside: str | None) -> None:
    from trimtab.core.errors import SettingsError

    for name, value in (("guard", guard), ("beside", beside)):
        if value is not None:
            raise SettingsError(f"--{name}: {wing} has no such flag; the guard stands before services (pod)")


def _draw(episode: Episode, path: Path, asked: WorkloadSettings) -> None:
    if path.suffix.lower() != ".html":
        from trimtab.dag_scheduling.drawing import gantt

        gantt([episode], path)
        return
    from trimtab.benchmark.dag_scheduling.report import dag_facts, dag_sections
    from trimtab.benchmark.report import Measured, ReportColumn, ReportRow, ReportTable, write_report
    from trimtab.dag_scheduling.episode import METRICS

    metrics = episode.metrics()
    shares = ("utilisation", "moving_share")
    columns = [
        ReportColumn(
            name,
            METRICS[name].capitalize(),
            "%" if name in shares else "s" if name.endswith("_s") else "×",
            lower_is_better=name != "utilisation",
        )
        for name in metrics
    ]
    values = [Measured(value, value, value) for value in metrics.values()]
    table = ReportTable(columns, [ReportRow(episode.policy, values)], f"One episode of {asked.name}.")
    write_report(
        path,
        title=f"{episode.policy} on {asked.name}",
        table=table,
        sections=dag_sections([episode]),
        facts=dag_facts([episode]),
        notes=[],
        command=command_line(),
        provenance={"Workload": asked.name},
    )


def _content(
    episode: Episode, cluster: Cluster, asked: WorkloadSettings, draw: Path | None
) -> dict[str, Any]:
    return {
        "policy": episode.policy,
        "seed": episode.seed,
        "workload": asked.model_dump(mode="json"),
        "cluster": cluster.model_dump(mode="json"),
        "jobs": len(episode.job_names),
        "decisions": episode.decisions,
        "events": episode.events,
        "reward": episode.reward,
        "metrics": episode.metrics(),
        "picture": None if draw is None else str(draw),
    }


def _print(episode: Episode, content: dict[str, Any], draw: Path | None) -> None:
    from trimtab.dag_scheduling.episode import METRICS

    print(
        f"{content['policy']}: {content['jobs']:,} jobs on {episode.executor_count:,} executors, "
        f"seed {episode.seed}, {episode.decisions:,} decisions, {episode.events:,} events\n"
    )
    rows = [[name, f"{value:,.3f}", METRICS[name]] for name, value in episode.metrics().items()]
    print(table_of(["measure", "value", "meaning"], rows))
    if draw is not None:
        print(f"\npicture: {draw}")
