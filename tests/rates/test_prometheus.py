"""Answers of Prometheus: rates and counters, several series, gaps, refusals, and a server on loopback."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.loopback_server import HALF_A_HEAD, PROMISE, serving, trickling

from trimtab.core.errors import HistoryError
from trimtab.rates.prometheus import import_prometheus

TEN = 1_700_042_400
"""10:00 of a day in November 2023, universal time."""


def series(values: list[Any], *, every_s: int = 60, first_s: int = TEN, **labels: str) -> dict[str, Any]:
    pairs = [[first_s + every_s * n, str(value)] for n, value in enumerate(values) if value is not None]
    return {"metric": labels, "values": pairs}


def answer(*rows: dict[str, Any]) -> dict[str, Any]:
    return {"status": "success", "data": {"resultType": "matrix", "result": list(rows)}}


def saved(folder: Path, content: Any) -> str:
    path = folder / "answer.json"
    path.write_text(json.dumps(content))
    return str(path)


def test_a_rate(tmp_path: Path) -> None:
    trace, report = import_prometheus(saved(tmp_path, answer(series([1, 2.5, 0]))))
    assert trace.rates.tolist() == [1, 2.5, 0]
    assert (trace.step_s, trace.start_s) == (60, 36_000)
    assert report.read == {"series": 1, "samples": 3, "steps of 60 s": 3}
    local, _ = import_prometheus(saved(tmp_path, answer(series([1, 2]))), utc_offset_hours=2)
    assert local.start_s == 43_200


def test_series_are_added_up(tmp_path: Path) -> None:
    path = saved(tmp_path, answer(series([1, 2, 3], pod="a"), series([10, None, 30], pod="b")))
    trace, report = import_prometheus(path)
    assert trace.rates.tolist() == [11, 2, 33]
    assert "a series without a sample counts as 0 there (1 steps)" in report.assumptions


def test_counters_become_rates_and_may_be_reset(tmp_path: Path) -> None:
    """120 more in 60 s is 2/s; from 300 to 30 it began anew and has grown by 30."""
    counter = series([180, 300, 30, 90], __name__="records_total")
    trace, report = import_prometheus(saved(tmp_path, answer(counter)))
    assert trace.rates.tolist() == [2, 0.5, 1]
    assert trace.start_s == 36_060
    assert report.dropped == {"reset of a counter": 1}
    as_rate, _ = import_prometheus(saved(tmp_path, answer(counter)), kind="rate")
    assert as_rate.rates.tolist() == [180, 300, 30, 90]
    plain, _ = import_prometheus(saved(tmp_path, answer(series([60, 180]))), kind="counter")
    assert plain.rates.tolist() == [2]
    with pytest.raises(HistoryError, match="kind = 'gauge'"):
        import_prometheus(saved(tmp_path, answer(counter)), kind="gauge")  # pyright: ignore[reportArgumentType]


def test_a_counter_tells_what_came_while_it_was_not_scraped(tmp_path: Path) -> None:
    """One of two pods has no sample for three minutes, but 480 more when it is back: 2/s all along."""
    one = series([0, 120, 240, 360, 480, 600], __name__="records_total", pod="a")
    other = series([0, 120, None, None, None, 600], __name__="records_total", pod="b")
    trace, report = import_prometheus(saved(tmp_path, answer(one, other)))
    assert trace.rates.tolist() == [4, 4, 4, 4, 4]
    assert report.filled == {"steps of a counter without a sample (even growth)": 3}
    assert not any("counts as 0" in sentence for sentence in report.assumptions)


def test_what_a_counter_grew_before_a_reset_that_nobody_saw_is_not_known(tmp_path: Path) -> None:
    one = series([0, 120, 240, 360], __name__="records_total", pod="a")
    other = series([600, 720, None, 60], __name__="records_total", pod="b")
    trace, report = import_prometheus(saved(tmp_path, answer(one, other)))
    assert trace.rates.tolist() == [4, 2, 2]
    assert report.dropped == {"reset of a counter": 1}
    assert "a series without a sample counts as 0 there (2 steps)" in report.assumptions


def test_a_step_without_any_sample_is_a_gap_of_counters_too(tmp_path: Path) -> None:
    path = saved(tmp_path, answer(series([0, 120, None, 360], __name__="records_total")))
    with pytest.raises(HistoryError, match="nothing from 2023-11-15 10:02:00 to 2023-11-15 10:03:00"):
        import_prometheus(path)
    trace, report = import_prometheus(path, fill="interpolate")
    assert trace.rates.tolist() == [2, 2, 2]
    assert report.filled == {"steps without data (interpolate)": 1}


def test_buckets_of_a_histogram_are_not_added_up(tmp_path: Path) -> None:
    """The bucket of +Inf counts all; the others count some of that again."""
    all_of_them = series([0, 600, 1200], __name__="wait_seconds_bucket", le="+Inf")
    assert import_prometheus(saved(tmp_path, answer(all_of_them)))[0].rates.tolist() == [10, 10]
    some = series([0, 300, 600], __name__="wait_seconds_bucket", le="0.1")
    said = (
        r"wait_seconds_bucket\{le=0.1\} is a bucket of a histogram.*ask for rate\(wait_seconds_count\[1m\]\)"
    )
    with pytest.raises(HistoryError, match=said):
        import_prometheus(saved(tmp_path, answer(all_of_them, some)))
    with pytest.raises(HistoryError, match="ask for the rate of its _count"):
        import_prometheus(saved(tmp_path, answer(series([5, 5, 5], le="0.1", pod="a"))))
    in_seconds = series([0, 60, 120], __name__="wait_seconds_sum")
    assert import_prometheus(saved(tmp_path, answer(in_seconds)))[0].rates.tolist() == [1, 1]


def test_rates_that_only_grow_are_doubted(tmp_path: Path) -> None:
    """`sum(records_total)` has lost its name, and with it the sign of a counter."""
    _, report = import_prometheus(saved(tmp_path, answer(series([180, 300, 420]))))
    doubt = "values are rates per second, though they only ever grow; if they are counters, give kind=counter"
    assert doubt in report.assumptions
    _, report = import_prometheus(saved(tmp_path, answer(series([180, 300, 420]))), kind="rate")
    assert "values are rates per second" in report.assumptions


def test_gaps_and_values_that_are_none(tmp_path: Path) -> None:
    path = saved(tmp_path, answer(series([1, "NaN", None, 4, "+Inf"])))
    with pytest.raises(HistoryError, match="nothing from 2023-11-15 10:01:00 to 2023-11-15 10:03:00"):
        import_prometheus(path)
    assert import_prometheus(path, fill="interpolate")[0].rates.tolist() == [1, 2, 3, 4]
    _, report = import_prometheus(path, keep_going=True)
    assert report.lost == {"steps without data, filled between their neighbours": 2}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ([], "not an answer of Prometheus"),
        ({"status": "error", "error": "parse error"}, "Prometheus said 'parse error'; mend the query"),
        ({"status": "success", "data": {"resultType": "vector", "result": []}}, "type vector, not matrix"),
        ({"status": "success", "data": None}, "type None, not matrix"),
        (answer(), "no data in this span"),
        (answer(series([])), "no data in this span"),
        (answer(series([3])), "one sample only"),
        (answer(series([1, -2])), "has the rate -2"),
        (answer({"metric": {}, "values": [[1, "x"]]}), "a damaged answer"),
        (answer({"metric": {}}), "a damaged answer"),
        (answer({"metric": [1], "values": [[1, "2"]]}), "a damaged answer"),
        (answer({"metric": {}, "values": [[10**400, "2"]]}), "a damaged answer"),
        (answer(series([1, 2], pod="a"), series([1, 2], first_s=TEN + 25, pod="b")), "not 60 s apart"),
    ],
)
def test_answers_of_another_kind(content: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=said):
        import_prometheus(saved(tmp_path, content))


def test_files_of_another_kind(tmp_path: Path) -> None:
    path = tmp_path / "answer.json"
    with pytest.raises(HistoryError, match="no such file"):
        import_prometheus(str(path))
    path.write_text("<html>")
    with pytest.raises(HistoryError, match="not JSON"):
        import_prometheus(str(path))


@pytest.mark.parametrize("moment", [1_700_000_000_000, float("inf"), "NaN"])
def test_times_of_another_clock(moment: float | str, tmp_path: Path) -> None:
    row = {"metric": {"__name__": "r"}, "values": [[moment, "1"], [moment, "2"]]}
    with pytest.raises(HistoryError, match="times are seconds since 1970, not milliseconds"):
        import_prometheus(saved(tmp_path, answer(row)))


def test_an_offset_is_told_in_hours(tmp_path: Path) -> None:
    path = saved(tmp_path, answer(series([1, 2])))
    for wrong in (7200.0, -25.0, 1e18):
        with pytest.raises(HistoryError, match="give hours, -24 to 24"):
            import_prometheus(path, utc_offset_hours=wrong)


def test_a_step_can_be_given(tmp_path: Path) -> None:
    """Without it, a series with a sample every other step would seem complete."""
    path = saved(tmp_path, answer(series([1, None, 3, None, 5])))
    assert import_prometheus(path)[0].step_s == 120
    assert import_prometheus(path, step_s=60, fill="interpolate")[0].rates.tolist() == [1, 2, 3, 4, 5]


def test_a_step_that_is_far_too_short(tmp_path: Path) -> None:
    path = saved(tmp_path, answer(series([1, 2], every_s=86_400)))
    with pytest.raises(HistoryError, match="steps of 0 s; give a length above 0"):
        import_prometheus(path, step_s=0)
    with pytest.raises(HistoryError, match=r"86,400,001 steps of 0\.001 s; give a longer step_s"):
        import_prometheus(path, step_s=0.001)


def test_a_server_is_asked_in_pieces() -> None:
    """25,000 points are more than Prometheus gives at once."""
    asked = []

    def answering(path: str) -> Any:
        query = {name: values[0] for name, values in parse_qs(urlsplit(path).query).items()}
        asked.append(query)
        first, last, step = (float(query[name]) for name in ("start", "end", "step"))
        count = round((last - first) / step) + 1
        return answer(series([1 + n % 2 for n in range(count)], every_s=int(step), first_s=int(first)))

    with serving(answering) as address:
        trace, report = import_prometheus(
            address, query="sum(rate(x[1m]))", start_s=TEN, end_s=TEN + 15 * 24_999, step_s=15
        )
    assert len(trace.rates) == 25_000
    assert report.read["series"] == 1
    assert [query["query"] for query in asked] == ["sum(rate(x[1m]))"] * 3


def test_a_full_address_is_asked_as_it_is() -> None:
    with serving(lambda path: answer(series([1, 2]))) as address:
        trace, _ = import_prometheus(f"{address}/api/v1/query_range?query=x&start=1&end=2&step=60")
        assert trace.rates.tolist() == [1, 2]
        assert trace.provenance.source == "prometheus query_range"
        with pytest.raises(HistoryError, match="no query in it"):
            import_prometheus(address)
        with pytest.raises(HistoryError, match="start_s before end_s"):
            import_prometheus(address, query="x", start_s=5, end_s=1, step_s=60)


def test_servers_that_do_not_help() -> None:
    query = "/api/v1/query_range?query=x"
    with serving(lambda path: 503) as address, pytest.raises(HistoryError, match="refused with 503"):
        import_prometheus(address + query)
    with serving(lambda path: b"<html>") as address, pytest.raises(HistoryError, match="not JSON"):
        import_prometheus(address + query)
    with pytest.raises(HistoryError, match="no answer"):
        import_prometheus(address + query, timeout_s=2)


@pytest.mark.parametrize("head", [PROMISE, HALF_A_HEAD, b""])
def test_an_answer_that_trickles_is_given_up(head: bytes) -> None:
    """No silence is as long as the time to wait, but the whole would take far longer."""
    with (
        trickling(b" ", head=head) as address,
        pytest.raises(HistoryError, match=r"no answer \(not whole after 0.3 s\)"),
    ):
        import_prometheus(f"{address}/api/v1/query_range?query=x", timeout_s=0.3)


def test_an_answer_that_is_cut_is_not_taken_for_whole() -> None:
    with (
        trickling(b"12", pieces=1) as address,
        pytest.raises(HistoryError, match=r"no answer \(IncompleteRead"),
    ):
        import_prometheus(f"{address}/api/v1/query_range?query=x")


@pytest.mark.parametrize("timeout_s", [0.0, -1.0, float("nan"), float("inf")])
def test_a_wait_that_is_none_or_endless(timeout_s: float) -> None:
    with pytest.raises(HistoryError, match=r"timeout_s = .*; give more than 0 s, a day at most"):
        import_prometheus("http://127.0.0.1:1/api/v1/query_range?query=up", timeout_s=timeout_s)


def test_an_answer_that_is_nested_too_deeply(tmp_path: Path) -> None:
    deep = b"[" * 100_000
    with serving(lambda path: deep) as address, pytest.raises(HistoryError, match="the answer is not JSON"):
        import_prometheus(address + "/api/v1/query_range?query=up")
    (tmp_path / "deep.json").write_bytes(deep)
    with pytest.raises(HistoryError, match="not JSON"):
        import_prometheus(str(tmp_path / "deep.json"))


@pytest.mark.parametrize("end_s", [float("inf"), 1e12])
def test_a_span_of_too_many_steps_is_refused_before_anything_is_asked(end_s: float) -> None:
    """An end that is endless was asked for without end."""
    asked: list[str] = []

    def answering(path: str) -> int:
        asked.append(path)
        return 503

    with serving(answering) as address, pytest.raises(HistoryError, match="give a shorter span or a longer"):
        import_prometheus(address, query="up", start_s=0, end_s=end_s, step_s=15)
    assert not asked
