"""CSV of counts: what is found out by itself, gaps, damage, and the shared traces."""

import gzip
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from trimtab.core.errors import HistoryError
from trimtab.rates.csv_counts import import_csv_counts


def written(folder: Path, text: str, name: str = "counts.csv") -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    ("text", "step_s", "start_s"),
    [
        # A date wins over a running number; the time of day is known then.
        ("minute,datetime,requests\n0,1995-08-28 10:00:00,60\n1,1995-08-28 10:01:00,120\n", 60, 36_000),
        ("time;count\n1995-08-28T10:00Z;60\n1995-08-28T10:01Z;120\n", 60, 36_000),
        ("timestamp\tevents\n809604000\t60\n809604060\t120\n", 60, 36_000),
        ("ts,n\n809604000000,60\n809604060000,120\n", 60, 36_000),
        ("ts,n\n809604000000000000,60\n809604060000000000,120\n", 60, 36_000),
        ("# a comment\n1995-08-28 10:00,60\n1995-08-28 10:01,120\n", 60, 36_000),
        ("minutes,invocations\n0,60\n1,120\n", 60, 0),
        ("second,value\n0,60\n60,120\n", 60, 0),
        # Not in order.
        ("minute,count\n1,120\n0,60\n", 60, 0),
    ],
)
def test_times_are_understood(text: str, step_s: float, start_s: float, tmp_path: Path) -> None:
    trace, report = import_csv_counts(written(tmp_path, text))
    assert trace.rates.tolist() == [1, 2]
    assert (trace.step_s, trace.start_s) == (step_s, start_s)
    assert report.read == {"rows": 2, "steps of 60 s": 2}


def test_running_numbers_need_a_step(tmp_path: Path) -> None:
    path = written(tmp_path, "bin,requests\n0,5\n1,10\n")
    with pytest.raises(HistoryError, match=r"column 'bin' numbers the steps \(0, \.\.\.\).*give step_s"):
        import_csv_counts(path)
    trace, report = import_csv_counts(path, step_s=10)
    assert trace.rates.tolist() == [0.5, 1]
    assert "the history does not tell the time of day: it begins at midnight" in report.assumptions


@pytest.mark.parametrize("name", ["time", "timestamp", "ts"])
def test_small_numbers_on_a_clock_are_seconds_since_the_beginning(name: str, tmp_path: Path) -> None:
    path = written(tmp_path, f"{name},requests\n0,15\n15,30\n30,45\n45,60\n")
    trace, report = import_csv_counts(path)
    assert (trace.step_s, trace.rates.tolist()) == (15, [1, 2, 3, 4])
    assert any(
        f"column '{name}' tells seconds since the beginning (0, ...)" in one for one in report.assumptions
    )
    assert import_csv_counts(path, step_s=15)[0].rates.tolist() == [1, 2, 3, 4]
    assert import_csv_counts(path, step_s=30)[0].rates.tolist() == [1.5, 3.5]


def test_a_date_without_dashes_is_not_taken_for_seconds(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="column 'date' numbers the steps"):
        import_csv_counts(written(tmp_path, "date,requests\n20240530,5\n20240531,10\n"))


def test_a_single_column_needs_a_step(tmp_path: Path) -> None:
    """As Autothrottle's traces: one rate per line, each of a second."""
    path = written(tmp_path, "5\n10\n15\n")
    with pytest.raises(
        HistoryError, match="one column only; give step_s, the seconds of a row, or name a CSV"
    ):
        import_csv_counts(path)
    trace, report = import_csv_counts(path, step_s=1, values="rates")
    assert trace.rates.tolist() == [5, 10, 15]
    assert "there is one column: every row is a step of 1 s" in report.assumptions
    named = written(tmp_path, "requests\n5\n10\n")
    assert import_csv_counts(named, step_s=10)[0].rates.tolist() == [0.5, 1]


def test_rates_are_told_by_their_name_or_by_the_user(tmp_path: Path) -> None:
    path = written(tmp_path, "minute,rate\n0,60\n1,120\n")
    trace, report = import_csv_counts(path)
    assert trace.rates.tolist() == [60, 120]
    assert "column 'rate' holds rates per second" in report.assumptions
    assert import_csv_counts(path, values="counts")[0].rates.tolist() == [1, 2]
    with pytest.raises(HistoryError, match="values = 'sums'; use auto, counts or rates"):
        import_csv_counts(path, values="sums")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("name", "rate", "told"),
    [
        ("requests_per_step", 10, "counts of a step, not rates"),
        ("events_generated", 10, "counts of a step, not rates"),
        ("helpers", 10, "counts of a step, not rates"),
        ("requests per second", 600, "rates per second"),
        ("req/s", 600, "rates per second"),
        ("requestRate", 600, "rates per second"),
        ("rate_1m", 600, "rates per second"),
        ("rate_per_minute", 10, "rates per minute"),
        ("RPM", 10, "rates per minute"),
        ("requests/hour", 600 / 3600, "rates per hour"),
    ],
)
def test_names_of_columns_tell_whole_words(name: str, rate: float, told: str, tmp_path: Path) -> None:
    """600 in rows of a minute."""
    path = written(tmp_path, f"minute,{name}\n0,600\n1,600\n2,600\n")
    trace, report = import_csv_counts(path)
    assert trace.rates == pytest.approx([rate] * 3)
    assert f"column {name.lower()!r} holds {told}" in report.assumptions
    assert import_csv_counts(path, values="counts")[0].rates.tolist() == [10] * 3


def test_rates_of_a_minute_stay_so_where_the_user_says_rates(tmp_path: Path) -> None:
    trace, report = import_csv_counts(written(tmp_path, "minute,rpm\n0,60\n1,120\n"), values="rates")
    assert trace.rates.tolist() == [1, 2]
    assert "column 'rpm' holds rates per minute" in report.assumptions


def test_rows_can_be_put_together(tmp_path: Path) -> None:
    """Ten-second counts to minutes: sums of counts, means of rates."""
    rows = "".join(f"{10 * n},{n}\n" for n in range(12))
    path = written(tmp_path, "second,count\n" + rows)
    assert import_csv_counts(path)[0].rates.tolist() == [n / 10 for n in range(12)]
    trace, _ = import_csv_counts(path, step_s=60)
    assert trace.rates.tolist() == [15 / 60, 51 / 60]
    assert import_csv_counts(path, step_s=60, values="rates")[0].rates.tolist() == [2.5, 8.5]
    with pytest.raises(HistoryError, match="rows are 10 s apart or more, steps of 5 s are shorter"):
        import_csv_counts(path, step_s=5)
    with pytest.raises(HistoryError, match="give a length above 0"):
        import_csv_counts(path, step_s=0)


def minutes_of(first: str, count: int, *, but: range = range(0)) -> str:
    """600 a minute from a moment on, without some of the minutes."""
    moments = (datetime.fromisoformat(first) + timedelta(minutes=n) for n in range(count) if n not in but)
    return "time,count\n" + "".join(f"{moment},600\n" for moment in moments)


def test_a_step_covered_in_part_is_not_known(tmp_path: Path) -> None:
    """Ten a second from 10:30 to 20:30: half of the first and of the last hour are missing, not quiet."""
    trace, report = import_csv_counts(written(tmp_path, minutes_of("2024-05-01 10:30", 600)), step_s=3600)
    assert trace.rates.tolist() == [10] * 9
    assert trace.start_s == 11 * 3600
    assert report.dropped == {"row of a first or last step that is not covered whole": 60}
    hole = written(tmp_path, minutes_of("2024-05-01 10:30", 600, but=range(91, 150)))
    said = r"nothing from 2024-05-01 12:00:00 to 2024-05-01 13:00:00 \(1 h\) \(1 of 60 rows\); bring"
    with pytest.raises(HistoryError, match=said):
        import_csv_counts(hole, step_s=3600)
    assert import_csv_counts(hole, step_s=3600, fill="interpolate")[0].rates.tolist() == [10] * 9
    with pytest.raises(HistoryError, match="no step of 86400 s is covered whole; give a shorter step_s"):
        import_csv_counts(hole, step_s=86_400)


@pytest.mark.parametrize(("step_s", "instead"), [(80, 60), (90, 120), (100, 120)])
def test_steps_are_whole_numbers_of_rows(step_s: float, instead: int, tmp_path: Path) -> None:
    path = written(tmp_path, minutes_of("2024-05-01 10:00", 600))
    said = (
        rf"rows are 60 s apart, and {step_s} s are no whole number of them; give a step_s such as {instead}$"
    )
    with pytest.raises(HistoryError, match=said):
        import_csv_counts(path, step_s=step_s)


def test_a_step_follows_a_clock_that_is_slow(tmp_path: Path) -> None:
    """Rows every 60.05 s: sixty of them are 3603 s."""
    rows = "".join(f"{60.05 * n},600\n" for n in range(180))
    trace, report = import_csv_counts(written(tmp_path, "second,count\n" + rows), step_s=3600)
    assert (len(trace.rates), trace.step_s) == (3, 3603)
    assert trace.rates == pytest.approx([600 / 60.05] * 3)
    assert "rows are 60.05 s apart: a step is 60 of them, 3603 s" in report.assumptions


def test_rows_at_an_unsteady_pace_can_be_missed_too(tmp_path: Path) -> None:
    """About every minute, five hours long; in the fourth, half an hour is missing."""
    seconds = [60 * n + (7 * n) % 20 for n in range(300) if not 190 <= n < 220]
    path = written(tmp_path, "second,count\n" + "".join(f"{second},600\n" for second in seconds))
    with pytest.raises(HistoryError, match=r"nothing from step 3 to step 4 \(1 h\) \(30 of 56 rows\)"):
        import_csv_counts(path, step_s=3600)
    trace, report = import_csv_counts(path, step_s=3600, fill="interpolate")
    assert trace.rates.tolist() == [10] * 5
    assert "rows are about 60.1 s apart: a step with fewer than 56 of them is a gap" in report.assumptions


def test_a_step_has_a_length_that_makes_sense(tmp_path: Path) -> None:
    path = written(tmp_path, "time,count\n1700000000,1\n1700000060,2\n")
    for wrong in (0.0, -60.0, 1e25, float("nan")):
        with pytest.raises(HistoryError, match="give a length above 0, of a year at most"):
            import_csv_counts(path, step_s=wrong)


def test_columns_can_be_named(tmp_path: Path) -> None:
    path = written(tmp_path, "minute,in,out\n0,60,1\n1,120,2\n")
    with pytest.raises(HistoryError, match=r"which of in, out is the count\? name it \(count_column\)"):
        import_csv_counts(path)
    assert import_csv_counts(path, count_column="In")[0].rates.tolist() == [1, 2]
    with pytest.raises(HistoryError, match="no column 'total'; it has minute, in, out"):
        import_csv_counts(path, count_column="total")
    with pytest.raises(HistoryError, match="no column 'hour'"):
        import_csv_counts(path, time_column="hour")


GAPPY = "datetime,count\n" + "".join(
    f"2021-08-01 00:{minute:02},{count}\n" for minute, count in ((0, 60), (1, 120), (4, 300), (5, 60))
)


def test_a_gap_is_refused_with_its_span(tmp_path: Path) -> None:
    path = written(tmp_path, GAPPY)
    with pytest.raises(HistoryError, match="nothing from 2021-08-01 00:02:00 to 2021-08-01 00:04:00"):
        import_csv_counts(path)
    filled, report = import_csv_counts(path, fill="interpolate")
    assert filled.rates.tolist() == [1, 2, 3, 4, 5, 1]
    assert report.filled == {"steps without data (interpolate)": 2}
    assert import_csv_counts(path, fill="zero")[0].rates.tolist() == [1, 2, 0, 0, 5, 1]
    kept, report = import_csv_counts(path, keep_going=True)
    assert kept.rates.tolist() == filled.rates.tolist()
    assert not report.is_complete


def test_empty_cells_and_zeros_may_be_gaps(tmp_path: Path) -> None:
    path = written(tmp_path, "minute,count\n0,60\n1,\n2,0\n3,180\n4,nan\n")
    # A gap at the end is none: the trace is that much shorter.
    said = r"nothing from step 1 to step 2 \(60 s\) \(line 3 has the count ''\); bring"
    with pytest.raises(HistoryError, match=said):
        import_csv_counts(path)
    assert import_csv_counts(path, fill="interpolate")[0].rates.tolist() == [1, 0.5, 0, 3]
    holes, _ = import_csv_counts(path, fill="interpolate", zeros="gaps")
    assert holes.rates == pytest.approx([1, 1 + 2 / 3, 1 + 4 / 3, 3])
    with pytest.raises(HistoryError, match="zeros = 'none'; use data or gaps"):
        import_csv_counts(path, zeros="none")  # pyright: ignore[reportArgumentType]
    several = written(tmp_path, "minute,count\n0,60\n2,60\n4,60\n5,60\n6,60\n8,60\n")
    with pytest.raises(HistoryError, match="mostly 120 s apart, but 60 s before row 4"):
        import_csv_counts(several)
    with pytest.raises(HistoryError, match="and 2 more gaps"):
        import_csv_counts(several, step_s=60)
    assert import_csv_counts(several, step_s=60, fill="zero")[0].rates.tolist() == [1, 0, 1, 0, 1, 1, 1, 0, 1]


def test_rows_at_the_ends_that_tell_nothing_are_left_out_and_told(tmp_path: Path) -> None:
    text = "time,count\n0,\n60,\n120,5\n180,7\n240,6\n300,\n"
    trace, report = import_csv_counts(str(written(tmp_path, text)))
    np.testing.assert_allclose(60 * trace.rates, [5, 7, 6])
    assert report.dropped == {"row without a count, before the first or after the last that has one": 3}
    _, report = import_csv_counts(str(written(tmp_path, text.replace(",\n", ",4\n"))))
    assert not report.dropped


def test_broken_rows(tmp_path: Path) -> None:
    rows = "".join(f"{n},60\n" for n in range(4))
    path = written(tmp_path, "minute,count\n" + rows + "x,60\n5,-3\n6\n7,many\n8,60\n")
    with pytest.raises(HistoryError) as caught:
        import_csv_counts(path)
    assert "4 of 9 lines are broken (line 6 has the time 'x')" in str(caught.value)
    trace, report = import_csv_counts(path, keep_going=True)
    assert trace.rates.tolist() == [1] * 9
    assert report.lost["broken lines"] == 4
    with pytest.raises(HistoryError, match="all 2 lines are broken"):
        import_csv_counts(written(tmp_path, "minute,count\n0,many\n1,more\n"), keep_going=True)


@pytest.mark.parametrize("count", ["-5", "nan", "inf"])
def test_a_gap_names_the_row_that_made_it(count: str, tmp_path: Path) -> None:
    """One line of 200 is tolerated, but what it should have told is missing then."""
    rows = "".join(f"{n},{count if n == 50 else 60}\n" for n in range(200))
    path = written(tmp_path, "minute,count\n" + rows)
    said = rf"nothing from step 50 to step 51 \(60 s\) \(line 52 has the count '{count}'\); bring"
    with pytest.raises(HistoryError, match=said):
        import_csv_counts(path)
    assert import_csv_counts(path, fill="interpolate")[0].rates.tolist() == [1] * 200


def test_times_that_come_twice(tmp_path: Path) -> None:
    path = written(tmp_path, "minute,count\n0,60\n1,60\n1,30\n2,60\n")
    with pytest.raises(HistoryError, match=r"the time 60 s \(row 2 in the order of time\) comes twice"):
        import_csv_counts(path)
    trace, report = import_csv_counts(path, keep_going=True)
    assert trace.rates.tolist() == [1, 1.5, 1]
    assert report.lost == {"rows whose time came twice, added up": 1}
    with pytest.raises(HistoryError, match=r"the time 60 s \(row 2 in the order of time\) comes twice"):
        import_csv_counts(path, step_s=180)
    assert import_csv_counts(path, step_s=180, keep_going=True)[0].rates == pytest.approx([210 / 180])


def test_a_time_that_comes_twice_is_told_to_the_second(tmp_path: Path) -> None:
    path = written(tmp_path, "timestamp,count\n1714521600,60\n1714521660,60\n1714521660,30\n")
    with pytest.raises(HistoryError, match=r"the time 1714521660 s \(row 2"):
        import_csv_counts(path)


def test_dates_in_another_order_and_text_of_16_bits(tmp_path: Path) -> None:
    path = written(tmp_path, "time,count\n31.05.2024 12:00,60\n31.05.2024 12:01,60\n")
    with pytest.raises(HistoryError, match="is no time; write dates as 2024-05-31 12:00, or name the column"):
        import_csv_counts(path)
    Path(path).write_text("time,count\n2024-05-31 12:00,60\n", encoding="utf-16")
    with pytest.raises(HistoryError, match="is text in UTF-16; save it as UTF-8"):
        import_csv_counts(path)


@pytest.mark.parametrize(("start", "packing"), [(b"PK\x03\x04", "zip"), (b"\x28\xb5\x2f\xfd", "zstd")])
def test_packings_that_are_not_unpacked(start: bytes, packing: str, tmp_path: Path) -> None:
    (tmp_path / "counts").write_bytes(start + b"\r\0\n" * 9)
    with pytest.raises(HistoryError, match=f"is packed with {packing}; unpack it first"):
        import_csv_counts(str(tmp_path / "counts"))


def test_uneven_times(tmp_path: Path) -> None:
    path = written(tmp_path, "second,count\n0,1\n10,1\n20,1\n25,1\n35,1\n")
    with pytest.raises(HistoryError, match="mostly 10 s apart, but 5 s before row 4; give a step_s"):
        import_csv_counts(path)
    trace, report = import_csv_counts(path, step_s=20)
    assert trace.rates.tolist() == [0.1, 0.15]
    assert any(sentence.startswith("rows come at uneven times") for sentence in report.assumptions)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("minute,count\n", "counts.csv: has no rows below minute, count; name a CSV with a column of times"),
        (f"{'x' * 70_000}\n", rf"counts.csv: has no rows below {'x' * 60}\.\.\.; name a CSV"),
        ("count\n3\n4\n", "one column only"),
        ("minute,count\n5,3\n", "one time only"),
        ("when,count\nyesterday,3\n", "'yesterday' in column 'when' is no time"),
        ("when,count\n1995-99-99,3\n", "'1995-99-99' in column 'when' is no time"),
        (f"minute,count\n0,{'x' * 200_000}\n", "not a CSV .field larger"),
        ("minute,extra,count\n0,3\n", "3 names for 2 columns"),
        ("minute,count\n0,1\n1,1\n99999999,1\n", "100,000,000 steps; some row has a wrong time"),
    ],
)
def test_files_of_another_kind(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=said):
        import_csv_counts(written(tmp_path, text))


def test_a_packed_file_and_none(tmp_path: Path) -> None:
    path = tmp_path / "counts.csv.gz"
    path.write_bytes(gzip.compress(b"minute,count\n0,60\n1,120\n"))
    assert import_csv_counts(str(path))[0].rates.tolist() == [1, 2]
    with pytest.raises(HistoryError, match="no such file"):
        import_csv_counts(str(tmp_path / "missing.csv"))
    with pytest.raises(HistoryError, match="cannot be read"):
        import_csv_counts(str(tmp_path))


def test_one_row_of_a_given_step(tmp_path: Path) -> None:
    trace, _ = import_csv_counts(written(tmp_path, "minute,count\n5,3\n"), step_s=60)
    assert trace.rates.tolist() == [0.05]


def test_dates_of_two_zones_are_on_one_clock(tmp_path: Path) -> None:
    """11:01 in +01:00 is 10:01 in universal time, which the first row has."""
    rows = "2021-08-01T10:00+00:00,60\n2021-08-01T11:01+01:00,120\nsoon,60\n"
    path = written(tmp_path, "time,count\n" + rows)
    with pytest.raises(HistoryError, match="line 4 has the time 'soon'"):
        import_csv_counts(path)
    trace, report = import_csv_counts(path, keep_going=True)
    assert (trace.rates.tolist(), trace.start_s) == ([1, 2], 36_000)
    assert "times are of the time zone of the first row" in report.assumptions


def test_clarknet(shared_data: Path) -> None:
    trace, report = import_csv_counts(str(shared_data / "clarknet" / "clarknet_per_minute.csv.gz"))
    assert (trace.days, trace.step_s, trace.start_s) == (14, 60, 0)
    assert (60 * trace.rates).sum() == pytest.approx(3_347_424)
    assert 60 * trace.rates.max() == pytest.approx(472)
    assert report.is_complete


def test_worldcup(shared_data: Path) -> None:
    trace, _ = import_csv_counts(str(shared_data / "worldcup98" / "worldcup98_per_minute.csv.gz"))
    assert len(trace.rates) == 125_310
    assert trace.start_s == 21.5 * 3600
    assert (60 * trace.rates).sum() == pytest.approx(1_352_804_107)


def test_nasa(shared_data: Path) -> None:
    path = str(shared_data / "nasa_http" / "nasa_http_per_10s.csv.gz")
    trace, _ = import_csv_counts(path, step_s=10)
    assert len(trace.rates) == 505_995
    assert (10 * trace.rates).sum() == pytest.approx(3_461_610)


def test_twitter_with_its_holes(shared_data: Path) -> None:
    path = str(shared_data / "twitter2021" / "twitter_per_10s.csv.gz")
    with pytest.raises(HistoryError, match="nothing from step"):
        import_csv_counts(path, step_s=10, zeros="gaps")
    trace, report = import_csv_counts(path, step_s=10, zeros="gaps", fill="interpolate")
    assert trace.rates.min() > 0
    steps = len(trace.rates)
    assert report.filled["steps without data (interpolate)"] / steps == pytest.approx(0.0197, abs=0.001)
    assert np.median(trace.rates) == pytest.approx(52, rel=0.02)


def test_autothrottle(shared_data: Path) -> None:
    path = str(shared_data / "autothrottle-rps" / "bursty.txt.gz")
    trace, _ = import_csv_counts(path, step_s=1, values="rates")
    assert (len(trace.rates), trace.rates.max()) == (3600, 397)
    assert trace.rates.mean() == pytest.approx(163.27, abs=0.01)
