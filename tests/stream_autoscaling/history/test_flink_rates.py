"""What came for a Flink job over time: differences of its counters, in steps of the clock."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.loopback_server import serving
from tests.stream_autoscaling.history.flink_answers import START_MS, FakeJob, FakeVertex, counting_job

from trimtab.core.errors import HistoryError
from trimtab.stream_autoscaling.history.flink import import_flink
from trimtab.stream_autoscaling.history.flink_rates import import_flink_rates

BEGINS_S = 22 * 3600 + 13 * 60
"""2023-11-14 22:13, of which the answers begin 20 s after the full minute."""


def saved(folder: Path, answers: Iterable[Any]) -> str:
    for number, answer in enumerate(answers):
        (folder / f"answer-{number:03}.json").write_text(json.dumps(answer))
    return str(folder)


def counted(sent: Sequence[float], *, every_s: float = 20.0) -> list[dict[str, Any]]:
    """Answers whose source has sent so many records by then."""
    answers = counting_job().watched(len(sent), every_s)
    for answer, amount in zip(answers, sent, strict=True):
        answer["vertices"][0]["metrics"]["write-records"] = amount
    return answers


def test_rates_are_differences_in_steps_of_the_clock(tmp_path: Path) -> None:
    """From 22:13:20 on: 40 s at 3/s, 60 s at 1/s, 20 s at 6/s and 40 s at nothing, 20 s at 9/s (too few)."""
    sent = [0, 60, 120, 140, 160, 180, 300, 300, 300, 480]
    trace, report = import_flink_rates(saved(tmp_path, counted(sent)))
    assert trace.rates.tolist() == pytest.approx([3.0, 1.0, 2.0])
    assert (trace.step_s, trace.start_s) == (60.0, BEGINS_S)
    assert trace.provenance.source == "flink counting"
    assert report.read == {"answers": 10, "pairs of samples": 9, "steps of 60 s": 3}
    assert any("what waits before them" in sentence for sentence in report.assumptions)


def test_it_is_the_usual_rate_of_the_imported_job(tmp_path: Path) -> None:
    fake = FakeJob(
        [
            FakeVertex("bids", written=80),
            FakeVertex("auctions", written=20),
            FakeVertex("join", [(0, "HASH"), (1, "HASH")], read=100, written=5),
            FakeVertex("sink", [(2, "FORWARD")], read=5),
        ]
    )
    where = saved(tmp_path, fake.watched(13))
    trace, _ = import_flink_rates(where, step_s=30.0, utc_offset_hours=2.0)
    assert trace.rates.tolist() == pytest.approx([import_flink(where)[0].usual_rate] * 4)
    # 22:13:20 is nearer to the end of its half minute: the first that is told begins at 22:13:30.
    assert trace.start_s == 13 * 60 + 30


def test_a_restart_of_seconds_is_no_gap_and_one_of_minutes_is(tmp_path: Path) -> None:
    """Watched are 13:20 to 14:40, 14:52 to 16:12 and 18:52 to 20:12: less than half of 16, 17, 18 and 20."""
    fake = counting_job()
    answers = fake.watched(9)
    fake.rescale([1, 1, 4, 1], took_s=2.0)
    answers += fake.watched(9)
    fake.rescale([1, 1, 1, 1], took_s=150.0)
    answers += fake.watched(9)
    where = saved(tmp_path, answers)
    with pytest.raises(HistoryError, match=r"nothing from 2023-11-14 22:16:00 to 2023-11-14 22:19:00"):
        import_flink_rates(where)
    trace, report = import_flink_rates(where, fill="zero")
    assert trace.rates.tolist() == pytest.approx([100.0] * 3 + [0.0] * 3 + [100.0])
    assert report.filled == {"steps without data (zero)": 3}


def test_a_job_that_sends_nothing_says_why(tmp_path: Path) -> None:
    where = saved(tmp_path, FakeJob([FakeVertex("all in one")]).watched(3))
    with pytest.raises(HistoryError, match=r"sources sent nothing .*operator-chaining"):
        import_flink_rates(where)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"step_s": 0.0}, "steps of 0"),
        ({"step_s": float("nan")}, "steps of nan s; give a length above 0"),
        ({"step_s": float("inf")}, "steps of inf s; give a length above 0"),
        ({"step_s": 1e-9}, "some answer has a wrong time"),
        ({"utc_offset_hours": 90.0}, "utc_offset_hours = 90"),
        ({"job": "zz"}, "no answer of /jobs/<id> about job zz"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=said):
        import_flink_rates(saved(tmp_path, counting_job().watched(3)), **options)


@pytest.mark.parametrize("now", [START_MS * 1e6, 1e300])
def test_times_of_another_clock(now: float, tmp_path: Path) -> None:
    answers = counting_job().watched(3)
    answers[2]["now"] = now
    with pytest.raises(HistoryError, match="some answer has a wrong time"):
        import_flink_rates(saved(tmp_path, answers))


def test_a_job_manager_is_watched() -> None:
    fake = counting_job()

    def answer(path: str) -> Any:
        overview = {"jobs": [{"jid": "a1", "name": "counting", "state": "RUNNING"}]}
        return {"/jobs/overview": overview, "/jobs/a1": fake.details()}.get(path, 404)

    def sleep(seconds: float) -> None:
        fake.now_s += seconds

    with serving(answer) as address:
        trace, _ = import_flink_rates(address, samples=17, every_s=10.0, sleep=sleep)
    assert trace.rates.tolist() == pytest.approx([100.0] * 3)
