"""The registry of importers, and what they report."""

import inspect
import json
from pathlib import Path

import numpy as np
import pytest

from trimtab.core.errors import HistoryError, RegistryError
from trimtab.rates.counting import Series, mended
from trimtab.stream_autoscaling.history import HISTORY, ImportReport


def test_every_importer_takes_a_source_and_keep_going() -> None:
    assert HISTORY.names() == ("common-log", "csv-counts", "flink", "flink-rates", "prometheus")
    for name in HISTORY:
        first, *others = inspect.signature(HISTORY.load(name)).parameters.values()
        assert first.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        assert all(other.kind is inspect.Parameter.KEYWORD_ONLY for other in others)
        assert all(other.default is not inspect.Parameter.empty for other in others)
        assert "keep_going" in {other.name for other in others}


@pytest.mark.parametrize("name", HISTORY.names())
def test_a_missing_source_is_one_line(name: str, tmp_path: Path) -> None:
    with pytest.raises(HistoryError) as caught:
        HISTORY.load(name)(str(tmp_path / "missing"))
    assert "missing: no such" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unknown_source_gets_a_hint() -> None:
    with pytest.raises(RegistryError, match="did you mean 'common-log'"):
        HISTORY.load("common-logs")


def test_a_report_in_words_and_as_json() -> None:
    report = ImportReport("somewhere")
    assert report.lines() == ["somewhere", "  read     nothing"]
    report.count("rows", 12_000)
    report.fill("steps", 2)
    report.drop("sample while down", 3)
    report.drop("never", 0)
    report.lose("lines", 1)
    report.measure("restart_s", 0.75)
    report.assume("it is so")
    report.assume("it is so")
    assert report.lines() == [
        "somewhere",
        "  read     12,000 rows",
        "  filled   2 steps",
        "  dropped  3 x sample while down",
        "  lost     1 lines",
        "  measured restart_s = 0.75",
        "  assumed  it is so",
    ]
    assert not report.is_complete
    assert json.loads(json.dumps(report.as_dict()))["measured"] == {"restart_s": 0.75}


def test_a_series_without_any_data() -> None:
    nothing = Series("toy", np.full(3, np.nan), 60.0, None)
    with pytest.raises(HistoryError, match="toy: no step with data"):
        mended(nothing, fill="zero", keep_going=True, report=ImportReport("toy"), settings={})
