"""`trimtab explain` of training jobs: the same episode as `simulate` and `compare` play, at one decision."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.gpu_scheduling.snapshots import HOUR, MINUTE, Scene

from trimtab.cli.explain_gpu_text import readable
from trimtab.cli.terminal import now
from trimtab.core.bundle import load_bundle, save_bundle
from trimtab.core.run_folder import RunFolder
from trimtab.gpu_scheduling.das.explaining import features_of
from trimtab.gpu_scheduling.das.scoring import (
    JOB_FEATURES,
    MACHINE_FEATURES,
    MOODS,
    ScoredRule,
    learned_order,
    learned_place,
    order_size,
)
from trimtab.gpu_scheduling.heuristics import disciplines
from trimtab.gpu_scheduling.policies import POLICIES
from trimtab.gpu_scheduling.workload import make_workload, save_workload

EPISODE = ("--cluster", "das-small", "--jobs", "40", "--load", "2", "--seed", "3")
"""Too much work for 32 GPUs, so that jobs wait."""
RULES = ["fifo", "smallest+fast", "aged-smallest+fast", "las+fast", "tiresias+fast"]


def agents(*, preemptive: bool, stopping: tuple[float, ...] = (0.1, 60.0)) -> ScoredRule:
    """Drawn numbers around fewest GPUs first: decides somehow, but as trained ones do."""
    luck = np.random.default_rng(5)
    order = luck.normal(0, 0.2, order_size())
    order[JOB_FEATURES.index("gpus")] = 3.0
    place = luck.normal(0, 0.5, len(MOODS) * len(MACHINE_FEATURES))
    return ScoredRule(
        "agents",
        learned_order,
        learned_place,
        disciplines.preemptive if preemptive else disciplines.backfill,
        numbers=(tuple(order.tolist()), tuple(place.tolist()), stopping),
        timed=preemptive,
    )


@pytest.fixture
def learned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Policies of that kind, by names of their own."""
    usual = POLICIES.make
    known = {
        "agents": agents(preemptive=False),
        "stopping": agents(preemptive=True),
        # It displaces nobody, and moves whom it makes a tenth faster.
        "moving": agents(preemptive=True, stopping=(1e6, 60.0, 1.1, 60.0)),
    }

    def make(name: str, values: object = None) -> object:
        return replace(known[name], name=name) if name in known else usual(name, values)  # type: ignore[arg-type]

    monkeypatch.setattr(POLICIES, "make", make)


def first(run: Callable, policy: str, verb: str, *words: str, waiting: int = 1) -> dict:
    """The first decision of that kind with so many jobs waiting."""
    for decision in range(1, 120):
        found = run("explain", "--policy", policy, *words, "--decision", str(decision), "--json").json
        if found["chosen"]["verb"] == verb and found["jobs_waiting"] >= waiting:
            return found
    raise AssertionError(f"{policy} has no decision to {verb}")


# --- rules -----------------------------------------------------------------------------------------


def test_a_rule_tells_what_it_and_the_others_do(run: Callable) -> None:
    """One GPU; jobs of 3, 1 and 2 minutes come at once, and the first in line starts."""
    words = ["explain", "--policy", "fifo", "--wing", "gpu", "--workload", "tiny:short-first"]
    found = run(*words, "--decision", "1", "--json").json
    assert (found["workload"], found["gpus"], found["free_gpus"]) == ("tiny:short-first", 1, 1)
    assert (found["jobs_waiting"], found["jobs_running"], found["time_s"]) == (3, 0, 0)
    assert found["chosen"] == {
        "policy": "fifo", "verb": "start", "job": 0, "gpus": 1, "rate": 1.0, "slowest_machine": 1.0,
        "machines": [{"machine": "m0", "instances": 1}], "racks": 1,
    }  # fmt: skip
    assert [(one["job"], one["fits"], one["priority"]) for one in found["candidates"]] == [
        (0, True, 0), (1, True, 0), (2, True, 0),
    ]  # fmt: skip
    assert [one["policy"] for one in found["others"]] == RULES
    assert all(one == {**found["chosen"], "policy": one["policy"]} for one in found["others"])
    assert found["then"] == [{"policy": "fifo", "verb": "hold"}]
    assert "moved" not in found
    text = run(*words, "--decision", "1").out
    assert text.startswith(
        "Decision 1 of fifo on tiny:short-first, seed 0: after 0 s, 3 jobs wait and 0 run; "
        "1 of 1 GPUs are free.\nIt starts job 0 (1 GPU) on m0, at 1.00 of the reference speed. "
        "It is the first of 3 by priority.\nAt the same moment it then holds."
    )
    assert "How it decides: In order of arrival; " in text
    assert "<- starts" in text and "<- here" in text


def test_a_decision_to_hold_says_why_and_where_something_happens(run: Callable) -> None:
    words = ["explain", "--policy", "fifo", "--wing", "gpu", "--workload", "tiny:short-first"]
    found = run(*words, "--decision", "2", "--json").json
    assert found["chosen"] == {"policy": "fifo", "verb": "hold"}
    assert (found["last_act"], found["next_act"]) == (1, 3)
    text = run(*words, "--decision", "2").out
    assert "It holds: none of 2 jobs that wait fits." in text
    assert "Of its starts and stops, the last was decision 1 and the next is decision 3." in text
    assert "no: 0 free" in text


def test_those_who_hold_back_are_told_from_those_who_cannot(run: Callable, tmp_path: Path) -> None:
    """Strict: the gang of 4 waits for a whole machine, and nobody overtakes it. Others would."""
    jobs = make_workload([0, 1000, 2000], duration_ms=60_000, gpus=[1, 4, 2])
    save_workload(jobs, tmp_path / "gang.workload")
    words = ["--workload", "gang.workload", "--cluster", "1x4", "--decision", "3"]
    found = run("explain", "--policy", "fifo+best-fit+strict", *words, "--json").json
    assert [(one["job"], one["fits"], one["room"]) for one in found["candidates"]] == [
        (1, False, 3),
        (2, True, 2),
    ]
    assert found["chosen"]["verb"] == "hold"
    assert [(one["verb"], one.get("job")) for one in found["others"][:2]] == [("start", 2), ("start", 2)]
    text = run("explain", "--policy", "fifo+best-fit+strict", *words).out
    assert "It holds, though 1 of 2 jobs that wait would fit (job 2)." in text
    assert "no: 3 free" in text


def test_what_does_not_fit_says_what_is_missing(run: Callable, tmp_path: Path) -> None:
    """Two machines with 1 of 4 GPUs left each: nothing for a pair of GPUs, nor for three single ones."""
    jobs = make_workload(
        [0, 0, 1000, 2000, 3000, 4000],
        duration_ms=600_000,
        instances=[1, 1, 1, 2, 3, 1],
        gpu_milli=[3000, 3000, 2000, 1000, 1000, 1000],
    )
    save_workload(jobs.chosen([0, 1, 2, 4, 5]), tmp_path / "pieces.workload")
    words = ["--workload", "pieces.workload", "--cluster", "2x4"]
    found = first(run, "fifo", "start", *words, waiting=3)
    text = run("explain", "--policy", "fifo", *words, "--decision", str(found["decision"])).out
    assert "It is number 3 of 3 by priority; 2 of the 2 before it do not fit." in text
    assert "no: on no machine" in text and "no: 2 free" in text
    save_workload(jobs.chosen([0, 1, 3, 4]), tmp_path / "few.workload")
    words = ["--workload", "few.workload", "--cluster", "2x4", "--decision", "3"]
    assert "It starts job 2 (2 GPUs) on m0 (1), m1 (1)" in run("explain", "--policy", "fifo", *words).out


def test_free_gpus_in_pieces_are_no_room_for_a_gang(run: Callable, tmp_path: Path) -> None:
    """2, 1 and 1 GPUs are free, and both instances want 2 on one machine."""
    jobs = make_workload(
        [0, 0, 0, 1000], duration_ms=600_000, instances=[1, 1, 1, 2], gpu_milli=[2000, 3000, 3000, 2000]
    )
    save_workload(jobs, tmp_path / "gang.workload")
    words = ["--workload", "gang.workload", "--cluster", "3x4", "--decision", "4"]
    text = run("explain", "--policy", "fifo", *words).out
    assert "It holds: the job that waits does not fit." in text
    assert "4 = 2 x 2" in text and "no: room for 1 of 2 instances" in text


def test_long_queues_are_cut_but_not_the_one_that_starts(run: Callable, tmp_path: Path) -> None:
    """Twelve jobs of 4 GPUs and one of 1 wait for one machine, of which 1 GPU is left."""
    jobs = make_workload([0, *[1000] * 13], duration_ms=600_000, gpus=[3, *[4] * 12, 1])
    save_workload(jobs, tmp_path / "queue.workload")
    words = ["--workload", "queue.workload", "--cluster", "1x4", "--decision", "2"]
    text = run("explain", "--policy", "fifo", *words).out
    assert "It is number 13 of 13 by priority; 12 of the 12 before it do not fit." in text
    assert "and 4 more that wait" in text and "<- starts" in text
    assert len(run("explain", "--policy", "fifo", *words, "--json").json["candidates"]) == 13


def test_rules_that_need_durations_are_asked_where_some_are_told(run: Callable) -> None:
    words = [*EPISODE, "--information", "oracle"]
    found = first(run, "sjf+fast", "start", *words, waiting=2)
    assert [one["policy"] for one in found["others"]] == [*RULES, "sjf+fast", "srsf+fast"]
    expected = [one["expected_s"] for one in found["candidates"]]
    assert expected == sorted(expected)
    assert [one["priority"] for one in found["candidates"]] == pytest.approx([1000 * one for one in expected])
    text = run("explain", "--policy", "sjf+fast", *words, "--decision", str(found["decision"])).out
    assert "expected" in text


def test_a_preempting_rule_tells_whom_it_may_stop(run: Callable) -> None:
    found = first(run, "las+fast", "preempt", *EPISODE)
    chosen = found["chosen"]
    assert chosen["in_favour_of"] == found["candidates"][0]["job"]
    assert not found["candidates"][0]["fits"]
    (victim,) = [one for one in found["displaceable"] if one["job"] == chosen["job"]]
    assert victim["priority"] > 1.5 * found["candidates"][0]["priority"]
    assert victim["run_s"] >= 300 and victim["on"]
    acts = [(one["verb"], one.get("job")) for one in found["then"]]
    assert ("start", chosen["in_favour_of"]) in acts and acts[-1][0] == "hold"
    text = run("explain", "--policy", "las+fast", *EPISODE, "--decision", str(found["decision"])).out
    assert f"It stops job {chosen['job']} (" in text
    assert "<- room is made for it" in text and "<- is stopped" in text


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ("fifo", "came at 0 s"),
        ("smallest", "6 GPUs"),
        ("largest", "6 GPUs"),
        ("las", "0 s of a GPU"),
        ("tiresias:threshold=0", "queue 2, came at 0 s"),
        ("sjf", "60 s"),
        ("qssf", "6.0 min of a GPU"),
        ("aged-smallest", "6,000"),
    ],
)
def test_priorities_are_told_as_what_they_stand_for(
    run: Callable, tmp_path: Path, policy: str, said: str
) -> None:
    """A gang of 6 GPUs that takes a minute."""
    save_workload(make_workload([0, 5], duration_ms=60_000, gpus=6), tmp_path / "two.workload")
    words = ["--workload", "two.workload", "--cluster", "2x4", "--information", "oracle", "--decision", "1"]
    text = run("explain", "--policy", policy, *words).out
    (row,) = [line for line in text.splitlines() if line.endswith("<- starts")]
    assert said in row


def test_names_of_jobs_and_gangs_on_several_machines(run: Callable, tmp_path: Path) -> None:
    jobs = make_workload(
        [0, 0], duration_ms=60_000, gpus=[6, 1], communication=[0.5, 0.0], ids=("big", "tot")
    )
    save_workload(jobs, tmp_path / "named.workload")
    words = ["explain", "--policy", "fifo", "--workload", "named.workload", "--cluster", "2x4"]
    found = run(*words, "--decision", "1", "--json").json
    assert [one["name"] for one in found["candidates"]] == ["big", "tot"]
    assert found["chosen"]["machines"] == [
        {"machine": "m0", "instances": 4},
        {"machine": "m1", "instances": 2},
    ]
    assert found["chosen"]["rate"] == pytest.approx(1 / 1.5)
    text = run(*words, "--decision", "1").out
    assert (
        "on m0 (4), m1 (2), at 0.67 of the reference speed "
        "(1.00 on the slowest of them, x 0.67 for 2 machines in 1 rack)." in text
    )
    assert "<- takes 4" in text and "6 = 6 x 1" in text


# --- learned ---------------------------------------------------------------------------------------


def test_what_moved_the_score_of_a_learned_agent(run: Callable, learned: None) -> None:
    found = first(run, "agents", "start", *EPISODE, waiting=3)
    scores = [one["priority"] for one in found["candidates"]]
    assert scores == sorted(scores) and found["ordered_by"] == "score"
    (moved,) = found["moved"]
    assert (moved["job"], moved["beside"]) == (found["chosen"]["job"], found["jobs_waiting"])
    assert {one["feature"] for one in moved["influences"]} == {*JOB_FEATURES}
    assert moved["influences"][0]["moved"] != 0
    for one in found["machines"]:
        assert {*one["parts"]} == {*MACHINE_FEATURES}
        assert math.prod(one["parts"].values()) == pytest.approx(one["score"])
    text = run("explain", "--policy", "agents", *EPISODE, "--decision", str(found["decision"])).out
    assert f"what moved job {moved['job']}" in text and "By score, the lowest first." in text
    assert f"It is the first of {found['jobs_waiting']} by score." in text or "It is number " in text


def test_a_job_that_waits_alone_is_compared_with_nobody(run: Callable, learned: None) -> None:
    text = run("explain", "--policy", "agents", "--wing", "gpu", *EPISODE, "--decision", "1").out
    assert "Job 0 waits alone, so there is nothing to compare its features with." in text


def test_of_a_preemption_both_jobs_are_told(run: Callable, learned: None) -> None:
    found = first(run, "stopping", "preempt", *EPISODE)
    chosen = found["chosen"]
    assert [one["job"] for one in found["moved"]] == [chosen["in_favour_of"], chosen["job"]]
    text = run("explain", "--policy", "stopping", *EPISODE, "--decision", str(found["decision"])).out
    assert "those that wait or may be stopped" in text
    assert f"what moved job {chosen['job']}" in text


def test_of_a_move_it_is_told_that_it_is_one(run: Callable, learned: None) -> None:
    """A job is moved because it is slow where it is, whatever its place in the order."""
    found = first(run, "moving", "preempt", *EPISODE)
    chosen = found["chosen"]
    assert (chosen["moves"], chosen["in_favour_of"], found["moved"]) == (True, None, [])
    text = run("explain", "--policy", "moving", *EPISODE, "--decision", str(found["decision"])).out
    assert f"It stops job {chosen['job']} (" in text and "to place it anew, where it is faster." in text
    assert "room is made for it" not in text


def test_features_are_told_in_units_of_people() -> None:
    scene = Scene([4, 8], now_ms=2 * HOUR)
    job = scene.waits(gpus=4, arrival_ms=80 * MINUTE, attained_ms=10 * MINUTE, communication=0.08)
    said = {name: readable(name, value) for name, value in _shown(scene, job).items()}
    assert (said["gpus"], said["time waited"], said["run time"]) == ("4 GPUs", "30.0 min", "10.0 min")
    assert (said["GPU time attained"], said["runs"]) == ("40.0 min of a GPU", "no")
    assert (said["communication"], said["sensitivity"]) == ("8.0 % lost when spread", "1.00 x usual")
    assert said["machines needed"] == "one"


def _shown(scene: Scene, job: int) -> dict[str, float]:
    return features_of(agents(preemptive=False), scene.snapshot(), job)


@pytest.mark.parametrize("policy", ["dl2", "rifling", "gavel"])
def test_a_policy_that_is_no_rule_is_told_as_far_as_any(run: Callable, policy: str) -> None:
    words = ["--policy", policy, "--jobs", "20", "--cluster", "das-small", "--decision", "9"]
    found = run("explain", *words, "--json").json
    assert found["ordered_by"] == "arrival"
    assert all(one["priority"] is None for one in found["candidates"])
    assert found["displaceable"] == [] and "moved" not in found
    assert [one["policy"] for one in found["others"]] == RULES
    assert f"Decision 9 of {policy} on pai" in run("explain", *words).out


# --- which episode ---------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["smallest+fast", "las+fast"])
def test_the_decisions_are_those_of_simulate(run: Callable, policy: str) -> None:
    decisions = run("simulate", "gpu", "--policy", policy, *EPISODE, "--json").json["decisions"]
    assert run("explain", "--policy", policy, *EPISODE, "--decision", str(decisions), "--json").code == 0
    beyond = run("explain", "--policy", policy, *EPISODE, "--decision", str(decisions + 1))
    assert beyond.code == 2
    assert f"the episode has {decisions} decisions; give a smaller number" in beyond.err


def test_compiling_is_announced_only_once(run: Callable) -> None:
    words = ["explain", "--policy", "fifo", "--wing", "gpu", "--workload", "tiny:short-first"]
    assert run(*words, "--decision", "1").code == 0
    assert run(*words, "--decision", "1").err == ""


def test_an_episode_of_simulate_is_explained_from_its_folder(run: Callable, refused: Callable) -> None:
    words = ["--policy", "smallest+fast:neighbours=2", *EPISODE]
    assert run("simulate", "gpu", *words, "--out", "runs/one").code == 0
    found = run("explain", "runs/one", "--decision", "40", "--json").json
    assert found == run("explain", *words, "--decision", "40", "--json").json
    other = run("explain", "runs/one", "--policy", "fifo", "--decision", "3", "--json").json
    assert (other["policy"], other["seed"]) == ("fifo", 3)
    assert "--seed: the run runs/one fixes its episodes" in refused(
        "explain", "runs/one", "--decision", "1", "--seed", "4"
    )
    assert "--wing dag: the run runs/one is of gpu" in refused(
        "explain", "runs/one", "--decision", "1", "--wing", "dag"
    )


def test_jobs_that_changed_since_are_refused(run: Callable, refused: Callable, tmp_path: Path) -> None:
    save_workload(make_workload([0, 9], duration_ms=[60_000, 1000], gpus=[1, 2]), tmp_path / "a.workload")
    words = ["--policy", "fifo", "--workload", "a.workload", "--cluster", "1x4"]
    assert run("simulate", "gpu", *words, "--out", "runs/a").code == 0
    assert run("explain", "runs/a", "--decision", "1").code == 0
    (tmp_path / "a.workload").unlink()
    save_workload(make_workload([0, 9], duration_ms=[60_000, 2000], gpus=[1, 2]), tmp_path / "a.workload")
    said = refused("explain", "runs/a", "--decision", "1")
    assert "runs/a: a.workload gives other jobs today than when this was played; simulate it again" in said


def test_an_older_run_without_enough_to_play_it_says_so(
    run: Callable, refused: Callable, tmp_path: Path
) -> None:
    assert run("simulate", "gpu", "--policy", "fifo", *EPISODE, "--out", "runs/old").code == 0
    results = tmp_path / "runs/old/results.json"
    kept = json.loads(results.read_text())
    del kept["wing"]
    results.write_text(json.dumps(kept))
    said = refused("explain", "runs/old", "--decision", "1")
    assert "runs/old: one episode of `trimtab simulate`; give its flags instead of its folder" in said


def test_a_comparison_is_explained_as_it_was_played(run: Callable, refused: Callable, learned: None) -> None:
    words = ["--jobs", "30", "--seeds", "2", "--policies", "fifo,smallest+fast,agents", "--processes", "1"]
    assert run("compare", "gpu/das-small", *words, "--out", "runs/a").code == 0
    found = run("explain", "runs/a", "--decision", "5", "--json").json
    assert (found["policy"], found["seed"], found["gpus"]) == ("agents", 1_000_000, 32)
    rule = run(
        "explain", "runs/a", "--policy", "smallest+fast", "--seed", "1000001", "--decision", "5", "--json"
    )
    assert (rule.json["policy"], rule.json["seed"]) == ("smallest+fast", 1_000_001)
    assert "--jobs: the run runs/a fixes its episodes" in refused(
        "explain", "runs/a", "--decision", "1", "--jobs", "3"
    )
    for seed in ("999", "1000002"):
        said = refused("explain", "runs/a", "--decision", "1", "--seed", seed)
        assert f"--seed {seed}: the run runs/a has the seeds 1000000 to 1000001; give one of these" in said


def test_a_training_is_explained_on_its_first_cluster(run: Callable, refused: Callable) -> None:
    told = {"clusters": ["das-medium", "das-small"], "workload": {"name": "pai", "jobs": 20}}
    save_training("runs/mine", told)
    found = run("explain", "runs/mine", "--decision", "4", "--json").json
    assert (found["policy"], found["seed"], found["gpus"]) == ("runs/mine", 1_000_000, 40)
    save_training("runs/silent", {})
    said = refused("explain", "runs/silent", "--decision", "4")
    assert "its bundle does not say what it was trained on; give --policy and an episode" in said


def save_training(folder: str, trained: dict[str, Any]) -> None:
    """What `trimtab train` leaves behind, with a network that comes with the package."""
    run = RunFolder.create(folder, clock=now)
    bundle = load_bundle(POLICIES.find_bundle("dl2"))
    save_bundle(run.path / "bundle", replace(bundle, manifest={**bundle.manifest, "trained": trained}))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--policy", "fifo+fats", "--decision", "1", *EPISODE], "did you mean 'fast'?"),
        (
            ["--policy", "sjf+fast", "--decision", "1", *EPISODE],
            "needs durations, and this cluster tells none",
        ),
        (["--policy", "fifo", "--decision", "0", *EPISODE], "--decision 0: decisions are counted from 1"),
        (["--wing", "gpu", "--decision", "1"], "whose decision? Give --policy"),
        (
            ["--policy", "fifo", "--wing", "gpu", "--executors", "3", "--decision", "1"],
            "gpu has no such flag",
        ),
    ],
)
def test_mistakes(refused: Callable, words: list[str], said: str) -> None:
    assert said in refused("explain", *words)
