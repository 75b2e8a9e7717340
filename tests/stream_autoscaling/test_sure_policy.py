"""A trained autoscaler on numpy alone: bundle, refusals, decisions, and how long they take."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.stream_autoscaling.sure_snapshots import random_graph, random_snapshot

from trimtab.core.bundle import Bundle, save_bundle
from trimtab.core.errors import BundleError
from trimtab.stream_autoscaling.problem import allowed
from trimtab.stream_autoscaling.sure.actions import decode_action
from trimtab.stream_autoscaling.sure.design import Design
from trimtab.stream_autoscaling.sure.features import FeatureHistory
from trimtab.stream_autoscaling.sure.network import new_network
from trimtab.stream_autoscaling.sure.policy import SurePolicy, best_action, load_policy, make_bundle

SMALL = Design(
    history=8,
    hidden=8,
    snapshots=4,
    neighbours=2,
    suggestion_score=0.1,
    commit_score=0.1,
    base_window_s=180.0,
)


def bundle(design: Design = SMALL) -> Bundle:
    parameters = new_network(design, 0)
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
    for number in range(1, 15):
        snapshot = random_snapshot(random, graph, history=8, seen=number)
        wanted = decider.decide(snapshot)
        seen = history.see(snapshot)
        action = best_action(policy.parameters, seen.view, SMALL)
        assert np.array_equal(wanted, decode_action(action, snapshot, seen.offer, SMALL))
        assert not wanted[~graph.exists].any()
        changed += int((wanted != snapshot.parallelism).any())
    assert changed > 3


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
    decider.decide(snapshot)
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
