from collections.abc import Callable

from trimtab.dag_scheduling.policies import POLICIES
from trimtab.dag_scheduling.workload.presets import WORKLOADS


def test_policies_lists_all_with_a_sentence(run: Callable) -> None:
    answer = run("policies")
    assert answer.code == 0
    for name in POLICIES:
        assert f"\n{name.removeprefix('dag/')} " in answer.out
    listed = run("policies", "--json").json
    assert len(listed) == len(POLICIES)
    weighted = next(entry for entry in listed if entry["name"] == "weighted-fair")
    assert weighted["settings"][0]["tunable"] is True
    assert all(entry["description"] for entry in listed)


def test_workloads_lists_names_and_sources(run: Callable) -> None:
    answer = run("workloads")
    for name in WORKLOADS:
        assert f"\n{name.removeprefix('dag/')} " in answer.out
    listed = run("workloads", "--json").json
    assert "spark" in listed["history"]
    assert {entry["name"] for entry in listed["workloads"]} >= {"tpch", "synthetic", "tiny"}
