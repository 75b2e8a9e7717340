"""`make bench-gpu-speed`: how many jobs a second the engine replays, on one core.

Seconds are process time (all that this process computes, whoever else is busy), medians of several runs
after one that compiles. A run is `reset` and `play` on a workload already laid out, as in training and
comparisons; *whole* is a call of `simulate` with everything. Peers on the same trace (research note, section
5): Tiresias 800 jobs/s, Alibaba's PAI simulator 180, Helios and Lucid 65, Gavel 50.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import numpy as np

from benchmarks.gpu_traces import CALM, disturbed, homogeneous, pai, v1000, venus
from benchmarks.results import Row, at_least, at_most, finish
from trimtab.gpu_scheduling.cluster import Cluster
from trimtab.gpu_scheduling.policies import compose, make_policy
from trimtab.gpu_scheduling.problem import HOLD, Action, Snapshot, start
from trimtab.gpu_scheduling.simulator.simulator import Simulator, simulate
from trimtab.gpu_scheduling.workload import Workload, make_workload
from trimtab.gpu_scheduling.workload.clusters import find_cluster
from trimtab.gpu_scheduling.workload.presets import WorkloadSettings, draw_workload

RUNS = 7
NO_DURATIONS = (
    "fifo", "fifo+first-fit", "fifo+first-fit+strict", "fifo+load-balance+strict", "fifo+fast", "fifo+fgd",
    "smallest+fast", "aged-smallest+fast", "drf", "tetris+tetris", "las+fast", "tiresias+fast",
)  # fmt: skip
WITH_DURATIONS = (
    "sjf+fast",
    "srtf+fast",
    "srsf+fast",
    "qssf+fast",
    "fifo+fast+easy",
    "fifo+best-fit+conservative",
)


def seconds_of(work: Callable[[], object], runs: int = RUNS) -> float:
    """Median of the process time; the first run compiles and does not count."""
    work()
    taken = []
    for _ in range(runs):
        began = time.process_time()
        work()
        taken.append(time.process_time() - began)
    return median(taken)


def jobs_per_s(workload: Workload, policy: str, cluster: Cluster, *, least_s: float = 0.2) -> float:
    """Jobs of a replay in a second; short ones are played as often as it takes to be measured."""
    simulator, rule = Simulator(cluster), compose(policy)

    def play() -> None:
        simulator.reset(workload, 0)
        simulator.play(rule)

    once = max(seconds_of(play, runs=1), 1e-5)
    repeats = max(1, round(least_s / once))

    def several() -> None:
        for _ in range(repeats):
            play()

    return repeats * workload.job_count / seconds_of(several)


def calm_rows() -> list[Row]:
    """Durations are what they are: nobody slows anybody down."""
    rows = []
    for rule in ("fifo+first-fit+strict", "fifo+best-fit+strict"):
        speed = jobs_per_s(v1000(), rule, homogeneous(64, 8, **CALM))
        rows.append(at_least(f"V1000 on 64 x 8, calm, {rule}: jobs/s", speed, 1e6))
        speed = jobs_per_s(venus(), rule, homogeneous(134, 8, **CALM))
        rows.append(at_least(f"Venus on 134 x 8, calm, {rule}: jobs/s", speed, 1e6))
    return rows


def interference_rows() -> list[Row]:
    """Every start and end changes the speed of all neighbours."""
    tasks, cluster = disturbed(pai()), homogeneous(80, 8)
    long, large = disturbed(venus()), find_cluster("venus")
    fifo = make_policy("fifo")
    return [
        at_least("PAI on 80 x 8, interference, fifo: jobs/s", jobs_per_s(tasks, "fifo", cluster), 2e5),
        at_least(
            "V1000 on 64 x 8, interference, fifo: jobs/s",
            jobs_per_s(disturbed(v1000()), "fifo", homogeneous(64, 8)),
            2e5,
        ),
        at_least("Venus on 134 x 8, interference, fifo: jobs/s", jobs_per_s(long, "fifo", large), 2e5),
        at_most("Venus, interference, fifo, whole (s)", seconds_of(lambda: simulate(long, fifo, large)), 1.0),
        at_most(
            "PAI, interference, fifo, whole (s)", seconds_of(lambda: simulate(tasks, fifo, cluster)), 1.0
        ),
    ]


class FirstComeFirstServed:
    """A rule as a user writes it who knows numpy and nothing of the engine."""

    name = "my rule"
    timed = False  # its answer changes only when something has happened

    def decide(self, snapshot: Snapshot) -> Action:
        free = snapshot.free_gpus
        left = int(free.sum())
        for job in snapshot.pending[snapshot.unseen :]:
            wanted = int(snapshot.instances[job])
            if wanted > left:
                continue
            single = np.flatnonzero(free >= wanted)
            if len(single):
                return start(job, single[:1])
            return start(job, np.flatnonzero(free))
        return HOLD


class WithLoops:
    """The same with loops alone."""

    name = "my loops"
    timed = False

    def decide(self, snapshot: Snapshot) -> Action:
        free = snapshot.free_gpus.tolist()
        for job in snapshot.pending[snapshot.unseen :].tolist():
            wanted, machines = int(snapshot.instances[job]), []
            for machine, gpus in enumerate(free):
                if gpus > 0 and wanted > 0:
                    machines.append(machine)
                    wanted -= gpus
            if wanted <= 0:
                return start(job, np.array(machines))
        return HOLD


def python_rows() -> list[Row]:
    """Rules that are not compiled: the engine asks Python at every decision."""
    cases = {
        "V1000 on 64 x 8": (disturbed(v1000()), homogeneous(64, 8)),
        "2,000 PAI-like jobs on das-small": (
            draw_workload(WorkloadSettings(jobs=2000), gpus=32, seed=0),
            find_cluster("das-small"),
        ),
    }
    rows = []
    for told, (workload, cluster) in cases.items():
        for rule, words in ((FirstComeFirstServed(), "numpy"), (WithLoops(), "loops")):
            seconds = seconds_of(lambda rule=rule, w=workload, c=cluster: simulate(w, rule, c))
            name = f"{told}, interference, a rule in plain Python with {words}: jobs/s"
            speed = workload.job_count / seconds
            # Where jobs queue, most of the time of the second is its own loops over the queue.
            own = words == "loops" and "das-small" in told
            rows.append(Row(name, speed, "none", True) if own else at_least(name, speed, 16_000))
    return rows


def rule_rows() -> list[Row]:
    """What each rule costs: a stream at the usual load on a small and on a large cluster."""
    rows = []
    for told, base, jobs in (
        ("das-small", find_cluster("das-small"), 2000),
        ("64 x 8", homogeneous(64, 8), 2000),
    ):
        workload = draw_workload(WorkloadSettings(jobs=jobs), gpus=int(base.machine_table.gpus.sum()), seed=0)
        for names, information in ((NO_DURATIONS, "none"), (WITH_DURATIONS, "oracle")):
            cluster = base.model_copy(update={"information": information})
            for name in names:
                speed = jobs_per_s(workload, name, cluster, least_s=0.05)
                rows.append(Row(f"{jobs:,} PAI-like jobs on {told}, {name}: jobs/s", speed, "none", True))
    return rows


def memory_rows() -> list[Row]:
    """The same stream ten times as long takes no more memory: it grows with the jobs in the system."""
    cluster, rule = find_cluster("das-large"), compose("smallest+fast")
    bytes_of, slots_of = {}, {}
    for jobs in (10_000, 100_000):
        workload = draw_workload(WorkloadSettings(jobs=jobs, load=0.4), gpus=52, seed=0)
        simulator = Simulator(cluster)
        simulator.reset(workload, 0)
        simulator.play(rule)
        bytes_of[jobs], slots_of[jobs] = simulator.memory_bytes, simulator.slot_count
    waiting = {}
    for jobs in (1000, 10_000):
        # All at once: so many jobs are in the system.
        simulator = Simulator(cluster)
        simulator.reset(make_workload(np.zeros(jobs), duration_ms=[60_000] * jobs, gpus=[1] * jobs), 0)
        simulator.play(rule)
        waiting[jobs] = simulator.memory_bytes / simulator.slot_count
    return [
        at_most("100,000 jobs: memory over that of 10,000", bytes_of[100_000] / bytes_of[10_000], 1.0),
        at_most("100,000 jobs: slots over those of 10,000", slots_of[100_000] / slots_of[10_000], 1.0),
        at_most("100,000 jobs: memory of the running environment (MB)", bytes_of[100_000] / 1e6, 1.0),
        at_most(
            "10,000 jobs at once: bytes per slot over those of 1,000", waiting[10_000] / waiting[1000], 1.1
        ),
    ]


if __name__ == "__main__":
    finish("gpu-speed", [*calm_rows(), *interference_rows(), *python_rows(), *memory_rows(), *rule_rows()])
