"""What a wave profile says, as the tables of docs/recording-tpch.md.

The numbers an extrapolation to larger inputs and clusters starts from are computed here and nowhere
else: the wave effect, the growth of tasks with input size, and the price of a new executor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import linear_regression, mean, median, quantiles
from typing import Any

from trimtab.dag_scheduling.recording.wave_profile import WAVES

__all__ = ["summary_tables"]

Job = dict[str, Any]
Stage = dict[str, Any]


def summary_tables(profile: dict[str, Any]) -> str:
    """Return all tables as Markdown, under one heading each."""
    jobs: list[Job] = profile["jobs"]
    sections = {
        "Queries": _queries_table(jobs),
        "Waves": _waves_table(jobs),
        "Wave ratios within a stage": _ratios_table(jobs),
        "Executors": _executors_table(jobs),
        "Growth with input size": _growth_table(jobs),
        "Cost of a task by bytes read": _cost_table(jobs),
    }
    return "\n\n".join(f"### {title}\n\n{table}" for title, table in sections.items() if table)


def _markdown(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [" | ".join(header), " | ".join("---" for _ in header)]
    lines += [" | ".join(str(cell) for cell in row) for row in rows]
    return "\n".join(f"| {line} |" for line in lines)


def _sizes(jobs: list[Job]) -> list[float]:
    return sorted({job["size_gb"] for job in jobs})


def _executor_counts(jobs: list[Job]) -> list[str]:
    counts = {count for job in jobs for count in job["query_ms"]}
    return sorted(counts, key=int)


def _durations(stages: Iterable[Stage], waves: Iterable[str], executors: str) -> list[int]:
    return [
        duration_ms for stage in stages for wave in waves for duration_ms in stage[wave].get(executors, [])
    ]


def _cpu_ms(stages: Iterable[Stage], waves: Iterable[str], executors: str) -> int:
    waves = tuple(waves)
    return sum(stage["cpu_ms"][wave].get(executors, 0) for stage in stages for wave in waves)


def _work_s(job: Job, executors: str) -> float:
    return sum(_durations(job["stages"], WAVES, executors)) / 1000


def _main_count(jobs: list[Job]) -> str:
    """The executor count recorded for most jobs, the smaller one if two are equal."""
    return max(
        _executor_counts(jobs),
        key=lambda count: (sum(count in job["query_ms"] for job in jobs), -int(count)),
    )


def _queries_table(jobs: list[Job]) -> str:
    count = _main_count(jobs)
    sizes = _sizes(jobs)
    header = ["query", "stages"]
    for size in sizes:
        header += [f"tasks at {size:g} GB", f"work at {size:g} GB, executor-s"]
    rows: list[Sequence[object]] = []
    for query in sorted({job["query"] for job in jobs}):
        by_size = {job["size_gb"]: job for job in jobs if job["query"] == query}
        row: list[object] = [
            query,
            "/".join(sorted({str(len(j["stages"])) for j in by_size.values()})),
        ]
        for size in sizes:
            job = by_size.get(size)
            known = job is not None and count in job["query_ms"]
            row += [
                sum(stage["tasks"] for stage in job["stages"]) if job else "",
                f"{_work_s(job, count):.1f}" if job and known else "",
            ]
        rows.append(row)
    return f"Work is the sum of task durations with {count} executors.\n\n" + _markdown(header, rows)


def _points(jobs: list[Job]) -> Iterator[tuple[float, str, list[Job]]]:
    """Every (size, executor count) that was recorded, with its jobs."""
    for size in _sizes(jobs):
        for count in _executor_counts(jobs):
            chosen = [job for job in jobs if job["size_gb"] == size and count in job["query_ms"]]
            if chosen:
                yield size, count, chosen


def _waves_table(jobs: list[Job]) -> str:
    rows: list[Sequence[object]] = []
    for size, count, chosen in _points(jobs):
        for kind in ("scan", "shuffle"):
            stages = [s for job in chosen for s in job["stages"] if s["kind"] == kind]
            row: list[object] = [f"{size:g}", count, kind]
            for wave in WAVES:
                durations = _durations(stages, [wave], count)
                cpu_ms = _cpu_ms(stages, [wave], count)
                row += (
                    [f"{mean(durations):.0f}", f"{cpu_ms / len(durations):.0f}", len(durations)]
                    if durations
                    else ["", "", 0]
                )
            rows.append(row)
    header = ["size, GB", "executors", "stage"]
    for wave in WAVES:
        header += [f"{wave}, mean ms", "of it CPU", "tasks"]
    return _markdown(header, rows)


def _ratios_table(jobs: list[Job]) -> str:
    """Compare waves inside one stage of one run, where the work per task is the same."""
    rows: list[Sequence[object]] = []
    for wave in ("fresh", "first_wave"):
        for size, count, chosen in _points(jobs):
            means = [
                (mean(stage[wave][count]), mean(stage["rest_wave"][count]))
                for job in chosen
                for stage in job["stages"]
                if stage[wave][count] and stage["rest_wave"][count]
            ]
            if len(means) < 2:
                continue
            ratios = [early / rest for early, rest in means]
            low, _, high = quantiles(ratios, n=4)
            extra_ms = median(early - rest for early, rest in means)
            rows.append(
                [f"{wave} to rest_wave", f"{size:g}", count, f"{median(ratios):.1f}"]
                + [f"{low:.1f} to {high:.1f}", f"{extra_ms:.0f}", len(means)]
            )
    header = ["waves", "size, GB", "executors", "ratio (median)", "quartiles"]
    return _markdown([*header, "difference, ms (median)", "stages"], rows)


def _executors_table(jobs: list[Job]) -> str:
    rows: list[Sequence[object]] = []
    for size, count, chosen in _points(jobs):
        work_s = sum(_work_s(job, count) for job in chosen)
        cpu_s = sum(_cpu_ms(job["stages"], WAVES, count) for job in chosen) / 1000
        ready_ms = [job["executors_ready_ms"][count] for job in chosen]
        rows.append(
            [f"{size:g}", count, len(chosen), f"{median(ready_ms) / 1000:.1f}"]
            + [f"{median(job['query_ms'][count] for job in chosen) / 1000:.1f}"]
            + [f"{work_s:.0f}", f"{cpu_s:.0f}", f"{work_s / cpu_s:.2f}"]
        )
    header = ["size, GB", "executors", "queries", "executors ready, s (median)"]
    header += ["query, s (median)", "work, executor-s", "of it CPU, s", "work / CPU"]
    return _markdown(header, rows)


def _stage_pairs(jobs: list[Job], kind: str) -> list[tuple[Stage, Stage]]:
    """The same stage at the smallest and the largest size."""
    small, large = _sizes(jobs)[0], _sizes(jobs)[-1]
    by_size = {(job["query"], job["size_gb"]): job for job in jobs}
    pairs: list[tuple[Stage, Stage]] = []
    for (query, size), job in by_size.items():
        other = by_size.get((query, large))
        if size == small and other is not None and other["edges"] == job["edges"]:
            pairs += zip(job["stages"], other["stages"], strict=True)
    return [pair for pair in pairs if pair[0]["kind"] == kind]


def _bytes_read(stage: Stage) -> int:
    return stage["input_bytes"] + stage["shuffle_read_bytes"]


def _growth_table(jobs: list[Job]) -> str:
    """Exponent e of total ~ size^e, from totals over all stages of a kind at both sizes."""
    sizes = _sizes(jobs)
    if len(sizes) < 2:
        return ""
    count = _main_count(jobs)
    growth = math.log(sizes[-1] / sizes[0])
    measures: dict[str, Callable[[Stage], float]] = {
        "bytes read": _bytes_read,
        "tasks": lambda stage: stage["tasks"],
        "work": lambda stage: sum(_durations([stage], WAVES, count)),
        "CPU time": lambda stage: _cpu_ms([stage], WAVES, count),
    }
    rows: list[Sequence[object]] = []
    for kind in ("scan", "shuffle"):
        pairs = [
            pair for pair in _stage_pairs(jobs, kind) if all(count in stage["rest_wave"] for stage in pair)
        ]
        totals = {
            name: [sum(measure(pair[side]) for pair in pairs) for side in (0, 1)]
            for name, measure in measures.items()
        }
        later = [pair for pair in pairs if all(_rest_cpu_ms(stage, count) for stage in pair)]
        totals["CPU time of a rest_wave task"] = [
            sum(_rest_cpu_ms(pair[side], count) for pair in later) for side in (0, 1)
        ]
        for name, (small, large) in totals.items():
            if small and large:
                exponent = math.log(large / small) / growth
                rows.append([kind, name, f"{large / small:.2f}", f"{exponent:.2f}"])
    title = f"From {sizes[0]:g} GB to {sizes[-1]:g} GB with {count} executors."
    return title + "\n\n" + _markdown(["stages", "measure", "grows by", "exponent of size"], rows)


def _rest_cpu_ms(stage: Stage, executors: str) -> float:
    """CPU time of a rest_wave task of this stage; 0 where the stage has none."""
    tasks = len(stage["rest_wave"][executors])
    return stage["cpu_ms"]["rest_wave"][executors] / tasks if tasks else 0.0


def _cost_table(jobs: list[Job]) -> str:
    """Line through (MB per task, CPU time of a rest_wave task): what a task costs before and per MB.

    CPU time, because other load on the machine stretches durations but hardly CPU time.
    """
    rows: list[Sequence[object]] = []
    for size, count, chosen in _points(jobs):
        for kind in ("scan", "shuffle"):
            points = [
                (_bytes_read(stage) / stage["tasks"] / 1e6, _rest_cpu_ms(stage, count))
                for job in chosen
                for stage in job["stages"]
                if stage["kind"] == kind and stage["rest_wave"][count]
            ]
            if len({megabytes for megabytes, _ in points}) > 2:
                slope, intercept = linear_regression(*zip(*points, strict=True))
                largest = max(megabytes for megabytes, _ in points)
                rows.append(
                    [f"{size:g}", count, kind, f"{intercept:.0f}", f"{slope:.0f}"]
                    + [f"{largest:.2f}", len(points)]
                )
    header = ["size, GB", "executors", "stages", "CPU ms per task", "CPU ms per MB"]
    return _markdown([*header, "largest MB per task", "number of stages"], rows)
