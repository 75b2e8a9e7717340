"""Applications from Azure's durations and memory."""

from pathlib import Path

import numpy as np
import pytest
from tests.pod_autoscaling.history.azure_files import calls_file, durations_file, minutes_file

from trimtab.core.errors import HistoryError
from trimtab.pod_autoscaling.history.azure_profile import import_azure_profile


def memory_file(folder: Path, *, by_function: bool = False) -> None:
    key = "HashFunction," if by_function else ""
    own = "a1," if by_function else ""
    (folder / "memory.csv").write_text(
        f"{key}HashOwner,HashApp,SampleCount,AverageAllocatedMb,AverageAllocatedMb_pct50\n"
        f"{own}me,app-a,100,210,209.7152\n"
    )


def test_durations_and_memory_of_2019(tmp_path: Path) -> None:
    """Mean 100 ms; p99 / p50 = 4, so s = ln 4 / 2.326 = 0.596, and the variation exp(s^2) - 1 = 0.427."""
    durations_file(tmp_path, {"a1": (100, 50, 80, 320), "b1": (5, 10, 5, 5)})
    memory_file(tmp_path)
    app, report = import_azure_profile(str(tmp_path), cpu_share=0.25)
    (segment,) = app.segments
    assert (segment.cpu_ms, segment.io_ms) == (25, 75)
    assert segment.cpu_variation == pytest.approx(np.expm1((np.log(4) / 2.3263) ** 2), rel=1e-3)
    assert app.memory_mib == 200  # 209.7 MB
    assert app.name == "azure-function-a1"
    assert report.read == {"calls": 50, "samples of memory": 100}
    assert any("25%" in sentence for sentence in report.assumptions)
    even, _ = import_azure_profile(str(tmp_path), function="b1")
    assert even.segments[0].cpu_variation == 0
    assert even.memory_mib == 60  # not sampled


def test_memory_may_be_told_by_function(tmp_path: Path) -> None:
    durations_file(tmp_path, {"a1": (100, 50, 80, 320), "a2": (5, 10, 5, 5)})
    memory_file(tmp_path, by_function=True)
    assert import_azure_profile(str(tmp_path))[0].memory_mib == 200
    app, report = import_azure_profile(str(tmp_path), function="a2")
    assert app.memory_mib == 60
    assert any("not sampled" in sentence for sentence in report.assumptions)


def test_days_are_weighted_by_calls(tmp_path: Path) -> None:
    durations_file(tmp_path, {"a1": (100, 10, 100, 100)}, "durations.d01.csv")
    durations_file(tmp_path, {"a1": (400, 20, 400, 400)}, "durations.d02.csv")
    app, report = import_azure_profile(str(tmp_path))
    assert app.cpu_s == pytest.approx(0.3)
    assert report.read["calls"] == 30
    assert any("no file tells the memory" in sentence for sentence in report.assumptions)


def test_calls_of_2021(tmp_path: Path) -> None:
    """0.1 and 0.3 s: a mean of 0.2 s, a squared variation of 0.01 / 0.04."""
    app, _ = import_azure_profile(str(calls_file(tmp_path, [("a1", 5.0, 0.1), ("a1", 9.0, 0.3)])))
    assert app.cpu_s == pytest.approx(0.2)
    assert app.segments[0].cpu_variation == pytest.approx(0.25)


def test_callers_of_slow_functions_wait_for_what_is_in_time(tmp_path: Path) -> None:
    """The usual 30 s are less than twice the 99th percentile of 20 s."""
    durations_file(tmp_path, {"a1": (20_000, 10, 20_000, 20_000)})
    app, _ = import_azure_profile(str(tmp_path))
    assert app.timeout_s == pytest.approx(2 * app.slo_s, rel=1e-3) and app.slo_s > 30


@pytest.mark.parametrize("share", [0.0, 1.5])
def test_shares_that_are_none(share: float, tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="give a share above 0, at most 1"):
        import_azure_profile(str(tmp_path), cpu_share=share)


def test_files_that_tell_no_durations(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="no durations"):
        import_azure_profile(str(minutes_file(tmp_path, {"a1": [1, 2]})))


def test_damaged_durations(tmp_path: Path) -> None:
    durations_file(tmp_path, {f"a{n}": (100, 10, 100, 100) for n in range(1500)})
    text = (tmp_path / "durations.csv").read_text() + "me,app-a,a9,soon,1,1,1\n"
    (tmp_path / "durations.csv").write_text(text)
    with pytest.raises(HistoryError, match="import the rest with --keep-going"):
        import_azure_profile(str(tmp_path))
    assert import_azure_profile(str(tmp_path), keep_going=True)[0].cpu_s == pytest.approx(0.1)
    durations_file(tmp_path, {"a1": (100, 0, 100, 100)})
    with pytest.raises(HistoryError, match="no duration of a1"):
        import_azure_profile(str(tmp_path))


def test_the_sample_of_2019(shared_data: Path) -> None:
    app, report = import_azure_profile(str(shared_data / "azure-functions-sample"), cpu_share=0.5)
    assert app.cpu_s == pytest.approx(0.0975)
    assert app.memory_mib == pytest.approx(99.5, abs=0.5)
    assert report.is_complete
