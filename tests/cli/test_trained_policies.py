"""Trained policies in every verb: by the name they are shipped with, and by path."""

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.untrained_bundle import save_untrained

from trimtab.benchmark.dag_scheduling.suites import BatchSuite, DecimaSuite
from trimtab.benchmark.dag_scheduling.wing import scenario_ground
from trimtab.benchmark.tuned import shipped_tuned_values
from trimtab.core.bundle import save_bundle
from trimtab.dag_scheduling import policies
from trimtab.dag_scheduling.cluster import Cluster
from trimtab.dag_scheduling.decima.compact import compact_bundle, first_numbers
from trimtab.dag_scheduling.policies import described, make_policy
from trimtab.dag_scheduling.simulator.simulator import simulate
from trimtab.dag_scheduling.workload.tiny import tiny_workload


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A trained policy that comes with the package."""
    folder = save_untrained(tmp_path / "package" / "decima-small")
    monkeypatch.setattr(policies.POLICIES, "bundles", folder.parent)
    return folder


TINY = ("--workload", "tiny:three-sizes", "--executors", "4")


def test_a_shipped_policy_is_known_by_its_name(run: Callable, refused: Callable, shipped: Path) -> None:
    assert make_policy("decima-small").name == make_policy("dag/decima-small").name == "decima-small"
    assert described("decima-small") == "Learned (decima): 4 jobs of tiny:three-sizes at once, 4 executors."
    assert " decima-small " in run("policies").out
    assert (
        run("simulate", "dag", "--policy", "decima-small", *TINY, "--json").json["policy"] == "decima-small"
    )
    words = [*TINY, "--jobs", "3", "--seeds", "2", "--processes", "1"]
    assert "decima-small" in run("compare", "dag/batch", "--policies", "fair,decima-small", *words).out
    tune = refused("tune", "dag", "--policies", "decima-small", *TINY)
    assert "'decima-small' has nothing to tune" in tune
    assert "is trained and has no settings; leave out alpha" in refused(
        "simulate", "dag", "--policy", "decima-small:alpha=1", *TINY
    )


def test_a_policy_may_be_a_path(run: Callable, refused: Callable, tmp_path: Path) -> None:
    save_untrained(tmp_path / "runs" / "mine" / "bundle")
    save_untrained(tmp_path / "lone")
    for text in ("runs/mine", "runs/mine/bundle", "lone", str(tmp_path / "lone")):
        played = run("simulate", "dag", "--policy", text, *TINY, "--json").json
        assert played["policy"] == text
    assert "runs/none: no such folder" in refused("simulate", "dag", "--policy", "runs/none", *TINY)
    assert "runs: holds no trained policy" in refused("simulate", "dag", "--policy", "runs", *TINY)
    (tmp_path / "lone" / "manifest.json").write_text("{}")
    assert "lone" in refused("simulate", "dag", "--policy", "lone", *TINY)


def test_loads_are_told_together() -> None:
    def stream(load: float) -> dict[str, Any]:
        return {
            "workload": {"name": "tpch", "jobs": 9, "arrivals": "poisson", "load": load},
            "cluster": {"executors": 50},
        }

    told = policies._courses_in_words([stream(0.5), stream(2.0), stream(0.8)])
    assert told == ["9 jobs of tpch in streams at loads 0.5 to 2, 50 executors"]


def test_a_trained_policy_travels_to_another_process(tmp_path: Path) -> None:
    policy = make_policy(str(save_untrained(tmp_path / "lone")))
    copy = pickle.loads(pickle.dumps(policy))
    first = simulate(tiny_workload("three-sizes"), policy, Cluster(executors=3))
    again = simulate(tiny_workload("three-sizes"), copy, Cluster(executors=3))
    assert copy.name == policy.name
    assert (first.completion_ms == again.completion_ms).all()


def test_demo_and_suite_take_in_what_is_shipped(
    run: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policies.POLICIES, "bundles", tmp_path / "none")
    assert DecimaSuite().policies == (
        "fair",
        "weighted-fair:tuned",
        "graphene:tuned",
        "capped-srpt-local:tuned",
    )
    folder = save_untrained(tmp_path / "package" / "decima-tpch-batch")
    monkeypatch.setattr(policies.POLICIES, "bundles", folder.parent)
    assert "decima-tpch-batch" in DecimaSuite().policies
    numbers = first_numbers("shortest", 0)
    save_bundle(folder.parent / "compact-tpch", compact_bundle("compact", numbers, trained={}, scores={}))
    words = ["demo", "--workload", "tiny:three-sizes", "--seeds", "2", "--processes", "1", "--json"]
    played = [row["policy"] for row in run(*words).json["scenarios"][0]["policies"]]
    assert "compact-tpch" in played


def test_the_suite_has_a_batch_and_streams_of_the_same_jobs(run: Callable) -> None:
    scenarios = DecimaSuite().scenarios()
    assert [one.name for one in scenarios] == ["batch", "load 0.50", "load 0.70", "load 0.85", "load 0.95"]
    assert [one.workload.jobs for one in scenarios] == [20, 200, 200, 200, 200]
    assert [one.workload.load for one in scenarios] == [None, 0.5, 0.7, 0.85, 0.95]
    fewer = DecimaSuite.model_validate({"workload": {"jobs": 3}, "loads": [0.7]})
    assert [one.workload.jobs for one in fewer.scenarios()] == [3, 3]
    assert DecimaSuite.model_validate(fewer.model_dump()) == fewer
    # The batch and the streams are those of the other suites: values tuned for them are found.
    assert scenarios[0].workload == BatchSuite().workload
    known = {entry.key[1] for entry in shipped_tuned_values().entries}
    assert json.dumps(list(scenario_ground(DecimaSuite(), scenarios[2])), sort_keys=True) in known
    words = [*TINY, "--jobs", "3", "--seeds", "2", "--processes", "1", "--policies", "fair,fifo", "--json"]
    assert [s["name"] for s in run("compare", "dag/decima", *words, "--load", "0.7").json["scenarios"]] == [
        "batch",
        "load 0.70",
    ]
    alone = run("compare", "dag/decima", *words, "--arrivals", "batch").json["scenarios"]
    assert [scenario["name"] for scenario in alone] == ["batch"]
