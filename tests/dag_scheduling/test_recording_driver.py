"""Recording TPC-H: queries, the plan of applications, one start after another, one real Spark run."""

import json
from pathlib import Path

import pytest

from trimtab.dag_scheduling.recording import RecordingError, build_profile, record_tpch
from trimtab.dag_scheduling.recording import tpch as driver
from trimtab.dag_scheduling.recording.spark_application import TABLE_SCHEMAS
from trimtab.dag_scheduling.recording.tpch import Application, find_tools, plan_applications
from trimtab.dag_scheduling.recording.tpch_queries import QUERY_NUMBERS, query_text
from trimtab.dag_scheduling.recording.wave_profile import WAVES


def test_all_22_queries_are_there_and_name_known_tables() -> None:
    texts = {query: query_text(query, scale_factor=0.1) for query in QUERY_NUMBERS}
    assert list(texts) == list(range(1, 23))
    assert len(set(texts.values())) == 22
    for table in TABLE_SCHEMAS:
        assert any(table in text for text in texts.values())
    # The specification: 0.0001 divided by the scale factor.
    assert "0.0010000000" in texts[11]
    assert all(":" not in text for text in texts.values())


def test_query_23_is_refused() -> None:
    with pytest.raises(RecordingError, match="queries 1 to 22, not 23"):
        query_text(23, scale_factor=1)


def test_the_plan_covers_all_queries_before_it_repeats_one() -> None:
    plan = plan_applications(scale_factors=[0.1, 0.4], executors=[2, 1], queries=[5, 6])
    assert [application.name for application in plan] == [
        "q05_sf0.1_executors2",
        "q06_sf0.1_executors2",
        "q05_sf0.1_executors1",
        "q06_sf0.1_executors1",
        "q05_sf0.4_executors2",
        "q06_sf0.4_executors2",
    ]
    with pytest.raises(RecordingError, match="nothing to record"):
        plan_applications(scale_factors=[], executors=[2], queries=[5])


def test_missing_tools_are_named_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(driver, "find_spec", lambda name: None)
    monkeypatch.setattr(driver.shutil, "which", lambda name, path=None: None)
    with pytest.raises(RecordingError, match=r"pyspark, .*java.*tpchgen-cli; install .*'\.\[spark\]'"):
        record_tpch(tmp_path / "new", scale_factors=[0.1], executors=[1])
    assert not (tmp_path / "new").exists()


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything but the tools: the generator writes one file per table, versions are made up."""

    def generator(command: list[str]) -> str:
        if "--output-dir" in command:
            table, target = command[command.index("--tables") + 1], command[-2]
            (Path(target) / table).mkdir(parents=True)
        return "tpchgen-cli 4.0.0"

    monkeypatch.setattr(driver, "find_tools", lambda: Path("tpchgen-cli"))
    monkeypatch.setattr(driver, "_output_of", generator)
    monkeypatch.setattr(driver.metadata, "version", lambda name: "4.3.0")


@pytest.mark.usefixtures("without_spark")
def test_a_second_start_continues_where_the_first_broke_off(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ran: list[str] = []

    def run(folder: Path, application: Application) -> None:
        if application.query == 6 and not ran.count("q06_sf0.1_executors2"):
            ran.append(application.name)
            raise RecordingError("broke off")
        ran.append(application.name)
        (folder / "logs" / f"{application.name}.json").touch()

    monkeypatch.setattr(driver, "run_application", run)
    lines: list[str] = []
    with pytest.raises(RecordingError, match="broke off"):
        record_tpch(tmp_path, scale_factors=[0.1], executors=[2], queries=[5, 6])
    logs = record_tpch(tmp_path, scale_factors=[0.1], executors=[2], queries=[5, 6], report=lines.append)
    assert ran == ["q05_sf0.1_executors2", "q06_sf0.1_executors2", "q06_sf0.1_executors2"]
    assert lines == [
        "1/2 q05_sf0.1_executors2: already recorded",
        "2/2 q06_sf0.1_executors2: running",
    ]
    assert sorted(path.stem for path in logs.iterdir()) == sorted(set(ran))
    assert {path.name for path in (tmp_path / "data" / "sf0.1").iterdir()} == set(TABLE_SCHEMAS)
    command = json.loads((tmp_path / "recording.json").read_text())["command"]
    assert command == "trimtab record tpch --scale-factors 0.1 --executors 2"


@pytest.mark.usefixtures("without_spark")
def test_a_folder_begun_with_other_settings_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(driver, "run_application", lambda folder, application: None)
    record_tpch(tmp_path, scale_factors=[0.1], executors=[2], queries=[6])
    monkeypatch.setattr(driver, "SPARK_SETTINGS", {})
    with pytest.raises(RecordingError, match="begun with other settings; record into a new folder"):
        record_tpch(tmp_path, scale_factors=[0.1], executors=[2], queries=[6])


@pytest.mark.parametrize(
    ("program", "message"), [("exit 3", "failed; see"), ("sleep 30", "ran longer than 0.3 s")]
)
def test_a_failed_application_names_its_console(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, program: str, message: str
) -> None:
    interpreter = tmp_path / "interpreter"
    interpreter.write_text(f"#!/bin/sh\necho it happened\n{program}\n")
    interpreter.chmod(0o755)
    monkeypatch.setattr(driver.sys, "executable", str(interpreter))
    monkeypatch.setattr(driver, "APPLICATION_LIMIT_S", 0.3 if "sleep" in program else 30)
    for part in ("logs", "answers", "consoles"):
        (tmp_path / part).mkdir()
    with pytest.raises(RecordingError, match=message):
        driver.run_application(tmp_path, Application(6, 0.1, 2))
    assert (tmp_path / "consoles" / "q06_sf0.1_executors2.txt").read_text() == "it happened\n"
    assert not list((tmp_path / "logs").iterdir())


def test_a_failing_generator_is_named_with_its_last_line() -> None:
    with pytest.raises(RecordingError, match="no such table"):
        driver._output_of(["sh", "-c", "echo no such table >&2; exit 1"])


@pytest.mark.spark
@pytest.mark.slow
def test_query_6_on_a_local_spark(java: str, tmp_path: Path) -> None:
    try:
        find_tools()
    except RecordingError as missing:
        pytest.skip(str(missing))
    record_tpch(tmp_path, scale_factors=[0.01], executors=[2], queries=[6])
    (only,) = build_profile(tmp_path)["jobs"]
    assert only["edges"] == [[0, 1]]
    assert [each["kind"] for each in only["stages"]] == ["scan", "shuffle"]
    assert [each["tasks"] for each in only["stages"]] == [1, 1]
    assert only["stages"][0]["input_bytes"] > 100_000
    durations = [ms for each in only["stages"] for wave in WAVES for ms in each[wave]["2"]]
    assert len(durations) == 2
    assert all(1 <= ms < 600_000 for ms in durations)
    answer = json.loads((tmp_path / "answers" / "q06_sf0.01_executors2.json").read_text())
    assert len(answer) == 1
