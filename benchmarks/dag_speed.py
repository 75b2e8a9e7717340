"""`make bench-dag-speed`: how fast the engine is, in the published setting, on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from benchmarks.published_setting import CLUSTER, published_batch, published_stream
from benchmarks.results import ROOT, Row, at_least, at_most, finish
from trimtab.dag_scheduling.heuristics import Rule, fair
from trimtab.dag_scheduling.simulator import Simulator
from trimtab.dag_scheduling.workload import Workload

REPEATS = 200
FAIR = Rule("fair", fair)


def play_batches(repeats: int) -> tuple[float, int]:
    """Seconds of wall time and events, over the 20 job lists again and again."""
    workloads = [published_batch(seed) for seed in range(1000, 1020)]
    simulator = Simulator(CLUSTER)
    simulator.reset(workloads[0], 0)
    simulator.play(FAIR)
    events = 0
    start = time.perf_counter()
    for number in range(repeats):
        simulator.reset(workloads[number % len(workloads)], number)
        simulator.play(FAIR)
        events += simulator.events
    return time.perf_counter() - start, events


def event_rows() -> list[Row]:
    rates = []
    for _ in range(5):
        seconds, events = play_batches(REPEATS)
        rates.append(events / seconds)
    return [at_least("Fair, batch, one core: events per second", max(rates), 1e6)]


def process_rows() -> list[Row]:
    """Throughput of two processes over one, both measured in pairs right after each other."""
    ratios = []
    with ProcessPoolExecutor(2) as pool:
        list(pool.map(play_batches, [REPEATS, REPEATS]))
        for _ in range(5):
            alone = pool.submit(play_batches, 3 * REPEATS).result()
            pair = list(pool.map(play_batches, [3 * REPEATS] * 2))
            one = alone[1] / alone[0]
            two = sum(events / seconds for seconds, events in pair)
            ratios.append(two / one)
    return [at_least("two processes over one", max(ratios), 1.8)]


def played_once(workload: Workload) -> tuple[float, Simulator]:
    """Seconds of wall time, and the simulator afterwards."""
    simulator = Simulator(CLUSTER)
    start = time.perf_counter()
    simulator.reset(workload, 0)
    simulator.play(FAIR)
    return time.perf_counter() - start, simulator


def trace_rows() -> list[Row]:
    seconds, slots, memory_mb = {}, {}, {}
    for jobs in (10_000, 100_000):
        workload = published_stream(1, jobs=jobs, gap_s=25)
        played = [played_once(workload) for _ in range(3)]
        seconds[jobs] = min(one for one, _ in played)
        simulator = played[-1][1]
        slots[jobs] = simulator.slot_count
        memory_mb[jobs] = simulator.memory_bytes / 1e6
    return [
        at_most("10,000-job Poisson trace (s)", seconds[10_000], 2.0),
        at_most(
            "100,000 jobs: time per job over that of 10,000", seconds[100_000] / seconds[10_000] / 10, 1.25
        ),
        at_most(
            "100,000 jobs: slots of the window over those of 10,000", slots[100_000] / slots[10_000], 1.0
        ),
        at_most("100,000 jobs: engine state without results (MB)", memory_mb[100_000], 1.0),
    ]


FIRST_EPISODE = """
import time; start = time.perf_counter()
from trimtab.dag_scheduling import Cluster, make_policy, simulate, tiny_workload
simulate(tiny_workload("diamond"), make_policy("fair"), Cluster(executors=4))
print(time.perf_counter() - start)
"""


def run(*command: str, home: str | None = None) -> tuple[float, str]:
    environment = os.environ | ({"HOME": home} if home else {})
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # a user keeps compiled modules
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, cwd=ROOT)
    return time.perf_counter() - start, done.stdout


def start_rows() -> list[Row]:
    """A first run compiles; a later one loads. Import and help are best of five, as a user would feel.

    Where scipy is installed (the extra `train` brings it) numba imports it, which a plain install does not.
    """
    plain = 'import sys; sys.modules["scipy"] = None\n' + FIRST_EPISODE
    with tempfile.TemporaryDirectory() as home:
        first = float(run(sys.executable, "-c", FIRST_EPISODE, home=home)[1])
        later = min(float(run(sys.executable, "-c", plain, home=home)[1]) for _ in range(3))
        beside_scipy = min(float(run(sys.executable, "-c", FIRST_EPISODE, home=home)[1]) for _ in range(3))
    bare = min(run(sys.executable, "-c", "pass")[0] for _ in range(5))
    imported = min(run(sys.executable, "-c", "import trimtab")[0] for _ in range(5))
    script = str(Path(sys.executable).with_name("trimtab"))
    helped = min(run(script, "--help")[0] for _ in range(5))
    return [
        at_most("first episode ever, compiling included (s)", first, 40.0),
        at_most("first episode of a later run (s)", later, 1.0),
        Row("the same with the extra train installed (s)", beside_scipy, "none", True),
        at_most("import trimtab (s)", imported - bare, 0.3),
        at_most("trimtab --help (s)", helped, 0.6),
    ]


if __name__ == "__main__":
    finish("dag-speed", event_rows() + trace_rows() + process_rows() + start_rows())
