"""The compact agents: where they start, what they are made of, and how they are trained."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from tests.gpu_scheduling.snapshots import Scene

from trimtab.core.bundle import load_bundle, save_bundle
from trimtab.core.errors import BundleError, SettingsError
from trimtab.gpu_scheduling import Cluster, MachineGroup, make_policy, simulate
from trimtab.gpu_scheduling.das.compact import (
    compact_bundle,
    compact_policy,
    first_numbers,
    rule_of,
    widths,
)
from trimtab.gpu_scheduling.das.experience import AGES, MEASURES, gathered, no_experience
from trimtab.gpu_scheduling.das.scoring import (
    DEMAND_FEATURES,
    JOB_FEATURES,
    MACHINE_FEATURES,
    MOODS,
    STOPPING_NUMBERS,
    job_features,
    mood,
    order_size,
)
from trimtab.gpu_scheduling.das.task import WORST, DasSettings, DasTask, check_settings
from trimtab.gpu_scheduling.das.training import DAS
from trimtab.gpu_scheduling.heuristics.rule import Rule
from trimtab.gpu_scheduling.problem import HOLD
from trimtab.gpu_scheduling.simulator.simulator import Simulator
from trimtab.gpu_scheduling.workload.presets import WorkloadSettings, draw_workload
from trimtab.learning.evolution import EvolutionSettings

CLUSTER = Cluster(machines=(MachineGroup(count=3, gpus=4), MachineGroup(count=2, gpus=4, speed=0.7, rack=1)))

KNOWS_NOTHING = rule_of(first_numbers(preemptive=False, seed=0), no_experience(), preemptive=False)


def jobs(count: int = 40, seed: int = 3):
    return draw_workload(WorkloadSettings(jobs=count), gpus=20.0, seed=seed)


def test_with_nothing_learned_experience_decides():
    """Where it knows every duration, it does as a rule that is told them: shortest job first."""
    workload = jobs()
    alone = replace(workload, group=np.arange(workload.job_count))
    numbers = first_numbers(preemptive=False, seed=5)
    plain(numbers, demand=-50.0)
    numbers[JOB_FEATURES.index("time waited")] = 0.0
    knowing = replace(gathered([alone]), classes=exact(alone))
    ours = simulate(alone, rule_of(numbers, knowing, preemptive=False), CLUSTER, seed=1)
    told = CLUSTER.model_copy(update={"information": "oracle"})
    theirs = simulate(alone, make_policy("sjf+fast"), told, seed=1)
    assert np.array_equal(ours.completion_ms, theirs.completion_ms)


def plain(numbers: np.ndarray, *, demand: float) -> None:
    """Placement as `fast` without tightness, and one demand for all, in every mood."""
    places, demands = np.split(numbers[order_size() :], [len(MOODS) * len(MACHINE_FEATURES)])
    places[:] = demands[:] = 0.0
    places[MACHINE_FEATURES.index("speed alone") :: len(MACHINE_FEATURES)] = 1.0
    places[MACHINE_FEATURES.index("crowd") :: len(MACHINE_FEATURES)] = -2.0
    demands[DEMAND_FEATURES.index("usual") :: len(DEMAND_FEATURES)] = demand


def exact(workload) -> np.ndarray:
    """What a class of one job tells if it leans on nothing."""
    rest = np.log(workload.duration_ms / 1000)
    return np.broadcast_to(rest[:, None, None], (len(rest), MEASURES, AGES)).copy()


def test_agents_wait_as_the_patient_rule_does():
    """The same order and placement, and one share of the best speed for all: whoever waits, waits alike."""
    workload, calm = jobs(60), CLUSTER.model_copy(update={"contention": 0.0})
    numbers = first_numbers(preemptive=False, seed=5)
    numbers[: len(JOB_FEATURES)] = 0.0
    numbers[JOB_FEATURES.index("gpus")] = 1.0
    plain(numbers, demand=np.log(0.75))
    ours, theirs, impatient = (
        simulate(workload, policy, calm, seed=1)
        for policy in (
            rule_of(numbers, no_experience(), preemptive=False),
            make_policy("smallest+fast+patient:patience_h=1000000,least_speed=0.75"),
            make_policy("smallest+fast"),
        )
    )
    assert np.array_equal(ours.completion_ms, theirs.completion_ms)
    assert not np.array_equal(ours.completion_ms, impatient.completion_ms)


def test_runs_the_same_compiled_and_as_plain_python():
    workload = jobs(15)
    numbers = first_numbers(preemptive=False, seed=1)
    numbers += np.random.default_rng(2).normal(0, 0.5, len(numbers))
    rule = rule_of(numbers, gathered([jobs(300, seed=4)]), preemptive=False)
    compiled = simulate(workload, rule, CLUSTER)

    class Plain:
        name, needs_durations, timed = "plain", False, rule.timed
        decide = staticmethod(rule.decide)

    assert np.array_equal(compiled.completion_ms, simulate(workload, Plain(), CLUSTER).completion_ms)


def test_features_of_a_job_by_hand():
    simulator = Simulator(CLUSTER)
    seen = simulator.reset(jobs(5), seed=0)
    job = int(seen.pending[0])
    found = dict(zip(JOB_FEATURES, job_features(seen, job, KNOWS_NOTHING.table[0]), strict=True))
    gpus = int(seen.instances[job]) * int(seen.gpu_milli[job]) / 1000
    assert found["gpus"] == np.log2(gpus) / 4
    # It has just come: it has not run or waited.
    assert [found[name] for name in ("run time", "GPU time attained", "time waited", "runs", "rate")] == [
        0
    ] * 5
    assert found["GPUs free"] == 1
    assert found["jobs waiting"] == np.log(2) / 5
    assert found["rest expected"] == found["quick rest expected"] == np.log(3600) / 10
    assert found["communication"] == pytest.approx(10 * float(seen.communication[job]))


def test_a_crowd_is_when_more_wait_than_a_quarter_of_the_machines():
    """With five machines, from two jobs on; each mood has its own demand."""
    scene = Scene([4] * 5, speeds=[0.7] * 4 + [1.0])
    scene.runs({4: 4})
    numbers = first_numbers(preemptive=False, seed=0)
    calm, crowded = numbers[-len(MOODS) * len(DEMAND_FEATURES) :].reshape(len(MOODS), -1)
    calm[:] = crowded[:] = 0.0
    crowded[DEMAND_FEATURES.index("usual")] = np.log(0.6)
    agents = rule_of(numbers, no_experience(), preemptive=False)
    scene.waits(gpus=1)
    # Full speed or nothing, and no fast machine has room.
    assert mood(scene.snapshot()) == 0
    assert agents.decide(scene.snapshot()).verb == HOLD.verb
    second = scene.waits(gpus=1)
    assert mood(scene.snapshot()) == 1
    assert agents.decide(scene.snapshot()).job in (second - 1, second)


def test_a_bundle_is_the_policy_again(tmp_path):
    numbers = first_numbers(preemptive=True, seed=1)
    known = gathered([jobs(300)])
    bundle = compact_bundle("mine", numbers, known, preemptive=True, trained={}, scores={})
    policy = compact_policy(load_bundle(save_bundle(tmp_path / "mine", bundle)))
    assert isinstance(policy, Rule)
    assert policy.table[0, : order_size()].tolist() == numbers[: order_size()].tolist()
    assert policy.timed
    assert policy.experience.jobs == 300
    assert np.array_equal(policy.table[0, order_size() :], known.row)
    with pytest.raises(BundleError, match="its numbers are not those of its agents"):
        compact_policy(replace(bundle, tensors={"numbers": numbers[:-1]}))
    tensors = {name: values for name, values in bundle.tensors.items() if name != "sizes"}
    with pytest.raises(BundleError, match="its experience is not whole"):
        compact_policy(replace(bundle, tensors=tensors))
    with pytest.raises(BundleError, match="other features"):
        compact_policy(replace(bundle, manifest={**bundle.manifest, "features": {"job": ["age"]}}))
    with pytest.raises(
        BundleError, match="mine: a bundle of kind 'dl2'; one of kind 'das-compact' is needed"
    ):
        compact_policy(replace(bundle, kind="dl2", manifest={**bundle.manifest, "features": {}}))


def test_numbers_and_widths_go_together():
    for preemptive in (False, True):
        numbers = first_numbers(preemptive=preemptive, seed=0)
        assert numbers.shape == widths(preemptive=preemptive).shape
        features = len(MACHINE_FEATURES) + len(DEMAND_FEATURES)
        assert len(numbers) == order_size() + len(MOODS) * features + (STOPPING_NUMBERS if preemptive else 0)


def settings(**changes) -> DasSettings:
    small = {
        "workload": WorkloadSettings(jobs=30),
        "clusters": ("das-small",),
        "sequences": 2,
        "validation": 1,
        "workers": 1,
        "training": EvolutionSettings(iterations=2, pairs=2, validate_every=1),
    }
    return DasSettings(**{**small, **changes})


def test_training_leaves_a_bundle_that_plays(tmp_path):
    where = DAS.train(
        settings(), tmp_path / "run", name="mine", clock=lambda: datetime(2026, 1, 1, tzinfo=UTC)
    )
    bundle = load_bundle(where)
    assert bundle.manifest["scores"][DAS.score] > 0
    policy = make_policy(str(tmp_path / "run"))
    assert policy.name == str(tmp_path / "run")
    assert simulate(jobs(), policy, CLUSTER).metrics()["mean_jct_min"] > 0


def test_scores_are_over_the_rule_on_the_same_workloads():
    """The score of a trial is the mean log of the same ratios whose geometric mean is reported."""
    task = DasTask(settings(sequences=3, load_spread=0.0))
    found = task.score(task.start)
    assert found["score"] == pytest.approx(found["completion time on das-small"] * found["fee on das-small"])
    assert 0.3 < found["score"] < 1.5
    same = task.trial(np.stack([task.start, task.start]), 0)
    assert same[0] == same[1] != 0


@pytest.mark.slow
def test_numbers_with_which_jobs_displace_each_other_for_ever_count_as_bad():
    together = WorkloadSettings(jobs=60, arrivals="batch")
    settings = DasSettings(
        workload=together, preemptive=True, rule="las+fast", clusters=("das-small",), sequences=2, workers=1
    )
    numbers = first_numbers(preemptive=True, seed=0)
    numbers[: len(JOB_FEATURES)] = 0.0
    numbers[JOB_FEATURES.index("runs")] = 3.0
    at = order_size() + len(MOODS) * len(MACHINE_FEATURES)
    numbers[at : at + 2] = 0.0
    ratios = np.exp(DasTask(settings)._ratios(numbers[None], [1, 2]))
    assert ratios[1, 0] == pytest.approx(WORST)
    assert WORST < ratios[0, 0, 0] < 2 * WORST  # this one comes to an end


def test_no_job_waits_for_more_than_nearly_its_full_speed():
    numbers = first_numbers(preemptive=False, seed=0)
    plain(numbers, demand=1.0)
    ours = simulate(jobs(), rule_of(numbers, no_experience(), preemptive=False), CLUSTER, seed=1)
    first = int(ours.arrival_ms.argmin())
    assert ours.first_start_ms[first] == ours.arrival_ms[first]


def test_a_cluster_named_twice_counts_twice():
    task = DasTask(settings(clusters=("das-small", "das-large", "das-large"), validation=2, fee_weight=0.0))
    found = task.score(task.start)
    small, large = (np.log(found[f"completion time on das-{size}"]) for size in ("small", "large"))
    assert np.log(found["score"]) == pytest.approx((small + 2 * large) / 3)


def test_loads_differ_from_workload_to_workload():
    plain, spread = (DasTask(settings(sequences=3, load_spread=share)) for share in (0.0, 0.3))
    assert plain.trial(plain.start[None], 0) != spread.trial(spread.start[None], 0)


def test_what_cannot_work_is_refused_early():
    with pytest.raises(SettingsError, match="needs durations"):
        check_settings(settings(rule="sjf+fast"))
    free = [{"name": "V100", "price": 0.0}]
    with pytest.raises(SettingsError, match="GPU model 'V100' of das-small costs nothing"):
        check_settings(settings(gpu_types=free))
    with pytest.raises(SettingsError, match="costs nothing"):
        check_settings(settings(gpu_types=free, fee_weight=0.0))
    other = compact_bundle(
        "x", first_numbers(preemptive=True, seed=0), no_experience(), preemptive=True, trained={}, scores={}
    )
    with pytest.raises(SettingsError, match="preemptive is not False"):
        DasTask(settings(), start=other)
