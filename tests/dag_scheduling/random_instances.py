"""Random small workloads and clusters for agreement tests and laws; a function of one number each."""

from __future__ import annotations

import numpy as np

from trimtab.dag_scheduling.cluster import CORRECTIONS, Cluster, ExecutorClass
from trimtab.dag_scheduling.workload import (
    JobRecord,
    Profile,
    Provenance,
    StageRecord,
    Workload,
    build_profile,
)


def random_profile(number: int, *, templates: int = 3, points: tuple[int, ...] = (2, 5, 10, 20)) -> Profile:
    """Random DAGs; some kinds of duration and some points are missing, as in real recordings."""
    random = np.random.default_rng(number)
    jobs = []
    for template in range(templates):
        stages = []
        for position in range(random.integers(1, 7)):
            parents = [p for p in range(position) if random.random() < 0.4]
            known = [p for p in points if random.random() < 0.8] or [points[0]]

            def wave(scale: float, chance: float, known: list[int] = known) -> dict[int, list[int]]:
                return {
                    point: (scale * random.integers(0, 40, random.integers(1, 6))).astype(int).tolist()
                    for point in known
                    if random.random() < chance
                }

            fresh, first, later = wave(90, 0.7), wave(40, 0.8), wave(20, 0.8)
            if not (fresh or first or later):
                later = {known[0]: [100]}
            stages.append(
                StageRecord(
                    tasks=int(random.integers(1, 25)),
                    parents=parents,
                    fresh=fresh,
                    first_wave=first,
                    later_wave=later,
                    memory=float(random.choice([0.0, 0.2, 0.5, 0.9])),
                )
            )
        jobs.append(JobRecord(f"job-{template}", stages))
    return build_profile(jobs)


def random_workload(number: int) -> Workload:
    """One to eight jobs, at once or spread over time."""
    random = np.random.default_rng(10_000 + number)
    profile = random_profile(number, points=(5, 10, 20) if number % 3 else (2, 4, 7))
    jobs = int(random.integers(1, 9))
    gaps = random.integers(0, 4000, jobs) * (number % 2)
    return Workload(
        profile,
        random.integers(0, profile.template_count, jobs),
        np.cumsum(gaps),
        Provenance("random", {"number": number}),
    )


def random_cluster(number: int, rules: str) -> Cluster:
    """Few executors, so that jobs compete; sometimes two classes, free moving, or mixed corrections."""
    random = np.random.default_rng(20_000 + number)
    settings = {
        "rules": rules,
        "moving_delay_ms": int(random.choice([0, 500, 2000])),
        "durations": str(random.choice(["known", "learned"])),
        "objective": "makespan" if number % 7 == 0 else "average_jct",
    }
    if rules == "mixed":
        settings["rules"] = "compat"
        settings["corrections"] = tuple(c for c in CORRECTIONS if random.random() < 0.5)
    if number % 4 == 0:
        sizes = random.integers(1, 6, 2)
        settings["classes"] = (
            ExecutorClass(count=int(sizes[0]), memory=0.5),
            ExecutorClass(count=int(sizes[1]), memory=1.0),
        )
    else:
        settings["executors"] = int(random.integers(1, 15))
    return Cluster.model_validate(settings)
