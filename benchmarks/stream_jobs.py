"""How the six frozen streaming jobs were chosen; writes src/trimtab/stream_autoscaling/data/jobs.json.

    python -m benchmarks.stream_jobs            # compare with the file
    python -m benchmarks.stream_jobs --write    # make it again

Shapes are DAGs of batch jobs in Alibaba's cluster trace v2018 (the subset random6600 of shared data):
complete, connected, with a fork somewhere, no more than half of the vertices sources and a quarter sinks.
Among those of a size, chance decides; the second must differ from the first in depth. Only the shapes
enter the product, under the ids of their jobs; all other numbers are drawn by `dress`.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from benchmarks.results import ROOT, shared_data
from trimtab.core.randomness import split, uniform
from trimtab.stream_autoscaling.job import FORMAT, VERSION
from trimtab.stream_autoscaling.workload.jobs import FROZEN
from trimtab.stream_autoscaling.workload.synthetic import dress

SIZES = {"small": (12, 14), "medium": (18, 22), "large": (35, 46)}
TASK_NAME = re.compile(r"[A-Za-z]+(\d+)((?:_\d+)*)(?:_Stg\d+)?")
FILE = ROOT / "src" / "trimtab" / "stream_autoscaling" / "data" / "jobs.json"


def main() -> None:
    text = json.dumps({"jobs": entries(shared_data())}, indent=1) + "\n"
    if "--write" in sys.argv:
        FILE.parent.mkdir(exist_ok=True)
        FILE.write_text(text, encoding="utf-8")
        print(f"wrote {FILE}")
    elif FILE.read_text(encoding="utf-8") != text:
        sys.exit(f"error: {FILE} is not what the data and the code give; look why, or use --write")
    else:
        print(f"{FILE} is what the data and the code give")


def entries(data: Path) -> list[dict[str, object]]:
    shapes = dict(usable_shapes(data / "alibaba2018_dags" / "batch_task_dags.csv.gz"))
    found: list[dict[str, object]] = []
    for size, (least, most) in SIZES.items():
        fitting = {job: shape for job, shape in shapes.items() if least <= len(shape) <= most}
        for number, job in enumerate(two_of(fitting), start=1):
            name, seed = f"{size}-{number}", len(found) + 1
            assert name in FROZEN
            dressed = {
                "format": FORMAT,
                "version": VERSION,
                **asdict(dress(name, fitting[job], seed=seed)),
            }
            found.append({"shape_of": f"alibaba-2018 {job}", "seed": seed, "job": dressed})
    return found


def two_of(shapes: dict[str, list[list[int]]]) -> list[str]:
    seed = split(0, "stream jobs")
    order = sorted(shapes, key=lambda job: float(uniform(seed, int(job.removeprefix("j_")))))
    first = order[0]
    second = next(job for job in order if depth(shapes[job]) != depth(shapes[first]))
    return [first, second]


def usable_shapes(path: Path) -> Iterator[tuple[str, list[list[int]]]]:
    """Parents of every task by job, tasks renumbered from 0 with parents before children."""
    tasks: dict[str, list[str]] = defaultdict(list)
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["subset"] == "random6600":
                tasks[row["job"]].append(row["task"])
    for job, names in tasks.items():
        parents = parents_by_number(names)
        if parents is None:
            continue
        shape = in_topological_order(parents)
        if shape is not None and is_usable(shape):
            yield job, shape


def parents_by_number(names: list[str]) -> dict[int, list[int]] | None:
    """None where a name does not tell, a number is missing or stands twice."""
    parents: dict[int, list[int]] = {}
    for name in names:
        matched = TASK_NAME.fullmatch(name)
        if matched is None or int(matched[1]) in parents:
            return None
        parents[int(matched[1])] = sorted({int(parent) for parent in matched[2].split("_") if parent})
    return parents if set(parents) == set(range(1, len(names) + 1)) else None


def in_topological_order(parents: dict[int, list[int]]) -> list[list[int]] | None:
    """None where tasks wait for one another or for one that is not there."""
    place: dict[int, int] = {}
    shape: list[list[int]] = []
    while len(place) < len(parents):
        ready = [n for n in sorted(parents) if n not in place and all(p in place for p in parents[n])]
        if not ready:
            return None
        for number in ready:
            place[number] = len(place)
            shape.append(sorted(place[parent] for parent in parents[number]))
    return shape


def is_usable(shape: list[list[int]]) -> bool:
    readers: dict[int, int] = defaultdict(int)
    group = list(range(len(shape)))
    for vertex, parents in enumerate(shape):
        for parent in parents:
            readers[parent] += 1
            old, new = group[parent], group[vertex]
            group = [new if one == old else one for one in group]
    sources = {vertex for vertex, parents in enumerate(shape) if not parents}
    sinks = set(range(len(shape))) - readers.keys()
    return (
        not sources & sinks
        and len(set(group)) == 1
        and max(readers.values(), default=0) >= 2
        and len(sources) <= len(shape) / 2
        and len(sinks) <= len(shape) / 4
    )


def depth(shape: list[list[int]]) -> int:
    longest: list[int] = []
    for parents in shape:
        longest.append(1 + max((longest[parent] for parent in parents), default=0))
    return max(longest)


if __name__ == "__main__":
    main()
