"""`trimtab simulate stream` and the lists of the wing; histories imported and played."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.loopback_server import serving
from tests.stream_autoscaling.history.flink_answers import counting_job

from trimtab.benchmark.numbers import NOTHING
from trimtab.stream_autoscaling.episode import METRICS
from trimtab.stream_autoscaling.job import load_job
from trimtab.stream_autoscaling.workload.jobs import make_job
from trimtab.stream_autoscaling.workload.traces import Provenance, RateTrace, load_trace, save_trace

QUICK = ("--job", "linear:3", "--interval-s", "600")
"""A chain, 144 decisions a day."""


def test_a_table_and_the_same_as_json(run: Callable) -> None:
    answer = run("simulate", "stream", "--policy", "ds2", *QUICK)
    assert answer.code == 0
    assert answer.out.startswith(
        "ds2: job linear:3 with 3 vertices, 24 h of clarknet-like with 1,000 records/s on average, seed 0, "
        "144 decisions\n"
    )
    found = run("simulate", "stream", "--policy", "ds2", *QUICK, "--json").json
    assert (found["policy"], found["job"], found["intervals"]) == ("ds2", "linear:3", 144)
    assert found["deployment"]["interval_s"] == 600
    assert found["metrics"].keys() == METRICS.keys()
    for name, value in found["metrics"].items():
        row = next(line for line in answer.out.splitlines() if line.split()[:1] == [name])
        assert f"{value:,.3f}" in row


def test_who_never_moves_never_restarts(run: Callable) -> None:
    """Slots as at the beginning, all day."""
    found = run("simulate", "stream", "--policy", "static", *QUICK, "--json").json["metrics"]
    assert (found["rescales"], found["downtime_share"]) == (0, 0)
    slots = run("explain", "--policy", "static", *QUICK, "--decision", "1", "--json").json["slots"]
    assert found["slot_hours"] == pytest.approx(24 * slots)


def test_seeds_repeat_and_differ_and_days_and_files_count(run: Callable, tmp_path: Path) -> None:
    words = ["simulate", "stream", "--policy", "hpa:target=0.6", *QUICK, "--json"]
    first, again, other = (run(*words, "--seed", seed).json for seed in ("1", "1", "2"))
    assert first == again
    assert first["metrics"] != other["metrics"]
    (tmp_path / "deployment.toml").write_text("interval_s = 900\nslots = 6\n[objective]\nslo_s = 9\n")
    found = run(*words, "--days", "2", "--load", "0.3", "--settings", "deployment.toml").json
    assert (found["intervals"], found["trace"]["load"]) == (288, 0.3)
    assert found["deployment"]["interval_s"] == 600  # the flag wins
    assert found["deployment"]["slots"] == 6
    assert found["metrics"]["slot_hours"] <= 24 * 6


def test_every_seed_is_another_random_job(run: Callable) -> None:
    words = ["--policy", "static", "--job", "synthetic:5", "--trace", "flat:1", "--interval-s", "3600"]
    names = []
    for seed in ("1", "2"):
        found = run("explain", *words, "--seed", seed, "--decision", "1", "--json").json
        rate = run("simulate", "stream", *words, "--seed", seed, "--json").json["mean_rate"]
        assert rate == make_job("synthetic:5", seed=int(seed)).usual_rate
        names.append([vertex["vertex"] for vertex in found["vertices"]])
        assert names[-1] == [vertex.name for vertex in make_job("synthetic:5", seed=int(seed)).vertices]
    assert names[0] != names[1]


@pytest.mark.filterwarnings("error")
def test_a_day_on_which_nothing_comes(run: Callable, tmp_path: Path) -> None:
    """No record leaves, so there is no latency; neither JSON nor pictures mind."""
    rates = np.zeros(2 * 1440)
    rates[2000] = 5.0
    save_trace(RateTrace(rates, 60.0, Provenance("mine")), tmp_path / "mine.trace")
    words = ["simulate", "stream", "--policy", "static", *QUICK, "--trace", "mine.trace"]
    assert run(*words, "--json").json["metrics"]["latency_s"] is None
    for name in ("day.png", "report.html"):
        answer = run(*words, "--draw", name)
        assert (answer.code, answer.err) == (0, "")
        row = next(line for line in answer.out.splitlines() if line.startswith("latency_s"))
        assert row.split()[1] == NOTHING


@pytest.mark.parametrize("name", ["day.png", "day.svg", "report.html"])
def test_pictures(run: Callable, tmp_path: Path, name: str) -> None:
    answer = run("simulate", "stream", "--policy", "hpa", *QUICK, "--draw", name)
    assert f"picture: {name}" in answer.out
    content = (tmp_path / name).read_bytes()
    assert content.startswith(b"\x89PNG") if name.endswith("png") else b"linear:3" in content


def test_the_wing_is_listed(run: Callable) -> None:
    listed = {entry["name"]: entry for entry in run("policies", "stream", "--json").json}
    assert {"ds2", "flink", "hpa", "static", "oracle-static", "keda-lag"} <= listed.keys()
    assert {one["name"] for one in listed["ds2"]["settings"]} >= {"target", "tolerance"}
    text = run("policies", "stream").out
    assert all(f"\nstream  {name} " in text for name in listed)
    found = run("workloads", "--json").json
    assert {"small-1", "q5", "linear"} <= {entry["name"] for entry in found["jobs"]}
    assert {"clarknet-like", "steps"} <= {entry["name"] for entry in found["traces"]}
    assert {"common-log", "csv-counts", "prometheus", "flink"} <= {*found["history"]}


# --- imported histories ------------------------------------------------------------------------------


def access_log(folder: Path) -> str:
    """A request every ten minutes, and one in the last minute of the day: 1,440 steps of a minute."""
    line = 'host.net - - [28/Aug/1995:{} -0400] "GET /a HTTP/1.0" 200 1024\n'
    times = [f"{minute // 60:02}:{minute % 60:02}:10" for minute in [*range(0, 1440, 10), 1439]]
    (folder / "access_log").write_text("".join(map(line.format, times)))
    return "access_log"


def counts(folder: Path) -> str:
    times = (f"2023-11-14 {minute // 60:02}:{minute % 60:02},{10 + minute}" for minute in range(0, 1440, 10))
    (folder / "counts.csv").write_text("time,count\n" + "\n".join(times) + "\n")
    return "counts.csv"


def prometheus(folder: Path) -> str:
    midnight = 1_699_920_000
    values = [[midnight + 600 * n, str(100 + n)] for n in range(144)]
    content = {
        "status": "success",
        "data": {"resultType": "matrix", "result": [{"metric": {}, "values": values}]},
    }
    (folder / "answer.json").write_text(json.dumps(content))
    return "answer.json"


@pytest.mark.parametrize(
    ("source", "made", "steps"),
    [("common-log", access_log, 1440), ("csv-counts", counts, 144), ("prometheus", prometheus, 144)],
)
def test_a_day_of_history_is_played(
    run: Callable, tmp_path: Path, source: str, made: Callable[[Path], str], steps: int
) -> None:
    answer = run("import", source, made(tmp_path), "--out", "mine.trace")
    assert answer.code == 0, answer
    assert "next: trimtab simulate stream --trace mine.trace" in answer.out
    trace = load_trace(tmp_path / "mine.trace")
    assert (len(trace.rates), trace.length_s, trace.start_s) == (steps, 86_400, 0)
    listed = run("import", source, made(tmp_path), "--out", "mine.trace", "--json").json
    assert (listed["trace"], listed["steps"], listed["days"]) == ("mine.trace", steps, 1)
    played = run("simulate", "stream", "--policy", "static", *QUICK, "--trace", "mine.trace", "--json").json
    assert (played["intervals"], played["trace"]["name"]) == (144, "mine.trace")


def test_a_quiet_log_is_told_in_digits_that_count(run: Callable, tmp_path: Path) -> None:
    """145 requests a day, at most one a minute."""
    answer = run("import", "common-log", access_log(tmp_path), "--out", "mine.trace")
    assert "24.0 h, mean 0.00168 and at most 0.0167 per second" in answer.out


def test_a_trace_file_keeps_its_rates(run: Callable, tmp_path: Path) -> None:
    save_trace(RateTrace(np.full(1440, 7000.0), 60.0, Provenance("mine")), tmp_path / "mine.trace")
    words = ["--policy", "static", *QUICK, "--trace", "mine.trace"]
    answer = run("simulate", "stream", *words)
    assert "mine.trace with 7,000 records/s on average (usual for the job: 1,000), seed 0" in answer.out
    found = run("simulate", "stream", *words, "--json").json
    assert (found["mean_rate"], found["metrics"]["slot_hours"]) == (7000, 24 * 40)  # 4 ms each, at 70 %
    less = run("simulate", "stream", *words, "--mean-rate", "700", "--json").json
    assert (less["mean_rate"], less["metrics"]["slot_hours"]) == (700, 24 * 4)
    too_much = run("simulate", "stream", *words, "--mean-rate", "40000").out
    assert "though 'step-3' manages 32,000 at its most parallelism" in too_much
    told = run("explain", *words, "--mean-rate", "700", "--decision", "1", "--json").json
    assert (told["job"], told["slots"]) == ("linear:3", 4)


def watched(folder: Path) -> str:
    place = folder / "answers"
    place.mkdir(exist_ok=True)
    for number, answer in enumerate(counting_job().watched(4)):
        (place / f"answer-{number}.json").write_text(json.dumps(answer))
    return str(place)


def test_a_flink_job_is_played(run: Callable, tmp_path: Path) -> None:
    answer = run("import", "flink", watched(tmp_path), "--out", "mine.json")
    assert answer.code == 0, answer
    assert "mine.json: 4 vertices, 3 edges, usually 100 records/s" in answer.out
    assert load_job(tmp_path / "mine.json").vertices[2].name == "count"
    words = ["--job", "mine.json", "--trace", "flat", "--interval-s", "600"]
    played = run("simulate", "stream", "--policy", "ds2", *words, "--json").json
    assert (played["job"], played["intervals"]) == ("counting", 144)
    compared = run("compare", "stream/jobs", "--job", "mine.json", "--policies", "static,ds2", "--seeds", "2",
                   "--set", "deployment.interval_s=600", "--processes", "1", "--json").json  # fmt: skip
    assert [scenario["name"] for scenario in compared["scenarios"]] == ["mine.json"]


def test_prometheus_is_asked_over_the_network(run: Callable, tmp_path: Path) -> None:
    prometheus(tmp_path)
    content: Any = json.loads((tmp_path / "answer.json").read_text())
    with serving(lambda path: content) as address:
        answer = run("import", "prometheus", f"{address}/api/v1/query_range?query=rate", "--out", "a.trace")
    assert answer.code == 0, answer
    assert load_trace(tmp_path / "a.trace").rates[-1] == 243
