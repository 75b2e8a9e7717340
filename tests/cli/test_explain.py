"""`trimtab explain`: the same episode as `simulate` and `compare` play, taken apart at one decision."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.untrained_bundle import save_untrained

from trimtab.dag_scheduling.workload import save_workload
from trimtab.dag_scheduling.workload.tiny import tiny_workload

EPISODE = ("--workload", "synthetic", "--jobs", "4", "--executors", "8", "--seed", "3")
SMALL = ("--workload", "tiny:three-sizes", "--jobs", "4", "--executors", "3", "--processes", "1")


@pytest.fixture
def bundle(tmp_path: Path) -> str:
    return str(save_untrained(tmp_path / "lone"))


def test_a_trained_policy_is_taken_apart(run: Callable, bundle: str) -> None:
    found = run("explain", "--policy", bundle, *EPISODE, "--decision", "12", "--json").json
    assert (found["decision"], found["executors"], found["seed"]) == (12, 8, 3)
    best = found["candidates"][0]
    assert (best["job"], best["stage"]) == (found["chosen"]["job"], found["chosen"]["stage"])
    assert found["limits"][0]["limit"] == found["chosen"]["limit"]
    assert sum(one["probability"] for one in found["candidates"]) == pytest.approx(1.0)
    assert len({one["fact"] for one in found["influences"]}) == len(found["influences"]) > 10
    assert len(found["others"]) == 4
    assert 0 < sum(found["free_executors"]) <= 8
    text = run("explain", "--policy", bundle, *EPISODE, "--decision", "12").out
    assert f"Decision 12 of {bundle} on synthetic, seed 3: after {found['time_s']:,.1f} s" in text
    for heading in ("probability", "executors sent", "what moved it", "would choose"):
        assert heading in text


def test_a_rule_tells_what_it_and_the_others_choose(run: Callable) -> None:
    """Three jobs of one stage, first come first served on 4 executors: job 0 can use all of them."""
    words = ["--workload", "tiny:three-sizes", "--executors", "4", "--decision", "1"]
    found = run("explain", "--policy", "fifo", *words, "--json").json
    assert found["chosen"] == {
        "policy": "fifo", "idle": False, "job": 0, "stage": 0, "executors": 4, "executor_class": 0,
        "limit": 4,
    }  # fmt: skip
    assert found["free_executors_of_job"] is None
    assert [(one["job"], one["tasks_left"], one["job_work_left_s"]) for one in found["candidates"]] == [
        (0, 4, 12.0), (1, 2, 4.0), (2, 1, 1.0),
    ]  # fmt: skip
    assert "influences" not in found
    assert [one["policy"] for one in found["others"]][::3] == ["fair", "fifo"]
    text = run("explain", "--policy", "fifo", *words).out
    assert "4 of 4 executors to place, from the cluster's pool." in text
    assert "It chose job 0 (three-sizes 1), stage 0: 4 executors, limit 4." in text


def test_the_decisions_are_those_of_simulate(run: Callable, refused: Callable) -> None:
    decisions = run("simulate", "dag", "--policy", "fair", *EPISODE, "--json").json["decisions"]
    last = run("explain", "--policy", "fair", *EPISODE, "--decision", str(decisions), "--json")
    assert last.code == 0
    said = refused("explain", "--policy", "fair", *EPISODE, "--decision", str(decisions + 1))
    assert f"the episode has {decisions} decisions" in said


def test_a_comparison_is_explained_as_it_was_played(run: Callable, refused: Callable, bundle: str) -> None:
    tune = ["tune", "dag", *SMALL, "--policies", "weighted-fair", "--training-seeds", "2", "--out", "t.json"]
    assert run(*tune).code == 0
    policies = f"fair,{bundle},weighted-fair:tuned,weighted-fair"
    words = ["--seeds", "2", "--policies", policies, "--tuned", "t.json"]
    assert run("compare", "dag/batch", *SMALL, *words, "--out", "runs/a").code == 0
    found = run("explain", "runs/a", "--decision", "2", "--json").json
    assert (found["policy"], found["seed"], found["executors"]) == (bundle, 1_000_000, 3)
    rule = run("explain", "runs/a", "--policy", "weighted-fair:tuned", "--decision", "2", "--json").json
    assert rule["policy"].startswith("weighted-fair:alpha=")
    assert rule["policy"] in [one["policy"] for one in rule["others"]]
    for label, policy in (("weighted-fair (tuned)", rule["policy"]), ("weighted-fair", "weighted-fair")):
        row = run("explain", "runs/a", "--policy", label, "--decision", "2", "--json").json
        assert row["policy"] == policy
    assert run("explain", "runs/a", "--policy", "sjf-cp", "--decision", "1").code == 0
    assert "--jobs: the run runs/a fixes its episodes" in refused(
        "explain", "runs/a", "--decision", "1", "--jobs", "3"
    )
    assert "runs/a: has no load 0.7; its loads: none" in refused(
        "explain", "runs/a", "--decision", "1", "--load", "0.7"
    )


@pytest.mark.slow
def test_executors_of_several_sizes_are_told_apart(run: Callable) -> None:
    """A stage stands there once for each size it may have, and rules that mind memory are asked."""
    words = ["--policies", "fair,packed-srpt", "--seeds", "2", "--set", "workload.jobs=2", "--processes", "1"]
    assert run("compare", "dag/multi-resource", *words, "--out", "runs/a").code == 0
    found = run("explain", "runs/a", "--decision", "3", "--json").json
    assert found["class_memory"] == [0.25, 0.5, 0.75, 1.0]
    assert {"graphene", "packed-srpt"} <= {one["policy"].split(":")[0] for one in found["others"]}
    stages = {(one["job"], one["stage"]) for one in found["candidates"]}
    assert len(stages) < len(found["candidates"])
    said = run("explain", "runs/a", "--decision", "3").out
    size = found["class_memory"][found["chosen"]["executor_class"]]
    assert f"of memory {size:g}, limit" in said.splitlines()[1]
    assert "executors of job  on memory" in said


def test_what_was_chosen_is_among_what_could_be(run: Callable) -> None:
    """Of 25 stages eight are shown; the chosen one is far down the list of a rule, which has no scores."""
    words = ["--workload", "synthetic", "--jobs", "5", "--executors", "10", "--seed", "3", "--decision", "20"]
    found = run("explain", "--policy", "capped-srpt", *words, "--json").json
    choices = [found["chosen"], *found["others"]]
    stages = [(one["job"], one["stage"]) for one in found["candidates"]]
    assert stages.index((found["chosen"]["job"], found["chosen"]["stage"])) >= 8
    table = run("explain", "--policy", "capped-srpt", *words).out.split("\n\n")[1].splitlines()
    shown = [(int(row.split()[0]), int(re.split(r"  +", row)[2])) for row in table[1:-1]]
    assert shown == sorted(shown) and len(shown) == 8
    assert {(one["job"], one["stage"]) for one in choices} <= set(shown)
    assert table[-1] == f"and {len(stages) - 8} more"


def test_a_comparison_is_explained_only_with_the_files_it_was_made_with(
    run: Callable, refused: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_workload(tiny_workload("three-sizes"), tmp_path / "my.workload")
    words = ["--workload", "my.workload", *SMALL[2:], "--seeds", "2", "--policies", "fair,fifo"]
    assert run("compare", "dag/batch", *words, "--out", "runs/a").code == 0
    assert run("explain", "runs/a", "--decision", "1").code == 0
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    said = refused("explain", "../runs/a", "--decision", "1")
    assert f"../runs/a: its file my.workload is not here but at {tmp_path / 'my.workload'}" in said
    save_workload(tiny_workload("two-jobs"), tmp_path / "my.workload")
    said = refused("explain", str(tmp_path / "runs" / "a"), "--decision", "1")
    assert f"its file {tmp_path / 'my.workload'} has changed since the run began" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "--decision"),
        (["--decision", "1"], "whose decision? Give --policy"),
        (["--decision", "0", "--policy", "fair", *EPISODE], "--decision 0: decisions are counted from 1"),
        (["--decision", "1", "--policy", "fiar"], "did you mean 'dag/fair'"),
        (["nowhere", "--decision", "1"], "nowhere: no such folder"),
    ],
)
def test_mistakes(refused: Callable, words: list[str], said: str) -> None:
    assert said in refused("explain", *words)
