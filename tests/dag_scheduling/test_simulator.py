"""Hand-computed episodes, refusals, and what a policy is shown."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import numba
import numpy as np
import pytest
from tests.dag_scheduling.random_instances import random_workload
from tests.dag_scheduling.test_agreement import RULES

import trimtab
from trimtab.core.errors import ActionError, SettingsError, TrimtabError, WorkloadError
from trimtab.core.randomness import hash_counters
from trimtab.core.settings import load_settings
from trimtab.dag_scheduling.cluster import Cluster, ExecutorClass
from trimtab.dag_scheduling.episode import METRICS, jobs_in_system
from trimtab.dag_scheduling.heuristics import Parameter, Rule, fair, fifo, weighted_fair
from trimtab.dag_scheduling.problem import LEAVE_IDLE, Action, Command, decode
from trimtab.dag_scheduling.simulator import BatchSimulator, Simulator, simulate
from trimtab.dag_scheduling.simulator.compiling import fingerprint
from trimtab.dag_scheduling.simulator.draws import count_in, luck_of
from trimtab.dag_scheduling.simulator.moves import ORDER_BITS
from trimtab.dag_scheduling.simulator.state import ORDER
from trimtab.dag_scheduling.workload import (
    JobRecord,
    Provenance,
    StageRecord,
    Workload,
    build_profile,
)


def workload_of(*stages: StageRecord, jobs: int = 1, gap_ms: int = 0) -> Workload:
    profile = build_profile([JobRecord("job", stages)])
    arrivals = np.arange(jobs, dtype=np.int64) * gap_ms
    return Workload(profile, np.zeros(jobs, np.int64), arrivals, Provenance("by hand"))


THREE_WAVES = StageRecord(
    tasks=5, fresh={1: [1000], 2: [1000]}, first_wave={1: [600], 2: [600]}, later_wave={1: [100], 2: [100]}
)


def test_a_chain_by_hand():
    """2 executors move (2000 ms), run a fresh task each (1000), then three later ones (100 each).

    Stage one ends at 2000 + 1000 + 200 = 3200; the executor that ends first, at 3100, has nothing to do.
    Stage two: both begin with a first-wave task (600), then take turns: 5 tasks end at 3200 + 600 + 200.
    """
    second = StageRecord(tasks=5, parents=(0,), first_wave={1: [600]}, later_wave={1: [100]})
    episode = simulate(
        workload_of(THREE_WAVES, second), Rule("fifo", fifo), Cluster(executors=2), record_tasks=True
    )
    assert episode.completion_ms.tolist() == [4000]
    assert episode.first_start_ms.tolist() == [2000]
    assert episode.moving_ms == 4000
    assert episode.busy_ms == 2 * 1000 + 3 * 100 + 2 * 600 + 3 * 100
    assert episode.tasks is not None
    assert np.bincount(episode.tasks.wave).tolist() == [2, 2, 6]
    assert episode.reward == -4000


def test_published_executors_cool_down_while_they_wait():
    """In the chain above, without `warm_waiting`, whoever waits pays a fresh start (first + 1000) again.

    The executor that ends stage one does not wait: it does 600 + 3 x 100 ms while the other needs 1600.
    """
    second = StageRecord(tasks=5, parents=(0,), first_wave={1: [600]}, later_wave={1: [100]})
    cluster = Cluster(executors=2, corrections=("interpolation", "all_points", "offer_idle", "backup_stays"))
    episode = simulate(workload_of(THREE_WAVES, second), Rule("fifo", fifo), cluster, record_tasks=True)
    assert episode.tasks is not None
    assert np.bincount(episode.tasks.wave).tolist() == [3, 1, 6]
    assert episode.completion_ms.tolist() == [3200 + 1600]


def test_a_second_job_waits_for_its_turn_under_fifo():
    """One executor, one task of 500 ms each: move 2000, work, move 2000, work."""
    one = StageRecord(tasks=1, fresh={1: [500]})
    episode = simulate(workload_of(one, jobs=2), Rule("fifo", fifo), Cluster(executors=1))
    assert episode.completion_ms.tolist() == [2500, 5000]
    metrics = episode.metrics()
    assert metrics.keys() == METRICS.keys()
    assert metrics["mean_jct_s"] == 3.75
    assert metrics["makespan_s"] == 5.0
    assert metrics["longest_wait_s"] == 4.5
    assert metrics["utilisation"] == pytest.approx(1000 / 5000)
    assert metrics["moving_share"] == pytest.approx(4000 / 5000)
    assert metrics["mean_slowdown"] == pytest.approx((1 + 2) / 2)
    moments, level = jobs_in_system(episode)
    assert moments.tolist() == [0, 2500, 5000] and level.tolist() == [2, 1, 0]


def test_free_migration_by_hand():
    one = StageRecord(tasks=1, fresh={1: [500]})
    cluster = Cluster(executors=1, moving_delay_ms=0)
    assert simulate(workload_of(one, jobs=2), Rule("fifo", fifo), cluster).completion_ms.tolist() == [
        500,
        1000,
    ]


def test_warmup_is_added_where_no_fresh_duration_is_known():
    one = StageRecord(tasks=1, first_wave={1: [500]})
    cluster = Cluster(executors=1, warmup_delay_ms=700)
    assert simulate(workload_of(one), Rule("fifo", fifo), cluster).completion_ms.tolist() == [
        2000 + 500 + 700
    ]


def test_inflation_follows_the_nearer_point():
    """With 9 of 10 executors on the way from 1 to 10, the point 10 is used 8 times of 9."""
    wide = StageRecord(tasks=9000, fresh={1: [10], 10: [20]}, later_wave={1: [10], 10: [20]})
    corrected = simulate(workload_of(wide), Rule("fifo", fifo), Cluster(executors=9), record_tasks=True)
    inverted = simulate(
        workload_of(wide),
        Rule("fifo", fifo),
        Cluster(executors=9, corrections=("all_points",)),
        record_tasks=True,
    )
    shares = []
    for episode in (corrected, inverted):
        assert episode.tasks is not None
        shares.append(float(np.mean(episode.tasks.end_ms - episode.tasks.start_ms == 20)))
    assert shares[0] == pytest.approx(8 / 9, abs=0.02)
    assert shares[1] == pytest.approx(1 / 9, abs=0.02)


def test_learned_durations_start_from_a_guess_and_follow_what_is_seen():
    cluster = Cluster(executors=1, moving_delay_ms=0, durations="learned")
    simulator = Simulator(cluster)
    one = StageRecord(tasks=2, fresh={1: [400]}, later_wave={1: [200]})
    two = StageRecord(tasks=1, parents=(0,), first_wave={1: [50]})
    snapshot = simulator.reset(workload_of(one, two), seed=0)
    assert snapshot.task_ms[:2].tolist() == [1000.0, 1000.0]
    snapshot = simulator.step(Action(0, 1)).snapshot
    # Seen 400 and 200: usual 300; stage one (600 + 300) / 3, stage two the usual alone.
    assert snapshot.task_ms[:2].tolist() == [300.0, 300.0]


def test_known_durations_are_shown():
    snapshot = Simulator(Cluster(executors=1)).reset(workload_of(THREE_WAVES), seed=0)
    assert snapshot.task_ms[0] == pytest.approx((1000 + 1000 + 600 + 600 + 100 + 100) / 6)


def test_actions_outside_the_mask_are_refused_in_one_line():
    child = StageRecord(tasks=1, parents=(0,), first_wave={1: [50]})
    simulator = Simulator(Cluster(executors=2))
    snapshot = simulator.reset(workload_of(THREE_WAVES, child, THREE_WAVES), seed=0)
    assert decode(snapshot, Action(0, 2)) == Command(job_id=0, stage=0, executors=2, executor_class=0)
    for action, message in [
        (Action(1, 2), r"stage 1 may not be chosen for class 0 now; choose one of \[0, 2\]"),
        (Action(77, 2), "stage 77, class 0 does not exist"),
        (Action(0, 2, 3), "stage 0, class 3 does not exist"),
        (Action(0, 0), "limit 0 sends no executor to stage 0"),
        (LEAVE_IDLE, "LEAVE_IDLE while no executor is busy"),
    ]:
        with pytest.raises(ActionError, match=message) as caught:
            simulator.step(action)
        assert "\n" not in str(caught.value)
    simulator.step(Action(0, 1))
    assert decode(simulator.snapshot, LEAVE_IDLE) is None


def test_numbers_of_other_kinds_are_taken_if_they_are_whole():
    simulator = Simulator(Cluster(executors=2))
    simulator.reset(workload_of(StageRecord(4, later_wave={1: [1000]})), seed=0)
    with pytest.raises(ActionError, match=r"\(0, 1.5, 0\): stage, limit and class are whole numbers"):
        simulator.step(Action(0, 1.5))
    simulator.step(Action(np.int32(0), 1.0, np.uint8(0)))
    # One executor moves (2000), runs a fresh task (1000 + 1000) and three later ones.
    assert simulator.snapshot.now_ms == 7000


DAY_MS = 24 * 3600 * 1000


@pytest.mark.parametrize(
    "late",
    [
        workload_of(StageRecord(1, later_wave={1: [1000]}), jobs=2, gap_ms=400 * DAY_MS),
        workload_of(StageRecord(20, later_wave={1: [20 * DAY_MS]})),
    ],
    ids=["arrives", "runs"],
)
def test_what_lies_beyond_the_end_of_time_is_no_fault_of_the_policy(late: Workload):
    simulator = Simulator(Cluster(executors=1))
    simulator.reset(late, seed=0)
    with pytest.raises(WorkloadError, match=r"hand: its jobs arrive or run later than .* \(397 days\)"):
        simulator.step(Action(0, 1))
    batch = BatchSimulator(Cluster(executors=1), size=1)
    batch.reset([late], [0])
    with pytest.raises(WorkloadError, match="take fewer jobs"):
        batch.step([Action(0, 1)])


def test_compiled_rules_cannot_leave_the_mask_either():
    def stubborn(snapshot, parameters):
        return Action(5_000_000, 1, 0)

    def lazy(snapshot, parameters):
        return Action(-1, 0, 0)

    for rule in (Rule("stubborn", stubborn), Rule("lazy", lazy)):
        with pytest.raises(ActionError, match=f"{rule.name}: an action outside the mask at 0 ms"):
            simulate(workload_of(THREE_WAVES), rule, Cluster(executors=1))


def test_an_ended_episode_takes_no_more_actions():
    simulator = Simulator(Cluster(executors=1))
    with pytest.raises(TrimtabError, match="no episode is running"):
        _ = simulator.snapshot
    simulator.reset(workload_of(THREE_WAVES), seed=0)
    with pytest.raises(TrimtabError, match="has not finished"):
        simulator.episode("x")
    simulator.play(RULES[0])
    with pytest.raises(ActionError, match="has ended"):
        simulator.step(Action(0, 1))
    assert simulator.memory_bytes > 0 and simulator.slot_count == 1


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"executors": 0}, "executors"),
        ({"executor": 5}, "executor"),
        ({"rules": "comapt"}, "rules"),
        ({"moving_delay_ms": -1}, "moving_delay_ms"),
        ({"executors": 3, "classes": ({"count": 1},)}, "classes add up to 1 executors"),
        ({"classes": [{"memory": 0.5}]}, r"classes\.0\.count is missing"),
        ({"classes": [{"count": 2}, {"count": "2"}]}, r'classes\.1\.count = "2": should be a valid integer'),
        ({"classes": [{"count": 0}]}, r"classes\.0\.count = 0"),
        ({"classes": [3]}, r"classes\.0 = 3: should be a table; known settings: count, memory"),
        ({"classes": 3}, "classes = 3: should be a list"),
        ({"classes": {"count": 3}}, r"classes = .*: should be a list"),
        ({"moving_delay_ms": True}, "moving_delay_ms = true: should be a number"),
    ],
)
def test_bad_cluster_settings_are_refused_in_one_line(values, message):
    with pytest.raises(SettingsError, match=message) as caught:
        load_settings(Cluster, None, values)
    assert "\n" not in str(caught.value)


def test_executor_classes_add_up():
    cluster = Cluster(classes=(ExecutorClass(count=2, memory=0.5), ExecutorClass(count=3)))
    assert cluster.executors == 5 and cluster.class_memory == (0.5, 1.0)
    assert Cluster.model_validate({"classes": [{"count": 4, "memory": 0.5}]}).executors == 4


def test_rules_refuse_unknown_settings():
    rule = Rule("weighted-fair", weighted_fair, (Parameter("alpha", -1.0, "power"),))
    assert rule.with_values({"alpha": 0.5}).values == (0.5,)
    with pytest.raises(SettingsError, match="no setting 'beta'; its settings: alpha"):
        rule.with_values({"beta": 1.0})
    with pytest.raises(SettingsError, match="alpha = nan is not a finite number"):
        rule.with_values({"alpha": float("nan")})


def test_the_engine_hashes_like_the_core():
    with np.errstate(over="ignore"):
        for seed, job, stage, task in [(0, 0, 0, 0), (7, 3, 2, 19), (2**40, 10**6, 17, 3000)]:
            assert int(count_in(np.uint64(luck_of(seed, job, stage)), task)) == int(
                hash_counters(seed, job, stage, task)
            )


def test_renumbering_events_changes_nothing():
    """Pretend that 134 million events have passed: order of ties must survive."""
    workload, cluster = random_workload(8), Cluster(executors=9)
    plain = simulate(workload, RULES[1], cluster, seed=2)
    simulator = Simulator(cluster)
    simulator.reset(workload, 2)
    while not simulator.ended:
        simulator._running_state.scalar[ORDER] |= (1 << ORDER_BITS) - 8
        simulator.step(RULES[1].decide(simulator.snapshot))
    assert np.array_equal(simulator.episode("x").completion_ms, plain.completion_ms)


def test_fair_shares_evenly_by_hand():
    """Two equal jobs, four executors: fair sends two to each."""
    simulator = Simulator(Cluster(executors=4))
    snapshot = simulator.reset(workload_of(THREE_WAVES, jobs=2), seed=0)
    assert Rule("fair", fair).decide(snapshot) == Action(stage=0, limit=2)
    snapshot = simulator.step(Action(stage=0, limit=2)).snapshot
    assert Rule("fair", fair).decide(snapshot) == Action(stage=1, limit=2)


def test_problem_and_rules_live_without_numba(tmp_path):
    """In an environment that holds numpy alone, a rule still decides on a snapshot."""
    bare = tmp_path / "site"
    bare.mkdir()
    packages = Path(np.__file__).parent.parent
    for name in ("numpy", "numpy.libs"):
        if (packages / name).exists():
            (bare / name).symlink_to(packages / name)
    program = textwrap.dedent(
        """
        import importlib.util
        import numpy as np
        for name in ("numba", "jax", "polars", "matplotlib", "pydantic"):
            assert importlib.util.find_spec(name) is None, name
        from trimtab.dag_scheduling.heuristics import Rule, fair
        from trimtab.dag_scheduling.problem import Snapshot, decode
        one, zero = np.ones(1, int), np.zeros(1, int)
        snapshot = Snapshot(
            now_ms=0, executor_count=3, source_job=-1, free_executors=3 * one, may_idle=False,
            class_memory=np.ones(1), arrival_gap_ms=0.0, jobs=zero, job_id=zero, arrival_ms=zero,
            first_stage=zero,
            stage_count=one, executors=zero, incoming=zero, tasks=2 * one, unstarted=2 * one,
            running=zero, demand=2 * one, runnable=one > 0, runnable_since=zero, schedulable=one > 0,
            task_ms=np.full(1, 100.0), memory=np.zeros(1), profile_stage=zero, slowdown=np.ones(1),
            child_offset=np.zeros(2, int), child=np.zeros(0, int), scratch=np.zeros(1),
        )
        print(decode(snapshot, Rule("fair", fair).decide(snapshot)))
        """
    )
    source = Path(trimtab.__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-S", "-c", program],  # -S: no site-packages
        env={"PYTHONPATH": f"{bare}:{source}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "executors=2" in done.stdout


OWN_RULE = """
import numpy as np
from trimtab.dag_scheduling.heuristics import leave, next_stage, send

def own(snapshot, parameters):
    order = np.argsort({key})  # allocates
    for place in order:
        stage = next_stage(snapshot, snapshot.jobs[place])
        if stage != -1:
            return send(snapshot, stage, snapshot.executor_count)
    return leave(snapshot)
"""


def test_an_edited_rule_is_compiled_anew(tmp_path):
    """Two versions that differ in one name only; the second must not find the first in the cache."""
    one = StageRecord(tasks=1, fresh={1: [500]})
    workload, cluster = workload_of(one, jobs=2), Cluster(executors=1)
    completions = []
    for key in ("snapshot.job_id[snapshot.jobs]", "-snapshot.job_id[snapshot.jobs]"):
        source = OWN_RULE.format(key=key)
        file = tmp_path / "own_rule.py"
        file.write_text(source)
        names: dict = {"__name__": "own_rule"}
        exec(compile(source, str(file), "exec"), names)
        completions.append(simulate(workload, Rule("own", names["own"]), cluster).completion_ms.tolist())
    assert completions == [[2500, 5000], [5000, 2500]]


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="compiled code runs as plain Python here")
def test_rules_that_cannot_be_compiled_are_refused_in_one_line():
    limit = 3

    def closed_over(snapshot, parameters):
        return Action(0, limit, 0)

    def with_words(snapshot, parameters):
        return {"stage": object()}

    for function, message in [
        (closed_over, "uses variables of the function around it"),
        (with_words, "'with_words' cannot be compiled"),
    ]:
        with pytest.raises(TrimtabError, match=message) as caught:
            simulate(workload_of(THREE_WAVES), Rule(function.__name__, function), Cluster(executors=1))
        assert "\n" not in str(caught.value)


def test_a_fingerprint_of_rules_that_call_each_other_ends():
    source = """
def ping(n):
    return pong(n - 1) if n else 0

def pong(n):
    return ping(n - 1) if n else 1
"""
    names: dict = {}
    exec(source, names)
    assert fingerprint(names["ping"]) != fingerprint(names["pong"])
