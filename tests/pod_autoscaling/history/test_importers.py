"""The registry of importers of this wing."""

import inspect
from pathlib import Path

import pytest

from trimtab.core.errors import HistoryError, RegistryError
from trimtab.pod_autoscaling.history import HISTORY
from trimtab.stream_autoscaling.history import HISTORY as OF_STREAMS


def test_every_importer_takes_a_source_and_keep_going() -> None:
    assert HISTORY.names() == ("azure-functions", "azure-profile", "common-log", "csv-counts", "prometheus")
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


def test_what_streams_have_too_is_the_very_same() -> None:
    shared = set(HISTORY) & set(OF_STREAMS)
    assert shared == {"common-log", "csv-counts", "prometheus"}
    assert all(HISTORY.load(name) is OF_STREAMS.load(name) for name in shared)


def test_an_unknown_source_gets_a_hint() -> None:
    with pytest.raises(RegistryError, match="did you mean 'azure-functions'"):
        HISTORY.load("azure-function")
