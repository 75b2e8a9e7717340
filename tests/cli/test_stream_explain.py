"""`trimtab explain` of streaming jobs: the same episode as `simulate` and `compare` play, at one decision."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.cli.stream_bundle import SMALL, save_untrained

from trimtab.cli.explainers import explainer_of
from trimtab.cli.terminal import now
from trimtab.core.errors import TrimtabError
from trimtab.core.run_folder import RunFolder
from trimtab.core.settings import Settings
from trimtab.stream_autoscaling.sure.actions import CHOICES
from trimtab.stream_autoscaling.sure.features import FEATURES

QUICK = ("--job", "linear:3", "--interval-s", "600", "--seed", "3")
COARSE = ("--set", "deployment.interval_s=600", "--set", "deployment.substep_ms=10000", "--processes", "1")


@pytest.fixture
def bundle(tmp_path: Path) -> str:
    return str(save_untrained(tmp_path / "lone"))


def test_a_rule_tells_how_the_job_fares_and_what_it_and_others_want(run: Callable) -> None:
    words = ["explain", "--policy", "static:parallelism=9", *QUICK, "--decision", "2"]
    found = run(*words, "--json").json
    assert (found["job"], found["trace"], found["seed"]) == ("linear:3", "clarknet-like", 3)
    assert (found["day"], found["time_of_day"], found["time_s"]) == (0, "00:10", 600)
    assert [one["vertex"] for one in found["vertices"]] == ["step-1", "step-2", "step-3"]
    for one in found["vertices"]:
        assert one["complete"]
        assert one["busy"] + one["backpressured"] + one["idle"] == pytest.approx(1, abs=0.1)
        assert (one["parallelism"], one["wanted"], one["allowed"]) == (9, 9, 9)
    assert (found["slots"], found["limit_s"], found["too_late"]) == (9, 5, False)
    assert found["chosen"] == {"policy": "static:parallelism=9", "rescales": False, "changes": []}
    assert [one["policy"] for one in found["others"]][3] == "static"
    assert "learned" not in found
    text = run(*words).out
    assert text.startswith(
        "Decision 2 of static:parallelism=9 on job linear:3, clarknet-like, seed 3: day 0, 00:10."
    )
    assert "It wants nothing changed." in text
    assert "hpa " in text and "would want" in text


def test_what_becomes_of_a_wish_is_told_with_the_reason(run: Callable) -> None:
    """Before the first interval nobody has reported, so nothing is scaled down; a chain has 128 at most."""
    words = ["explain", *QUICK, "--decision", "1"]
    one = run(*words, "--policy", "static:parallelism=1", "--json").json
    (change, *_) = one["chosen"]["changes"]
    assert (change["wanted"], change["allowed"]) == (1, change["from"])
    assert change["because"] == ["its metrics are incomplete, so it is not scaled down"]
    assert (one["chosen"]["rescales"], one["latency_s"], one["too_late"]) == (False, None, None)
    assert [row["busy"] for row in one["vertices"]] == [None] * 3
    text = run(*words, "--policy", "static:parallelism=1").out
    assert "Latency unknown (limit 5 s)" in text
    assert "Nothing of it is done." in text
    assert f"step-1: 1 wanted, {change['from']} allowed: its metrics are incomplete" in text
    more = run(*words, "--policy", "static:parallelism=9").out
    assert " -> 9, step-2 " in more and "Nothing of it" not in more


def test_a_restart_under_way_is_told(run: Callable) -> None:
    """Decisions every 20 s; the job restarts at its next checkpoint, then rests for 30 s."""
    words = ["--job", "linear:3", "--interval-s", "20", "--policy", "static:parallelism=9", "--json"]
    first, then, later = (run("explain", *words, "--decision", n).json for n in ("1", "2", "5"))
    assert (first["rescaling"], first["since_rescale_s"], first["chosen"]["rescales"]) == (False, None, True)
    assert then["rescaling"] or then["cooldown_s"] > 0
    assert (later["rescaling"], later["cooldown_s"]) == (False, 0)
    assert later["since_rescale_s"] > 30


def test_rules_have_watched_from_the_beginning(run: Callable) -> None:
    """Whoever decides, the same rule among the others wants the same: both have seen the same day."""
    for rule in ("ds2", "flink", "hpa"):
        words = ["explain", "--policy", rule, *QUICK, "--trace", "steps", "--decision", "60", "--json"]
        found = run(*words).json
        (again,) = [one for one in found["others"] if one["policy"] == rule]
        assert again == found["chosen"]


def test_the_decisions_are_those_of_simulate(run: Callable, refused: Callable) -> None:
    last = run("explain", "--policy", "hpa", *QUICK, "--decision", "144", "--json")
    assert last.json["time_of_day"] == "23:50"
    said = refused("explain", "--policy", "hpa", *QUICK, "--decision", "145")
    assert "--decision 145: the episode has 144 decisions" in said
    told = run("explain", "--policy", "oracle-static", *QUICK, "--decision", "3", "--json").json
    assert told["chosen"]["changes"] == []


def test_a_learned_policy_is_taken_apart(run: Callable, bundle: str) -> None:
    words = ["explain", "--policy", bundle, *QUICK, "--decision", "9"]
    found = run(*words, "--json").json
    learned = found["learned"]
    assert learned["commit"]["possible"] and 0 < learned["commit"]["probability"] < 1
    for one in found["vertices"]:
        row = learned["choices"][one["vertex"]]
        assert sum(choice["probability"] for choice in row) == pytest.approx(1)
        assert {choice["step"] for choice in row} <= {*CHOICES}
        if learned["commit"]["probability"] > 0.5:
            assert row[0]["parallelism"] == one["wanted"]
        else:
            assert one["wanted"] == one["parallelism"]
    assert {one["feature"] for one in learned["influences"]} == {*FEATURES}
    for looks in learned["looked_at"].values():
        assert len(looks) == SMALL.snapshots
        assert all(look["seconds_ago"] % 600 == 0 and look["seconds_ago"] < 3600 for look in looks)
        assert all(len(look["neighbours"]) == 2 for look in looks)  # a chain of three: both others
    text = run(*words).out
    for heading in ("rule suggests", "likeliest", "what moved it", "looked at itself, minutes ago"):
        assert heading in text
    assert f"It commits with probability {learned['commit']['probability']:.1%}" in text


def test_who_may_not_commit_says_so_and_who_cannot_watch_why(run: Callable, tmp_path: Path) -> None:
    """Every 12 s, 60 intervals do not hold the 900 s that flink's autoscaler looks at."""
    short = {"base_memory_s": 600, "base_recent_s": 600, "base_window_s": 100}
    save_untrained(tmp_path / "hasty", replace(SMALL, **short, commit_score=0.0))
    words = ["explain", "--policy", "./hasty", "--job", "linear:3", "--interval-s", "12"]
    told = [run(*words, "--decision", str(n), "--json").json for n in range(1, 6)]
    number, held = next((n, one) for n, one in enumerate(told, 1) if not one["learned"]["commit"]["possible"])
    (flink,) = [one for one in held["others"] if one["policy"] == "flink"]
    assert "a window of 900 s takes 75 intervals" in flink["cannot"]
    text = run(*words, "--decision", str(number)).out
    assert "There is nothing to commit to now" in text
    assert "cannot tell: a window of 900 s" in text


def test_the_published_action_is_told_as_chances(run: Callable, tmp_path: Path) -> None:
    save_untrained(tmp_path / "gaussian", replace(SMALL, actions="gaussian", history_encoder="gru"))
    words = ["explain", "--policy", "./gaussian", *QUICK, "--decision", "9"]
    learned = run(*words, "--json").json["learned"]
    assert learned["commit"] is None and "looked_at" not in learned
    text = run(*words).out
    assert "takes the mean of each vertex's Gaussian" in text
    assert "as a share of itself" in text


def test_who_practised_another_interval_is_told_of(run: Callable, bundle: str) -> None:
    said = "it may do worse than one trained with --set deployment.interval_s="
    simulate = ["simulate", "stream", "--job", "linear:3", "--policy"]
    told = run(*simulate, bundle, "--interval-s", "300").err
    assert f"{bundle}: trained to decide every 600 s, not every 300 s; {said}300\n" in told
    assert said not in run(*simulate, bundle, "--interval-s", "600").err
    told = run(*simulate, "sure-compact", "--interval-s", "600").err
    assert f"sure-compact: trained to decide every 60 s, not every 600 s; {said}600\n" in told
    compare = ["compare", "stream/jobs", "--job", "linear:3", "--seeds", "2", *COARSE]
    told = run(*compare, "--policies", f"static,sure-compact,{bundle}").err
    assert told.count(said) == 1 and "sure-compact: trained to decide every 60 s" in told


def test_a_comparison_is_explained_as_it_was_played(run: Callable, refused: Callable, bundle: str) -> None:
    tune = ["tune", "stream", "--job", "linear:3", *COARSE, "--policies", "oracle-static"]
    assert run(*tune, "--training-seeds", "2", "--out", "t.json").code == 0
    words = ["--policies", f"static,{bundle},oracle-static:tuned", "--tuned", "t.json", "--out", "runs/a"]
    made = run("compare", "stream/jobs", "--job", "linear:3", *COARSE, "--seeds", "2", *words)
    assert made.code == 0, made
    found = run("explain", "runs/a", "--decision", "2", "--json").json
    assert (found["policy"], found["job"], found["seed"]) == (bundle, "linear:3", 1_000_000)
    assert found["day"] in (11, 12, 13)  # a day for tests
    assert "learned" in found
    rule = run("explain", "runs/a", "--policy", "oracle-static:tuned", "--decision", "2", "--json").json
    assert rule["policy"].startswith("oracle-static:utilisation=")
    other = run("explain", "runs/a", "--policy", "dhalion", "--job", "linear:3", "--seed", "1000001",
                "--decision", "2", "--json").json  # fmt: skip
    assert (other["policy"], other["seed"]) == ("dhalion", 1_000_001)
    assert "runs/a: has no job 'q1'; its jobs: linear:3" in refused(
        "explain", "runs/a", "--decision", "1", "--job", "q1"
    )
    for flag in ("--trace", "--days", "--load", "--interval-s", "--executors"):
        said = refused("explain", "runs/a", "--decision", "1", flag, "5")
        assert f"{flag}: the run runs/a fixes its episodes" in said
    assert "--wing dag: the run runs/a is of stream" in refused(
        "explain", "runs/a", "--wing", "dag", "--decision", "1"
    )


def test_a_training_is_explained_on_what_it_trained_on(run: Callable, tmp_path: Path) -> None:
    RunFolder.create(tmp_path / "run", clock=now, settings=Settings())
    save_untrained(tmp_path / "run" / "bundle")
    found = run("explain", "run", "--decision", "4", "--json").json
    assert (found["policy"], found["job"], found["trace"], found["interval_s"]) == (
        "run",
        "linear:3",
        "sine",
        600,
    )
    other = run("explain", "run", "--job", "q1", "--policy", "hpa", "--decision", "4", "--json").json
    assert (other["policy"], other["job"]) == ("hpa", "q1")


def test_the_wing_is_found_out(run: Callable, bundle: str) -> None:
    """By a flag, by a policy that only one wing has, by a bundle; else it is dag."""
    quick = ("--decision", "1", "--json")
    assert run("explain", "--policy", "flink", *quick).json["job"] == "medium-1"
    assert run("explain", "--policy", bundle, "--interval-s", "600", *quick).json["job"] == "medium-1"
    assert run("explain", "--policy", bundle, *quick).json["job"] == "medium-1"
    assert run("explain", "--policy", "stream/hpa:target=0.5", *quick).json["policy"] == "hpa:target=0.5"
    assert run("explain", "--wing", "stream", "--policy", "ds2", "--load", "0.3", *quick).code == 0
    dag = ("--workload", "tiny:three-sizes", "--executors", "4")
    assert run("explain", "--policy", "fair", *dag, *quick).json["workload"] == "tiny:three-sizes"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--job", "small-1"], "whose decision? Give --policy"),
        (["--policy", "ds3", "--job", "small-1"], "did you mean 'stream/ds2'"),
        (["--policy", "fair", "--job", "small-1"], "no policy 'stream/fair'"),
        (["--policy", "ds2", "--job", "small-9"], "did you mean 'stream/small-2'"),
        (["--policy", "ds2", "--job", "small-1", "--executors", "3"], "--executors: stream has no such flag"),
        (["--policy", "ds2", "--wing", "dag", "--job", "small-1"], "--job: dag has no such flag"),
        (["--policy", "ds2", "--wing", "steam"], 'Choose from: "dag", "stream"'),
        (["--policy", "dhalion:tuned", *QUICK], "dhalion:tuned: not tuned for this workload"),
        (["--policy", "nowhere/at-all", *QUICK], "nowhere/at-all: no such folder"),
    ],
)
def test_mistakes(refused: Callable, words: list[str], said: str) -> None:
    assert said in refused("explain", *words, "--decision", "1")


def test_decisions_are_counted_from_one(refused: Callable) -> None:
    said = refused("explain", "--policy", "ds2", *QUICK, "--decision", "0")
    assert "--decision 0: decisions are counted from 1" in said


def test_a_wing_nobody_can_explain() -> None:
    with pytest.raises(TrimtabError, match="park: decisions of this wing cannot be explained"):
        explainer_of("park")
