"""Queues whose answer is known: Poisson arrivals, exponential durations, and GPUs as servers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from trimtab.core.randomness import exponential
from trimtab.gpu_scheduling.cluster import Cluster, MachineGroup
from trimtab.gpu_scheduling.heuristics import disciplines, orders, placements
from trimtab.gpu_scheduling.heuristics.rule import Rule
from trimtab.gpu_scheduling.simulator.simulator import simulate
from trimtab.gpu_scheduling.workload import make_workload

FIFO = Rule("fifo", orders.fifo, placements.first_fit, disciplines.strict_in_order)


def erlang_c(servers: int, load: float) -> float:
    """Chance that a job of an M/M/c queue has to wait; `load` is the busy share of each server."""
    offered = servers * load
    busy = offered**servers / math.factorial(servers) / (1 - load)
    return busy / (sum(offered**k / math.factorial(k) for k in range(servers)) + busy)


def test_the_formula_itself():
    # One server: the chance to wait is the load. Two at load 1/2: 1 / (1 + 1 + 1) = 1/3.
    assert erlang_c(1, 0.7) == pytest.approx(0.7)
    assert erlang_c(2, 0.5) == pytest.approx(1 / 3)


@pytest.mark.slow  # where nothing is compiled; else a second
@pytest.mark.parametrize(("machines", "gpus", "load"), [(1, 1, 0.6), (4, 2, 0.7)])
def test_single_gpu_jobs_wait_as_erlang_says(machines, gpus, load):
    """400,000 jobs. 20 draws of 8 GPUs at load 0.7 gave the right means within 0.2 %; a single draw scatters
    by 0.9 % (chance to wait), 2.1 % (wait) and 0.35 % (jobs in system). 3 %, 6 % and 2 % are allowed.
    """
    jobs, mean_ms, servers = 400_000, 100_000.0, machines * gpus
    gaps = exponential(1, np.arange(jobs), mean=mean_ms / (servers * load))
    durations = exponential(2, np.arange(jobs), mean=mean_ms)
    workload = make_workload(np.cumsum(gaps), duration_ms=np.ceil(durations), gpus=1)
    cluster = Cluster(machines=(MachineGroup(count=machines, gpus=gpus),), contention=0.0)
    episode = simulate(workload, FIFO, cluster, seed=0)
    waits_ms = episode.first_start_ms - episode.arrival_ms
    chance = erlang_c(servers, load)
    assert (waits_ms > 0).mean() == pytest.approx(chance, rel=0.03)
    assert waits_ms.mean() == pytest.approx(chance * mean_ms / (servers * (1 - load)), rel=0.06)
    assert np.array_equal(episode.run_ms, episode.duration_ms)
    # Little: jobs in the system on average = rate of arrivals x time each stays.
    in_system = -episode.reward / episode.makespan_ms
    assert in_system == pytest.approx(servers * load + chance * load / (1 - load), rel=0.02)


def test_one_gpu_first_come_first_served_is_lindleys_recursion():
    """Each wait is that of the job ahead, plus its duration, less the gap: to the millisecond."""
    gaps = np.floor(exponential(3, np.arange(300), mean=1000.0)).astype(np.int64)
    durations = np.ceil(exponential(4, np.arange(300), mean=900.0)).astype(np.int64)
    workload = make_workload(np.cumsum(gaps), duration_ms=durations, gpus=1)
    cluster = Cluster(machines=(MachineGroup(gpus=1),))
    episode = simulate(workload, FIFO, cluster, seed=0)
    waits = [0]
    for gap, duration in zip(gaps[1:], durations[:-1], strict=True):
        waits.append(max(0, waits[-1] + int(duration) - int(gap)))
    assert (episode.first_start_ms - episode.arrival_ms).tolist() == waits


def test_finish_time_fairness_by_hand():
    """Four GPUs: a gang of four runs, then a pair; a minute each, both there from the beginning."""
    jobs = make_workload([0, 0], duration_ms=60_000, gpus=[4, 2])
    episode = simulate(jobs, FIFO, Cluster(machines=(MachineGroup(gpus=4),)))
    assert episode.slowdown.tolist() == [1.0, 2.0]
    # The gang is one of two jobs, so all GPUs are twice its share. The pair is one of 1.5 on average, and
    # two of four GPUs are less than a share of 1 / 1.5.
    assert episode.fairness.tolist() == [0.5, 2.0]
    assert episode.metrics()["worst_unfairness"] == 2.0
