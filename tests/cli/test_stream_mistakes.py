"""Whatever is wrong with what a user says of a stream: one clear line, exit code 2, nothing left behind."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trimtab.stream_autoscaling.job import save_job
from trimtab.stream_autoscaling.workload.jobs import make_job
from trimtab.stream_autoscaling.workload.traces import Provenance, RateTrace, save_trace

LINEAR = ("--job", "linear:3")
SIMULATE = ("simulate", "stream", "--policy", "ds2")
COMPARE = ("compare", "stream/jobs", "--policies", "static,ds2", "--seeds", "2", "--out", "new")
TUNE = ("tune", "stream", "--policies", "hpa", "--training-seeds", "2", "--out", "new.json")
TRAIN = ("train", "stream", "--preset", "sure-cpu", "--out", "new")


@pytest.fixture
def left_alone(refused: Callable, tmp_path: Path) -> Callable[..., str]:
    """Run a mistake; the folder holds the same files afterwards, with the same content."""

    def content() -> dict[Path, bytes]:
        return {path: path.read_bytes() if path.is_file() else b"" for path in tmp_path.rglob("*")}

    def go(*words: str) -> str:
        before = content()
        said = refused(*words)
        assert content() == before
        return said

    return go


def job_file(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    save_job(make_job("linear:3"), folder / "mine.json")
    content = json.loads((folder / "mine.json").read_text())
    change(content)
    (folder / "mine.json").write_text(json.dumps(content))


def trace_file(folder: Path, rates: np.ndarray) -> None:
    """A trace that nobody checked when it was written."""
    sound = RateTrace(np.ones(1), step_s=60, provenance=Provenance("mine"))
    object.__setattr__(sound, "rates", rates)
    save_trace(sound, folder / "mine.trace")


# --- flags -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([*SIMULATE, "--executors", "3"], "--executors: stream has no such flag; it has --job, --trace"),
        (["simulate", "dag", "--policy", "fair", "--job", "q1"], "--job: dag has no such flag"),
        ([*COMPARE, "--workload", "tpch"], "--workload: stream suites have no such flag"),
        (["compare", "dag/batch", *LINEAR], "--job: dag suites have no such flag"),
        ([*TUNE, "--executors", "3"], "--executors: stream suites have no such flag"),
        (["tune", "stream", "--suite", "dag/batch"], "--suite dag/batch: is not of stream"),
        ([*TRAIN, "--workload", "tpch"], "--workload: train stream has no such flag; it has --job, --trace"),
        (["train", "dag", *LINEAR, "--out", "new"], "--job: train dag has no such flag"),
        (["policies", "streams"], 'Did you mean "stream"?'),
        (["compare", "stream/job"], "did you mean 'stream/jobs'?"),
        ([*SIMULATE, *LINEAR, "--interval-s", "0"], "interval_s = 0"),
        ([*SIMULATE, *LINEAR, "--interval-s", "5"], "staleness_s = 10 is not below interval_s = 5; lower it"),
        ([*SIMULATE, *LINEAR, "--load", "nan"], "load = NaN"),
        ([*SIMULATE, *LINEAR, "--load", "-1"], "load = -1"),
        ([*SIMULATE, *LINEAR, "--mean-rate", "0"], "mean_rate = 0"),
        ([*COMPARE, *LINEAR, "--mean-rate", "nan"], "trace.mean_rate = NaN"),
        ([*TRAIN, *LINEAR, "--mean-rate", "-3"], "trace.mean_rate = -3"),
        ([*SIMULATE, *LINEAR, "--mean-rate", "5", "--load", "1"], "both mean_rate and load are given"),
        (["train", "dag", "--mean-rate", "5", "--out", "new"], "--mean-rate: train dag has no such flag"),
        ([*SIMULATE, *LINEAR, "--seed", "-1"], "--seed -1"),
        ([*COMPARE, *LINEAR, "--baseline", "hpq"], "no policy 'stream/hpq'; did you mean 'stream/hpa'"),
        (
            [*COMPARE, *LINEAR, "--baseline", "hpa"],
            "baseline 'hpa' does not play; add it to the policies, or",
        ),
        ([*COMPARE, *LINEAR, "--set", "baseline=hpa"], "take one of them: static, ds2"),
        ([*SIMULATE, *LINEAR, "--draw", "day.pdf"], "day.pdf: pictures are written as"),
        ([*SIMULATE, *LINEAR, "--draw", "no/day.png"], "the folder no does not exist"),
        ([*SIMULATE, *LINEAR, "--settings", "no.toml"], "no.toml: no such settings file"),
    ],
)
def test_flags(left_alone: Callable, words: list[str], said: str) -> None:
    assert said in left_alone(*words)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["deploymnt.interval_s=600"], "deploymnt is not a setting; did you mean 'deployment'?"),
        (
            ["deployment.intervall_s=600"],
            "deployment.intervall_s is not a setting; did you mean 'interval_s'?",
        ),
        (["trace.days"], "--set trace.days: not name=value"),
        (["trace.days=many"], 'trace.days = "many"'),
        (["trace.days=0"], "trace.days = 0"),
        (["deployment.slots=-1"], "deployment.slots = -1"),
        (
            ["deployment.substep_ms=7000"],
            "substep_ms = 7000 does not divide interval_s = 60; choose a divisor",
        ),
        (["trace.load=0.5", "trace.mean_rate=9"], "both mean_rate and load are given; give one of the two"),
    ],
)
def test_settings(left_alone: Callable, words: list[str], said: str) -> None:
    changes = [part for word in words for part in ("--set", word)]
    assert said in left_alone(*COMPARE, *LINEAR, *changes)
    assert said in left_alone(*TUNE, *LINEAR, *changes)


# --- policies ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ("ds3", "did you mean 'stream/ds2'"),
        ("fair", "no policy 'stream/fair'"),
        ("ds2:tarlet=1", "policy 'ds2' has no setting 'tarlet'; did you mean 'target'?"),
        ("ds2:target=nan", "target = nan is not a finite number"),
        ("ds2:target=7", "target = 7 is out of range; use 0.05 to 1"),
        ("static:parallelism=1.5", "parallelism = 1.5 must be a whole number"),
        ("static:parallelism=100000", "parallelism = 100000 is out of range; use 0 to 32768"),
        ("nowhere/at-all", "nowhere/at-all: no such folder"),
    ],
)
def test_policies(left_alone: Callable, policy: str, said: str) -> None:
    assert said in left_alone("simulate", "stream", "--policy", policy, *LINEAR)
    words = ["--policies", f"static,{policy}", *LINEAR, "--out", "new"]
    assert said in left_alone("compare", "stream/jobs", *words)


def test_rules_without_settings_cannot_be_tuned(left_alone: Callable) -> None:
    said = left_alone("tune", "stream", *LINEAR, "--policies", "reactive", "--out", "new.json")
    assert "policy 'reactive' has nothing to tune; tunable: aws, banded, dhalion" in said


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ("flink", "a window of 900 s takes 75 intervals"),
        ("banded", "a window of 1800 s takes 151 intervals"),
        ("sure", "a window of 1800 s takes 151 intervals"),
    ],
)
def test_a_policy_that_wants_more_history_than_is_kept(run: Callable, policy: str, said: str) -> None:
    """Found when it is first asked: on a fresh machine, a remark about compiling comes before."""
    answer = run("simulate", "stream", "--policy", policy, *LINEAR, "--interval-s", "12")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.splitlines()[-1].startswith(f"error: {said} of 12 s, but the history holds 60; raise")


# --- jobs --------------------------------------------------------------------------------------------


def cycle(job: dict[str, Any]) -> None:
    job["edges"].append({"source": 2, "target": 0, "selectivity": 1.0, "forward": False})


def far_edge(job: dict[str, Any]) -> None:
    job["edges"][0]["target"] = 7


def forward_in_quotes(job: dict[str, Any]) -> None:
    job["edges"][0]["forward"] = "false"


def set_field(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(job: dict[str, Any]) -> None:
        job["vertices"][1][name] = value

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (cycle, "edge step-3 -> step-1 goes back; list parents before children, and break the cycle"),
        (far_edge, "edge 0 -> 7, but its vertices are 0 to 2"),
        (set_field("most_parallelism", 100_000), "most_parallelism = 100000 is out of range; use 1 to 32768"),
        (
            set_field("least_parallelism", 200),
            "step-2: least_parallelism = 200 is above most_parallelism = 128; lower it",
        ),
        (set_field("service_ms", float("nan")), "service_ms = nan is out of range"),
        (set_field("name", "step-1"), "two vertices are called 'step-1'; rename one"),
        (set_field("colour", 1), "vertex step-2 has no field 'colour'; it has name, service_ms, scaling"),
        (set_field("servce_ms", 1), "vertex step-2 has no field 'servce_ms'; did you mean 'service_ms'?"),
        (set_field("service_ms", "0.2"), 'vertex step-2: service_ms = "0.2" is no number; write it'),
        (set_field("slot_group", 5), "vertex step-2: slot_group = 5 is no text; put it in quotes"),
        (set_field("key_groups", 2.5), "vertex step-2: key_groups = 2.5 is no whole number; round it"),
        (forward_in_quotes, 'edge 0: forward = "false"; write true or false, without quotes'),
        (lambda job: job.update(name=None), "job: name = null is no text; put it in quotes"),
        (lambda job: job.update(version=9), "not a job file; expected format"),
        (lambda job: job.update(vertices=[]), "no vertices; a job needs at least one"),
        (lambda job: job.update(edges=[]), "3 of 3 vertices on no edge, such as 'step-1'; say what"),
    ],
)
def test_broken_job_files(left_alone: Callable, tmp_path: Path, change: Callable, said: str) -> None:
    job_file(tmp_path, change)
    for verb in (SIMULATE, COMPARE, TUNE, TRAIN):
        words = left_alone(*verb, "--job", "mine.json")
        assert words.startswith("error: mine.json: ")
        assert said in words


@pytest.mark.parametrize(
    ("job", "said"),
    [
        ("smal-1", "no job 'stream/smal-1'; did you mean 'stream/small-1'"),
        ("linear:x", "linear:x: the variant is a number of vertices"),
        ("linear:0", "linear:0: a chain has 1 to 500 vertices"),
        ("linear:²", "linear:²: the variant is a number of vertices"),
        ("small-1:4", "job 'small-1' has no variants"),
        ("no.json", "no.json: no such file; `trimtab import flink` writes job files"),
    ],
)
def test_unknown_jobs(left_alone: Callable, job: str, said: str) -> None:
    for verb in (SIMULATE, COMPARE, TUNE, TRAIN):
        assert said in left_alone(*verb, "--job", job)


def test_an_empty_name_is_no_job(left_alone: Callable) -> None:
    """As of a variable that was never set: the usual job is not meant."""
    assert "no job 'stream/'" in left_alone(*SIMULATE, "--job", "")
    assert "no job 'stream/'" in left_alone("explain", "--policy", "ds2", "--job", "", "--decision", "1")


# --- traces ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trace", "said"),
    [
        ("clarknet", "no trace 'stream/clarknet'; did you mean 'stream/clarknet-like'"),
        ("flat:many", "flat:many: the variant is a number of days, such as flat:28"),
        ("flat:²", "flat:²: the variant is a number of days, such as flat:28"),
        ("flat:1000000000000", "a generated trace of 1000000000000 days; ask for 1 to 366"),
        ("no.trace", "no.trace: no such file; `trimtab import` writes trace files"),
    ],
)
def test_unknown_traces(left_alone: Callable, trace: str, said: str) -> None:
    for verb in (SIMULATE, COMPARE, TUNE, TRAIN):
        assert said in left_alone(*verb, *LINEAR, "--trace", trace)


def test_a_trace_with_numbers_that_are_none(left_alone: Callable, tmp_path: Path) -> None:
    rates = np.ones(4 * 1440)
    rates[5] = np.nan
    trace_file(tmp_path, rates)
    for verb in (SIMULATE, COMPARE, TUNE, TRAIN):
        said = left_alone(*verb, *LINEAR, "--trace", "mine.trace")
        assert "rate nan at step 5; fill or cut such steps" in said


def test_steps_longer_than_a_day(left_alone: Callable, tmp_path: Path) -> None:
    week = RateTrace(np.ones(5), step_s=604_800, provenance=Provenance("weeks"))
    save_trace(week, tmp_path / "mine.trace")
    said = left_alone(*SIMULATE, *LINEAR, "--trace", "mine.trace")
    assert "has 0 whole days, an episode needs 1; bring a day from midnight to midnight" in said


def test_a_file_that_is_no_trace(left_alone: Callable, tmp_path: Path) -> None:
    (tmp_path / "mine.trace").write_bytes(b"nonsense")
    assert "mine.trace: not a trace file" in left_alone(*SIMULATE, *LINEAR, "--trace", "mine.trace")


def test_days_longer_than_the_trace(left_alone: Callable, tmp_path: Path) -> None:
    trace_file(tmp_path, np.ones(3 * 1440))
    said = left_alone(*SIMULATE, *LINEAR, "--trace", "mine.trace", "--days", "4")
    assert "trace mine.trace: its part 'all' has 3 whole days, an episode needs 4; lower days" in said
    assert "its part 'all' has 14 whole days" in left_alone(*SIMULATE, *LINEAR, "--days", "15")
    said = left_alone(*COMPARE, *LINEAR, "--set", "trace.days=4")
    assert "trace clarknet-like: its part 'test' has 3 whole days, an episode needs 4" in said
    said = left_alone(*TUNE, *LINEAR, "--trace", "mine.trace", "--set", "trace.days=2")
    assert "an episode needs 2" in said
    trace_file(tmp_path, np.ones(2 * 1440))
    said = left_alone(*COMPARE, *LINEAR, "--trace", "mine.trace")
    assert "2 whole days cannot be split into training, validation and test; bring at least 3" in said


# --- histories ---------------------------------------------------------------------------------------


def csv(*counts: str) -> str:
    rows = [f"2023-11-14 00:{minute:02},{count}" for minute, count in enumerate(counts) if count]
    return "\n".join(["time,count", *rows, ""])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (csv("1", "2", *[""] * 7, "4", "5"), "fill"),
        (csv("1", "nan", "3"), "nothing from 2023-11-14 00:01:00"),
        (csv("1", "lots", "3"), "lots"),
        ("time,count\n1700000000,1\n1700000060,2\n1e300,3\n", "line 4 has the time '1e300'"),
        (csv("1", "-4", "3"), "-4"),
        ("", "counts.csv: is empty"),
        ("step,count\n0,5\n1,6\n", "give step_s"),
    ],
)
def test_damaged_counts(left_alone: Callable, tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "counts.csv").write_text(text)
    words = left_alone("import", "csv-counts", "counts.csv", "--out", "new.trace")
    assert words.startswith("error: ")
    assert "counts.csv" in words
    assert said in words


def test_what_is_imported_lands_nowhere_else(left_alone: Callable, tmp_path: Path) -> None:
    """Neither over the history, by whatever name, nor over a folder."""
    (tmp_path / "counts.csv").write_text(csv("60", "120"))
    (tmp_path / "link.trace").symlink_to("counts.csv")
    (tmp_path / "folder").mkdir()
    words = ["import", "csv-counts", "counts.csv", "--out"]
    for name in ("counts.csv", "folder/../counts.csv", "link.trace"):
        assert f"{name}: is the history itself; name another file to write" in left_alone(*words, name)
    assert "folder: is a folder; name a file to write in it" in left_alone(*words, "folder")


def test_next_steps_are_those_that_can_be_taken(run: Callable, refused: Callable, tmp_path: Path) -> None:
    """From 10:30 on, a trace of a day has no whole day; streams are played in such."""
    for hours, steps in (
        (24, ["simulate pod"]),
        (40, ["simulate stream", "simulate pod"]),
        (96, ["simulate stream", "compare stream/jobs", "simulate pod"]),
    ):
        rows = [f"{1_700_044_200 + 3600 * hour},3600" for hour in range(hours)]
        (tmp_path / "counts.csv").write_text("\n".join(["time,count", *rows]))
        told = run("import", "csv-counts", "counts.csv", "--out", f"{hours}.trace").out
        assert [
            line.split("trimtab ")[1].split(" --")[0] for line in told.splitlines() if "trimtab" in line
        ] == steps
        assert ("`simulate stream` needs 1, `compare stream/jobs` 3" in told) == (len(steps) < 3)
    said = refused(*SIMULATE, *LINEAR, "--trace", "24.trace")
    assert "has 0 whole days, an episode needs 1; bring a day from midnight to midnight" in said


def test_a_gap_is_filled_when_asked_for(run: Callable, left_alone: Callable, tmp_path: Path) -> None:
    (tmp_path / "counts.csv").write_text(csv("60", "120", *[""] * 7, "120", "60"))
    words = ["import", "csv-counts", "counts.csv", "--out", "new.trace", "--json"]
    assert "--set fil: csv-counts has no such option; it has fill" in left_alone(*words, "--set", "fil=zero")
    assert "magic" in left_alone(*words, "--set", "fill=magic")
    assert run(*words, "--set", "fill=interpolate").json["steps"] == 11


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["prometeus", "x"], "no history 'prometeus'; did you mean 'prometheus'?"),
        (["flink", "nowhere"], "nowhere"),
        (["common-log", "nowhere"], "nowhere"),
        (["prometheus", "http://127.0.0.1:9/api/v1/query_range?query=a"], "127.0.0.1:9"),
        (["prometheus", "http://[::1/"], "http://[::1/: neither a path nor an address"),
    ],
)
def test_histories_that_are_not_there(left_alone: Callable, words: list[str], said: str) -> None:
    assert said in left_alone("import", *words, "--out", "new.trace")


# --- training ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["--preset", "sur"],
            "no preset 'sur'; there are sure, sure-compact, sure-compact-even, sure-compact-l",
        ),
        (["--set", "network.hiddem=3"], "network.hiddem is not a setting; did you mean 'hidden'?"),
        (["--set", "teacher=ds3"], "teacher = ds3: no policy 'stream/ds3'; did you mean"),
        (["--set", "environments=5"], "choose a multiple of"),
        (["--set", "network.history=90"], "network.history = 90 intervals, but deployment.history = 60"),
        (["--resume", "nowhere"], "nowhere: no such folder"),
        (["--from", "nowhere"], "nowhere: no such folder; give a bundle"),
    ],
)
def test_training(left_alone: Callable, words: list[str], said: str) -> None:
    assert said in left_alone("train", "stream", *words)
