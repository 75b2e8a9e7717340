"""Access logs: lines and WorldCup98's records, zones, silence, and every way a file can be wrong."""

import bz2
import gzip
import struct
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from trimtab.core.errors import HistoryError
from trimtab.rates.common_log import import_common_log


def line(clock: str, zone: str = "-0400") -> str:
    """A request at this time of 28 August 1995."""
    return f'host.net - - [28/Aug/1995:{clock} {zone}] "GET /pub/a "b" HTTP/1.0" 200 1024\n'


def written(folder: Path, text: str, name: str = "access_log") -> str:
    path = folder / name
    path.write_bytes(text.encode("latin-1"))
    return str(path)


# 2, 0 and 1 requests in three minutes that begin at 00:01.
SOUND = line("00:01:34") + line("00:01:59") + line("00:03:00")


def test_requests_by_minute_on_the_server_s_clock(tmp_path: Path) -> None:
    trace, report = import_common_log(written(tmp_path, SOUND))
    assert (60 * trace.rates).tolist() == [2, 0, 1]
    assert (trace.step_s, trace.start_s) == (60, 60)
    assert report.read == {"files": 1, "requests": 3, "steps of 60 s": 3}
    assert report.is_complete
    assert trace.provenance.source == "common-log access_log"


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress])
def test_packed_logs(pack, tmp_path: Path) -> None:
    path = tmp_path / "clarknet_access_log_Aug28"
    path.write_bytes(pack(SOUND.encode()))
    assert (60 * import_common_log(str(path))[0].rates).tolist() == [2, 0, 1]


def test_a_folder_of_logs_is_one_trace(tmp_path: Path) -> None:
    """As ClarkNet's two weeks; order does not matter, other files do not count."""
    written(tmp_path, line("00:03:00"), "access_log_2")
    written(tmp_path, line("00:01:34") + line("00:01:59"), "access_log_1")
    written(tmp_path, "read me", "README")
    trace, report = import_common_log(str(tmp_path))
    assert (60 * trace.rates).tolist() == [2, 0, 1]
    assert report.read["files"] == 2


def test_zones_are_put_on_the_clock_of_the_first_line(tmp_path: Path) -> None:
    path = written(tmp_path, line("00:01:00", "-0400") + line("05:01:30", "+0100"))
    trace, _ = import_common_log(path)
    assert (60 * trace.rates).tolist() == [2]
    assert trace.start_s == 60
    universal, _ = import_common_log(path, utc_offset_hours=0)
    assert universal.start_s == 4 * 3600 + 60


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_empty_lines_are_no_requests(end: str, tmp_path: Path) -> None:
    log = "".join(line(f"00:0{minute}:05").rstrip("\n") + 2 * end for minute in range(3))
    trace, report = import_common_log(written(tmp_path, log + 2 * end))
    assert trace.rates.tolist() == [1 / 60] * 3
    assert not report.lost
    with pytest.raises(HistoryError, match="is empty"):
        import_common_log(written(tmp_path, 3 * end, "empty_log"))


def test_steps_of_another_length(tmp_path: Path) -> None:
    trace, _ = import_common_log(written(tmp_path, SOUND), step_s=10)
    assert len(trace.rates) == 10
    assert (10 * trace.rates)[[0, 2, 9]].tolist() == [1, 1, 1]
    for step_s in (0, 7):
        with pytest.raises(HistoryError, match="do not divide a day"):
            import_common_log(written(tmp_path, SOUND), step_s=step_s)


def test_a_long_silence_is_a_gap(tmp_path: Path) -> None:
    """From 00:02 to 01:00 nothing: 58 minutes, more than half an hour."""
    path = written(tmp_path, line("00:01:00") * 2 + line("01:00:00") * 8)
    with pytest.raises(HistoryError) as caught:
        import_common_log(path)
    assert "nothing from 1995-08-28 00:02:00 to 1995-08-28 01:00:00 (0.967 h)" in str(caught.value)
    assert "--keep-going interpolates" in str(caught.value)
    quiet, _ = import_common_log(path, longest_silence_s=3600)
    assert (60 * quiet.rates).sum() == 10
    zero, report = import_common_log(path, fill="zero")
    assert np.array_equal(zero.rates, quiet.rates)
    assert report.filled == {"steps without data (zero)": 58}
    filled, report = import_common_log(path, fill="interpolate")
    assert (60 * filled.rates)[30] == pytest.approx(2 + 6 * 30 / 59)
    assert report.is_complete
    kept, report = import_common_log(path, keep_going=True)
    assert np.array_equal(kept.rates, filled.rates)
    assert report.lost == {"steps without data, filled between their neighbours": 58}
    with pytest.raises(HistoryError, match="fill = 'guess'; use interpolate or zero"):
        import_common_log(path, fill="guess")  # pyright: ignore[reportArgumentType]


def test_few_broken_lines_are_counted_many_refused(tmp_path: Path) -> None:
    broken = "cut off [28/Aug/19\n" + 'x - - [31/Foo/1995:00:00:00 -0400] "GET"\n'
    path = written(tmp_path, SOUND + broken)
    with pytest.raises(HistoryError) as caught:
        import_common_log(path)
    assert "2 of 5 lines are broken (access_log line 4 has no time" in str(caught.value)
    for options in ({"keep_going": True}, {"tolerated_share": 0.4}):
        trace, report = import_common_log(path, **options)
        assert (60 * trace.rates).sum() == 3
        assert report.lost == {"broken lines": 2}
    with pytest.raises(HistoryError, match=r"tolerated share of 2\.0; give 0 to 1"):
        import_common_log(path, tolerated_share=2.0)


@pytest.mark.parametrize("keep_going", [False, True])
def test_files_of_another_kind(keep_going: bool, tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=r"all 2 lines are broken .* name an access log"):
        import_common_log(written(tmp_path, "time,count\n1,2\n"), keep_going=keep_going)
    with pytest.raises(HistoryError, match="is empty"):
        import_common_log(written(tmp_path, ""), keep_going=keep_going)
    with pytest.raises(HistoryError, match="no such file"):
        import_common_log(str(tmp_path / "missing"), keep_going=keep_going)
    (tmp_path / "bare").mkdir()
    with pytest.raises(HistoryError, match="no log in this folder"):
        import_common_log(str(tmp_path / "bare"), keep_going=keep_going)


def test_a_log_and_its_copy_are_not_both_counted(tmp_path: Path) -> None:
    """Logs of two servers may share lines; those that begin alike are one."""
    written(tmp_path, SOUND)
    written(tmp_path, line("00:00:05") + SOUND, "other_log")
    (tmp_path / "empty_log").touch()
    (tmp_path / "quiet_log").touch()
    assert import_common_log(str(tmp_path))[1].read["requests"] == 7
    (tmp_path / "access_log.gz").write_bytes(gzip.compress(SOUND.encode()))
    with pytest.raises(HistoryError, match=r"access_log and access_log\.gz begin with the same requests"):
        import_common_log(str(tmp_path))


def test_a_wrong_year_is_named(tmp_path: Path) -> None:
    astray = SOUND + 'x - - [28/Aug/2095:00:00:00 -0400] "GET /" 200 1\n'
    with pytest.raises(HistoryError, match="from 1995-08-28 to 2095-08-28; some line has a wrong date"):
        import_common_log(written(tmp_path, astray))


def test_a_torn_file(tmp_path: Path) -> None:
    text = "".join(line(f"00:{n // 60:02}:{n % 60:02}") for n in range(3600))
    path = tmp_path / "access_log.gz"
    path.write_bytes(gzip.compress(text.encode())[:-200])
    with pytest.raises(HistoryError, match="cannot be read to its end"):
        import_common_log(str(path))
    trace, report = import_common_log(str(path), keep_going=True)
    assert report.lost["files cut short"] == 1
    assert 60 * trace.rates.sum() > 1000
    path.write_bytes(b"\x1f\x8bnot a gzip at all")
    with pytest.raises(HistoryError, match="copy it again"):
        import_common_log(str(path))


def records(*clocks: tuple[int, int, int]) -> bytes:
    """WorldCup98: time, client, object, size as four-byte numbers, then four single bytes."""
    day = datetime(1998, 6, 10, tzinfo=UTC)
    stamps = [int(day.replace(hour=h, minute=m, second=s).timestamp()) for h, m, s in clocks]
    return b"".join(struct.pack(">4I4B", stamp, 7, 12, 5000, 0, 2, 1, 4) for stamp in stamps)


def test_worldcup_records(tmp_path: Path) -> None:
    path = tmp_path / "wc_day47_1.gz"
    path.write_bytes(gzip.compress(records((21, 30, 0), (21, 30, 59), (21, 32, 1))))
    trace, report = import_common_log(str(path))
    assert (60 * trace.rates).tolist() == [2, 0, 1]
    # 21:30 universal time is 23:30 in France.
    assert trace.start_s == 23.5 * 3600
    assert any("France" in sentence for sentence in report.assumptions)
    assert import_common_log(str(path), utc_offset_hours=0)[0].start_s == 21.5 * 3600


def test_damaged_records(tmp_path: Path) -> None:
    path = tmp_path / "wc_day47_1"
    path.write_bytes(records((21, 30, 0), (21, 31, 0)) + b"\0\0\0")
    with pytest.raises(HistoryError, match="ends in the middle of a record"):
        import_common_log(str(path))
    trace, report = import_common_log(str(path), keep_going=True)
    assert (60 * trace.rates).tolist() == [1, 1]
    assert report.lost == {"records cut off": 1}
    path.write_bytes(bytes(100))
    with pytest.raises(HistoryError, match="neither text nor WorldCup98"):
        import_common_log(str(path))
