"""A trained autoscaler on numpy alone: bundle, refusals, decisions, and how long they take."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks.stream_shared_batch import SharedBatch
from tests.stream_autoscaling.sure_snapshots import random_graph, random_snapshot

from trimtab.core.bundle import Bundle, save_bundle
from trimtab.core.errors import ActionError, BundleError
from trimtab.stream_autoscaling.problem import Graph, Samples, Snapshot, allowed
from trimtab.stream_autoscaling.sure.actions import decode_action
from trimtab.stream_autoscaling.sure.design import Design
from trimtab.stream_autoscaling.sure.features import FeatureHistory
from trimtab.stream_autoscaling.sure.network import new_network
from trimtab.stream_autoscaling.sure.policy import (
    SurePolicy,
    best_action,
    load_policy,
    make_bundle,
)

SMALL = Design(
    history=8,
    hidden=8,
    snapshots=4,
    neighbours=2,
    suggestion_score=0.1,
    commit_score=0.1,
    base_window_s=180.0,
    base_memory_s=420.0,
    base_recent_s=420.0,
)


def bundle(design: Design = SMALL, seed: int = 0) -> Bundle:
    parameters = new_network(design, seed)
    for head in ("score", "commit"):
        parameters["actor"][head][-1]["weights"] *= 40
    return make_bundle("mine", parameters, design, trained={}, scores={})


def test_a_bundle_decides_as_its_network_does(tmp_path) -> None:
    policy = load_policy(save_bundle(tmp_path / "mine", bundle()))
    assert policy.name == "mine" and policy.design == SMALL
    assert all("critic" not in name for name in policy.bundle.tensors)
    random = np.random.default_rng(0)
    graph = random_graph(random, [5, 9])
    decider, history = policy.begin(graph), FeatureHistory(graph, SMALL)
    changed = 0
    for number in range(1, 25):
        snapshot = random_snapshot(random, graph, history=8, seen=number)
        wanted = decider.decide(snapshot)
        seen = history.see(snapshot)
        action = best_action(policy.parameters, seen.view, SMALL)
        assert np.array_equal(wanted, decode_action(action, snapshot, seen.offer, SMALL))
        assert not wanted[~graph.exists].any()
        changed += int((wanted != snapshot.parallelism).any())
    assert changed > 4


def some_rows(snapshot: Snapshot, rows: slice) -> Snapshot:
    """Some jobs of a snapshot."""
    parts = {"graph": Graph, "samples": Samples}
    cut = {name: kind._make(one[rows] for one in getattr(snapshot, name)) for name, kind in parts.items()}
    return Snapshot._make(
        cut.get(name, value[rows] if isinstance(value, np.ndarray) else value)
        for name, value in snapshot._asdict().items()
    )


@pytest.mark.parametrize("name", ["gru", "sampler", "astgcn", "ccrnn"])
def test_a_network_need_not_be_asked_where_it_can_only_hold(name: str) -> None:
    """Half of the jobs are being rescaled: whatever the network says, they stay as they are."""
    policy, random = SurePolicy(bundle(replace(SMALL, history_encoder=name))), np.random.default_rng(2)
    graph = random_graph(random, [5, 9, 7, 4])
    quick, asked = policy.begin(graph), policy.begin(graph)
    free = 0
    for number in range(1, 13):
        rescaling = random.random(4) < 0.5
        snapshot = random_snapshot(random, graph, history=8, seen=number, rescaling=rescaling)
        considered = asked.consider(snapshot)
        assert np.array_equal(quick.decide(snapshot), considered.wanted)
        assert not considered.seen.offer.may_commit[rescaling].any()
        free += int(considered.seen.offer.may_commit.sum())
    assert 0 < free < 4 * 12


@pytest.mark.parametrize("name", ["gru", "sampler", "deepwave", "dream", "tvw-rl", "astgcn", "ccrnn"])
def test_policies_that_share_a_batch_decide_as_each_would_alone(name: str) -> None:
    design, random = replace(SMALL, history_encoder=name), np.random.default_rng(3)
    policies = [SurePolicy(bundle(design, seed)) for seed in (0, 1)]
    for policy in policies:
        always = policy.parameters["actor"]["commit"][-1]
        always["weights"], always["bias"] = 0 * always["weights"], 1 + 0 * always["bias"]
    graph, shares = random_graph(random, [9, 5, 9]), [slice(0, 2), slice(2, 3)]
    together = SharedBatch(policies, [2, 1]).begin(graph)
    alone = [
        policy.begin(Graph._make(one[rows] for one in graph))
        for policy, rows in zip(policies, shares, strict=True)
    ]
    changed = 0
    for number in range(1, 15):
        snapshot = random_snapshot(random, graph, history=8, seen=number)
        wanted = together.decide(snapshot)
        for decider, rows in zip(alone, shares, strict=True):
            assert np.array_equal(wanted[rows], decider.decide(some_rows(snapshot, rows)))
        changed += int((wanted != snapshot.parallelism).any())
    assert changed > 10


def test_a_shared_batch_is_for_one_design_and_for_as_many_jobs_as_were_said() -> None:
    policy = SurePolicy(bundle())
    with pytest.raises(ActionError, match="policies of different designs in one batch"):
        SharedBatch([policy, SurePolicy(bundle(replace(SMALL, history_encoder="gru")))], [1, 1])
    with pytest.raises(ActionError, match="policies for 3 jobs in a batch of 2"):
        SharedBatch([policy, policy], [1, 2]).begin(random_graph(np.random.default_rng(0), [5, 9]))


def test_incomplete_metrics_are_never_answered_with_less() -> None:
    policy = SurePolicy(bundle())
    random = np.random.default_rng(1)
    graph = random_graph(random, [6] * 20)
    snapshot = random_snapshot(random, graph, history=8, seen=8)
    snapshot.samples.complete[:, -1] = False
    wanted = policy.begin(graph).decide(snapshot)
    assert (wanted >= snapshot.parallelism).all()
    assert np.array_equal(allowed(snapshot, wanted), wanted)


def test_bundles_that_are_not_ours_or_not_whole_are_refused() -> None:
    good = bundle()
    with pytest.raises(
        BundleError, match="a bundle of dag_scheduling/decima; SURE needs stream_autoscaling/sure"
    ):
        SurePolicy(replace(good, wing="dag_scheduling", kind="decima"))
    other = {**good.manifest, "settings": {"design": {**good.manifest["settings"]["design"], "colour": 1}}}
    with pytest.raises(BundleError, match="does not describe a network of this version"):
        SurePolicy(replace(good, manifest=other))
    with pytest.raises(BundleError, match="other features"):
        SurePolicy(replace(good, manifest={**good.manifest, "features": {"vertex": ["busy"]}}))
    fewer = dict(list(good.tensors.items())[1:])
    with pytest.raises(BundleError, match="its tensors are not those of its network"):
        SurePolicy(replace(good, tensors=fewer))


def test_serving_needs_neither_jax_nor_numba() -> None:
    code = (
        "import sys, trimtab.stream_autoscaling.sure.policy as p\n"
        "from trimtab.stream_autoscaling.sure.encoders import ENCODERS\n"
        "[ENCODERS.load(name) for name in ENCODERS]\n"
        "print(*(n for n in ('jax', 'numba', 'polars', 'matplotlib') if n in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


DECISIONS = """
import time
import numpy as np
from tests.stream_autoscaling.sure_snapshots import random_graph, random_snapshot
from trimtab.stream_autoscaling.sure.design import Design
from trimtab.stream_autoscaling.sure.network import new_network
from trimtab.stream_autoscaling.sure.policy import SureDecider
random = np.random.default_rng(0)
graph, design = random_graph(random, [46]), Design()
decider = SureDecider(new_network(design, 0), design, graph)
snapshots = [random_snapshot(random, graph, history=60, seen=60) for _ in range(12)]
took = []
for snapshot in snapshots:
    began = time.perf_counter()
    decider.consider(snapshot)
    took.append(time.perf_counter() - began)
print(min(took))
"""


def test_a_decision_takes_milliseconds() -> None:
    """46 vertices, an hour of history, one core, from metrics to parallelism.

    The bar of 20 ms is for the 95th percentile on an idle core, which a benchmark holds; here it is for the
    fastest of a few, because machines that run tests are busy.
    """
    one_core = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", DECISIONS], capture_output=True, text=True, check=True, env=one_core, cwd=root
    )
    assert float(done.stdout) < 0.02
