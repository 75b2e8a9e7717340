"""Laws every episode obeys, whatever the workload, the cluster and the policy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gpu_scheduling.random_instances import InOrder, Instance, RandomActions, instances, seeds

from trimtab.core.errors import ActionError
from trimtab.gpu_scheduling.cluster import MachineGroup
from trimtab.gpu_scheduling.episode import Episode, RunLog
from trimtab.gpu_scheduling.problem import Snapshot, decode, fits_on, gang_fits, start
from trimtab.gpu_scheduling.simulator.simulator import Simulator, simulate
from trimtab.gpu_scheduling.workload import Workload

WHOLE = 1000


def play(instance: Instance, seed: int, **habits: float) -> Episode:
    policy = RandomActions(seed, **habits)  # pyright: ignore[reportArgumentType]
    return simulate(instance.workload, policy, instance.cluster, seed=seed, record_runs=True)


def plain(instance: Instance, **settings: float) -> Instance:
    """The same machines, all alike, and nothing slows jobs down: only durations say how long they take."""
    alike = {"gpu_type": "V100", "speed": 1.0}
    machines = tuple(
        MachineGroup.model_validate(one.model_dump() | alike) for one in instance.cluster.machines
    )
    nothing = {"contention": 0.0, "communication": 0.0, "noise": 0.0, "drift": 0.0}
    cluster = instance.cluster.model_copy(update={"machines": machines, **nothing, **settings})
    workload = instance.workload
    return Instance(
        cluster,
        replace(workload, kind=np.zeros_like(workload.kind), allowed_types=np.zeros_like(workload.kind)),
    )


def stays(log: RunLog, workload: Workload) -> list[np.ndarray]:
    """Rows of each stay: neighbours in the log that make up one whole gang."""
    found, first = [], 0
    whole = workload.instances * workload.gpu_milli
    while first < len(log.job):
        held = np.cumsum(log.milli[first:])
        last = first + int(np.searchsorted(held, whole[log.job[first]]))
        found.append(np.arange(first, last + 1))
        first = last + 1
    return found


def most_at_once(start_ms: np.ndarray, end_ms: np.ndarray, amount: np.ndarray) -> int:
    """The largest sum of amounts over the intervals [start, end) that hold one moment."""
    return max((int(amount[(start_ms <= t) & (t < end_ms)].sum()) for t in start_ms), default=0)


@given(instances(), seeds)
def test_every_job_completes_exactly_once_and_gangs_run_whole_or_not_at_all(instance, seed):
    workload = instance.workload
    episode = play(instance, seed)
    log = episode.runs
    assert log is not None
    completed = []
    for rows in stays(log, workload):
        job = log.job[rows[0]]
        assert np.all(log.job[rows] == job) and len(set(log.machine[rows])) == len(rows)
        assert (
            len(set(log.start_ms[rows])) == len(set(log.end_ms[rows])) == len(set(log.completed[rows])) == 1
        )
        assert log.milli[rows].sum() == workload.instances[job] * workload.gpu_milli[job]
        assert np.all(log.milli[rows] % workload.gpu_milli[job] == 0)
        if log.completed[rows[0]]:
            completed.append(int(job))
            assert log.end_ms[rows[0]] == episode.completion_ms[job]
    assert sorted(completed) == list(range(workload.job_count))
    assert np.all(np.diff(log.end_ms) >= 0)
    assert np.all(episode.first_start_ms >= workload.arrival_ms)
    assert np.all(episode.completion_ms > episode.first_start_ms)


@given(instances(), seeds)
def test_no_gpu_core_or_byte_is_given_twice(instance, seed):
    workload, table = instance.workload, instance.cluster.machine_table
    log = play(instance, seed).runs
    assert log is not None
    amounts = log.milli // workload.gpu_milli[log.job]
    demands = {
        "gpus": (log.milli, table.gpus * WHOLE),
        "cpus": (amounts * workload.cpu_milli[log.job], table.cpu_milli),
        "memory": (amounts * workload.memory_mib[log.job], table.memory_mib),
    }
    for machine in range(len(table.gpus)):
        here = log.machine == machine
        for name, (amount, capacity) in demands.items():
            most = most_at_once(log.start_ms[here], log.end_ms[here], amount[here])
            assert most <= capacity[machine], name
        for gpu in range(64):
            mine = here & ((log.gpu_mask >> np.uint64(gpu)) & np.uint64(1) == 1)
            assert gpu < table.gpus[machine] or not mine.any()
            # A share counts in full where its job holds one GPU only, else at least once.
            single = np.bitwise_count(log.gpu_mask) == 1
            share = np.where(single, log.milli, np.minimum(workload.gpu_milli[log.job], WHOLE))
            assert most_at_once(log.start_ms[mine], log.end_ms[mine], share[mine]) <= WHOLE


@given(instances(), seeds)
def test_jobs_run_on_models_they_may_use(instance, seed):
    workload, table = instance.workload, instance.cluster.machine_table
    log = play(instance, seed).runs
    assert log is not None
    for job, machine in zip(log.job, log.machine, strict=True):
        allowed = workload.allowed_types[job]
        model = table.types[table.gpu_type[machine]].name
        assert allowed == 0 or allowed >> workload.type_names.index(model) & 1


@given(instances(), seeds)
def test_everything_is_given_back(instance, seed):
    simulator, policy = Simulator(instance.cluster), RandomActions(seed)
    simulator.reset(instance.workload, seed)
    while not simulator.ended:
        simulator.step(policy.decide(simulator.snapshot))
    seen, table = simulator.snapshot, instance.cluster.machine_table
    assert np.all(seen.free_of_gpu == WHOLE) and np.array_equal(seen.free_gpus, table.gpus)
    assert np.array_equal(seen.free_milli, table.gpus * WHOLE)
    assert seen.free_total_milli == WHOLE * table.gpus.sum()
    assert np.array_equal(seen.free_cpu_milli, table.cpu_milli)
    assert np.array_equal(seen.free_memory_mib, table.memory_mib)
    assert not seen.load.any() and not seen.jobs.any()
    assert len(seen.pending) == len(seen.running) == 0


@given(instances(), seeds)
def test_rewards_add_up_to_minus_the_completion_times(instance, seed):
    simulator, policy = Simulator(instance.cluster), RandomActions(seed)
    simulator.reset(instance.workload, seed)
    steps = []
    first = simulator.snapshot
    while not simulator.ended:
        steps.append(simulator.step(policy.decide(simulator.snapshot)))
    episode = simulator.episode("random")
    assert episode.reward == -episode.jct_ms.sum()
    # What passed before the first question is nobody's fault, and counts in the episode only.
    before = sum(max(first.now_ms - int(at), 0) for at in episode.arrival_ms)
    assert sum(step.reward for step in steps) == episode.reward + before
    assert first.now_ms + sum(step.elapsed_ms for step in steps) == episode.completion_ms.max()


@given(instances(), seeds)
def test_gpu_time_and_fees_are_those_of_the_stays(instance, seed):
    episode, prices = play(instance, seed), instance.cluster.machine_table.price
    log = episode.runs
    assert log is not None
    lasted = log.end_ms - log.start_ms
    assert episode.busy_gpu_ms == (log.milli * lasted).sum() / WHOLE
    fee = np.bincount(log.job, log.milli * prices[log.machine] * lasted / 3.6e9, len(episode.fee))
    assert episode.fee == pytest.approx(fee, rel=1e-12)
    for job, ran in enumerate(episode.run_ms):
        of_job = [rows[0] for rows in stays(log, instance.workload) if log.job[rows[0]] == job]
        assert lasted[of_job].sum() == ran and episode.preemptions[job] == len(of_job) - 1
    assert episode.busy_gpu_ms + episode.stranded_gpu_ms <= episode.total_gpus * episode.makespan_ms


@given(instances(), seeds, st.sampled_from([0.0, 0.5, 1.25]))
def test_work_done_is_work_asked_for_and_work_lost(instance, seed, checkpoint_s):
    instance = plain(instance, checkpoint_s=checkpoint_s, large_checkpoint_s=2.0)
    episode = play(instance, seed)
    lost_ms = 1000 * np.where(episode.gpus <= 8, checkpoint_s, 2.0) * episode.preemptions
    assert np.array_equal(episode.run_ms, episode.duration_ms + lost_ms)
    assert episode.busy_gpu_ms == pytest.approx((episode.gpus * episode.run_ms).sum(), rel=1e-12)


@given(instances(), seeds)
def test_no_job_runs_past_its_work(instance, seed):
    """At every question, whatever slows jobs down."""
    simulator, policy = Simulator(instance.cluster), RandomActions(seed)
    snapshot = simulator.reset(instance.workload, seed)
    while not simulator.ended:
        running = snapshot.running
        assert np.all(snapshot.rate[running] > 0) and np.all(snapshot.rate[snapshot.pending] == 0)
        done = snapshot.done_ms + snapshot.rate * (snapshot.now_ms - snapshot.since_ms)
        work = instance.workload.duration_ms[snapshot.job_id]
        assert np.all(done[running] <= (work + snapshot.rate)[running])
        snapshot = simulator.step(policy.decide(snapshot)).snapshot


@given(instances(), seeds)
def test_first_come_first_served_starts_in_order(instance, seed):
    episode = simulate(instance.workload, InOrder(strict=True), instance.cluster, seed=seed)
    assert np.all(np.diff(episode.first_start_ms) >= 0)


@given(instances(calm=True), seeds)
def test_nobody_is_faster_than_alone(instance, seed):
    episode = play(instance, seed)
    assert np.all(episode.jct_ms >= episode.alone_ms)


@given(instances(calm=True), seeds)
def test_alone_is_what_one_job_takes_on_the_fastest_machine(instance, seed):
    """All machines alike and one job: every placement on one machine is the best."""
    cluster, workload = plain(instance, communication=1.0, across_racks=0.0, round_s=0)
    for job in range(workload.job_count):
        single = workload.chosen([job]).arriving(np.zeros(1, np.int64))
        episode = simulate(single, InOrder(strict=True), cluster, seed=seed, record_runs=True)
        assert episode.runs is not None
        if len(episode.runs.job) == 1 or single.communication[0] == 0.0:
            assert episode.jct_ms[0] == episode.alone_ms[0] == single.duration_ms[0]


@given(instances(), seeds)
def test_decode_accepts_exactly_what_fits(instance, seed):
    random = np.random.default_rng(seed)
    simulator, policy = Simulator(instance.cluster), RandomActions(seed)
    snapshot = simulator.reset(instance.workload, seed)
    while not simulator.ended:
        machines = random.permutation(len(snapshot.gpus))
        some = machines[: random.integers(0, len(machines) + 1)]
        for job in map(int, snapshot.pending):
            assert accepted(snapshot, job, machines) == gang_fits(snapshot, job)
            room = sum(fits_on(snapshot, job, machine) for machine in some)
            assert accepted(snapshot, job, some) == (room >= snapshot.instances[job])
        # A job always fits on the empty cluster, so that there is something to do when HOLD is refused.
        assert snapshot.may_hold or any(gang_fits(snapshot, job) for job in snapshot.pending)
        snapshot = simulator.step(policy.decide(snapshot)).snapshot


def accepted(snapshot: Snapshot, job: int, machines: np.ndarray) -> bool:
    try:
        decode(snapshot, start(job, machines))
    except ActionError:
        return False
    return True


@given(instances(), seeds)
def test_the_same_job_has_the_same_luck_under_every_policy(instance, seed):
    instance = plain(instance, noise=0.3)
    one = play(instance, seed, preempting=0)
    other = simulate(instance.workload, InOrder(strict=False), instance.cluster, seed=seed)
    assert np.array_equal(one.run_ms, other.run_ms)


@given(instances(), seeds)
def test_the_same_seed_gives_the_same_episode(instance, seed):
    one, two = play(instance, seed), play(instance, seed)
    assert np.array_equal(one.completion_ms, two.completion_ms) and np.array_equal(one.fee, two.fee)
    assert one.decisions == two.decisions and one.reward == two.reward


@given(instances(), seeds, st.sampled_from([1, 3]))
def test_rounds_decide_at_their_multiples(instance, seed, round_s):
    cluster = instance.cluster.model_copy(update={"round_s": round_s})
    log = play(Instance(cluster, instance.workload), seed).runs
    assert log is not None
    assert not (log.start_ms % (1000 * round_s)).any()
    assert not (log.end_ms[~log.completed] % (1000 * round_s)).any()
