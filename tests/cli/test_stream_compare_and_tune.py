"""`trimtab compare stream/...` and `trimtab tune stream`, small enough to take a second."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from trimtab.rates.traces import Provenance, RateTrace, save_trace

COARSE = (
    "--set",
    "trace.days=1",
    "--set",
    "deployment.interval_s=600",
    "--set",
    "deployment.substep_ms=10000",
)
SMALL = ("--job", "linear:3", *COARSE, "--processes", "1")
COMPARE = ("compare", "stream/jobs", *SMALL, "--seeds", "2")


def test_a_table_and_an_answer(run: Callable) -> None:
    answer = run(*COMPARE, "--policies", "static,ds2:target=0.8,hpa")
    assert answer.code == 0, answer
    assert "★" in answer.out
    assert "ds2:target=0.8" in answer.out
    assert (
        "job linear:3, a day of clarknet-like with 1,000 records/s on average, a decision every 600 s, "
        "limit 5 s, 2 unseen seeds" in answer.out
    )
    markdown = run(*COMPARE, "--policies", "static,hpa", "--baseline", "hpa", "--markdown").out
    assert "| policy | cost | × hpa | late | restarts/day |" in markdown


def test_a_trace_file_keeps_its_rates_unless_another_mean_is_asked_for(run: Callable, tmp_path: Path) -> None:
    save_trace(RateTrace(np.full(4 * 1440, 250.0), 60.0, Provenance("mine")), tmp_path / "mine.trace")
    words = [*COMPARE, "--trace", "mine.trace", "--policies", "static", "--baseline", "static"]
    assert "mine.trace with 250 records/s on average (usual for the job: 1,000)" in run(*words).out
    kept, more = (run(*words, *flag, "--json").json for flag in ([], ["--mean-rate", "2000"]))
    slots = [found["scenarios"][0]["policies"][0]["metrics"]["slot_hours"]["value"] for found in (kept, more)]
    assert slots == [24 * 2, 24 * 12]  # 4 ms x 250/s and x 2,000/s at 70 %
    assert more["settings"]["trace"]["mean_rate"] == 2000


@pytest.mark.parametrize(
    ("days", "said"),
    [
        (4, "has room for 1 test episode, which all 3 seeds play: the intervals are of the simulator's luck"),
        (9, "has room for 2 test episodes, which 3 seeds share: the intervals are narrower than those of"),
        (14, None),
    ],
)
def test_a_trace_with_few_test_days_is_told(
    run: Callable, tmp_path: Path, days: int, said: str | None
) -> None:
    """Of 4, 9 and 14 days the last 1, 2 and 3 are for tests."""
    save_trace(RateTrace(np.full(1440 * days, 250.0), 60.0, Provenance("mine")), tmp_path / "mine.trace")
    words = [
        "compare",
        "stream/jobs",
        *SMALL,
        "--seeds",
        "3",
        "--policies",
        "static",
        "--trace",
        "mine.trace",
    ]
    *notes, few = run(*words, "--json").json["notes"]
    assert few.startswith("3 seeds are few")
    assert len(notes) == (said is not None)
    if said is not None:
        assert said in notes[0]
        assert f"mine.trace {said}" in " ".join(run(*words).out.split())


def test_several_jobs_have_an_answer_each(run: Callable) -> None:
    words = [*COMPARE[:2], "--job", "linear:2,linear:3", *COMPARE[4:], "--policies", "static,ds2"]
    told = run(*words).out.splitlines()[-2:]
    assert [line.partition(": ")[0] for line in told] == ["linear:2", "linear:3"]


def test_json_pairs_all_policies_on_the_same_seeds(run: Callable) -> None:
    words = [*COMPARE[:2], "--job", "linear:3,q1", *COMPARE[4:], "--policies", "static,ds2", "--json"]
    found = run(*words).json
    assert [scenario["name"] for scenario in found["scenarios"]] == ["linear:3", "q1"]
    for scenario in found["scenarios"]:
        rows = {row["policy"]: row for row in scenario["policies"]}
        assert rows.keys() == {"static", "ds2"}
        for row in rows.values():
            assert [episode["seed"] for episode in row["episodes"]] == [1_000_000, 1_000_001]
        ratio = sum(one["cost"] for one in rows["static"]["episodes"])
        ratio /= sum(one["cost"] for one in rows["ds2"]["episodes"])
        assert abs(rows["static"]["ratio"]["value"] - ratio) < 1e-9
    other = run(*words, "--seed", "1").json
    assert other["scenarios"] != found["scenarios"]


def test_settings_from_a_file_beneath_flags(run: Callable, tmp_path: Path) -> None:
    (tmp_path / "suite.toml").write_text(
        'seeds = 9\npolicies = ["static", "hpa"]\n[trace]\nname = "flat"\n[deployment]\nslots = 7\n'
    )
    found = run(*COMPARE, "--settings", "suite.toml", "--json").json["settings"]
    assert (found["seeds"], found["trace"]["name"], found["deployment"]["slots"]) == (2, "flat", 7)
    assert found["policies"] == ["static", "hpa"]
    loaded = run(*COMPARE, "--settings", "suite.toml", "--load", "0.4", "--trace", "sine", "--json").json
    assert (loaded["settings"]["trace"]["name"], loaded["scenarios"][0]["load"]) == ("sine", 0.4)


def test_a_run_folder_is_made_once(run: Callable, refused: Callable, tmp_path: Path) -> None:
    words = [*COMPARE, "--policies", "static,hpa", "--out", "runs/first"]
    assert "results in runs/first" in run(*words).err
    written = {path.name for path in (tmp_path / "runs" / "first").iterdir()}
    assert written >= {"results.json", "table.md", "report.html", "episodes.png", "settings.toml"}
    assert "runs/first: exists" in refused(*words)


def test_tune_then_compare_with_what_it_found(run: Callable, tmp_path: Path) -> None:
    """Six values of one setting, on two training days each."""
    words = ["tune", "stream", *SMALL, "--policies", "oracle-static", "--training-seeds", "2"]
    answer = run(*words, "--out", "tuned.json")
    assert answer.code == 0, answer
    assert "On 2 training seeds; compare judges by others." in answer.out
    (entry,) = json.loads((tmp_path / "tuned.json").read_text())["entries"]
    assert (entry["policy"], entry["scenario"], entry["training_seeds"]) == ("oracle-static", "linear:3", 2)
    (tuned,) = run(*words, "--json").json
    assert len(tuned["trials"]) == 6
    assert tuned["best"]["cost"] == min(trial["cost"] for trial in tuned["trials"])
    assert tuned["best"]["cost"] <= tuned["usual"]["cost"]
    assert f" {tuned['usual']['cost']:.3f} " in answer.out
    assert f" {tuned['best']['cost']:.3f} " in answer.out
    compared = [*COMPARE, "--policies", "static,oracle-static:tuned", "--tuned", "tuned.json"]
    assert "oracle-static (tuned)" in run(*compared).out
    note = run(*COMPARE, "--policies", "static,oracle-static:tuned").out
    assert "Not tuned for this workload and cluster" in " ".join(note.split())
