"""Azure's traces of calls, of 2019 and 2021: which function, which days, gaps, damage, real samples."""

import gzip
from pathlib import Path

import pytest
from tests.pod_autoscaling.history.azure_files import calls_file, durations_file, minutes_file

from trimtab.core.errors import HistoryError
from trimtab.pod_autoscaling.history.azure_functions import import_azure_functions

COUNTS = {"a1": [60, 120, 0], "a2": [30, 30, 30], "b1": [6, 6, 6]}


def test_the_busiest_function_and_others(tmp_path: Path) -> None:
    path = str(minutes_file(tmp_path, COUNTS))
    trace, report = import_azure_functions(path)
    assert trace.rates.tolist() == [1, 2, 0]
    assert (trace.step_s, trace.start_s) == (60, 0)
    assert report.read == {"files": 1, "functions": 3, "calls": 180, "steps of 60 s": 3}
    assert trace.provenance.source == "azure-functions function a1"
    assert import_azure_functions(path, rank=3)[0].rates.tolist() == [0.1] * 3
    assert import_azure_functions(path, function="b")[0].rates.tolist() == [0.1] * 3
    assert import_azure_functions(path, app="app-a")[0].rates.tolist() == [1.5, 2.5, 0.5]


def test_minutes_of_a_part_of_the_day(tmp_path: Path) -> None:
    """Minute 481 begins at 8:00."""
    trace, _ = import_azure_functions(str(minutes_file(tmp_path, COUNTS, first=481)))
    assert trace.start_s == 8 * 3600


def test_days_are_put_together(tmp_path: Path) -> None:
    """A function that day 2 does not list was not called then."""
    full = {key: [6] * 1440 for key in ("a1", "b1")}
    minutes_file(tmp_path, full)
    minutes_file(tmp_path, {"b1": [12] * 1440}, name="invocations.d02.csv")
    (tmp_path / "README.txt").write_text("about this data")
    trace, report = import_azure_functions(str(tmp_path), function="a1")
    assert trace.days == 2
    assert trace.rates[:1440].tolist() == [0.1] * 1440
    assert not trace.rates[1440:].any()
    assert import_azure_functions(str(tmp_path))[0].rates[-1] == 0.2
    assert report.read["files"] == 2


def test_a_missing_day_is_a_gap(tmp_path: Path) -> None:
    for day in (1, 3):
        minutes_file(tmp_path, {"a1": [60] * 1440}, name=f"invocations.d{day:02}.csv")
    with pytest.raises(
        HistoryError, match=r"nothing from 1970-01-02 00:00:00 to 1970-01-03 00:00:00 \(24 h\)"
    ):
        import_azure_functions(str(tmp_path))
    trace, report = import_azure_functions(str(tmp_path), fill="interpolate")
    assert (trace.days, trace.rates.min()) == (3, 1)
    assert report.filled == {"steps without data (interpolate)": 1440}


def test_files_without_a_day_or_of_the_same(tmp_path: Path) -> None:
    minutes_file(tmp_path, COUNTS, name="first.csv")
    minutes_file(tmp_path, COUNTS, name="second.csv")
    with pytest.raises(HistoryError, match=r"not all are called \.\.\.d01\.csv"):
        import_azure_functions(str(tmp_path))
    (tmp_path / "first.csv").rename(tmp_path / "x.d02.csv")
    (tmp_path / "second.csv").rename(tmp_path / "y.d02.csv")
    with pytest.raises(HistoryError, match="two files of day 2"):
        import_azure_functions(str(tmp_path))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rank": 0}, "rank = 0; there are 3 functions, 1 is the busiest"),
        ({"rank": 4}, "rank = 4"),
        ({"function": "z"}, "no function 'z' among 3"),
        ({"function": "a"}, "2 names of functions begin with 'a'"),
        ({"app": "app-z"}, "no app 'app-z'"),
        ({"function": "a1", "app": "app-a"}, "both function and app are given"),
        ({"step_s": 10}, "counted by the minute"),
    ],
)
def test_choices_that_cannot_be(options: dict, said: str, tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=said):
        import_azure_functions(str(minutes_file(tmp_path, COUNTS)), **options)


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ({"a1": [1, -5, 2]}, "function a1 was called -5 times in a minute"),
        ({"a1": [1, "", 2]}, "function a1 has minutes without a number"),
        ({"a1": [1, 2, 2], "b1": [1, "many", 2]}, "with --keep-going"),
    ],
)
def test_damaged_minutes(counts: dict, said: str, tmp_path: Path) -> None:
    path = str(minutes_file(tmp_path, counts))
    with pytest.raises(HistoryError) as caught:
        import_azure_functions(path)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_sound_is_imported_when_asked_for(tmp_path: Path) -> None:
    path = str(minutes_file(tmp_path, {"a1": [60, "", 120]}))
    trace, report = import_azure_functions(path, keep_going=True)
    assert trace.rates.tolist() == [1, 0, 2]
    assert report.lost == {"minutes without a number, taken for 0": 1}


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_empty_lines_are_nothing(end: str, tmp_path: Path) -> None:
    for path in (minutes_file(tmp_path, {"a1": [60, 120]}), calls_file(tmp_path, [("a1", 65, 1)])):
        before, _ = import_azure_functions(str(path))
        path.write_bytes((end.join(path.read_text().splitlines()) + 3 * end).encode("utf-8-sig"))
        trace, report = import_azure_functions(str(path))
        assert trace.rates.tolist() == before.rates.tolist()
        assert not report.lost


@pytest.mark.parametrize("cells", [("app-a", ""), ("", "a1")])
def test_a_function_without_a_name(cells: tuple[str, str], tmp_path: Path) -> None:
    path = minutes_file(tmp_path, {"a1": [60, 120]})
    path.write_text(f"{path.read_text()}me,{cells[0]},{cells[1]},http,900,900\n")
    with pytest.raises(HistoryError, match="1 of 2 rows have no HashFunction or HashApp; mend them, or"):
        import_azure_functions(str(path))
    trace, report = import_azure_functions(str(path), keep_going=True)
    assert report.lost == {"rows without a function or an app": 1}
    assert trace.rates.tolist() == [1.0, 2.0]


def test_minutes_beyond_a_day(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="minutes 1439 to 1441; a day has 1 to 1440"):
        import_azure_functions(str(minutes_file(tmp_path, COUNTS, first=1439)))


def test_a_silent_function(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="nothing arrives, every rate is 0"):
        import_azure_functions(str(minutes_file(tmp_path, {"a1": [0, 0]})))


# --- the trace of 2021 --------------------------------------------------------------------------------

CALLS = [("a1", 30.0, 10.0), ("a1", 65.0, 10.0), ("a1", 70.0, 5.0), ("b1", 200.0, 0.5)]


def test_calls_begin_before_they_end(tmp_path: Path) -> None:
    """At 20, 55 and 65 s: two in the first minute, one in the second; the trace goes on to 200 s."""
    trace, report = import_azure_functions(str(calls_file(tmp_path, CALLS)))
    assert (60 * trace.rates).round(9).tolist() == [2, 1, 0, 0]
    assert report.read["calls"] == 3
    fine, _ = import_azure_functions(str(calls_file(tmp_path, CALLS)), step_s=10)
    assert len(fine.rates) == 21
    assert (10 * fine.rates).nonzero()[0].tolist() == [2, 5, 6]
    with pytest.raises(HistoryError, match="steps of 0 s"):
        import_azure_functions(str(calls_file(tmp_path, CALLS)), step_s=0)


@pytest.mark.parametrize("duration_s", [-3.0, "nan", "inf"])
def test_durations_that_are_none(duration_s: float | str, tmp_path: Path) -> None:
    path = str(calls_file(tmp_path, [*CALLS, ("a1", 90.0, duration_s)]))
    with pytest.raises(
        HistoryError, match="1 of 5 calls have no end, or a duration that is negative or no n"
    ):
        import_azure_functions(path)
    _, report = import_azure_functions(path, keep_going=True)
    assert report.read["calls"] == 3
    assert report.lost == {"calls without an end, or with a duration that is negative or no number": 1}


def test_damaged_calls(tmp_path: Path) -> None:
    words = str(calls_file(tmp_path, [*CALLS, ("a1", "soon", 3.0)]))
    with pytest.raises(HistoryError, match="import the rest with --keep-going"):
        import_azure_functions(words)
    assert import_azure_functions(words, keep_going=True)[1].read["calls"] == 3
    with pytest.raises(HistoryError, match="no calls"):
        import_azure_functions(str(calls_file(tmp_path, [])))
    with pytest.raises(HistoryError, match="some call has a wrong time"):
        import_azure_functions(str(calls_file(tmp_path, [("a1", 1e12, 1.0)])))


# --- files of another kind ----------------------------------------------------------------------------


def test_files_of_another_kind(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="durations or memory only"):
        import_azure_functions(str(durations_file(tmp_path, {"a1": (5, 10, 5, 9)})))
    (tmp_path / "durations.csv").unlink()
    with pytest.raises(HistoryError, match="no table of a known kind in this folder"):
        import_azure_functions(str(tmp_path))
    (tmp_path / "x.csv").write_text("time,count\n1,2\n")
    with pytest.raises(HistoryError, match="columns 'time,count' are of no known kind"):
        import_azure_functions(str(tmp_path / "x.csv"))
    (tmp_path / "x.csv.gz").write_bytes(b"\x1f\x8bnot a gzip")
    with pytest.raises(HistoryError, match="cannot be read"):
        import_azure_functions(str(tmp_path / "x.csv.gz"))


def test_packed_files(tmp_path: Path) -> None:
    plain = minutes_file(tmp_path, COUNTS)
    packed = tmp_path / "packed.csv.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert import_azure_functions(str(packed))[0].rates.tolist() == [1, 2, 0]


# --- the real samples ---------------------------------------------------------------------------------


def test_the_sample_of_2019(shared_data: Path) -> None:
    trace, report = import_azure_functions(str(shared_data / "azure-functions-sample"))
    assert report.read["functions"] == 500
    assert (len(trace.rates), trace.start_s) == (480, 479 * 60)
    assert 60 * trace.rates.mean() == pytest.approx(3990.7, abs=0.1)
    assert trace.rates.max() == pytest.approx(83.8, abs=0.1)


def test_the_sample_of_2021(shared_data: Path) -> None:
    path = str(shared_data / "azure-functions-sample" / "azure2021_200.csv.gz")
    trace, report = import_azure_functions(path)
    assert report.read["functions"] == 31
    assert round(60 * trace.rates.sum()) == 32
