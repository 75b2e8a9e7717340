"""Train schedulers of DAG jobs: networks, and the compact scheduler."""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trimtab.cli.trainers import Asked, Families, Trainer

if TYPE_CHECKING:
    from trimtab.dag_scheduling.decima.task import CourseSettings

__all__ = ["dag_trainer"]


def dag_trainer(preset: str | None, resume: Path | None) -> Trainer:
    """The kind of training that the preset, or the run to go on with, is of."""
    return _dag_compact() if _asks_for_compact(preset, resume) else _dag()


def _dag() -> Trainer:
    from trimtab.dag_scheduling.decima import compact_task, task, training
    from trimtab.dag_scheduling.policies import find_bundle

    return Trainer(
        wing="dag",
        presets=Families((task.PRESETS, compact_task.PRESETS)),
        usual_preset="decima-tpch-batch",
        settings=task.DecimaSettings,
        asked_for=training.ASKED_FOR,
        score_name=training.SCORE,
        score_words="of its teacher's cost on validation workloads",
        flags=("workload",),
        put_flags=_put_workload,
        check=_check_dag,
        train=training.train_decima,
        save_bundle_of_run=training.save_bundle_of_run,
        find_bundle=find_bundle,
        judge=_judge_dag,
        fitted=_with_own_demands,
    )


def _dag_compact() -> Trainer:
    from trimtab.dag_scheduling.decima import compact_task, task
    from trimtab.dag_scheduling.decima.compact_training import COMPACT
    from trimtab.dag_scheduling.policies import find_bundle

    return Trainer(
        wing="dag",
        presets=Families((compact_task.PRESETS, task.PRESETS)),
        usual_preset="compact-tpch",
        settings=compact_task.CompactSettings,
        asked_for=COMPACT.asked_for,
        score_name=COMPACT.score,
        score_words="of its rule's cost on validation workloads",
        flags=("workload",),
        put_flags=_put_workload,
        check=_check_compact_dag,
        train=COMPACT.train,
        save_bundle_of_run=COMPACT.save_bundle_of_run,
        find_bundle=find_bundle,
        judge=_judge_dag,
        fitted=_with_own_demands,
    )


def _asks_for_compact(preset: str | None, resume: Path | None) -> bool:
    """Whether the compact scheduler is meant, not the network."""
    from trimtab.dag_scheduling.decima import compact_task, task
    from trimtab.dag_scheduling.decima.compact_training import COMPACT

    compact = Asked(compact_task.PRESETS, COMPACT.asked_for, compact_task.CompactSettings)
    return compact.meant(preset, resume, otherwise=task.DecimaSettings)


def _put_workload(plain: dict[str, Any], flags: Mapping[str, str]) -> dict[str, str]:
    written = {}
    for number, course in enumerate(plain["courses"] if "workload" in flags else ()):
        course["workload"]["name"] = flags["workload"]
        written[f"courses.{number}.workload.name"] = f"--workload {shlex.quote(flags['workload'])}"
    return written


def _with_own_demands(asked: Any, preset: Any, written: Collection[str]) -> Any:
    """A workload that was named has its own memory demands, if any, as in comparisons; presets draw some."""
    from trimtab.dag_scheduling.workload.presets import has_demands

    courses = list(asked.courses)
    for number, course in enumerate(courses):
        place, jobs = f"courses.{number}.workload", course.workload
        named = f"{place}.name" in written and f"{place}.random_memory" not in written
        if named and jobs.random_memory and has_demands(jobs.name):
            own = jobs.model_copy(update={"random_memory": False})
            courses[number] = course.model_copy(update={"workload": own})
    return asked.model_copy(update={"courses": tuple(courses)})


def _check_dag(asked: Any) -> None:
    from trimtab.dag_scheduling.decima.training import check_settings

    asked.training.check_batch(asked.environments * asked.lanes)
    _draw_courses(asked)
    check_settings(asked)


def _check_compact_dag(asked: Any) -> None:
    from trimtab.dag_scheduling.decima.compact_task import check_settings

    check_settings(asked)
    _draw_courses(asked)


def _draw_courses(asked: Any) -> None:
    """One episode of each, as training draws them: a file may be too short."""
    from trimtab.dag_scheduling.workload.presets import draw_workload

    for course in asked.courses:
        draw_workload(course.workload, executors=course.cluster.executors, seed=0, part="training")


RIVALS = "fair,weighted-fair:tuned,capped-srpt-local:tuned"
RIVALS_ON_SEVERAL_SIZES = "fair,graphene:tuned,packed-srpt:tuned"
"""The same two with an eye on memory, which the others waste."""


def _judge_dag(asked: Any, folder: Path) -> list[str]:
    """One for each course; where they differ in their load, the suite's own sweep."""
    loads = {course.workload.load for course in asked.courses}
    commands = [_compare_command(course, folder, sweep=len(loads) > 1) for course in asked.courses]
    return list(dict.fromkeys(commands))


def _compare_command(course: CourseSettings, folder: Path, *, sweep: bool) -> str:
    """Play the policy and the rules it has to beat on the course's test seeds."""
    jobs, cluster = course.workload, course.cluster
    stream = jobs.arrivals == "poisson"
    if cluster.classes:
        suite = "dag/multi-resource-stream" if stream else "dag/multi-resource"
    else:
        suite = "dag/stream" if stream else "dag/batch"
    rivals = RIVALS_ON_SEVERAL_SIZES if cluster.classes else RIVALS
    words = ["trimtab", "compare", suite, "--policies", f"{rivals},{folder}"]
    if jobs.name != "tpch":
        words += ["--workload", jobs.name]
    if jobs.jobs != (200 if stream else 20):
        words += ["--jobs", str(jobs.jobs)]
    if cluster.executors != 50:
        words += ["--executors", str(cluster.executors)]
    if jobs.arrivals == "trace":
        words += ["--arrivals", "trace"]
    if jobs.load is not None and not sweep:
        words += ["--load", f"{jobs.load:g}"]
    for setting in _settings_without_flag(course):
        words += ["--set", setting]
    return shlex.join(words)


def _settings_without_flag(course: CourseSettings) -> list[str]:
    """What the suite has otherwise; not the objective, which changes nothing that is measured."""
    from trimtab.benchmark.dag_scheduling.suites import FourClassCluster
    from trimtab.dag_scheduling.cluster import Cluster
    from trimtab.dag_scheduling.workload.presets import has_demands

    jobs, cluster = course.workload, course.cluster
    usual = (FourClassCluster if cluster.classes else Cluster)(executors=cluster.executors)
    told = [] if jobs.mean_gap_s is None else ["loads=[]", f"workload.mean_gap_s={jobs.mean_gap_s:g}"]
    if jobs.random_memory != (bool(cluster.classes) and not has_demands(jobs.name)):
        told.append(f"workload.random_memory={str(jobs.random_memory).lower()}")
    if cluster.classes != usual.classes:
        sizes = ", ".join(f"{{count={one.count}, memory={one.memory}}}" for one in cluster.classes)
        told.append(f"cluster.classes=[{sizes}]")
    if cluster.corrections != usual.corrections:
        told.append(f"cluster.corrections={json.dumps(cluster.corrections)}")
    plain = ("moving_delay_ms", "warmup_delay_ms", "rules", "durations")
    other = [name for name in plain if getattr(cluster, name) != getattr(usual, name)]
    return told + [f"cluster.{name}={getattr(cluster, name)}" for name in other]
