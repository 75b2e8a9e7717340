"""Every rule of the simulation on cases small enough to work out by hand: speed, luck, knowledge and costs.

The numbers stand in comments; speeds are chosen so that they are exact in binary. `test_agreement` holds the
compiled engine to the same simulator.
"""

from __future__ import annotations

import math
from statistics import NormalDist

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
    put_all_waiting,
)

from trimtab.core.randomness import uniform
from trimtab.gpu_scheduling.problem import HOLD, preempt, start
from trimtab.gpu_scheduling.simulator.tables import alone_ms
from trimtab.gpu_scheduling.workload import make_workload


def normal(seed: int, *counters: int) -> float:
    """The same luck by another road: Python's own inverse of the normal distribution."""
    return NormalDist().inv_cdf(float(uniform(seed, *counters)) + 2.0**-54)


# --- speed -------------------------------------------------------------------------------------------


def test_a_job_takes_its_duration_over_the_speed_of_the_slowest_machine():
    # T4: speed 0.5; a machine of its own speed 0.5 beside: 0.25. 1000 ms of work: 2000 and 4000 ms.
    cluster = cluster_of(machine(2, gpu_type="T4"), machine(2, gpu_type="T4", speed=0.5))
    jobs = make_workload([0, 0], duration_ms=[1000, 1000], gpus=[1, 3])
    run = begin(cluster, jobs)
    put(run, 0, 0)
    put(run, 1, 0, 1)
    assert completions(run) == [2000, 4000]


def test_a_kind_of_job_has_its_own_speed_on_a_gpu_model():
    # Kind 1 does 2.0 on a T4 where others do 0.5; the machine's own factor 0.5 stays: 1.0. V100: as others.
    cluster = cluster_of(machine(1, gpu_type="T4", speed=0.5), machine(1))
    jobs = make_workload(
        [0, 0, 0, 0],
        duration_ms=1000,
        gpus=1,
        kind=[1, 1, 0, 0],
        kind_names=("usual", "picky"),
        type_names=("T4",),
        kind_speed=[[np.nan], [2.0]],
    )
    run = begin(cluster, jobs)
    put(run, 0, 0)
    put(run, 1, 1)
    run.step(HOLD)  # until 1000, when both have ended
    put(run, 2, 0)  # 1000 / (0.5 * 0.5) = 4000
    put(run, 3, 1)
    assert completions(run) == [1000, 1000, 5000, 2000]


def test_contention_slows_by_what_the_others_hold():
    # 4 GPUs, contention 4. Job 0 holds 1 GPU, job 1 holds 3: job 0 is 1 + 4*1*3/4 = 4 times slower, job 1 2.
    # Job 1 has done its 3000 ms at 6000; job 0 has then done 6000/4 = 1500 and does the rest alone in 2500.
    run = begin(
        cluster_of(machine(4), contention=4.0), make_workload([0, 0], duration_ms=[4000, 3000], gpus=[1, 3])
    )
    put(run, 0, 0)
    put(run, 1, 0)
    assert completions(run) == [8500, 6000]


def test_contention_grows_with_the_sensitivity_of_both():
    # 2 GPUs, contention 8, halves of a GPU, sensitivities 0.5 and 0.25: 8 * 0.5 * (0.25 * 0.5) / 2 = 0.25 for
    # one, 8 * 0.25 * (0.5 * 0.5) / 2 = 0.25 for the other. Job 2 neither suffers nor harms.
    run = begin(
        cluster_of(machine(2), contention=8.0),
        make_workload(
            [0, 0, 0, 1], duration_ms=[2000, 2000, 500, 1], gpu_milli=500, sensitivity=[0.5, 0.25, 0.0, 0.0]
        ),
    )
    for job in range(3):
        put(run, job, 0)
    assert run.now == 1 and run.snapshot.rate.tolist() == [1 / 1.25, 1 / 1.25, 1.0, 0.0]


def test_jobs_on_other_machines_do_not_matter():
    run = begin(
        cluster_of(machine(1, count=2), contention=9.0), make_workload([0, 0], duration_ms=1000, gpus=1)
    )
    put(run, 0, 0)
    put(run, 1, 1)
    assert completions(run) == [1000, 1000]


def test_a_newcomer_changes_rates_from_its_start_on():
    # Contention 2, one of 2 GPUs each: 1 + 2*1/2 = 2. Job 0 (3000) is alone until 1000, then half as fast: at
    # 3000 it has done 2000. Job 1 (1000) ends there; job 0 needs another 1000.
    run = begin(
        cluster_of(machine(2), contention=2.0), make_workload([0, 1000], duration_ms=[3000, 1000], gpus=1)
    )
    put(run, 0, 0)
    assert run.snapshot.rate[0] == 1.0
    put(run, 1, 0)
    assert run.jobs[0].done_ms == 3000.0 and completions(run) == [4000, 3000]


def test_communication_and_racks():
    # Weight 2, communication 0.5. In a rack 1 + 2*0.5 = 2 times slower; over racks 1 + 2*0.5*(1 + 2) = 4.
    cluster = cluster_of(machine(1, count=2), machine(1, rack=1), communication=2.0, across_racks=2.0)
    for machines, lasts in ((0, 1), 2000), ((1, 2), 4000), ((2, 0), 4000):
        run = begin(cluster, make_workload([0], duration_ms=1000, gpus=2, communication=0.5))
        put(run, 0, *machines)
        assert completions(run) == [lasts]


def test_one_machine_needs_no_communication():
    run = begin(cluster_of(machine(4)), make_workload([0], duration_ms=1000, gpus=4, communication=9.0))
    put(run, 0, 0)
    assert completions(run) == [1000]


def test_fractions_of_a_millisecond_count_whole_and_nothing_ends_at_once():
    # Speed 0.3 * 1.0: 100 ms of work take 333.3, so 334; on a machine 100 times faster 1 ms of work takes 1.
    cluster = cluster_of(machine(1, speed=0.3), machine(1, speed=100.0))
    run = begin(cluster, make_workload([0, 0], duration_ms=[100, 1], gpus=1))
    put(run, 0, 0)
    put(run, 1, 1)
    assert completions(run) == [334, 1]


# --- luck --------------------------------------------------------------------------------------------


def test_noise_is_a_factor_of_the_job():
    run = begin(cluster_of(machine(4), noise=0.3), make_workload([0, 9], duration_ms=5000, gpus=1), seed=7)
    put(run, 0, 0)
    # exp(0.3 z - 0.045): its mean over jobs is 1.
    expected = math.exp(0.3 * normal(7, 1, 0) - 0.045)
    assert run.snapshot.rate[0] == pytest.approx(expected, rel=1e-13)
    assert run.jobs[0].end_ms == math.ceil(5000 / expected)


def test_a_step_of_drift_changes_the_rates_of_running_jobs():
    cluster = cluster_of(machine(1, count=2), drift=0.2, drift_period_s=2, drift_memory_s=4)
    run = begin(cluster, make_workload([500, 3000], duration_ms=60_000, gpus=1), seed=5)
    put(run, 0, 1)
    # Machine 1 at step 0 (time 0): x = 0.2 z. At step 1 (2000 ms): a = exp(-2/4).
    kept = math.exp(-0.5)
    first = 0.2 * normal(5, 2, 1, 0)
    second = kept * first + math.sqrt(1 - kept * kept) * 0.2 * normal(5, 2, 1, 1)
    now = run.snapshot
    assert now.now_ms == 3000 and now.since_ms[0] == 2000
    assert now.rate[0] == pytest.approx(math.exp(second), rel=1e-13)
    assert now.done_ms[0] == pytest.approx(1500 * math.exp(first), rel=1e-13)


def test_drift_goes_on_before_the_first_job_comes():
    cluster = cluster_of(machine(1), drift=0.2, drift_period_s=2, drift_memory_s=4)
    run = begin(cluster, make_workload([9000], duration_ms=100, gpus=1))
    assert run.drift_steps == 4 and run.events == 5  # at 2, 4, 6 and 8 s, and the arrival


def test_drift_asks_nobody_but_what_was_seen_is_new_again():
    cluster = cluster_of(machine(1), drift=0.1, drift_period_s=2, heartbeat_s=60)
    run = begin(cluster, make_workload([0, 0, 2500], duration_ms=9000, gpus=1))
    put(run, 0, 0)
    run.step(HOLD)
    # The step at 2000 asked nobody; the arrival at 2500 does, and all of pending is to be looked at.
    assert run.now == 2500 and run.unseen == 0 and run.decisions == 2


# --- what is known -----------------------------------------------------------------------------------


def test_predictions_come_from_the_group_then_the_size_then_all():
    run = begin(
        cluster_of(machine(8), information="predicted"),
        make_workload(
            [0, 0, 0, 9000, 9000, 9000, 9000],
            duration_ms=[1000, 2000, 6000, 1, 1, 1, 1],
            gpus=[1, 2, 3, 1, 1, 2, 4],
            group=[0, 0, 1, 0, 7, 7, 7],
        ),
    )
    assert run.snapshot.expected_ms[:3].tolist() == [3_600_000.0] * 3  # nothing has finished
    put_all_waiting(run)
    # Group 0: (1000 + 2000) / 2. One GPU: 1000. Two or three GPUs: (2000 + 6000) / 2. Four: all, 9000 / 3.
    assert run.snapshot.expected_ms[3:].tolist() == [1500.0, 1000.0, 4000.0, 3000.0]


def test_run_times_and_not_durations_are_learned():
    # On a T4 at speed 0.5 a job of 1000 ms runs for 2000; half a GPU counts as one.
    run = begin(
        cluster_of(machine(2, gpu_type="T4"), information="predicted"),
        make_workload([0, 5000], duration_ms=1000, gpu_milli=[1000, 500], group=[0, 1]),
    )
    put(run, 0, 0)
    assert run.snapshot.expected_ms[1] == 2000.0


@pytest.mark.parametrize(("information", "told"), [("none", math.nan), ("oracle", 1000.0)])
def test_nothing_or_the_truth(information, told):
    run = begin(cluster_of(machine(2), information=information), make_workload([0], duration_ms=1000, gpus=1))
    assert run.snapshot.expected_ms[0] == pytest.approx(told, nan_ok=True)


def test_observed_speed_is_beside_the_nominal_one():
    # Contention 2: two jobs at half the nominal speed until both end; job 2 at all of it.
    # 1: y = 0.5, worth 1. 2: 0.5 again, worth 0.9 + 1 = 1.9. 3: y = 1, worth 2.71: 0.5 + 0.5/2.71.
    cluster = cluster_of(machine(2, speed=0.5), machine(1), contention=2.0)
    run = begin(cluster, make_workload([0, 0, 9000], duration_ms=1000, gpus=1))
    put(run, 0, 0)
    put(run, 1, 0)
    now = run.snapshot
    assert now.now_ms == 9000 and now.observed_speed.tolist() == [0.5, 1.0]
    assert now.observed.tolist() == [1.9, 0.0]
    put(run, 2, 0)
    assert run.machines[0].observed == pytest.approx(2.71, rel=1e-15)
    assert run.machines[0].observed_speed == pytest.approx(0.5 + 0.5 / 2.71, rel=1e-15)


def test_observed_speed_leaves_out_what_communication_and_slow_gpus_explain():
    # Spread over racks and a slow machine: 0.25 / (1 + 1) is what was to be expected.
    cluster = cluster_of(machine(1, speed=0.25), machine(1, rack=3), across_racks=0.0)
    run = begin(cluster, make_workload([0], duration_ms=1000, gpus=2, communication=1.0))
    put(run, 0, 1, 0)
    assert completions(run) == [8000]
    assert [one.observed_speed for one in run.machines] == [1.0, 1.0]


def test_observation_of_a_preempted_stay_is_the_work_done_before_the_loss():
    run = begin(
        cluster_of(machine(1), checkpoint_s=9.0), make_workload([0, 1000], duration_ms=[2000, 1], gpus=1)
    )
    put(run, 0, 0)
    run.step(preempt(0, NONE))
    assert run.machines[0].observed_speed == 1.0 and run.machines[0].observed == 1.0
    put(run, 0, 0)  # 2000 - 1000 + 9000 = 10,000 ms of work in as many ms
    run.step(HOLD)
    assert run.now == 11_000 and run.machines[0].observed_speed == 1.0


# --- costs -------------------------------------------------------------------------------------------


def test_fee():
    # Job 0: 2 V100 for an hour, and half a T4 (speed 0.5, so 2 hours for an hour's work) for job 1.
    # 2 * 3.06 = 6.12 and 0.5 * 0.35 * 2 = 0.35 dollars.
    cluster = cluster_of(machine(2), machine(1, gpu_type="T4"))
    run = begin(cluster, make_workload([0, 0], duration_ms=HOUR_MS, instances=[2, 1], gpu_milli=[1000, 500]))
    put(run, 0, 0)
    put(run, 1, 1)
    assert run.episode("by hand").fee.tolist() == pytest.approx([6.12, 0.35], rel=1e-12)


def test_fee_of_a_gang_over_two_kinds_of_machine_and_two_stays():
    # Slowest machine 0.5: an hour's work takes two. Stopped after one (half an hour done, nothing lost), then
    # on V100s for half an hour: (3.06 + 0.35) * 1 + 2 * 3.06 * 0.5 = 6.47.
    cluster = cluster_of(machine(2), machine(1, gpu_type="T4"), checkpoint_s=0.0)
    run = begin(cluster, make_workload([0, HOUR_MS], duration_ms=[HOUR_MS, 1], gpus=[2, 1]))
    run.step(start(0, np.array([1, 0])))
    run.step(preempt(0, NONE))
    put(run, 0, 0)
    put(run, 1, 1)
    episode = run.episode("by hand")
    assert episode.fee[0] == pytest.approx(6.47, rel=1e-12)
    assert episode.completion_ms[0] == 1.5 * HOUR_MS


def test_reward_busy_and_stranded_time():
    # 2 GPUs. Job 0: one GPU, 0 to 1000. Job 1 comes at 100 and needs both: 900 ms of the other GPU lie idle.
    # Job 1 runs from 1000 to 1500. Jobs in system: 1 (100 ms), 2 (900), 1 (500) = 2400.
    run = begin(cluster_of(machine(2)), make_workload([0, 100], duration_ms=[1000, 500], gpus=[1, 2]))
    put(run, 0, 0)
    first = run.step(HOLD)
    assert (first.reward, first.elapsed_ms, first.terminated) == (-1800, 900, False)
    last = run.step(start(1, np.array([0])))
    assert (last.reward, last.elapsed_ms, last.terminated) == (-500, 500, True)
    episode = run.episode("by hand")
    assert episode.reward == -2400 == -episode.jct_ms.sum()
    assert episode.busy_gpu_ms == 2000.0 and episode.stranded_gpu_ms == 900.0
    numbers = episode.metrics()
    assert numbers["utilisation"] == pytest.approx(2000 / 3000)
    assert numbers["fragmentation"] == pytest.approx(900 / 3000)
    assert numbers["mean_wait_min"] == pytest.approx(450 / 60_000)
    assert numbers["longest_wait_min"] == pytest.approx(900 / 60_000)


def test_alone():
    # Machine 0: 4 T4 (0.5); machines 1, 2: 2 V100 each. Communication 1, weight 1; racks are not looked at.
    cluster = cluster_of(machine(4, gpu_type="T4"), machine(2), machine(2, rack=1))
    jobs = make_workload(
        [0] * 5,
        duration_ms=1000,
        gpus=[2, 4, 5, 1, 4],
        communication=[1.0, 1.0, 1.0, 1.0, 0.25],
        allowed_types=[0, 0, 0, 1, 0],
        type_names=("T4",),
    )
    run = begin(cluster, jobs)
    # 2 GPUs: a V100 machine. 4: only the T4 machine holds them. 5: none does, so the fastest over 1 + 1.
    # The fourth may use T4 only. The last is sooner done on the V100 machines, over 1.25, than on T4 at 0.5.
    assert run.alone_ms == [1000, 2000, 2000, 2000, 1250]
    assert alone_ms(jobs, cluster).tolist() == run.alone_ms


def test_alone_rounds_up():
    run = begin(cluster_of(machine(1, speed=0.3)), make_workload([0], duration_ms=100, gpus=1))
    assert run.alone_ms == [334]
