"""A trained Decima as a policy: saved, loaded, refused when it does not fit, and alive on numpy alone."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.dag_scheduling.test_decima_view import FOUR_SIZES, course_of

import trimtab
from trimtab.core.bundle import Bundle, save_bundle
from trimtab.core.errors import BundleError
from trimtab.core.guarded import GuardedPolicy
from trimtab.core.policy import Policy
from trimtab.dag_scheduling.cluster import Cluster
from trimtab.dag_scheduling.decima.network import Design, new_network
from trimtab.dag_scheduling.decima.policy import DecimaPolicy, load_policy, make_bundle
from trimtab.dag_scheduling.heuristics import Rule, fair
from trimtab.dag_scheduling.problem import LEAVE_IDLE, NOWHERE, Action, Snapshot, decode
from trimtab.dag_scheduling.simulator import Simulator, simulate

SMALL = Design(hidden=8, embedding=4)
TPCH = course_of(Cluster(executors=10), name="tpch", jobs=6)
FOUR = course_of(FOUR_SIZES, name="tpch", jobs=4, random_memory=True)


def bundle_of(design: Design, *, most: int = 10, seed: int = 0) -> Bundle:
    parameters = new_network(design, seed)
    return make_bundle(
        "lately", parameters, design, most_executors=most, trained={"iterations": 3}, scores={"score": 0.9}
    )


def first_question(seed: int = 0) -> Snapshot:
    return Simulator(TPCH.cluster).reset(TPCH.draw(seed), seed)


@pytest.mark.parametrize(
    ("design", "course"),
    [
        (SMALL, TPCH),
        (replace(SMALL, paper=True, limits=0), TPCH),
        (replace(SMALL, limit_head=False, graph=False), TPCH),
        (replace(SMALL, classes=4), FOUR),
    ],
    ids=["ours", "paper", "ablated", "four sizes"],
)
def test_a_whole_episode_and_a_loaded_policy_plays_the_same(design, course, tmp_path):
    """Every job finishes, and a policy that was saved and loaded takes every decision like the first."""
    bundle = bundle_of(design, most=course.cluster.executors)
    policy = DecimaPolicy(bundle)
    loaded = load_policy(save_bundle(tmp_path / "lately", bundle))
    assert isinstance(policy, Policy) and loaded.name == "lately" and loaded.design == design
    workload = course.draw(1)
    one = simulate(workload, policy, course.cluster, seed=1)
    other = simulate(workload, loaded, course.cluster, seed=1)
    assert (one.completion_ms > 0).all() and one.policy == "lately"
    np.testing.assert_array_equal(one.completion_ms, other.completion_ms)
    assert one.decisions == other.decisions


def test_the_bundle_holds_the_actor_alone_and_says_what_it_is():
    bundle = bundle_of(SMALL)
    assert {name.split("/")[0] for name in bundle.tensors} == {"actor"}
    assert all(tensor.dtype == np.float32 for tensor in bundle.tensors.values())
    assert bundle.manifest["settings"] == {
        "design": {
            "classes": 1,
            "hidden": 8,
            "embedding": 4,
            "limits": 14,
            "graph": True,
            "limit_head": True,
            "paper": False,
            "ready": False,
            "sizes": False,
            "largest_score": 0.0,
        },
        "most_executors": 10,
        "jobs_shown": 0,
    }
    assert bundle.manifest["trained"] == {"iterations": 3} and bundle.manifest["scores"] == {"score": 0.9}
    assert [len(bundle.manifest["features"][part]) for part in ("stage", "job", "cluster", "limit")] == [
        14,
        14,
        9,
        10,
    ]


def test_considering_explains_the_decision():
    """The decision is the largest score of those allowed, and every allowed choice has a finite one."""
    policy = DecimaPolicy(bundle_of(SMALL))
    simulator = Simulator(TPCH.cluster)
    snapshot = simulator.reset(TPCH.draw(0), 0)
    for _ in range(20):
        thought = policy.consider(snapshot)
        action = policy.decide(snapshot)
        assert thought.choice_mask[thought.choice]
        assert thought.choice_logits[thought.choice] == thought.choice_logits[thought.choice_mask].max()
        if action.stage == NOWHERE:
            assert action == LEAVE_IDLE and thought.choice == len(thought.choice_logits) - 1
        else:
            assert thought.limit_mask[thought.limit]
            assert thought.limit_logits[thought.limit] == thought.limit_logits[thought.limit_mask].max()
            assert action.limit == thought.limits[thought.limit]
            assert decode(snapshot, action) is not None
        snapshot = simulator.step(action).snapshot


def test_a_larger_cluster_than_it_was_trained_on_is_used_whole():
    """Where every number is on offer, the cluster at hand counts, not the one of the training."""
    cluster = Cluster(executors=25)
    policy = DecimaPolicy(bundle_of(replace(SMALL, limits=0), most=10))
    snapshot = Simulator(cluster).reset(TPCH.draw(0), 0)
    thought = policy.consider(snapshot)
    assert thought.limits.max() == 25 and thought.limit_mask[0] == (thought.limits[0] > thought.limits[1])
    assert (simulate(TPCH.draw(0), policy, cluster, seed=0).completion_ms > 0).all()


def test_one_policy_serves_workloads_of_other_profiles():
    """The graph is read anew when the profile changes, also back and forth."""
    other = course_of(Cluster(executors=10), name="tiny:diamond", jobs=3)
    courses = [TPCH, other, TPCH]
    policy = DecimaPolicy(bundle_of(SMALL))
    kept = [simulate(course.draw(2), policy, course.cluster, seed=2).completion_ms for course in courses]
    for course, completion_ms in zip(courses, kept, strict=True):
        fresh = simulate(course.draw(2), DecimaPolicy(bundle_of(SMALL)), course.cluster, seed=2)
        np.testing.assert_array_equal(completion_ms, fresh.completion_ms)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"wing": "gpu_scheduling"},
            "lately: a bundle of gpu_scheduling/decima; Decima needs dag_scheduling/decima",
        ),
        ({"kind": "das"}, "a bundle of dag_scheduling/das"),
        ({"manifest": {}}, "does not describe a network of this version; train it again"),
        ({"manifest": {"settings": {"design": {}}}}, "does not describe a network"),
        ({"manifest": {"settings": {"design": {"width": 3}, "most_executors": 5}}}, "does not describe"),
        ({"manifest": {"settings": {"design": {}, "most_executors": "many"}}}, "does not describe"),
    ],
)
def test_bundles_of_another_kind_are_refused_in_one_line(changes: dict[str, Any], message):
    with pytest.raises(BundleError, match=message) as caught:
        DecimaPolicy(replace(bundle_of(SMALL), **changes))
    assert "\n" not in str(caught.value)


def test_a_bundle_without_its_tensors_is_refused():
    with pytest.raises(BundleError):
        DecimaPolicy(replace(bundle_of(SMALL), tensors={})).decide(first_question())


def test_a_cluster_with_other_classes_is_refused_in_one_line():
    policy = DecimaPolicy(bundle_of(replace(SMALL, classes=4)))
    with pytest.raises(
        BundleError, match="trained for 4 executor classes, the cluster has 1; train"
    ) as caught:
        policy.decide(first_question())
    assert "\n" not in str(caught.value)


def test_behind_a_guard_it_plays_as_by_itself_and_a_wrong_one_is_replaced_by_the_rule():
    rule = Rule("fair", fair)
    policy = DecimaPolicy(bundle_of(SMALL))
    wrong = DecimaPolicy(bundle_of(replace(SMALL, classes=4)))
    expected = [
        simulate(TPCH.draw(0), played, TPCH.cluster, seed=0).completion_ms for played in (policy, rule)
    ]
    for asked, completion_ms in zip((policy, wrong), expected, strict=True):
        guarded: GuardedPolicy[Snapshot, Action] = GuardedPolicy(
            asked, rule, deadline_ms=20_000, check=decode
        )
        episode = simulate(TPCH.draw(0), guarded, TPCH.cluster, seed=0)
        np.testing.assert_array_equal(episode.completion_ms, completion_ms)
        assert guarded.fallbacks == ({} if asked is policy else {"failed": episode.decisions})
        guarded.close()


def test_it_lives_on_numpy_alone(tmp_path):
    """In an environment that holds nothing but numpy, a bundle is loaded and decides on a snapshot."""
    bare = tmp_path / "site"
    bare.mkdir()
    packages = Path(np.__file__).parent.parent
    for name in ("numpy", "numpy.libs"):
        if (packages / name).exists():
            (bare / name).symlink_to(packages / name)
    folder = save_bundle(tmp_path / "lately", bundle_of(SMALL, most=3))
    program = textwrap.dedent(
        """
        import importlib.util, sys
        import numpy as np
        for name in ("numba", "jax", "optax", "polars", "matplotlib", "pydantic", "safetensors"):
            assert importlib.util.find_spec(name) is None, name
        from trimtab.core.guarded import GuardedPolicy
        from trimtab.dag_scheduling.decima.policy import load_policy
        from trimtab.dag_scheduling.heuristics import Rule, fair
        from trimtab.dag_scheduling.problem import Snapshot, decode
        one, zero = np.ones(1, int), np.zeros(1, int)
        snapshot = Snapshot(
            now_ms=0, executor_count=3, source_job=-1, free_executors=3 * one, may_idle=False,
            class_memory=np.ones(1), arrival_gap_ms=0.0, jobs=zero, job_id=zero, arrival_ms=zero,
            first_stage=zero, stage_count=one, executors=zero, incoming=zero, tasks=2 * one,
            unstarted=2 * one, running=zero, demand=2 * one, runnable=one > 0, runnable_since=zero,
            schedulable=one > 0, task_ms=np.full(1, 100.0), memory=np.zeros(1), profile_stage=zero,
            slowdown=np.ones(1), child_offset=np.zeros(2, int), child=np.zeros(0, int), scratch=np.zeros(1),
        )
        policy = load_policy(sys.argv[1])
        command = decode(snapshot, policy.decide(snapshot))
        guarded = GuardedPolicy(policy, Rule("fair", fair), deadline_ms=20000, check=decode)
        assert decode(snapshot, guarded.decide(snapshot)) == command and not guarded.fallbacks
        print(command)
        """
    )
    source = Path(trimtab.__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-S", "-c", program, str(folder)],  # -S: no site-packages
        env={"PYTHONPATH": f"{bare}:{source}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "job_id=0, stage=0" in done.stdout
