"""Every rule of the simulation on cases small enough to work out by hand: questions, starts, preemption.

The numbers stand in comments; speeds are chosen so that they are exact in binary. `test_agreement` holds the
compiled engine to the same simulator.
"""

from __future__ import annotations

import numpy as np
import pytest
from tests.gpu_scheduling.by_hand import (
    HOUR_MS,
    NONE,
    begin,
    cluster_of,
    completions,
    machine,
    put,
    put_all,
)

from trimtab.core.errors import ActionError, TrimtabError, WorkloadError
from trimtab.gpu_scheduling.cluster import GpuType
from trimtab.gpu_scheduling.problem import HOLD, NOWHERE, Action, preempt, start
from trimtab.gpu_scheduling.workload import make_workload

# --- when a policy is asked --------------------------------------------------------------------------


def test_asked_at_arrivals_and_ends_while_jobs_wait():
    run = begin(cluster_of(machine(1)), make_workload([5, 5, 700], duration_ms=1000, gpus=1))
    asked = []
    while not run.ended:
        asked.append(run.now)
        fits = run.snapshot.free_gpus[0] > 0
        run.step(start(int(run.snapshot.pending[0]), np.array([0])) if fits else HOLD)
    # 5: start, hold; 700: an arrival, hold; 1005: an end; start, hold; 2005: start, pending is empty.
    assert asked == [5, 5, 700, 1005, 1005, 2005]
    assert run.decisions == 6 and completions(run) == [1005, 2005, 3005]


def test_nobody_is_asked_while_nothing_waits():
    run = begin(cluster_of(machine(2)), make_workload([0, 9000], duration_ms=1000, gpus=1))
    put(run, 0, 0)
    assert run.now == 9000  # the end at 1000 asked nobody


def test_heartbeat_after_hold():
    run = begin(
        cluster_of(machine(1), heartbeat_s=30), make_workload([0, 0, 40_000], duration_ms=100_000, gpus=1)
    )
    put(run, 0, 0)
    run.step(HOLD)
    assert (run.now, run.unseen) == (30_000, 0)
    run.step(HOLD)
    assert (run.now, run.unseen) == (40_000, 1)  # only the job at place 1 came since
    run.step(HOLD)
    assert run.now == 70_000


def test_rounds():
    run = begin(
        cluster_of(machine(2), round_s=10),
        make_workload([3000, 12_000, 30_000], duration_ms=4000, gpus=[2, 1, 1]),
    )
    assert run.now == 10_000
    run.step(HOLD)
    assert run.now == 20_000 and run.unseen == 0  # the arrival at 12,000 waits for the round
    put(run, 0, 0)
    run.step(HOLD)
    assert run.now == 30_000  # the end at 24,000 too; the arrival at 30,000 is in time
    assert run.snapshot.pending.tolist() == [1, 2]
    put_all(run)
    assert completions(run) == [24_000, 34_000, 34_000]


def test_unseen():
    run = begin(
        cluster_of(machine(4)),
        make_workload(
            [0, 0, 0, 100, 200, 300], duration_ms=[500, 900, 900, 900, 900, 9], gpus=[3, 4, 1, 4, 4, 4]
        ),
    )
    assert run.unseen == 0
    put(run, 0, 0)
    run.step(HOLD)
    assert (run.now, run.unseen) == (100, 2)  # of 1, 2, 3 only the last is new
    put(run, 2, 0)
    assert run.unseen == 1  # a seen one has left: 1 | 3
    run.step(HOLD)
    assert (run.now, run.unseen) == (200, 2)
    run.step(preempt(2, NONE))
    assert run.unseen == 0 and run.snapshot.pending.tolist() == [1, 2, 3, 4]  # its old place
    run.step(HOLD)
    assert (run.now, run.unseen) == (300, 4)
    run.step(HOLD)
    assert (run.now, run.unseen) == (500, 0)  # an end


def test_hold_is_refused_when_nothing_would_ever_happen():
    run = begin(cluster_of(machine(1)), make_workload([0, 50], duration_ms=10, gpus=1))
    assert run.snapshot.may_hold
    run.step(HOLD)
    assert run.now == 50 and not run.snapshot.may_hold
    with pytest.raises(ActionError, match="would stop the cluster"):
        run.step(HOLD)


def test_ends_come_before_arrivals_before_questions():
    # Job 1 arrives at 1000, when job 0 ends: it finds the machine empty and learns from job 0's run time.
    run = begin(
        cluster_of(machine(1), information="predicted"), make_workload([0, 1000], duration_ms=1000, gpus=1)
    )
    put(run, 0, 0)
    assert run.now == 1000 and run.snapshot.free_gpus[0] == 1 and run.snapshot.expected_ms[1] == 1000.0


def test_jobs_due_at_one_moment_all_end_at_it():
    # The first end speeds the other up, but the other is due as well.
    run = begin(
        cluster_of(machine(2), contention=2.0),
        make_workload([0, 0, 0], duration_ms=[1000, 1000, 7], gpus=[1, 1, 2]),
    )
    put(run, 1, 0)
    put(run, 0, 0)
    run.step(HOLD)
    put(run, 2, 0)
    episode = run.episode("by hand")
    assert episode.completion_ms.tolist() == [2000, 2000, 2007]
    assert episode.runs is not None and episode.runs.job.tolist() == [1, 0, 2]  # in order of start


# --- starts ------------------------------------------------------------------------------------------


def test_machines_take_what_fits_in_the_order_of_the_action():
    run = begin(cluster_of(machine(2), machine(4), machine(1)), make_workload([0], duration_ms=10, gpus=6))
    put(run, 0, 2, 0, 1)
    log = run.episode("by hand").runs
    assert log is not None
    assert log.machine.tolist() == [2, 0, 1] and log.milli.tolist() == [1000, 2000, 3000]
    assert log.gpu_mask.tolist() == [0b1, 0b11, 0b111]  # the lowest-numbered free GPUs


def test_instances_of_several_gpus_stay_together():
    # 3 GPUs hold one instance of 2; the third GPU is of no use.
    run = begin(
        cluster_of(machine(3, count=2)), make_workload([0], duration_ms=10, instances=2, gpu_milli=2000)
    )
    assert run.machines[0].fits(run.jobs[0]) == 1
    put(run, 0, 0, 1)
    assert run.episode("by hand").runs.machine.tolist() == [0, 1]  # pyright: ignore[reportOptionalMemberAccess]


def test_shares_go_to_the_fullest_gpu_with_room_unless_told():
    run = begin(
        cluster_of(machine(3)),
        make_workload([0] * 5 + [50], duration_ms=100, gpu_milli=[600, 300, 300, 500, 100, 1000]),
    )
    put(run, 0, 0)  # all alike: GPU 0 keeps 400
    put(run, 1, 0, gpu=1)  # as told: GPU 1 keeps 700
    put(run, 2, 0)  # GPU 0 keeps 100
    put(run, 3, 0, gpu=0)  # no room on 0, so the fullest with room: GPU 1 keeps 200
    assert run.snapshot.free_of_gpu.tolist() == [100, 200, 1000]
    put(run, 4, 0, gpu=7)  # no such GPU: the fullest with room
    assert run.now == 50 and run.snapshot.free_of_gpu.tolist() == [0, 200, 1000]
    assert run.snapshot.free_gpus[0] == 1 and run.snapshot.free_milli[0] == 1200
    put(run, 5, 0)
    assert run.episode("by hand").runs.gpu_mask.tolist() == [1, 2, 1, 2, 1, 4]  # pyright: ignore[reportOptionalMemberAccess]


def test_cpus_and_memory_limit_what_fits():
    # 5 cores and 3 GiB: instances of 2 cores and 1 GiB fit twice, though there are 4 GPUs.
    cluster = cluster_of(machine(4, cpus=5.0, memory_gib=3.0, count=2))
    jobs = make_workload([0, 0], duration_ms=10, gpus=[3, 1], cpu_milli=[2000, 0], memory_mib=[1024, 2049])
    run = begin(cluster, jobs)
    put(run, 0, 0, 1)
    now = run.snapshot
    assert now.free_cpu_milli.tolist() == [1000, 3000] and now.free_memory_mib.tolist() == [1024, 2048]
    assert [one.fits(run.jobs[1]) for one in run.machines] == [0, 0]  # 2049 MiB are nowhere free
    assert now.load.tolist() == [2_000_000, 1_000_000] and now.jobs.tolist() == [1, 1]


def test_only_allowed_gpu_models():
    cluster = cluster_of(machine(1), machine(1, gpu_type="T4"))
    jobs = make_workload([0, 0], duration_ms=10, gpus=1, allowed_types=[2, 3], type_names=("K80", "T4"))
    run = begin(cluster, jobs)
    assert [one.fits(run.jobs[0]) for one in run.machines] == [0, 1]
    with pytest.raises(ActionError, match="1 more instances"):
        put(run, 0, 0)


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (start(0, np.array([0])), "1 more instances"),
        (start(0, np.array([0, 2])), "machine 2 does not exist"),
        (start(0, np.array([0, 0])), "twice"),
        (start(1, np.array([0])), "does not wait"),
        (preempt(0, NONE), "does not run"),
        (Action(7, 0, NONE, NOWHERE), "verb 7"),
    ],
)
def test_actions_that_cannot_be_are_refused(action, message):
    run = begin(cluster_of(machine(1, count=2)), make_workload([0, 5], duration_ms=10, gpus=[2, 1]))
    with pytest.raises(ActionError, match=message):
        run.step(action)
    assert run.decisions == 0


def test_jobs_that_could_never_start_are_refused_before_the_start():
    cluster = cluster_of(machine(2, count=2, cpus=3.0))
    for demands in (
        {"gpus": 5},
        {"gpus": 3, "cpu_milli": 2000},
        {"gpu_milli": 3000},
        {"gpus": 1, "memory_mib": 1 << 20},
    ):
        with pytest.raises(WorkloadError, match="jobs: job 1: does not fit on the empty cluster"):
            begin(
                cluster,
                make_workload(
                    [0, 0],
                    duration_ms=9,
                    **{k: [1000 if k == "gpu_milli" else 1, v] for k, v in demands.items()},
                ),
            )
    jobs = make_workload([0], duration_ms=9, gpus=1, allowed_types=1, type_names=("H900",))
    with pytest.raises(WorkloadError, match="no machine has a GPU model it may use"):
        begin(cluster, jobs)


# --- preemption --------------------------------------------------------------------------------------


def test_preemption_loses_the_work_since_the_checkpoint():
    # 10,000 ms of work; stopped after 5000 with 2000 to lose: 3000 done. Restarted at 6000: ends at 13,000.
    run = begin(
        cluster_of(machine(1), checkpoint_s=2.0), make_workload([0, 5000], duration_ms=[10_000, 1000], gpus=1)
    )
    put(run, 0, 0)
    run.step(preempt(0, NONE))
    now = run.snapshot
    assert now.now_ms == 5000 and now.done_ms[0] == 3000.0 and now.attained_ms[0] == 5000
    assert now.preemptions[0] == 1 and now.rate[0] == 0.0 and now.pending.tolist() == [0, 1]
    assert now.free_gpus[0] == 1 and now.first_part[0] == NOWHERE
    put(run, 1, 0)
    run.step(HOLD)
    put(run, 0, 0)
    episode = run.episode("by hand")
    assert episode.completion_ms.tolist() == [13_000, 6000] and episode.first_start_ms.tolist() == [0, 5000]
    assert episode.run_ms.tolist() == [12_000, 1000]
    log = episode.runs
    assert log is not None and log.completed.tolist() == [False, True, True]
    assert log.start_ms.tolist() == [0, 5000, 6000] and log.end_ms.tolist() == [5000, 6000, 13_000]


def test_a_young_job_may_owe_more_than_it_has_done():
    run = begin(
        cluster_of(machine(1), checkpoint_s=2.0), make_workload([0, 500], duration_ms=[3000, 1], gpus=1)
    )
    put(run, 0, 0)
    run.step(preempt(0, NONE))
    assert run.jobs[0].done_ms == -1500.0
    put(run, 0, 0)
    run.step(HOLD)
    assert run.now == 5000  # 500 + 4500


@pytest.mark.parametrize(("gpus", "lost"), [(8, 1000.0), (9, 7000.0)])
def test_large_jobs_lose_more(gpus, lost):
    cluster = cluster_of(machine(9), checkpoint_s=1.0, large_checkpoint_s=7.0)
    run = begin(cluster, make_workload([0, 8000], duration_ms=[60_000, 1], gpus=[gpus, 1]))
    put(run, 0, 0)
    run.step(preempt(0, NONE))
    assert run.jobs[0].done_ms == 8000.0 - lost


def test_preemption_gives_the_others_their_speed_back():
    # Contention 2 on 2 GPUs: both at half speed until 1000, when job 0 is stopped.
    run = begin(
        cluster_of(machine(2), contention=2.0), make_workload([0, 0, 1000], duration_ms=3000, gpus=[1, 1, 2])
    )
    put(run, 0, 0)
    put(run, 1, 0)
    run.step(preempt(0, NONE))
    now = run.snapshot
    assert now.rate[1] == 1.0 and now.done_ms[1] == 500.0
    run.step(HOLD)
    assert run.now == 3500


def test_a_stay_of_no_time_teaches_nothing_and_costs_nothing():
    run = begin(cluster_of(machine(2), checkpoint_s=0.0), make_workload([0, 0], duration_ms=1000, gpus=1))
    put(run, 0, 0)
    run.step(preempt(0, NONE))
    assert run.machines[0].observed == 0.0 and run.jobs[0].fee == 0.0
    put_all(run)
    log = run.episode("by hand").runs
    assert log is not None and log.end_ms.tolist() == [0, 1000, 1000]


# --- the ends of an episode --------------------------------------------------------------------------


def test_no_episode_before_its_end_and_no_step_after():
    run = begin(cluster_of(machine(1)), make_workload([0], duration_ms=10, gpus=1))
    with pytest.raises(TrimtabError, match="not finished"):
        run.episode("by hand")
    put(run, 0, 0)
    with pytest.raises(ActionError, match="has ended"):
        run.step(HOLD)


def test_a_cluster_brings_its_own_gpu_models():
    own = GpuType(name="own", speed=4.0, price=8.0)
    run = begin(
        cluster_of(machine(1, gpu_type="own"), gpu_types=(own,)),
        make_workload([0], duration_ms=HOUR_MS, gpus=1),
    )
    put(run, 0, 0)
    episode = run.episode("by hand")
    assert episode.completion_ms[0] == HOUR_MS / 4 and episode.fee[0] == pytest.approx(2.0)
