"""Arrays on disk with a header: what is refused, and in which words."""

from pathlib import Path

import numpy as np
import pytest

from trimtab.core.array_file import load_arrays, save_arrays
from trimtab.core.errors import WorkloadError


def test_arrays_and_header_come_back(tmp_path: Path) -> None:
    path = tmp_path / "a.file"
    save_arrays(path, {"x": np.arange(3)}, {"names": ["a"]}, form="mine", version=2)
    arrays, header = load_arrays(path, form="mine", version=2, what="test")
    assert arrays["x"].tolist() == [0, 1, 2]
    assert header == {"format": "mine", "version": 2, "names": ["a"]}
    assert [one.name for one in tmp_path.iterdir()] == ["a.file"]
    save_arrays(str(path), {}, {}, form="mine", version=3)
    assert load_arrays(str(path), form="mine", version=3, what="test")[0] == {}


def test_a_file_of_ours_for_something_else_says_what_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.file"
    save_arrays(path, {}, {}, form="trimtab-gpu-workload", version=1)
    with pytest.raises(WorkloadError, match="holds a gpu workload, where a trace is wanted"):
        load_arrays(path, form="trimtab-trace", version=1, what="trace")


def test_a_former_name_of_the_format_is_known(tmp_path: Path) -> None:
    path = tmp_path / "a.file"
    save_arrays(path, {}, {}, form="old", version=1)
    assert load_arrays(path, form="new", version=1, what="test", formers=("old",))[1]["format"] == "old"
    with pytest.raises(
        WorkloadError, match="format 'old' version 1, expected 'new' version 1; import it again"
    ):
        load_arrays(path, form="new", version=1, what="test", way_out="import it again")


def test_a_header_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "a.file"
    with path.open("wb") as file:
        np.savez_compressed(file, header=np.array("[]"))
    with pytest.raises(WorkloadError, match=r"a\.file: not a test file \(no header\)"):
        load_arrays(path, form="new", version=1, what="test")


def test_a_history_given_in_place_of_an_import_is_told_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text("job,gpus\n1,2\n")
    with pytest.raises(WorkloadError, match=r"jobs\.csv: not a workload file; `trimtab import` makes them"):
        load_arrays(tmp_path / "jobs.csv", form="mine", version=1, what="workload")
