"""`make bench-pod-engine`: the engine of services against queueing theory, and its speed on one core.

Times are CPU seconds of this process, the best of a few repeats: the machine may be busy with other things.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import numpy as np

from benchmarks.results import Row, at_least, at_most, finish, within
from trimtab.pod_autoscaling.application import Application, Segment
from trimtab.pod_autoscaling.deployment import Deployment
from trimtab.pod_autoscaling.policies import make_policy
from trimtab.pod_autoscaling.queueing import erlang_c
from trimtab.pod_autoscaling.simulator import Simulator, simulate, totals
from trimtab.pod_autoscaling.simulator.simulator import compile_engine

WORK_S = 0.02
SEEDS, SECONDS, WARM_S, REPEATS = 40, 2400, 120, 5
USUAL = Application(segments=(Segment(cpu_ms=20, io_ms=30),))


def steady_totals(application: Application, rate: float, cores: float, seconds: int) -> np.ndarray:
    """What is counted after a warm-up at a constant rate, summed over all seeds; one pod, nothing fails."""
    deployment = Deployment(interval_s=WARM_S, history=4)
    simulator = Simulator([application] * SEEDS, deployment)
    sizes = np.tile(np.array([1, cores, 4096.0]), (SEEDS, 1))
    simulator.reset([np.full(seconds + WARM_S, rate)] * SEEDS, range(SEEDS), sizes=sizes)
    simulator.step(sizes)
    before = simulator.state.totals.copy()
    while not simulator.ended.all():
        simulator.step(sizes)
    return (simulator.state.totals - before).sum(0)


def theory_rows() -> list[Row]:
    """Mean latency over d + C d / (c (1 - u)), for even and for very uneven work; Little's law."""
    rows = []
    for cores in (1, 2, 4):
        for load in (0.5, 0.7, 0.85):
            expected_s = WORK_S * (1 + erlang_c(load * cores, cores) / (cores * (1 - load)))
            for variation in (0.35, 4.0):
                work = Segment(cpu_ms=1000 * WORK_S, cpu_variation=variation)
                application = Application(
                    segments=(work,), workers=4096, timeout_s=3600, memory_per_request_mib=0, slo_ms=1e6
                )
                # As many requests whatever the cores; heavy tails at high load need more of them.
                longer = 3 if load > 0.8 and variation > 1 else 1
                total = steady_totals(application, load * cores / WORK_S, cores, longer * SECONDS // cores)
                found_s = total[totals.LATENCY_S] / total[totals.ANSWERED]
                name = f"mean latency over theory: {cores} cores, load {load}, variation {variation}"
                rows.append(within(name, float(found_s / expected_s), 0.97, 1.03))
    total = steady_totals(USUAL, 70.0, 2.0, SECONDS)
    little = total[totals.INSIDE_S] / total[totals.LATENCY_S] * total[totals.ANSWERED] / total[totals.ARRIVED]
    rows.append(within("requests inside over rate x latency (Little)", float(little), 0.98, 1.02))
    return rows


def identical_row() -> Row:
    """The same bits for one seed alone, and in threads among others."""
    alone = Simulator([USUAL], Deployment(burst=3))
    among = Simulator([USUAL] * 6, Deployment(burst=3), threads=4)
    alone.reset([np.full(600, 80.0)], [5])
    among.reset([np.full(600, 80.0)] * 6, [1, 2, 3, 4, 5, 6])
    same = 0
    for step in range(40):
        size = np.array([[2 + step % 5, 1 + step % 3, 512.0]])
        alone.step(size)
        among.step(np.tile(size, (6, 1)))
        same += int((alone.state.totals[0] == among.state.totals[4]).all())
    return at_least("intervals with the same bits, of 40: alone, and in 4 threads among others", same, 40)


def best_s(play: Callable[[], object]) -> float:
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        play()
        times.append(time.process_time() - start)
    return min(times)


def per_second(application: Application, rate: float, replicas: int, **settings: object) -> float:
    """Requests simulated per CPU second in a batch of one, with snapshots of 15-second intervals."""
    deployment = Deployment.model_validate({"start_replicas": replicas} | settings)
    simulator = Simulator([application], deployment)
    rates = np.full(900, rate)

    def play() -> None:
        snapshot = simulator.reset([rates], [1])
        while not simulator.ended.all():
            snapshot, _, _ = simulator.step(snapshot.size)

    spent_s = best_s(play)
    return float(simulator.state.run[0, 0]["arrived"]) / spent_s


def speed_rows() -> list[Row]:
    chain = Application(segments=tuple(Segment(cpu_ms=7, io_ms=10) for _ in range(3)))
    lean = Application(segments=(Segment(cpu_ms=20),))
    usual = per_second(USUAL, 300.0, 9)
    # Long intervals, so that only the engine counts, and not the snapshot of 2000 possible pods.
    few = per_second(USUAL, 300.0, 9, interval_s=300)
    many = per_second(USUAL, 300.0, 9, interval_s=300, most_replicas=1000)
    wave = 300.0 * (1 + 0.5 * np.sin(np.arange(3600) / 400))
    hour_s = best_s(lambda: simulate(USUAL, wave, make_policy("hpa"), Deployment(start_replicas=9), seed=1))
    return [
        at_least("requests per second: CPU and I/O, 9 pods", usual, 500_000.0),
        Row("requests per second: CPU only", per_second(lean, 300.0, 9), "none", True),
        Row("requests per second: three segments of CPU and I/O", per_second(chain, 300.0, 9), "none", True),
        Row("requests per second: quota (cfs)", per_second(USUAL, 300.0, 9, sharing="cfs"), "none", True),
        Row("requests per second: 100 pods", per_second(USUAL, 3300.0, 100, most_replicas=100), "none", True),
        at_most("an hour at 300 requests/s under HPA: seconds", hour_s, 1.5),
        at_most("time with room for 1000 replicas over that with room for 20", few / many, 1.2),
        Row("64 services of 20 requests/s: intervals of 15 s per second", batch_per_second(), "none", True),
    ]


def batch_per_second() -> float:
    """As learning sees it: environments times intervals, snapshots and rewards included."""
    simulator = Simulator([USUAL] * 64, Deployment())
    traces = [np.full(600, 20.0)] * 64

    def play() -> None:
        snapshot = simulator.reset(traces, range(64))
        while not simulator.ended.all():
            snapshot, _, _ = simulator.step(snapshot.size)

    return 64 * 40 / best_s(play)


def compile_row() -> Row:
    """In a process of its own with a home of its own: nothing is cached."""
    code = (
        "import time\n"
        "from trimtab.pod_autoscaling.simulator.simulator import compile_engine\n"
        "start = time.process_time()\ncompile_engine()\nprint(time.process_time() - start)\n"
    )
    with tempfile.TemporaryDirectory() as home:
        run = subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"HOME": home},
            capture_output=True,
            text=True,
            check=True,
        )
    return at_most("seconds to compile the engine from nothing", float(run.stdout), 40.0)


if __name__ == "__main__":
    compile_engine()
    finish("pod-engine", [*theory_rows(), identical_row(), *speed_rows(), compile_row()])
