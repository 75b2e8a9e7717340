"""`trimtab simulate pod` and the lists of the wing; a profile and a history of one's own."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from trimtab.pod_autoscaling.application import Application
from trimtab.pod_autoscaling.episode import METRICS
from trimtab.pod_autoscaling.workload.applications import make_application, save_application
from trimtab.rates.traces import Provenance, RateTrace, save_trace

QUICK = ("--app", "thumbnails", "--hours", "0.1", "--mean-cores", "1")
"""Six minutes at three requests a second: 24 decisions."""


def test_a_table_and_the_same_as_json(run: Callable) -> None:
    answer = run("simulate", "pod", "--policy", "hpa:target=60", *QUICK)
    assert answer.code == 0, answer
    told = "0.1 h of diurnal with 3.42 requests/s on average (work for 1 cores), seed 0, "
    assert answer.out.startswith(f"hpa:target=60: service thumbnails, {told}")
    assert "24 decisions; p99 limit 2,485 ms" in answer.out.splitlines()[0]
    found = run("simulate", "pod", "--policy", "hpa:target=60", *QUICK, "--json").json
    assert (found["policy"], found["application"]["name"]) == ("hpa:target=60", "thumbnails")
    assert (found["intervals"], found["trace"]["mean_cores"]) == (24, 1.0)
    assert found["mean_rate"] == pytest.approx(3.42, abs=0.01)
    assert found["metrics"].keys() == METRICS.keys()
    for name, value in found["metrics"].items():
        row = next(line for line in answer.out.splitlines() if line.split()[:1] == [name])
        assert f"{value:,.4f}" in row


def test_who_never_moves_holds_what_it_began_with(run: Callable, tmp_path: Path) -> None:
    """Twice the mean need of one core is two pods of a core: 48 core-hours a day."""
    found = run("simulate", "pod", "--policy", "static", *QUICK, "--json").json["metrics"]
    assert found["core_hours"] == pytest.approx(48)
    assert (found["replica_changes"], found["resizes"], found["kills"]) == (0, 0, 0)
    # A file says itself how the service begins.
    (tmp_path / "deployment.toml").write_text("start_replicas = 3\ninterval_s = 30\n")
    words = ["simulate", "pod", "--policy", "static", *QUICK, "--settings", "deployment.toml", "--json"]
    found = run(*words).json
    assert found["metrics"]["core_hours"] == pytest.approx(72)
    assert (found["intervals"], found["deployment"]["most_replicas"]) == (12, 40)
    assert run(*words, "--interval-s", "15").json["intervals"] == 24  # the flag wins


def test_a_file_changes_what_it_says_and_nothing_else(run: Callable, tmp_path: Path) -> None:
    """One that repeats a default plays the same episode; one that begins elsewhere has the usual bounds."""
    words = ["simulate", "pod", "--policy", "hpa:target=70", *QUICK, "--json"]
    (tmp_path / "default.toml").write_text("report_lag_s = 5.0\n")
    assert run(*words, "--settings", "default.toml").json == run(*words).json
    (tmp_path / "many.toml").write_text("start_replicas = 30\n")
    (tmp_path / "few.toml").write_text("most_replicas = 7\n")
    words[3] = "static"
    assert run(*words, "--settings", "many.toml").json["metrics"]["core_hours"] == pytest.approx(720)
    found = run(*words, "--settings", "few.toml").json
    assert (found["deployment"]["most_replicas"], found["metrics"]["core_hours"]) == (7, pytest.approx(48))


def test_the_guard_tells_who_acted_and_draws_it(run: Callable, tmp_path: Path) -> None:
    """24 decisions, of which the rule has the first 20: the guard wants a record to compare with."""
    words = ["simulate", "pod", "--policy", "multi", *QUICK, "--guard", "active", "--draw", "guarded.svg"]
    answer = run(*words)
    assert answer.out.startswith("multi guarded by multi:slack=1,cpu=4: service thumbnails")
    assert "who acted, of 24 intervals: the rule in 20 (observing 20); the policy in 4 (" in answer.out
    assert b"observing" in (tmp_path / "guarded.svg").read_bytes()
    found = run(*words, "--beside", "multi", "--json").json
    assert found["guard"]["acting"]["heuristic"] == {"observing": 20}
    assert (found["guard"]["beside"], found["guard"]["raised"]) == ("multi", {})
    alone = run("simulate", "pod", "--policy", "multi:slack=1,cpu=4", *QUICK, "--json").json
    assert alone["guard"] is None
    shadow = run(*words[:-4], "--guard", "shadow", "--json").json
    assert shadow["guard"]["acting"] == {"heuristic": {"shadow": 24}}
    assert shadow["metrics"] == alone["metrics"]


def test_a_shadow_tells_what_it_asked_for(run: Callable) -> None:
    words = ["simulate", "pod", *QUICK, "--guard", "shadow", "--policy"]
    least, most = "static:replicas=1,cpu=0.2,memory=64", "static:replicas=20,cpu=4,memory=4096"
    saves, wastes = (run(*words, policy, "--json").json["guard"] for policy in (least, most))
    assert -1 < saves["extra_cost"] < -0.5 and wastes["extra_cost"] > 5
    assert (saves["too_little"], wastes["too_little"]) == (23, 0)  # at first nothing is known
    told = run(*words, least).out
    assert f"asked for {-saves['extra_cost']:.1%} less than the rule, by cost, on average" in told
    assert "for less than present usage needs in 23\n" in told
    active = run(*words[:-2], "active", "--policy", least, "--json").json["guard"]
    assert active.keys().isdisjoint({"extra_cost", "too_little"})


def test_a_canary_has_turns_that_the_seed_draws(run: Callable) -> None:
    """Two hours have six slots of 20 minutes; of seeds 0 to 2 the third gets none."""
    words = ["simulate", "pod", "--policy", "multi", *QUICK[:2], "--hours", "2", "--mean-cores", "0.1"]
    words += ["--guard", "canary"]
    told = {seed: run(*words, "--seed", seed).out for seed in "02"}
    found = [run(*words, "--seed", seed, "--json").json["guard"] for seed in "012"]
    assert [one["canary_slots"] for one in found] == [2, 2, 0]
    assert [one["slots"] for one in found] == [6, 6, 6]
    assert "canary: 2 of 6 slots of 20 minutes were the policy's; each is with a chance of 10 %" in told["0"]
    assert "by the seed; for a turn of it, raise --hours or take another --seed" in told["2"]
    assert found[2]["acting"] == {"heuristic": {"resting": 480}}


def test_seeds_repeat_and_differ(run: Callable) -> None:
    words = ["simulate", "pod", "--policy", "mpc", *QUICK, "--json"]
    first, again, other = (run(*words, "--seed", seed).json for seed in ("1", "1", "2"))
    assert first == again
    assert first["metrics"] != other["metrics"]


@pytest.mark.parametrize("name", ["hours.png", "hours.svg", "report.html"])
def test_pictures(run: Callable, tmp_path: Path, name: str) -> None:
    answer = run("simulate", "pod", "--policy", "hpa", *QUICK, "--draw", name)
    assert f"picture: {name}" in answer.out
    content = (tmp_path / name).read_bytes()
    assert content.startswith(b"\x89PNG") if name.endswith("png") else b"thumbnails" in content


def test_a_run_folder_holds_numbers_pictures_and_a_report(
    run: Callable, refused: Callable, tmp_path: Path
) -> None:
    words = ["simulate", "pod", "--policy", "hpa", *QUICK, "--out", "runs/one"]
    answer = run(*words)
    assert "results in runs/one" in answer.err
    folder = tmp_path / "runs" / "one"
    written = {path.name for path in folder.iterdir()}
    assert written == {
        "results.json",
        "report.html",
        "episode.png",
        "episode.svg",
        "machine.json",
        "settings.toml",
    }
    kept = json.loads((folder / "results.json").read_text())
    again = run(*words[:-2], "--json").json
    assert kept["metrics"] == again["metrics"]
    assert "runs/one: exists" in refused(*words)


def test_a_service_and_a_trace_of_ones_own(run: Callable, tmp_path: Path) -> None:
    """The trace keeps its rates, and all of it is played where it has less than an hour."""
    save_application(make_application("web").model_copy(update={"name": "mine"}), tmp_path / "mine.toml")
    save_trace(RateTrace(np.full(20, 4.0), 15.0, Provenance("mine")), tmp_path / "mine.trace")
    words = ["simulate", "pod", "--policy", "keda", "--application", "mine.toml", "--trace", "mine.trace"]
    found = run(*words, "--json").json
    assert (found["application"]["name"], found["intervals"]) == ("mine", 20)
    assert found["requests"] == pytest.approx(1200, rel=0.15)  # Poisson, five minutes at 4 a second
    more = run(*words, "--mean-rate", "40", "--json").json
    assert more["requests"] == pytest.approx(12_000, rel=0.05)


def test_a_service_that_hardly_anybody_asks_has_no_latency(run: Callable) -> None:
    """JSON has no infinity: what is not known is null."""
    words = ["simulate", "pod", "--policy", "static", "--hours", "0.01", "--mean-rate", "0.000001"]
    found = run(*words, "--json").json
    assert found["requests"] == 0
    assert found["metrics"]["latency_p99_s"] is None
    answer = run(*words, "--draw", "idle.html")
    assert "nothing arrives in the first 0.01 h of diurnal; raise --hours" in answer.err
    assert "\nlatency_s           —        mean latency" in answer.out


def test_a_night_in_which_nothing_arrives_is_played(run: Callable, tmp_path: Path) -> None:
    rates = np.concatenate([np.zeros(60), np.full(60, 0.5)])
    save_trace(RateTrace(rates, 60.0, Provenance("office")), tmp_path / "office.trace")
    words = ["simulate", "pod", "--policy", "hpa", "--app", "thumbnails", "--trace", "office.trace", "--json"]
    assert run(*words).json["requests"] == 0
    assert run(*words, "--hours", "2").json["requests"] == pytest.approx(1800, rel=0.1)


def test_the_wing_is_listed(run: Callable) -> None:
    listed = {entry["name"]: entry for entry in run("policies", "pod", "--json").json}
    assert {"hpa", "vpa", "hpa-vpa", "keda", "mpc", "multi", "static"} <= listed.keys()
    assert {one["name"] for one in listed["hpa"]["settings"]} >= {"target", "cpu"}
    text = run("policies", "pod").out
    assert all(f"\npod   {name} " in text for name in listed)
    found = run("workloads", "--json").json
    assert {"textbook", "thumbnails", "synthetic"} <= {entry["name"] for entry in found["applications"]}
    assert {"diurnal", "bursty", "azure-like"} <= {entry["name"] for entry in found["pod_traces"]}


def test_kills_come_with_the_memory_that_prevents_them(run: Callable, tmp_path: Path) -> None:
    """60 MiB and 20 requests of 10: a full pod holds 260, and 1.05 times that as its least is enough."""
    small = Application(workers=8, queue=12, memory_mib=60, memory_per_request_mib=10)
    save_application(small, tmp_path / "mine.toml")
    save_trace(RateTrace(np.full(4, 80.0), 15.0, Provenance("mine")), tmp_path / "rush.trace")
    words = ["simulate", "pod", "--policy", "static", "--app", "mine.toml", "--trace", "rush.trace"]
    (tmp_path / "small.toml").write_text("start_replicas = 1\nstart_memory_mib = 128\n")
    told = run(*words, "--settings", "small.toml").out
    assert "pods ran out of memory; a full pod (8 requests at work, 12 in its queue) holds 260 MiB" in told
    assert "least_memory_mib = 273 keeps every rush from killing one" in told
    (tmp_path / "enough.toml").write_text(
        "start_replicas = 1\nleast_memory_mib = 273\nmost_memory_mib = 300\n"
    )
    assert "a full pod" not in run(*words, "--settings", "enough.toml").out


def test_who_moves_a_bound_need_not_move_the_start(run: Callable, tmp_path: Path) -> None:
    (tmp_path / "large.toml").write_text("least_memory_mib = 2000\nleast_replicas = 3\nmost_cpu = 0.5\n")
    words = ["simulate", "pod", "--policy", "static", *QUICK, "--settings", "large.toml", "--json"]
    deployment = run(*words).json["deployment"]
    assert [deployment[f"start_{name}"] for name in ("memory_mib", "replicas", "cpu")] == [2000, 3, 0.5]
