"""`trimtab explain` of services: the same episode as `simulate` and `compare` play, at one decision."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trimtab.cli.explain_pod import POD_EXPLAINER
from trimtab.cli.terminal import now
from trimtab.core.bundle import save_bundle
from trimtab.core.run_folder import RunFolder
from trimtab.core.settings import Settings
from trimtab.networks.actor_critic import ActorCriticDesign, new_actor
from trimtab.networks.context_encoder import ContextDesign, new_context_encoder
from trimtab.pod_autoscaling.aware.actions import ACTION_PARTS
from trimtab.pod_autoscaling.aware.design import Design
from trimtab.pod_autoscaling.aware.explaining import PAST
from trimtab.pod_autoscaling.aware.features import numbers_of
from trimtab.pod_autoscaling.aware.policy import make_bundle
from trimtab.pod_autoscaling.aware.profile import PROFILE
from trimtab.pod_autoscaling.aware.services import Ground
from trimtab.pod_autoscaling.deployment import Deployment
from trimtab.rates.traces import Provenance, RateTrace, save_trace

pytestmark = pytest.mark.pods

QUICK = ("--app", "thumbnails", "--hours", "0.1", "--mean-cores", "1")
"""Six minutes at three requests a second: 24 decisions."""
PARTS = ACTION_PARTS[Design(ActorCriticDesign(1, 1)).actions]
RULES = ["multi", "hpa:target=70", "hpa-vpa", "mpc"]


def save_untrained(folder: Path, *, context: bool = True, trained: dict[str, Any] | None = None) -> Path:
    """A network as drawn, with larger answers: decides badly, but as any trained one does."""
    bare = Design(ActorCriticDesign(1, 1))
    seen = len(numbers_of(bare)) + len(PARTS)
    networks = ActorCriticDesign(seen, len(PARTS), context=4 if context else 0, hidden=(8,))
    random, encoder = np.random.default_rng(0), None
    drawn: dict[str, Any] = {"actor": new_actor(random, networks)}
    drawn["actor"]["last"]["weights"] *= 100
    if context:
        encoder = ContextDesign(seen + len(PARTS) + 2, width=6, state=6, embedding=4, profile=len(PROFILE))
        drawn["encoder"] = new_context_encoder(random, encoder)
    design = replace(bare, networks=networks, encoder=encoder)
    return save_bundle(folder, make_bundle("untrained", drawn, design, trained=trained or {}, scores={}))


@pytest.fixture
def bundle(tmp_path: Path) -> str:
    return str(save_untrained(tmp_path / "lone"))


# --- rules ----------------------------------------------------------------------------------------


def test_a_rule_tells_how_the_service_fares_and_what_it_and_others_want(run: Callable) -> None:
    words = ["explain", "--policy", "static:replicas=3", *QUICK, "--seed", "3", "--decision", "9"]
    found = run(*words, "--json").json
    assert (found["service"], found["trace"], found["seed"]) == ("thumbnails", "diurnal", 3)
    assert (found["day"], found["time_of_day"], found["time_s"]) == (0, "00:02:00", 120)
    assert found["size"] == {"replicas": 3, "cpu": 1, "memory": found["size"]["memory"]}
    assert (found["ready"], found["resizing"], found["infeasible"], found["budget"]) == (
        3,
        False,
        False,
        0.01,
    )
    metrics = found["metrics"]
    assert 0 < metrics["latency_p50_s"] < metrics["latency_p99_s"]
    assert 0 < metrics["cpu"] < metrics["ready"] * metrics["cpu_limit"] == 3
    assert (found["complete"], found["mean_of_s"]) == (True, 120)
    chosen = found["chosen"]
    assert chosen["wanted"] == chosen["allowed"] == found["size"]
    assert (chosen["changes"], chosen["because"]) == (False, [])
    assert [one["policy"] for one in found["others"]] == RULES
    assert [span["minutes"] for span in found["afterwards"]] == [1, 4]  # then the episode is over
    assert all(span["cores"] == pytest.approx(3) for span in found["afterwards"])
    assert "learned" not in found
    text = run(*words).out
    assert text.startswith(
        "Decision 9 of static:replicas=3 on service thumbnails, diurnal, seed 3: day 0, 00:02:00."
    )
    assert "It wants nothing changed." in text
    assert "static:replicas=3 is no network, so there are no answers to take apart." in text
    assert "late, 4 min" in text and "mpc " in text


def test_what_becomes_of_a_wish_is_told_with_the_reason(run: Callable) -> None:
    """Before the first interval nobody has reported, so nothing shrinks."""
    words = ["explain", "--policy", "static:replicas=1", *QUICK, "--decision", "1"]
    found = run(*words, "--json").json
    assert (found["chosen"]["wanted"]["replicas"], found["chosen"]["allowed"]["replicas"]) == (1, 2)
    assert found["chosen"]["because"] == ["monitoring does not answer, so nothing is made smaller"]
    assert (found["complete"], found["metrics"]["rate"], found["metrics_mean"]["rate"]) == (False, None, None)
    text = run(*words).out
    assert "Nothing of it is done." in text and "unknown" in text
    assert "is done: monitoring does not answer" in text


def test_rules_watch_from_the_beginning_and_go_on_alone(run: Callable) -> None:
    """Whoever decides, the same rule among the others wants the same and comes to the same end."""
    for rule in ("multi", "hpa-vpa", "mpc"):
        words = ["explain", "--policy", rule, *QUICK, "--trace", "steps", "--decision", "12", "--json"]
        found = run(*words).json
        (again,) = [one for one in found["others"] if one["policy"] == rule]
        assert again == {**found["chosen"], "afterwards": found["afterwards"]}


def test_what_came_of_it_is_what_simulate_says(run: Callable) -> None:
    """A quarter of an hour after the first decision of a quarter of an hour is all of it."""
    words = ["--policy", "hpa:target=60", "--app", "thumbnails", "--hours", "0.25", "--mean-cores", "1"]
    whole = run("simulate", "pod", *words, "--json").json
    span = run("explain", "--wing", "pod", *words, "--decision", "1", "--json").json["afterwards"][-1]
    assert (span["minutes"], span["cores"]) == (15, pytest.approx(whole["metrics"]["core_hours"] / 24))
    assert span["late_share"] == pytest.approx(whole["metrics"]["late_share"])
    assert span["failed_share"] == pytest.approx(whole["metrics"]["failed_share"])
    assert span["memory_gib"] == pytest.approx(whole["metrics"]["memory_gib_hours"] / 24)


def test_an_episode_has_so_many_decisions(run: Callable, refused: Callable) -> None:
    last = run("explain", "--policy", "mpc", *QUICK, "--decision", "24", "--json").json
    assert [span["minutes"] for span in last["afterwards"]] == [0.25]
    said = refused("explain", "--policy", "mpc", *QUICK, "--decision", "25")
    assert "--decision 25: the episode has 24 decisions; give a smaller number" in said


def test_a_deployment_and_a_trace_of_ones_own(run: Callable, tmp_path: Path) -> None:
    """A file says itself how the service begins; a trace file keeps its rates and its length."""
    (tmp_path / "deployment.toml").write_text("start_replicas = 5\nmost_replicas = 6\ninterval_s = 30\n")
    save_trace(RateTrace(np.full(8, 2.0), 15.0, Provenance("mine")), tmp_path / "my.trace")
    words = ["explain", "--policy", "static", "--app", "thumbnails", "--settings", "deployment.toml"]
    found = run(*words, "--trace", "my.trace", "--wing", "pod", "--decision", "4", "--json").json
    assert (found["size"]["replicas"], found["interval_s"], found["trace"]) == (5, 30, "my.trace")
    assert found["metrics_mean"]["rate"] == pytest.approx(2, rel=0.5)
    assert found["afterwards"][-1]["minutes"] == 0.5
    quick = run(*words, "--interval-s", "15", *QUICK[2:], "--decision", "2", "--json").json
    assert quick["interval_s"] == 15  # the flag wins
    more = run(*words, "--mean-rate", "1", "--hours", "0.1", "--decision", "3", "--json").json
    assert more["metrics"]["rate"] < 4


# --- trained policies -----------------------------------------------------------------------------


def test_a_learned_policy_is_taken_apart(run: Callable, bundle: str) -> None:
    words = ["explain", "--policy", bundle, *QUICK, "--decision", "9"]
    found = run(*words, "--json").json
    learned = found["learned"]
    assert [one["name"] for one in learned["answer"]] == list(PARTS)
    assert all(-1 <= one["answer"] <= 1 and one["means"] for one in learned["answer"])
    assert learned["around"]["rule"].startswith("multi:slack=")
    features = {one["feature"] for one in learned["features"]}
    assert {one["feature"] for one in learned["influences"]} == {*features, PAST}
    assert all([*one["moved"]] == list(PARTS) for one in learned["influences"])
    assert [one["what"] for one in learned["profile"]] == list(PROFILE)
    assert learned["profile"][4]["in_units"] == "90 MiB"
    text = run(*words).out
    for heading in ("part of the answer", "what moved it", "what the service is like", "it believes"):
        assert heading in text
    assert learned["influences"][0]["feature"] in text
    assert f"{learned['answer'][0]['answer']:+.2f}" in text


def test_what_is_usual_is_that_of_the_whole_episode(run: Callable, bundle: str) -> None:
    words = ["explain", "--policy", bundle, *QUICK, "--json", "--decision"]
    early, late = (run(*words, number).json["learned"]["features"] for number in ("3", "20"))
    assert [one["usual"] for one in early] == [one["usual"] for one in late]
    assert [one["value"] for one in early] != [one["value"] for one in late]


def test_without_a_context_there_is_nothing_to_believe(run: Callable, tmp_path: Path) -> None:
    save_untrained(tmp_path / "plain", context=False)
    words = ["explain", "--policy", "./plain", *QUICK, "--decision", "4"]
    learned = run(*words, "--json").json["learned"]
    assert "profile" not in learned and PAST not in {one["feature"] for one in learned["influences"]}
    assert "it believes" not in run(*words).out


# --- runs -----------------------------------------------------------------------------------------


def test_who_practised_another_interval_is_told_of(run: Callable, tmp_path: Path) -> None:
    save_untrained(tmp_path / "often", trained={"deployment": {"interval_s": 15}})
    said = "./often: trained to decide every 15 s, not every 60 s; it may do worse than one trained with "
    simulate = ["simulate", "pod", "--policy", "./often", "--app", "thumbnails", "--hours", "0.1"]
    assert said in run(*simulate, "--interval-s", "60").err
    assert "every" not in run(*simulate, "--interval-s", "15").err
    compare = [
        "compare",
        "pod/services",
        "--policies",
        "static,./often",
        "--app",
        "thumbnails",
        "--hours",
        "0.1",
    ]
    compare += ["--seeds", "2", "--processes", "1"]
    assert run(*compare, "--set", "deployment.interval_s=60").err.count(said) == 1
    assert "every" not in run(*compare).err


def test_a_comparison_is_explained_as_it_was_played(run: Callable, refused: Callable, bundle: str) -> None:
    words = ["--app", "thumbnails,textbook", "--trace", "steps", "--hours", "0.1", "--set", "mean_cores=1.0"]
    words += ["--policies", f"static,{bundle}", "--seeds", "2", "--processes", "1", "--out", "runs/a"]
    made = run("compare", "pod/services", *words)
    assert made.code == 0, made
    found = run("explain", "runs/a", "--decision", "2", "--json").json
    assert (found["policy"], found["service"], found["seed"]) == (bundle, "thumbnails", 1_000_000)
    assert found["day"] in (11, 12, 13)  # a day for tests
    assert "learned" in found
    words = ["--policy", "keda", "--app", "textbook", "--seed", "1000001", "--decision", "1", "--json"]
    other = run("explain", "runs/a", *words).json
    assert (other["policy"], other["service"], other["seed"]) == ("keda", "textbook", 1_000_001)
    # The first decision of a quarter of an hour or less is followed by all of the episode.
    played = json.loads(Path("runs/a/results.json").read_text())
    (table,) = [one for one in played["scenarios"] if one["name"] == "thumbnails"]
    (row,) = [one for one in table["policies"] if one["policy"] == "static"]
    cores = [
        run("explain", "runs/a", "--policy", "static", "--seed", seed, "--decision", "1", "--json").json
        for seed in ("1000000", "1000001")
    ]
    mean = np.mean([one["afterwards"][-1]["cores"] for one in cores])
    assert 24 * mean == pytest.approx(row["metrics"]["core_hours"]["value"], rel=1e-3)
    said = refused("explain", "runs/a", "--decision", "1", "--app", "web")
    assert "runs/a: has no service 'web'; its services: thumbnails, textbook" in said
    said = refused("explain", "runs/a", "--decision", "1", "--trace", "steps")
    assert "--trace: the run runs/a has one table for each service; choose with --app" in said
    for flag in ("--hours", "--mean-cores", "--mean-rate", "--interval-s", "--load", "--executors"):
        said = refused("explain", "runs/a", "--decision", "1", flag, "5")
        assert f"{flag}: the run runs/a fixes its episodes" in said
    assert "--wing dag: the run runs/a is of pod" in refused(
        "explain", "runs/a", "--wing", "dag", "--decision", "1"
    )


def trained_on(**ground: Any) -> dict[str, Any]:
    usual = {"hours": 0.1, "least_cores": 0.5, "most_cores": 2.0, "traces": ("steps", "noisy")}
    drawn = Ground.model_validate(usual | ground)
    return {
        "ground": drawn.model_dump(mode="json"),
        "deployment": Deployment(interval_s=30, most_replicas=9).model_dump(mode="json"),
    }


def test_a_training_is_explained_on_what_it_trained_on(
    run: Callable, refused: Callable, tmp_path: Path
) -> None:
    RunFolder.create(tmp_path / "run", clock=now, settings=Settings())
    save_untrained(tmp_path / "run" / "bundle", trained=trained_on(applications=("textbook", "thumbnails")))
    found = run("explain", "run", "--app", "thumbnails", "--decision", "4", "--json").json
    assert (found["policy"], found["service"], found["interval_s"]) == ("run", "thumbnails", 30)
    RunFolder.create(tmp_path / "unseen", clock=now, settings=Settings())
    save_untrained(tmp_path / "unseen" / "bundle", trained=trained_on())
    words = ["explain", "unseen", "--trace", "noisy", "--decision", "2", "--json"]
    one, other = (run(*words, "--seed", seed).json for seed in ("1000000", "1000001"))
    assert (one["trace"], other["trace"]) == ("noisy", "noisy")
    assert one["service"] != other["service"]  # another at every seed
    save_trace(RateTrace(np.full(14 * 24, 3.0), 3600.0, Provenance("mine")), tmp_path / "my.trace")
    file = POD_EXPLAINER.suite_of_training(trained_on(traces=(str(tmp_path / "my.trace"),), hours=1.0))
    assert file.draw(file.scenarios()[0], 0)[1].rates.tolist() == [3.0]  # the rates it was trained with
    rule = run("explain", "unseen", "--policy", "hpa", "--decision", "2", "--json").json
    assert (rule["policy"], rule["trace"]) == ("hpa", "steps")
    said = refused("explain", "unseen", "--decision", "1", "--app", "textbook")
    assert "--app: the run unseen has one table for each trace; choose with --trace" in said
    said = refused("explain", "unseen", "--decision", "1", "--trace", "bursty")
    assert "unseen: has no trace 'bursty'; its traces: steps, noisy" in said


def test_an_episode_of_simulate_is_explained_from_its_folder(
    run: Callable, refused: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_trace(RateTrace(np.full(30, 20.0), 60.0, Provenance("mine")), tmp_path / "my.trace")
    (tmp_path / "slow.toml").write_text("interval_s = 60\n")
    words = ["--policy", "hpa:target=50", "--app", "thumbnails", "--trace", "my.trace", "--seed", "3"]
    words += ["--settings", "slow.toml"]
    made = run("simulate", "pod", *words, "--out", "runs/one")
    assert "results in runs/one; `trimtab explain runs/one --decision N` takes a decision apart" in made.err
    found = run("explain", "runs/one", "--decision", "20", "--json").json
    assert found == run("explain", *words, "--decision", "20", "--json").json
    other = run("explain", "runs/one", "--policy", "static", "--decision", "3", "--json").json
    assert (other["policy"], other["seed"]) == ("static", 3)
    monkeypatch.chdir(tmp_path / "runs")
    assert "its file my.trace is not here but at" in refused("explain", "one", "--decision", "1")


def test_an_episode_behind_the_guard_is_not_played_again(run: Callable, refused: Callable) -> None:
    assert run("simulate", "pod", "--policy", "mpc", *QUICK, "--guard", "active", "--out", "one").code == 0
    assert "one: played behind a guard" in refused("explain", "one", "--decision", "1")


def test_folders_that_do_not_tell_their_episodes(refused: Callable, tmp_path: Path) -> None:
    RunFolder.create(tmp_path / "bare", clock=now, settings=Settings())
    save_untrained(tmp_path / "bare" / "bundle")
    assert "its bundle does not say what it was trained on" in refused("explain", "bare", "--decision", "1")


# --- which wing, and mistakes ---------------------------------------------------------------------


def test_the_wing_is_found_out(run: Callable, bundle: str) -> None:
    """By flags that only services have, by a policy that only they have, by a bundle, by name."""
    short = ("--hours", "0.02", "--decision", "1", "--json")
    assert run("explain", "--policy", "hpa", "--app", "textbook", *short).json["service"] == "textbook"
    assert run("explain", "--policy", "static", *short).json["service"] == "textbook"
    quick = ("--decision", "1", "--json")
    assert run("explain", "--policy", "vpa", "--trace", "bursty", *quick).json["trace"] == "bursty"
    assert run("explain", "--policy", "hpa-vpa", *quick).json["trace"] == "diurnal"
    assert run("explain", "--policy", bundle, "--interval-s", "60", *quick).json["interval_s"] == 60
    assert run("explain", "--policy", "pod/hpa:target=50", *quick).json["policy"] == "hpa:target=50"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--app", "textbook"], "whose decision? Give --policy"),
        (["--policy", "mlti", "--app", "textbook"], "did you mean 'pod/multi'"),
        (["--policy", "ds2", "--app", "textbook"], "no policy 'pod/ds2'"),
        (["--policy", "hpa:aim=3", *QUICK], "policy 'hpa' has no setting 'aim'"),
        (["--policy", "hpa", "--app", "wbe"], "no application 'pod/wbe'; did you mean 'pod/web'"),
        (["--policy", "multi", "--trace", "burst"], "no trace 'pod/burst'; did you mean 'pod/bursty'"),
        (["--policy", "multi", "--app", "web", "--executors", "3"], "--executors: pod has no such flag"),
        (["--policy", "mpc", "--wing", "stream", "--app", "web"], "--app: stream has no such flag"),
        (["--policy", "hpa", "--wing", "pods"], 'Choose from: "dag", "stream", "pod"'),
        (["--policy", "mpc", "--hours", "0"], "hours = 0"),
        (["--policy", "mpc", "--hours", "0.002"], "the trace covers 7 s, less than one interval of 15 s"),
        (["--policy", "mpc", "--mean-cores", "-1"], "mean_cores = -1"),
        (["--policy", "mpc", "--interval-s", "0"], "interval_s = 0"),
        (["--policy", "mpc", "--settings", "no.toml"], "no.toml: no such settings file"),
        (["--policy", "mpc:tuned", *QUICK], "mpc:tuned: not tuned for this workload"),
        (["--policy", "nowhere/at-all", *QUICK], "nowhere/at-all: no such folder"),
        (["nowhere"], "nowhere"),
    ],
)
def test_mistakes(refused: Callable, words: list[str], said: str) -> None:
    assert said in refused("explain", *words, "--decision", "1")


def test_decisions_are_counted_from_one(refused: Callable) -> None:
    said = refused("explain", "--policy", "mpc", *QUICK, "--decision", "0")
    assert "--decision 0: decisions are counted from 1" in said
