"""The compact agents: where they start, what they are made of, and how they are trained."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from trimtab.core.bundle import load_bundle
from trimtab.core.errors import BundleError, SettingsError
from trimtab.gpu_scheduling import Cluster, MachineGroup, make_policy, simulate
from trimtab.gpu_scheduling.das.compact import (
    compact_bundle,
    compact_policy,
    first_numbers,
    rule_of,
    widths,
)
from trimtab.gpu_scheduling.das.scoring import JOB_FEATURES, MACHINE_FEATURES, job_features, order_size
from trimtab.gpu_scheduling.das.task import DasSettings, DasTask, check_settings
from trimtab.gpu_scheduling.das.training import SCORE, train_das
from trimtab.gpu_scheduling.heuristics.rule import Rule
from trimtab.gpu_scheduling.simulator.simulator import Simulator
from trimtab.gpu_scheduling.workload.presets import WorkloadSettings, draw_workload
from trimtab.learning.evolution import EvolutionSettings

CLUSTER = Cluster(machines=(MachineGroup(count=3, gpus=4), MachineGroup(count=2, gpus=4, speed=0.7, rack=1)))


def jobs(count: int = 40, seed: int = 3):
    return draw_workload(WorkloadSettings(jobs=count), gpus=20.0, seed=seed)


@pytest.mark.parametrize(
    ("preemptive", "rule"),
    [(False, "smallest+fast"), (True, "las+fast:margin=1,min_run_s=300")],
)
def test_training_starts_at_the_rule(preemptive, rule):
    """Hidden units say nothing at first, so agents that were never trained do exactly what the rule does."""
    workload = jobs()
    fresh = rule_of(first_numbers(preemptive=preemptive, seed=5), preemptive=preemptive)
    ours = simulate(workload, fresh, CLUSTER, seed=1)
    theirs = simulate(workload, make_policy(rule), CLUSTER, seed=1)
    # The score of GPU time attained adds a second to it, which moves the margin of a preemption a little.
    agree = ours.completion_ms == theirs.completion_ms
    assert agree.all() if not preemptive else agree.mean() > 0.8


def test_runs_the_same_compiled_and_as_plain_python():
    workload = jobs(15)
    numbers = first_numbers(preemptive=False, seed=1)
    rule = rule_of(numbers + np.random.default_rng(2).normal(0, 0.5, len(numbers)), preemptive=False)
    compiled = simulate(workload, rule, CLUSTER)

    class Plain:
        name, needs_durations = "plain", False
        decide = staticmethod(rule.decide)

    assert np.array_equal(compiled.completion_ms, simulate(workload, Plain(), CLUSTER).completion_ms)


def test_features_of_a_job_by_hand():
    simulator = Simulator(CLUSTER)
    seen = simulator.reset(jobs(5), seed=0)
    job = int(seen.pending[0])
    found = dict(zip(JOB_FEATURES, job_features(seen, job), strict=True))
    gpus = int(seen.instances[job]) * int(seen.gpu_milli[job]) / 1000
    assert found["gpus"] == np.log2(gpus) / 4
    # It has just come: it has not run or waited.
    assert [found[name] for name in ("run time", "GPU time attained", "time waited", "runs", "rate")] == [
        0
    ] * 5
    assert found["GPUs free"] == 1
    assert found["jobs waiting"] == np.log(2) / 5
    assert found["communication"] == pytest.approx(10 * float(seen.communication[job]))


def test_a_bundle_is_the_policy_again(tmp_path):
    numbers = first_numbers(preemptive=True, seed=1)
    bundle = compact_bundle("mine", numbers, preemptive=True, trained={}, scores={})
    policy = compact_policy(bundle)
    assert isinstance(policy, Rule)
    assert policy.table[0, : order_size()].tolist() == numbers[: order_size()].tolist()
    assert policy.timed
    with pytest.raises(BundleError, match="its numbers are not those of its agents"):
        compact_policy(replace(bundle, tensors={"numbers": numbers[:-1]}))
    with pytest.raises(BundleError, match="other features"):
        compact_policy(replace(bundle, manifest={**bundle.manifest, "features": {"job": ["age"]}}))


def test_numbers_and_widths_go_together():
    for preemptive in (False, True):
        numbers = first_numbers(preemptive=preemptive, seed=0)
        assert numbers.shape == widths(preemptive=preemptive).shape
        assert len(numbers) == order_size() + len(MACHINE_FEATURES) + 2


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
    where = train_das(
        settings(), tmp_path / "run", name="mine", clock=lambda: datetime(2026, 1, 1, tzinfo=UTC)
    )
    bundle = load_bundle(where)
    assert bundle.manifest["scores"][SCORE] > 0
    policy = make_policy(str(tmp_path / "run"))
    assert policy.name == str(tmp_path / "run")
    assert simulate(jobs(), policy, CLUSTER).metrics()["mean_jct_min"] > 0


def test_the_rule_itself_scores_one():
    """Scores are over the rule on the same workloads: fresh agents that do as the rule does score 1."""
    task = DasTask(settings(rule="smallest+fast"))
    assert task.score(task.start)["score"] == 1.0
    assert task.trial(task.start[None], 0).tolist() == [0.0]


def test_what_cannot_work_is_refused_early():
    with pytest.raises(SettingsError, match="needs durations"):
        check_settings(settings(rule="sjf+fast"))
    other = compact_bundle(
        "x", first_numbers(preemptive=True, seed=0), preemptive=True, trained={}, scores={}
    )
    with pytest.raises(SettingsError, match="preemptive is not False"):
        DasTask(settings(), start=other)
