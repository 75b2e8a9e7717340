"""The contract of every importer, and the report they give."""

import inspect
import json
from pathlib import Path

import pytest

from trimtab.core.errors import HistoryError
from trimtab.dag_scheduling.history import HISTORY, ImportReport


def test_the_four_sources_are_registered() -> None:
    assert {"alibaba-2018", "spark", "spark-server", "wave-profile"} <= set(HISTORY.names())


@pytest.mark.parametrize("name", ["alibaba-2018", "spark", "spark-server", "wave-profile"])
def test_an_importer_takes_a_place_and_named_options(name: str, tmp_path: Path) -> None:
    importer = HISTORY.load(name)
    place, *options = inspect.signature(importer).parameters.values()
    assert place.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    assert options[0].name == "keep_going"
    for option in options:
        assert option.kind is inspect.Parameter.KEYWORD_ONLY
        assert option.default is not inspect.Parameter.empty
    with pytest.raises(HistoryError, match="nowhere") as refusal:
        importer(str(tmp_path / "nowhere"), keep_going=True)
    assert "\n" not in str(refusal.value)


def test_a_report_is_plain_values() -> None:
    report = ImportReport("a")
    report.count("tasks", 3)
    report.drop("nothing", 0)
    report.lose("lines", 2)
    report.assume("once")
    report.assume("once")
    assert json.loads(json.dumps(report.as_dict())) == {
        "source": "a",
        "read": {"tasks": 3},
        "filled": {},
        "dropped": {},
        "lost": {"lines": 2},
        "measured": {},
        "assumptions": ["once"],
    }
    assert report.lines() == ["a", "  read     3 tasks", "  lost     2 lines", "  assumed  once"]
    assert not report.is_complete
