"""Finding, decompressing and surviving event logs: codecs, rolled files, folders, zips, damage."""

import gzip
import hashlib
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.dag_scheduling.history.spark_log_writer import CODECS, Log, stage, two_stage_log
from tests.dag_scheduling.history.workload_view import durations_of, names_of, stages_of

from trimtab.core.errors import HistoryError
from trimtab.dag_scheduling.history.spark_event_log import import_spark
from trimtab.dag_scheduling.workload import (
    FIRST_WAVE,
    FRESH,
    Workload,
    load_workload,
    save_workload,
)

REAL_LOG = Path(__file__).parents[2] / "data" / "spark4_q6.eventlog.gz"


def assert_is_two_stage_log(workload: Workload, job: int = 0) -> None:
    assert stages_of(workload, job) == {"stage 0": (2, []), "stage 1": (1, ["stage 0"])}
    assert durations_of(workload, "stage 0", FRESH, job)[2] == [1000, 3000]


def test_a_real_log_of_tpch_query_6() -> None:
    """Eight scan tasks on two new executors, then one task that adds up."""
    workload, report = import_spark(str(REAL_LOG), extrapolate=False)
    assert names_of(workload) == ["q06_sf0.1_executors2-sql1"]
    assert stages_of(workload) == {"stage 0": (8, []), "stage 1": (1, ["stage 0"])}
    assert [len(v) for v in durations_of(workload, "stage 0", FRESH).values()] == [2]
    assert [len(v) for v in durations_of(workload, "stage 1", FIRST_WAVE).values()] == [1]
    assert workload.profile.points.tolist() == [2]
    assert report.is_complete


def test_an_imported_workload_survives_its_file(tmp_path: Path) -> None:
    workload, _ = import_spark(str(REAL_LOG))
    save_workload(workload, tmp_path / "workload.npz")
    again = load_workload(tmp_path / "workload.npz")
    assert stages_of(again) == stages_of(workload)
    assert again.work_ms == workload.work_ms
    assert again.provenance == workload.provenance


@pytest.mark.parametrize("ending", CODECS)
def test_every_codec_reads_the_same(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"app-1.{ending}"
    path.write_bytes(CODECS[ending](two_stage_log().data))
    workload, report = import_spark(str(path))
    assert_is_two_stage_log(workload)
    assert report.read["bytes"] == len(two_stage_log().data)
    assert report.read["lines"] == len(two_stage_log().lines)


@pytest.mark.parametrize("ending", CODECS)
def test_a_torn_compressed_file_is_refused_or_half_imported(ending: str, tmp_path: Path) -> None:
    log = two_stage_log()
    # More than two blocks of every codec, of text that does not shrink to nothing.
    noise = b"".join(hashlib.sha512(bytes([n % 256, n // 256])).digest() for n in range(8000))
    log.events.append({"Event": "SparkListenerOther", "noise": noise.hex()})
    path = tmp_path / f"app-1.{ending}"
    whole = CODECS[ending](log.data)
    path.write_bytes(whole[: len(whole) * 9 // 10 - 5])
    with pytest.raises(HistoryError, match=r"app-1\.\S+: .*--keep-going"):
        import_spark(str(path))
    workload, report = import_spark(str(path), keep_going=True)
    assert_is_two_stage_log(workload)
    assert report.lost["compressed files that break off"] == 1


@pytest.mark.parametrize("ending", CODECS)
def test_flipped_bytes_in_a_compressed_file_never_pass_silently(ending: str, tmp_path: Path) -> None:
    whole = bytearray(CODECS[ending](two_stage_log().data * 5))
    middle = len(whole) // 2
    whole[middle : middle + 16] = b"\xff" * 16
    path = tmp_path / f"app-1.{ending}"
    path.write_bytes(bytes(whole))
    with pytest.raises(HistoryError, match="app-1"):
        import_spark(str(path))


@pytest.mark.parametrize(
    "content",
    [
        b"LZ4Block\x25",
        b"LZ4Block\x25" + b"\xff" * 12,
        b"\x82SNAPPY\x00" + b"\x00\x00\x00\x01" * 2 + b"\x7f\xff\xff\xff",
        b"\x82SNAPPY\x00" + b"\x00\x00\x00\x01" * 2 + b"\x00",
        b"\xff\x06\x00\x00sNaPpY\x02\x01\x00\x00a",
        b"\xff\x06\x00\x00sNaPpY\x00\x01",
        b"ZV\x01",
    ],
)
def test_impossible_block_headers_are_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "app-1").write_bytes(content)
    with pytest.raises(HistoryError, match=r"app-1: cannot be decompressed"):
        import_spark(str(tmp_path / "app-1"))


def test_rolled_files_are_read_in_order_of_their_numbers(tmp_path: Path) -> None:
    folder = tmp_path / "eventlog_v2_app-1"
    folder.mkdir()
    lines = [line + b"\n" for line in two_stage_log().lines]
    # Eleven files: by name events_10 would come before events_2.
    for number in range(1, 12):
        part = lines[number - 1 : number] if number < 11 else lines[10:]
        (folder / f"events_{number}_app-1").write_bytes(b"".join(part))
    (folder / "appstatus_app-1").touch()
    for path in (tmp_path, folder):
        workload, report = import_spark(str(path))
        assert_is_two_stage_log(workload)
        assert report.read["applications"] == 1
        assert not report.dropped


def test_a_missing_rolled_file_is_named(tmp_path: Path) -> None:
    lines = [line + b"\n" for line in two_stage_log().lines]
    (tmp_path / "events_1_app-1").write_bytes(b"".join(lines))
    (tmp_path / "events_3_app-1").write_bytes(b"")
    with pytest.raises(HistoryError, match=r"events_2 is missing; .*--keep-going"):
        import_spark(str(tmp_path))
    workload, report = import_spark(str(tmp_path), keep_going=True)
    assert_is_two_stage_log(workload)
    assert report.lost["rolled files that are missing"] == 1


def test_a_running_application_gives_its_finished_queries(tmp_path: Path) -> None:
    folder = tmp_path / "eventlog_v2_app-1"
    folder.mkdir()
    log = two_stage_log()
    log.events.pop()
    log.sql(1, at=9000).job(1, stage(5, 1), at=9000, sql=1)
    (folder / "events_1_app-1.zstd").write_bytes(CODECS["zstd"](log.data))
    (folder / "events_2_app-1.zstd").write_bytes(CODECS["zstd"](log.data)[:40])
    (folder / "appstatus_app-1.inprogress").touch()
    workload, report = import_spark(str(tmp_path))
    assert names_of(workload) == ["etl-sql0"]
    assert report.is_complete
    assert report.dropped["query not finished"] == 1


def test_only_a_running_application_may_end_in_the_middle_of_a_line(tmp_path: Path) -> None:
    log = two_stage_log()
    log.events.pop()
    cut = log.data + b'{"Event":"SparkListenerTaskEnd","Stage ID":7,"Stage Atte'
    (tmp_path / "app-1.inprogress").write_bytes(cut)
    workload, report = import_spark(str(tmp_path / "app-1.inprogress"))
    assert_is_two_stage_log(workload)
    assert report.is_complete
    assert report.dropped["last line of a running application, not yet whole"] == 1
    (tmp_path / "app-2").write_bytes(cut)
    with pytest.raises(HistoryError, match=r"app-2: line 12 is damaged \(not whole JSON\)"):
        import_spark(str(tmp_path / "app-2"))


def test_a_compacted_log_starts_at_its_compacted_file(tmp_path: Path) -> None:
    folder = tmp_path / "eventlog_v2_app-1"
    folder.mkdir()
    (folder / "events_1_app-1").write_bytes(b"thrown away later")
    (folder / "events_2_app-1.compact").write_bytes(two_stage_log().data)
    (folder / "events_3_app-1").write_bytes(b"")
    (folder / "appstatus_app-1").touch()
    workload, report = import_spark(str(folder))
    assert_is_two_stage_log(workload)
    assert any("compacted" in reason for reason in report.dropped)


def test_a_folder_of_many_applications_has_one_clock(tmp_path: Path) -> None:
    two_stage_log(name="first").write(tmp_path / "app-1")
    late = two_stage_log(name="late", application_id="app-2")
    for event in late.events:
        for key in ("time", "Timestamp", "Submission Time", "Completion Time"):
            if key in event:
                event[key] += 60_000
    late.write(tmp_path / "deeper" / "app-2")
    (tmp_path / ".app-1.crc").write_bytes(b"crc")
    (tmp_path / "README.md").write_text("notes")
    workload, report = import_spark(str(tmp_path))
    assert names_of(workload) == ["first-sql0", "late-sql0"]
    assert workload.arrival_ms.tolist() == [0, 60_000]
    assert report.read["applications"] == 2
    assert report.dropped["file that is not a Spark event log"] == 1


def test_a_zip_as_the_history_server_hands_it_out(tmp_path: Path) -> None:
    path = tmp_path / "eventLogs-app-1.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("eventlog_v2_app-1/events_1_app-1.lz4", CODECS["lz4"](two_stage_log().data))
        archive.writestr("eventlog_v2_app-1/appstatus_app-1", b"")
    workload, _ = import_spark(str(path))
    assert_is_two_stage_log(workload)


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (0, 0, "cannot be unpacked"),  # the name of the entry
        (6, 1, "without a password"),  # flag 1: encrypted
        (300, 0, r"cannot be decompressed \(Bad CRC-32"),
    ],
)
def test_a_damaged_zip_is_refused_in_one_line_and_closed(
    place: int, value: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "app-1.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("app-1", two_stage_log().data)
    content = bytearray(path.read_bytes())
    content[place] = value
    if place == 6:
        content[content.rindex(b"PK\x01\x02") + 8] = value
    path.write_bytes(content)
    archives: list[zipfile.ZipFile] = []

    class Remembered(zipfile.ZipFile):
        def __init__(self, *told: Any) -> None:
            super().__init__(*told)
            archives.append(self)

    monkeypatch.setattr(zipfile, "ZipFile", Remembered)
    with pytest.raises(HistoryError, match=said) as refusal:
        import_spark(str(path))
    assert "app-1.zip" in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert [one.fp for one in archives] == [None] * len(archives)


def test_what_is_not_a_history_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "garbage").write_bytes(bytes(range(256)) * 20)
    (tmp_path / "other.json").write_text('{"some": "json"}\n')
    (tmp_path / "folder").mkdir()
    (tmp_path / "no-job").write_bytes(Log().end().data)
    expected = {
        "nowhere": "no such file or folder",
        "empty": "no finished query or job",
        "garbage": "not a Spark event log",
        "other.json": "not a Spark event log",
        "folder": "no Spark event log in it",
        "no-job": "no finished query or job",
    }
    for name, words in expected.items():
        with pytest.raises(HistoryError, match=words) as refusal:
            import_spark(str(tmp_path / name))
        assert name in str(refusal.value)
        assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda line: line[:-40], "not whole JSON"),
        (lambda line: b"\x00\xfe\x13garbage", "not whole JSON"),
        (lambda line: b'{"Event":"SparkListenerTaskEnd","Stage ID":0}', "no field"),
        (lambda line: b'{"Event":"SparkListenerTaskEnd","Task Info":3}', "wrong kind"),
        (lambda line: line.replace(b'"Finish Time":17', b'"Finish Time":16'), "took -"),
        (lambda line: line.replace(b'"Stage ID":0', b'"Stage ID":' + b"9" * 30), "an impossible number"),
        (lambda line: line.replace(b'"Finish Time":', b'"Finish Time":1e999,"x":'), "an impossible number"),
        (lambda line: line.replace(b'"Finish Time":', b'"Finish Time":' + b"9" * 30), "a time of 9999"),
    ],
)
def test_a_damaged_line_is_named_or_counted(
    damage: Callable[[bytes], bytes], said: str, tmp_path: Path
) -> None:
    lines = two_stage_log().lines
    # Line 8 is the second task of stage 0.
    lines[7] = damage(lines[7])
    path = tmp_path / "app-1"
    path.write_bytes(b"\n".join(lines) + b"\n")
    with pytest.raises(HistoryError, match=rf"app-1: line 8 is damaged \(.*{said}.*--keep-going"):
        import_spark(str(path))
    workload, report = import_spark(str(path), keep_going=True)
    # The job announced two tasks in stage 0, so the lost one is made up.
    assert stages_of(workload) == {"stage 0": (2, []), "stage 1": (1, ["stage 0"])}
    assert sum(report.filled.values()) == 1
    assert report.lost["lines"] == 1
    assert report.lost["bytes"] == len(lines[7])
    assert report.lost["tasks"] == (0 if b"garbage" in lines[7] else 1)
    assert not report.is_complete


def test_an_executor_of_no_calendar_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "app-1"
    path.write_bytes(Log().executor("1", at=10**30).end().data)
    with pytest.raises(HistoryError, match=r"line 3 is damaged \(a time of 1000"):
        import_spark(str(path))


def test_a_torn_line_that_would_be_ignored_is_noticed_too(tmp_path: Path) -> None:
    path = tmp_path / "app-1"
    torn = b'{"Event":"SparkListenerStageCompleted","Stage Info":{"Stage ID":0,\n'
    path.write_bytes(two_stage_log().data + torn)
    with pytest.raises(HistoryError, match="line 13 is damaged"):
        import_spark(str(path))


def test_other_spacing_and_blank_lines_are_still_events(tmp_path: Path) -> None:
    path = tmp_path / "app-1"
    path.write_text("\n\n".join(json.dumps(event) for event in two_stage_log().events))
    assert_is_two_stage_log(import_spark(str(path))[0])


def test_a_log_named_as_compressed_but_plain_is_read(tmp_path: Path) -> None:
    """Browsers unpack downloads and keep the name."""
    path = two_stage_log().write(tmp_path / "app-1.gz")
    assert_is_two_stage_log(import_spark(str(path))[0])


def test_gzip_members_may_follow_one_another(tmp_path: Path) -> None:
    data = two_stage_log().data
    path = tmp_path / "app-1.gz"
    path.write_bytes(gzip.compress(data[:1000]) + gzip.compress(data[1000:]))
    assert_is_two_stage_log(import_spark(str(path))[0])
