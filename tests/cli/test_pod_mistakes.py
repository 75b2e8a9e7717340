"""Whatever is wrong with what a user says of a service: one clear line, exit code 2, nothing left behind."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from trimtab.rates.traces import Provenance, RateTrace, save_trace

SIMULATE = ("simulate", "pod", "--policy", "hpa")
COMPARE = ("compare", "pod/services", "--policies", "static,hpa", "--seeds", "2", "--out", "new")
TUNE = ("tune", "pod", "--policies", "hpa", "--training-seeds", "2", "--out", "new.json")


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


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            [*SIMULATE, "--executors", "3"],
            "--executors: pod has no such flag; it has --app, --trace",
        ),
        ([*SIMULATE, "--days", "3"], "--days: pod has no such flag"),
        ([*SIMULATE, "--job", "q1"], "--job: pod has no such flag"),
        (["simulate", "dag", "--policy", "fair", "--app", "web"], "--app: dag has no such flag"),
        (["simulate", "stream", "--policy", "ds2", "--hours", "2"], "--hours: stream has no such flag"),
        (["simulate", "stream", "--policy", "ds2", "--out", "new"], "--out: stream has no such flag; --draw"),
        ([*COMPARE, "--workload", "tpch"], "--workload: pod suites have no such flag; they have --app"),
        (["compare", "stream/jobs", "--app", "web"], "--app: stream suites have no such flag"),
        ([*COMPARE, "--load", "0.5"], "--load: pod suites have no such flag"),
        (["tune", "pod", "--suite", "dag/batch"], "--suite dag/batch: is not of pod"),
        (["policies", "pods"], 'Did you mean "pod"?'),
        (["compare", "pod/service"], "did you mean 'pod/services'?"),
        ([*SIMULATE, "--interval-s", "0"], "interval_s = 0"),
        ([*SIMULATE, "--hours", "0"], "hours = 0"),
        ([*SIMULATE, "--hours", "0.0001"], "hours = 0.0001 is less than a second; raise it"),
        ([*SIMULATE, "--hours", "0.002"], "the trace covers 7 s, less than one interval of 15 s"),
        ([*SIMULATE, "--hours", "999"], "trace diurnal: its part 'all' has 336 h"),
        ([*SIMULATE, "--mean-cores", "-1"], "mean_cores = -1"),
        ([*SIMULATE, "--mean-rate", "nan"], "mean_rate = NaN"),
        ([*SIMULATE, "--mean-cores", "5", "--mean-rate", "4"], "mean_cores = 5 and mean_rate = 4 both say"),
        (
            [*COMPARE, "--set", "mean_cores=5", "--mean-rate", "4"],
            "mean_cores = 5 and mean_rate = 4 both say",
        ),
        ([*SIMULATE, "--seed", "-1"], "--seed -1"),
        ([*SIMULATE, "--draw", "day.pdf"], "day.pdf: pictures are written as"),
        ([*SIMULATE, "--settings", "no.toml"], "no.toml: no such settings file"),
        ([*SIMULATE, "--app", "wbe"], "no application 'pod/wbe'; did you mean 'pod/web'"),
        ([*SIMULATE, "--app", "no.toml"], "no.toml"),
        ([*SIMULATE, "--trace", "burst"], "no trace 'pod/burst'; did you mean 'pod/bursty'"),
        ([*SIMULATE, "--trace", "no.trace"], "no.trace: no such file"),
        ([*SIMULATE, "--beside", "multi"], "--beside multi: without --guard nothing stands beside"),
        ([*SIMULATE, "--guard", "active", "--beside", "hpaa"], "did you mean 'pod/hpa'"),
        (["simulate", "dag", "--policy", "fair", "--guard", "active"], "--guard: dag has no such flag"),
        (["simulate", "stream", "--policy", "ds2", "--beside", "ds2"], "--beside: stream has no such flag"),
    ],
)
def test_flags(left_alone: Callable, words: list[str], said: str) -> None:
    assert said in left_alone(*words)


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ("hpaa", "did you mean 'pod/hpa'"),
        ("ds2", "no policy 'pod/ds2'"),
        ("hpa:tarlet=1", "policy 'hpa' has no setting 'tarlet'; did you mean 'target'?"),
        ("hpa:target=nan", "target = nan is not a finite number"),
        ("hpa:target=0", "target = 0 is out of range"),
        ("nowhere/at-all", "nowhere/at-all: no such folder"),
    ],
)
def test_policies(left_alone: Callable, policy: str, said: str) -> None:
    assert said in left_alone("simulate", "pod", "--policy", policy)
    assert said in left_alone("compare", "pod/services", "--policies", f"static,{policy}", "--out", "new")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("deploymnt.interval_s=60", "deploymnt is not a setting; did you mean 'deployment'?"),
        ("deployment.least_cpu=9", "least_cpu = 9 is above most_cpu = 4; lower the one"),
        ("hours=none", 'hours = "none"'),
        ("mean_cores=0", "mean_cores = 0"),
        ("start_factor=-1", "start_factor = -1"),
    ],
)
def test_settings(left_alone: Callable, change: str, said: str) -> None:
    assert said in left_alone(*COMPARE, "--set", change)
    assert said in left_alone(*TUNE, "--set", change)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("slo_ms = 25\n", "slo_ms = 25 is not above the 98.1 ms within which an idle pod answers 99 %"),
        ("worker = 3\n", "worker is not a setting; did you mean 'workers'?"),
        ("memory_mib = -5\n", "memory_mib = -5"),
        ("not toml", "mine.toml"),
        (
            "# to be written\n",
            "mine.toml: says nothing of a service; `trimtab fit-profile` writes such files",
        ),
    ],
)
def test_profiles(left_alone: Callable, tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "mine.toml").write_text(content)
    for words in ([*SIMULATE, "--app", "mine.toml"], [*COMPARE, "--app", "mine.toml"]):
        answer = left_alone(*words)
        assert said in answer
        assert "mine.toml" in answer


def test_a_service_that_no_pod_can_hold(left_alone: Callable, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("memory_mib = 9000\n")
    told = "a pod with one request needs 9001 MiB, but the deployment has most_memory_mib = 4096"
    for words in (SIMULATE, COMPARE):
        assert told in left_alone(*words, "--app", "mine.toml", "--hours", "0.1")


def test_a_trace_too_short_to_be_split(left_alone: Callable, tmp_path: Path) -> None:
    save_trace(RateTrace(np.full(2, 4.0), 60.0, Provenance("mine")), tmp_path / "mine.trace")
    said = left_alone(*COMPARE, "--app", "thumbnails", "--trace", "mine.trace", "--hours", "0.01")
    assert "2 steps cannot be split into training, validation and test; bring a longer trace" in said
    (tmp_path / "mine.trace").write_bytes(b"rates")
    assert "mine.trace: not a trace file" in left_alone(*SIMULATE, "--trace", "mine.trace")
