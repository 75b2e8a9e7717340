"""Files that settings name: found again by what is in them, refused when that has changed."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from trimtab.core.errors import TrimtabError
from trimtab.core.named_files import FILES, digests_of, found_files, refuse_changed_files, with_names
from trimtab.core.run_folder import RunFolder
from trimtab.core.settings import Settings


class Jobs(Settings):
    name: str = "tpch"
    traces: tuple[str, ...] = ()


def begun(folder: Path, settings: Settings) -> RunFolder:
    return RunFolder.create(folder, clock=lambda: datetime(2025, 1, 1, tzinfo=UTC), settings=settings)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A run that names two files, as seen from the folder it began in."""
    (tmp_path / "there" / "data").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "there")
    Path("my.workload").write_text("jobs")
    Path("data/day.trace").write_text("rates")
    return begun(tmp_path / "run", Jobs(name="my.workload", traces=("sine", "data/day.trace")))


def test_only_files_are_written_down(run: RunFolder, tmp_path: Path) -> None:
    assert {name: entry["path"] for name, entry in run.read_json(FILES).items()} == {
        "my.workload": str(tmp_path / "there" / "my.workload"),
        "data/day.trace": str(tmp_path / "there" / "data" / "day.trace"),
    }
    assert not (begun(tmp_path / "other", Jobs()).path / FILES).exists()


def test_files_are_found_from_everywhere(
    run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert refuse_changed_files(run) == {"my.workload": "my.workload", "data/day.trace": "data/day.trace"}
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    Path("my.workload").write_text("other jobs of that name")
    assert refuse_changed_files(run)["my.workload"] == str(tmp_path / "there" / "my.workload")
    Path("my.workload").write_text("jobs")
    (tmp_path / "there" / "my.workload").unlink()
    assert refuse_changed_files(run)["my.workload"] == "my.workload"


def test_a_file_that_is_not_as_it_was_is_refused(run: RunFolder) -> None:
    place = Path("my.workload").resolve()
    place.write_text("other jobs")
    with pytest.raises(TrimtabError, match=f"run: its file {place} has changed since the run began; put it"):
        refuse_changed_files(run)
    assert list(found_files(run)) == ["data/day.trace"]
    place.unlink()
    with pytest.raises(TrimtabError, match=f"run: its file {place} is no longer there"):
        refuse_changed_files(run)
    place.write_text("jobs")
    assert "my.workload" in refuse_changed_files(run)


def test_a_run_that_names_no_file_has_none_to_refuse(tmp_path: Path) -> None:
    assert refuse_changed_files(begun(tmp_path / "run", Jobs())) == {}


def test_texts_are_replaced_wherever_they_are() -> None:
    plain = {"courses": [{"name": "a", "jobs": 3}], "traces": ["a", "b"], "load": None}
    assert with_names(plain, {"a": "c"}) == {
        "courses": [{"name": "c", "jobs": 3}],
        "traces": ["c", "b"],
        "load": None,
    }


def test_a_text_too_long_for_a_file_is_none() -> None:
    assert digests_of(["x" * 10_000, "a\0b", ""]) == {}
