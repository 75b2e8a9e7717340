"""The journal: what is written is read again; broken lines are named; outcomes find their decisions."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.control.situations import Play, plain_guard

from trimtab.control.journal import (
    Decision,
    Journal,
    decision_of,
    digest_of,
    read_journal,
    with_outcomes,
)
from trimtab.core.errors import HistoryError


def decision(
    environment: str = "shop", *, time: str = "2026-01-01T00:00:00Z", replicas: float = 3, **outcome: float
) -> Decision:
    seen = (0.5, math.nan)
    asked = {"replicas": replicas}
    return Decision(
        time,
        environment,
        seen,
        digest_of(seen),
        asked,
        asked,
        asked,
        "policy",
        ("it acts",),
        outcome,
    )


def same(one: Decision, other: Decision) -> bool:
    return repr(one) == repr(other)  # NaN is not equal to itself, but is written the same


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal.jsonl"


def test_what_is_written_is_read_again(path):
    written = [decision(replicas=number, reward=0.1 * number) for number in (1.0, 2.0, math.nan)]
    with Journal(path) as journal:
        for one in written[:2]:
            journal.write(one)
    with Journal(path) as journal:  # a second run goes on in the same file
        journal.write(written[2])
    read = list(read_journal(path))
    assert [one.after for one in read] == ["", written[0].time, ""]
    assert all(same(replace(one, after=None), other) for one, other in zip(read, written, strict=True))
    assert [json.loads(line)["policy"]["replicas"] for line in path.read_text().splitlines()] == [
        1.0,
        2.0,
        None,
    ]


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=8))
def test_a_digest_outlives_the_file(values):
    """JSON has neither NaN nor infinity nor minus zero of its own: the digest knows one unknown, one zero."""
    back = [math.nan if not math.isfinite(value) else json.loads(json.dumps(value)) for value in values]
    assert digest_of(back) == digest_of(values)


def test_digests_tell_observations_apart():
    assert digest_of([1.0, 2.0]) != digest_of([2.0, 1.0]) != digest_of([1.0])
    assert digest_of(np.array([[1.0], [2.0]])) == digest_of([1.0, 2.0])


def test_a_guarded_decision_becomes_a_line(path):
    play = Play(plain_guard(), current=10)
    play.tick(float("nan"), heuristic=12)
    assert play.guarded is not None
    with Journal(path) as journal:
        journal.write(
            decision_of(
                play.guarded,
                0,
                time="2026-01-01T00:00:15Z",
                name="shop",
                observation=[0.7],
                outcome={"reward": 0.9},
            )
        )
    (read,) = read_journal(path)
    assert math.isnan(read.policy["replicas"])
    assert read.heuristic == read.action == {"replicas": 12.0}
    assert (read.acting, read.outcome) == ("heuristic", {"reward": 0.9})
    assert read.reasons == play.guarded.explain(0)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('{"time": "2026', "not JSON"),
        ("[1]", "not an object"),
        ('{"version": 7}', "not of version 1"),
        ('{"version": 1, "time": ""}', "acting is missing"),
        (lambda good: {**good, "colour": 1}, "colour is unknown"),
        (lambda good: {**good, "policy": 3}, "a field is of the wrong kind"),
        (lambda good: {**good, "action": {"replicas": "many"}}, "'many' is no number"),
        (lambda good: {**good, "action": {"replicas": 10**400}}, "int too large to convert to float"),
        ('{"version": 1, "time": ' + "1" * 5000 + "}", "a number has too many digits"),
        (lambda good: {**good, "observation": [0.6, None]}, "the digest does not fit"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_broken_line_is_refused_with_file_and_line_or_left_out(path, line, complaint):
    with Journal(path) as journal:
        journal.write(decision())
    if callable(line):
        line = json.dumps(line(json.loads(path.read_text())))
    with path.open("a") as file:
        file.write(line + "\n")
    with Journal(path) as journal:
        journal.write(decision())
    with pytest.raises(HistoryError, match=rf"journal.jsonl, line 2: .*{complaint}"):
        list(read_journal(path))
    told = list[str]()
    assert len(list(read_journal(path, on_broken=told.append))) == 2
    assert len(told) == 1 and "line 2" in told[0]


def test_a_line_torn_by_a_crash_costs_one_decision(path):
    with Journal(path) as journal:
        journal.write(decision())
        journal.write(decision())
    path.write_text(path.read_text()[:-30])
    with Journal(path) as journal:
        journal.write(decision(replicas=9))
    told = list[str]()
    read = list(read_journal(path, on_broken=told.append))
    assert [one.action["replicas"] for one in read] == [3, 9]
    assert "line 2" in told[0]


def test_every_decision_finds_what_followed_it():
    """Two services in one journal: an outcome belongs to the decision before it of the same service."""
    lines = [
        decision("shop", replicas=1),
        decision("pay", replicas=2),
        decision("shop", replicas=3, reward=0.1),
        decision("pay", replicas=4, reward=0.2),
        decision("shop", replicas=5, reward=0.3),
    ]
    found = [(one.action["replicas"], outcome) for one, outcome in with_outcomes(lines)]
    assert found == [(1, {"reward": 0.1}), (2, {"reward": 0.2}), (3, {"reward": 0.3}), (4, None), (5, None)]


def outcomes(path):
    read = read_journal(path, on_broken=lambda complaint: None)
    return [(one.time, outcome) for one, outcome in with_outcomes(read)]


def test_what_followed_a_torn_line_is_not_laid_to_the_line_before_it(path):
    with Journal(path) as journal:
        for number in range(4):
            journal.write(decision(time=f"00:0{number}", reward=number))
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], lines[1][:50], *lines[2:], ""]))
    assert outcomes(path) == [("00:00", None), ("00:02", {"reward": 3}), ("00:03", None)]


def test_what_came_before_a_new_run_is_not_laid_to_the_run_before_it(path):
    for hour in (0, 1):
        with Journal(path) as journal:
            for minute in (0, 1):
                journal.write(decision(time=f"0{hour}:0{minute}", reward=10 * hour + minute))
    followed = {"reward": 1}, None, {"reward": 11}, None
    assert outcomes(path) == list(zip(("00:00", "00:01", "01:00", "01:01"), followed, strict=True))


def test_lines_of_old_do_not_tell_what_they_follow(path):
    with Journal(path) as journal:
        for number in range(3):
            journal.write(decision(time=f"00:0{number}", reward=number))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        del line["after"]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert outcomes(path) == [("00:00", {"reward": 1}), ("00:01", {"reward": 2}), ("00:02", None)]


def test_a_copy_of_a_journal_pairs_as_the_journal_does(path, tmp_path):
    with Journal(path) as journal:
        for number in range(3):
            journal.write(decision(time=f"00:0{number}", reward=number))
    first, _, last = read_journal(path)
    with Journal(tmp_path / "copy.jsonl") as copy:
        copy.write(first)
        copy.write(last)
    assert outcomes(tmp_path / "copy.jsonl") == [("00:00", None), ("00:02", None)]


def test_files_that_cannot_be_opened_are_named(tmp_path):
    with pytest.raises(HistoryError, match="cannot write the journal"):
        Journal(tmp_path / "nowhere" / "journal.jsonl")
    with pytest.raises(HistoryError, match="cannot read the journal"):
        list(read_journal(tmp_path / "nowhere.jsonl"))


def test_a_name_that_is_no_text_is_written_and_read_again(path):
    with Journal(path) as journal:
        journal.write(decision("web\udce9"))
    assert [one.environment for one in read_journal(path)] == ["web\udce9"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no file that is always full")
def test_a_full_disk_is_one_line():
    journal = Journal("/dev/full")
    with pytest.raises(HistoryError, match="/dev/full: cannot write the journal: No space left"):
        journal.write(decision())
    with pytest.raises(HistoryError, match="No space left on device; its last lines may be lost"):
        journal.close()
