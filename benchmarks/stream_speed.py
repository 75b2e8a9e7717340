"""`make bench-stream-speed`: intervals per second of the engine on one core of this machine."""

from __future__ import annotations

import time

import numpy as np

from benchmarks.results import Row, at_least, at_most, finish
from trimtab.stream_autoscaling.deployment import Deployment
from trimtab.stream_autoscaling.simulator import StreamSimulator
from trimtab.stream_autoscaling.workload.jobs import make_job
from trimtab.stream_autoscaling.workload.traces import Provenance, RateTrace

SIZE, REPEATS = 512, 12


def simulator_of(name: str) -> StreamSimulator:
    """512 environments of one job; the rate goes up and down around its usual one; 60 substeps of 1 s."""
    job = make_job(name, seed=1)
    wave = 1 + 0.5 * np.sin(np.arange(1440) / 100)
    trace = RateTrace(job.usual_rate * wave, 60, Provenance("wave"))
    return StreamSimulator([job] * SIZE, [trace] * SIZE, Deployment(), seeds=range(SIZE))


def seconds_per_step(simulator: StreamSimulator) -> tuple[float, float]:
    """Best wall time of a step of all environments, and of a snapshot."""
    present = simulator.snapshot().parallelism
    simulator.step(present)
    steps, looks = [], []
    for _ in range(REPEATS):
        start = time.perf_counter()
        simulator.step(present)
        steps.append(time.perf_counter() - start)
        start = time.perf_counter()
        simulator.snapshot()
        looks.append(time.perf_counter() - start)
    return min(steps), min(looks)


def rescaling_s(simulator: StreamSimulator) -> float:
    """The same when every environment rescales whenever it may."""
    steps = []
    for number in range(REPEATS):
        wanted = simulator.snapshot().parallelism + (1 if number % 2 else -1)
        start = time.perf_counter()
        simulator.step(wanted)
        steps.append(time.perf_counter() - start)
    return float(np.mean(steps))


def speed_rows() -> list[Row]:
    small, large = simulator_of("synthetic:15"), simulator_of("synthetic:46")
    small_s, look_s = seconds_per_step(small)
    large_s, _ = seconds_per_step(large)
    return [
        at_least("15 vertices, 60 substeps: intervals per second", SIZE / small_s, 5000.0),
        Row("the same, rescaling all the time", SIZE / rescaling_s(small), "none", True),
        Row("46 vertices: intervals per second", SIZE / large_s, "none", True),
        at_most("time per vertex, 46 over 15", large_s / 46 / (small_s / 15), 1.5),
        at_most("snapshot over step, in time", look_s / small_s, 0.05),
    ]


if __name__ == "__main__":
    finish("stream-speed", speed_rows())
