"""The engine's Python face: episodes without an end, what compiled code sees, and doing without it."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from tests.gpu_scheduling.random_instances import RandomActions, instances, seeds

from trimtab.core.errors import ActionError, TrimtabError
from trimtab.gpu_scheduling.cluster import Cluster, MachineGroup
from trimtab.gpu_scheduling.policies import compose, make_policy
from trimtab.gpu_scheduling.problem import HOLD, Action, Snapshot, preempt, start
from trimtab.gpu_scheduling.simulator.by_address import SEEN
from trimtab.gpu_scheduling.simulator.simulator import NeverEnds, Simulator, simulate
from trimtab.gpu_scheduling.workload import make_workload

ONE_GPU = Cluster(machines=(MachineGroup(gpus=1),), heartbeat_s=10)
MINUTE = 60_000


class TakingTurns:
    """Two jobs displace each other whenever one has run for some time, though each loses 40 s by it."""

    name = "taking turns"

    def __init__(self, turn_s: int) -> None:
        self.turn_ms = turn_s * 1000

    def decide(self, snapshot: Snapshot) -> Action:
        if len(snapshot.running) == 0:
            waited = snapshot.now_ms - snapshot.since_ms[snapshot.pending]
            return start(snapshot.pending[int(np.argmax(waited))], np.array([0]))
        job = snapshot.running[0]
        return (
            preempt(job, HOLD.machines)
            if snapshot.now_ms - snapshot.started_ms[job] >= self.turn_ms
            else HOLD
        )


def test_a_machine_named_twice_is_refused():
    """The second naming finds no room, but a live cluster would refuse it too."""
    simulator = Simulator(Cluster(machines=(MachineGroup(gpus=4, count=3),)))
    gang = simulator.reset(make_workload([0], duration_ms=[1000], gpus=[8]), 0).pending[0]
    with pytest.raises(ActionError, match="machine 0 does not exist or stands there twice"):
        simulator.step(start(gang, np.array([0, 0, 1])))
    assert simulator.snapshot.free_gpus.tolist() == [4, 4, 4]
    assert simulator.step(start(gang, np.array([0, 1]))).terminated


def two_jobs():
    return make_workload([0, 0], duration_ms=[5 * MINUTE, 5 * MINUTE], gpus=[1, 1])


def test_jobs_that_displace_each_other_for_ever_are_told():
    """In turns of 30 s a job gains 30 s and loses 40."""
    with pytest.raises(NeverEnds, match=r"taking turns, seed 3: .+ min_run_s") as told:
        simulate(two_jobs(), TakingTurns(30), ONE_GPU, seed=3)
    assert isinstance(told.value, TrimtabError) and "\n" not in str(told.value)


def test_jobs_that_gain_by_turns_end():
    """In turns of 50 s each gains 10 s; both are done long before anybody loses patience."""
    episode = simulate(two_jobs(), TakingTurns(50), ONE_GPU)
    assert episode.preemptions.min() >= 20
    assert (episode.run_ms - 40_000 * episode.preemptions == 5 * MINUTE).all()


def test_a_policy_that_never_starts_a_job_is_told():
    class AllButOne:
        name = "all but one"
        timed = False

        def decide(self, snapshot: Snapshot) -> Action:
            waiting = [job for job in snapshot.pending if snapshot.job_id[job] != 1]
            return start(waiting[0], np.array([0])) if waiting and snapshot.free_gpus[0] else HOLD

    # When the first has ended nothing runs and nothing comes, where HOLD is refused.
    with pytest.raises(TrimtabError, match="would stop the cluster"):
        simulate(two_jobs(), AllButOne(), ONE_GPU)


@given(instances(), seeds)
def test_patience_is_longer_than_any_episode_that_ends(instance, seed):
    """The same actions without a limit of time lead to the same ends."""
    cluster, workload = instance
    simulator, policy = Simulator(cluster), RandomActions(seed)
    simulator.reset(workload, seed)
    simulator.play_in_python(policy.decide)
    assert not simulator.truncated
    ends = simulator.episode("").completion_ms
    assert simulate(workload, RandomActions(seed), cluster, seed=seed).completion_ms.tolist() == ends.tolist()


def test_the_limit_of_time_fits_into_a_number():
    """Nine million years of work, twice and with pauses, would be more milliseconds than time has."""
    workload = make_workload([0], duration_ms=[1 << 58], gpus=[1])
    assert simulate(workload, make_policy("fifo"), ONE_GPU).completion_ms.tolist() == [1 << 58]


def test_a_given_limit_truncates():
    simulator = Simulator(ONE_GPU, time_limit_ms=7 * MINUTE)
    simulator.reset(two_jobs(), 0)
    simulator.play(compose("fifo"))
    assert simulator.ended and simulator.truncated
    with pytest.raises(TrimtabError, match="has not finished"):
        simulator.episode("fifo")


def test_what_is_cut_off_has_taken_the_time_that_was_paid_for():
    """One job runs and the other waits for five seconds: ten thousand of reward in five thousand."""
    simulator = Simulator(ONE_GPU, time_limit_ms=5000)
    snapshot = simulator.reset(make_workload([0, 0], duration_ms=MINUTE, gpus=1), 0)
    simulator.step(start(int(snapshot.pending[0]), np.arange(1)))
    step = simulator.step(HOLD)
    while not step.truncated:
        step = simulator.step(HOLD)
    assert (step.reward, step.elapsed_ms) == (-10_000, 5000)


def test_machines_may_be_named_by_any_whole_numbers():
    simulator = Simulator(ONE_GPU)
    snapshot = simulator.reset(two_jobs(), 0)
    numbers: Any = np.array([0], np.int32)
    step = simulator.step(start(int(snapshot.pending[0]), numbers))
    assert len(step.snapshot.running) == 1


def test_compiled_rules_see_what_policies_in_python_see():
    assert sorted(SEEN) == sorted(Snapshot._fields)


PLAYED = """
from trimtab.gpu_scheduling import Cluster, make_policy, make_workload, simulate
jobs = make_workload(
    [0, 0, 5, 9], duration_ms=[60_000, 30_000, 700, 40_000], instances=[20, 2, 1, 16],
    gpu_milli=[1000, 1000, 500, 1000],
)
cluster = Cluster(noise=0.1, drift=0.2, drift_period_s=7, information="predicted")
for name in ("fifo", "las+fast:min_run_s=1"):
    episode = simulate(jobs, make_policy(name), cluster, seed=5)
    print(name, episode.completion_ms.tolist(), [fee.hex() for fee in episode.fee], episode.reward)
"""


def test_the_engine_does_the_same_without_a_compiler():
    told = [
        subprocess.run(
            [sys.executable, "-c", PLAYED],
            env=os.environ | {"NUMBA_DISABLE_JIT": off},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for off in ("0", "1")
    ]
    assert told[0] == told[1] and told[0].count("\n") == 2
