"""`make bench-decima-rollouts`: decisions per second while experience is gathered, without looking ahead.

A network that has learned nothing yet plays 20 TPC-H jobs on 50 executors; lanes of environments are stepped
while the device thinks about the others. On a GPU several numbers of lanes and environments are tried, and
the bar for the best of them is half a million; a CPU alone has none.
`make bench-decima-rollouts ARGS="3 4096 16"`: three lanes of 4,096 environments, 16 threads.
"""

from __future__ import annotations

import math
import sys
import time

import jax
import numpy as np

from benchmarks.decima_settings import finish_after, reported
from benchmarks.results import at_least
from trimtab.dag_scheduling.decima.task import CourseSettings, DecimaSettings, DecimaTask
from trimtab.learning.rollouts import collect, compiled

HORIZON = 32
REPEATS = 5
ON_GPU = ((2, 8192, 16), (3, 8192, 16), (4, 8192, 16))
ON_CPU = ((2, 256, 2),)


def rate(lanes: int, environments: int, threads: int) -> float:
    """The median of a few rollouts."""
    settings = DecimaSettings(
        courses=(CourseSettings(),), lanes=lanes, environments=environments, threads=threads
    )
    task = DecimaTask(settings)
    parameters, act = task.agent.init(jax.random.PRNGKey(0)), compiled(task.agent.act)
    for number, lane in enumerate(task.lanes):
        lane.reset(number, math.inf)
    rates = []
    for number in range(REPEATS + 1):
        started = time.perf_counter()
        played = collect(task.lanes, act, parameters, jax.random.PRNGKey(number), HORIZON)
        jax.block_until_ready(played.action)
        rates.append(played.decisions / (time.perf_counter() - started))
    return float(np.median(rates[1:]))  # the first compiles


def main() -> None:
    started = time.perf_counter()
    on_gpu = jax.default_backend() == "gpu"
    asked = tuple(map(int, sys.argv[1:4]))
    rates = {one: rate(*one) for one in ((asked,) if asked else ON_GPU if on_gpu else ON_CPU)}
    best = max(rates.values())
    rows = [
        at_least("decisions per second, the best of these", best, 0.5e6)
        if on_gpu
        else reported("decisions per second, the best of these", best)
    ]
    rows += [
        reported(
            f"decisions per second, {lanes} lanes of {environments} environments, {threads} threads", one
        )
        for (lanes, environments, threads), one in rates.items()
    ]
    finish_after(f"decima-rollouts-{'gpu' if on_gpu else 'cpu'}", rows, started, target="decima-rollouts")


if __name__ == "__main__":
    main()
