"""`make bench-decima-rollouts`: decisions per second while experience is gathered, without looking ahead.

A network that has learned nothing yet plays 20 TPC-H jobs on 50 executors; one lane of environments is
stepped while the device thinks about the other. On a GPU the bar is half a million; a CPU alone has none.
`make bench-decima-rollouts ARGS="4096 16"`: 4,096 environments a lane, 16 threads.
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

HORIZON = 16
REPEATS = 5


def rate(environments: int, threads: int) -> float:
    """The median of a few rollouts."""
    settings = DecimaSettings(courses=(CourseSettings(),), environments=environments, threads=threads)
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
    environments, threads = map(int, sys.argv[1:3] or ((4096, 16) if on_gpu else (256, 2)))
    name = f"decisions per second, two lanes of {environments} environments, {threads} threads"
    measured = rate(environments, threads)
    row = at_least(name, measured, 0.5e6) if on_gpu else reported(name, measured)
    finish_after(f"decima-rollouts-{'gpu' if on_gpu else 'cpu'}", [row], started)


if __name__ == "__main__":
    main()
