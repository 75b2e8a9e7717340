"""Turn the event logs into one wave profile: task durations by stage, wave and executors."""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from trimtab.dag_scheduling.recording.application_log import (
    RecordedApplication,
    RecordedStage,
    RecordedTask,
    read_application,
)
from trimtab.dag_scheduling.recording.errors import RecordingError

__all__ = ["WAVES", "build_profile", "tasks_by_wave", "write_profile"]

WAVES = ("fresh", "first_wave", "rest_wave")
LOG_NAME = re.compile(r"q(?P<query>\d+)_sf(?P<scale_factor>[\d.e-]+)_executors(?P<executors>\d+)")


def build_profile(folder: Path, *, report: Callable[[str], None] = lambda line: None) -> dict[str, Any]:
    """Read all finished logs of a recording folder and return the profile.

    One job per (query, size). Runs of the same job with different executor counts must agree on the
    DAG; one that does not is reported and left out.
    """
    runs: dict[tuple[int, float], dict[int, RecordedApplication]] = defaultdict(dict)
    for path in sorted((folder / "logs").glob("q*.json")):
        found = LOG_NAME.fullmatch(path.stem)
        if found is None:
            raise RecordingError(f"{path}: not a name trimtab gives; keep other files elsewhere")
        job = int(found["query"]), float(found["scale_factor"])
        runs[job][int(found["executors"])] = read_application(path)
    if not runs:
        raise RecordingError(f"{folder}: no event logs yet; run `trimtab record tpch` first")
    return {
        "format": "trimtab-wave-profile",
        "version": 1,
        "recorded": _provenance(folder, runs),
        "jobs": [_job(*job, runs[job], report=report) for job in sorted(runs)],
    }


def tasks_by_wave(stages: Sequence[RecordedStage]) -> list[dict[str, list[RecordedTask]]]:
    """Sort every task of an application into the wave it belongs to; one entry per stage.

    fresh: the first task its executor runs in this application (class loading, cold caches);
    first_wave: the first task of its stage on that executor (code generation, broadcast variables);
    rest_wave: all later ones.
    """
    waves: list[dict[str, list[RecordedTask]]] = [{wave: [] for wave in WAVES} for _ in stages]
    launches = [(task, index) for index, stage in enumerate(stages) for task in stage.tasks]
    launches.sort(key=lambda launch: (launch[0].launch_ms, launch[0].finish_ms))
    seen_executors: set[str] = set()
    seen_pairs: set[tuple[str, int]] = set()
    for task, index in launches:
        if task.executor not in seen_executors:
            wave = "fresh"
        elif (task.executor, index) not in seen_pairs:
            wave = "first_wave"
        else:
            wave = "rest_wave"
        seen_executors.add(task.executor)
        seen_pairs.add((task.executor, index))
        waves[index][wave].append(task)
    return waves


def write_profile(profile: dict[str, Any], path: Path) -> None:
    """Write the profile as gzip JSON whose bytes depend on the content alone (no time, no name)."""
    text = json.dumps(profile, separators=(",", ":"), sort_keys=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode(), compresslevel=9, mtime=0))


def _job(
    query: int,
    scale_factor: float,
    runs: dict[int, RecordedApplication],
    *,
    report: Callable[[str], None],
) -> dict[str, Any]:
    model = runs[min(runs)]
    agreeing: dict[int, RecordedApplication] = {}
    for executors, run in sorted(runs.items()):
        if _shape(run) == _shape(model):
            agreeing[executors] = run
        else:
            report(f"q{query} at {scale_factor:g}: {executors} executors made another DAG; left out")
    stages = [_stage(stage) for stage in model.stages]
    for executors, run in agreeing.items():
        for stage, waves in zip(stages, tasks_by_wave(run.stages), strict=True):
            for wave, tasks in waves.items():
                stage[wave][str(executors)] = [task.duration_ms for task in tasks]
                stage["cpu_ms"][wave][str(executors)] = round(sum(task.cpu_ms for task in tasks))
    return {
        "name": f"q{query}",
        "query": query,
        # The scale factor is the size of the tables in GB as plain text.
        "size_gb": scale_factor,
        "edges": model.edges,
        "stages": stages,
        "executors_ready_ms": {
            str(e): run.executors_ready_ms - run.started_ms for e, run in agreeing.items()
        },
        "query_ms": {str(e): run.last_job_ended_ms - run.first_job_ms for e, run in agreeing.items()},
    }


def _stage(stage: RecordedStage) -> dict[str, Any]:
    return {
        "tasks": len(stage.tasks),
        "kind": stage.kind,
        "input_bytes": stage.input_bytes,
        "shuffle_read_bytes": sum(task.shuffle_read_bytes for task in stage.tasks),
        "cpu_ms": {wave: {} for wave in WAVES},
        **{wave: {} for wave in WAVES},
    }


def _shape(run: RecordedApplication) -> list[tuple[str, str, int, tuple[int, ...]]]:
    """What must be the same in every run of a job: plan, kinds, task counts and dependencies."""
    return [(s.operators, s.kind, len(s.tasks), s.parents) for s in run.stages]


def _provenance(
    folder: Path, runs: dict[tuple[int, float], dict[int, RecordedApplication]]
) -> dict[str, Any]:
    written = folder / "recording.json"
    if not written.exists():
        raise RecordingError(f"{written} is missing; start `trimtab record tpch` on this folder again")
    applications = [run for by_executors in runs.values() for run in by_executors.values()]
    started_s = min(run.started_ms for run in applications) / 1000
    return {
        **json.loads(written.read_text()),
        "applications": len(applications),
        "date": datetime.fromtimestamp(started_s, tz=UTC).date().isoformat(),
    }
