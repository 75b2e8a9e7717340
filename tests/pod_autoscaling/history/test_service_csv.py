"""Metrics of a service in a CSV: names, units, times, gaps, damage."""

from pathlib import Path

import numpy as np
import pytest

from trimtab.core.errors import HistoryError
from trimtab.pod_autoscaling.history.service import reader_for
from trimtab.pod_autoscaling.history.service_csv import read_service_csv


def written(folder: Path, text: str) -> str:
    path = folder / "metrics.csv"
    path.write_text(text)
    return str(path)


def test_names_as_people_write_them(tmp_path: Path) -> None:
    text = (
        "time,rps,cpu cores,memory MiB,latency mean,latency p50,latency p99,replicas\n"
        "2026-01-05 10:00:00,10,0.5,200,0.05,0.04,0.2,2\n"
        "2026-01-05 10:00:15,20,0.9,210,0.06,0.05,0.3,2\n"
    )
    history, report = read_service_csv(written(tmp_path, text))
    assert history.step_s == 15
    assert history.rate.tolist() == [10, 20]
    assert history.cpu.tolist() == [0.5, 0.9]
    assert history.memory_mib.tolist() == [200, 210]
    assert history.latency_s.tolist() == [0.05, 0.06]
    assert history.latency_p99_s.tolist() == [0.2, 0.3]
    assert history.replicas.tolist() == [2, 2]
    assert not history.knows("cpu_limit")
    assert report.read == {"rows": 2}
    *units, missing = report.assumptions
    assert missing == "not measured: in_flight, cpu_limit"
    assert units == [
        f"{name} is in s, as nothing else is said (latency_unit)"
        for name in ("latency mean", "latency p50", "latency p99")
    ]


def test_units_stand_in_names(tmp_path: Path) -> None:
    text = (
        "timestamp;qps;cpu_millicores;memory_bytes;latency_mean_ms;p99_ms;cpu_limit_millicores;other\n"
        "1767607200;10;500;209715200;50;200;1000;x\n1767607260;10;500;209715200;50;200;1000;x\n"
    )
    history, _ = read_service_csv(written(tmp_path, text))
    assert (history.step_s, history.cpu[0], history.memory_mib[0]) == (60, 0.5, 200)
    assert (history.latency_s[0], history.latency_p99_s[0], history.cpu_limit[0]) == (0.05, 0.2, 1)


def test_units_may_be_told(tmp_path: Path) -> None:
    path = written(tmp_path, "second,rate,cpu,memory,latency,p99\n0,1,500,2,50,90\n15,1,500,2,50,90\n")
    history, report = read_service_csv(path, cpu_unit="millicores", memory_unit="GiB", latency_unit="ms")
    assert (history.cpu[0], history.memory_mib[0]) == (0.5, 2048)
    assert not any("nothing else is said" in one for one in report.assumptions)
    _, report = read_service_csv(path, latency_unit="ms")
    assert [one.split(",")[0] for one in report.assumptions[:-1]] == ["cpu is in cores", "memory is in MiB"]
    assert (history.latency_s[0], history.latency_p99_s[0]) == (0.05, 0.09)
    with pytest.raises(HistoryError, match="memory_unit = 'acres'; use one of mib, mb"):
        read_service_csv(path, memory_unit="acres")


def test_rows_may_be_missing_or_empty(tmp_path: Path) -> None:
    path = written(tmp_path, "second,rps,cpu\n0,1,0.1\n15,nan,0.2\n45,3,\n60,4,0.4\n")
    history, report = read_service_csv(path)
    assert history.rate.tolist() == pytest.approx([1, np.nan, np.nan, 3, 4], nan_ok=True)
    assert history.cpu.tolist() == pytest.approx([0.1, 0.2, np.nan, np.nan, 0.4], nan_ok=True)
    assert report.dropped == {"step without data": 1}


def test_seconds_since_the_beginning(tmp_path: Path) -> None:
    path = written(tmp_path, "time,rps,cpu\n0,1,0.1\n15,2,0.2\n30,3,0.3\n")
    for step_s in (None, 15):
        history, report = read_service_csv(path, step_s=step_s)
        assert (history.step_s, history.rate.tolist()) == (15, [1, 2, 3])
        assert any("'time' tells seconds since the beginning" in one for one in report.assumptions)


def test_rows_without_times(tmp_path: Path) -> None:
    path = written(tmp_path, "rps,cpu\n1,0.1\n2,0.2\n")
    with pytest.raises(HistoryError, match="no column of times; name it"):
        read_service_csv(path)
    assert read_service_csv(path, step_s=30)[0].step_s == 30
    named = written(tmp_path, "when,rps,cpu\n0,1,0.1\n1,2,0.2\n")
    assert read_service_csv(named, time_column="when", step_s=10)[0].step_s == 10
    for step_s in (0, -15, np.inf):
        for one in (path, named):
            with pytest.raises(HistoryError, match=f"steps of {step_s} s; give a length above 0"):
                read_service_csv(one, step_s=step_s)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("second,rps,cpu\n0,1,0.1\n15,-4,0.1\n", "1 of 2 lines are broken (line 3 has rps = -4)"),
        ("second,rps,cpu\n0,1,0.1\n15,2,lots\n", "line 3 has cpu = lots"),
        ("second,rps,cpu\n0,1,0.1\n15,2\n", "line 3 has 2 columns"),
        ("rps,cpu,second\n1,0.1\n2,0.2,15\n", "1 of 2 lines are broken (line 2 has 2 columns)"),
        ("rps,cpu,second\n1,0.1\n2,0.2\n", "all 2 lines are broken (line 2 has 2 columns)"),
        ("second,rps,cpu\n0,1,0.1\nsoon,2,1\n", "line 3 has the time 'soon'"),
        ("second,rps,memory\n0,1,5\n15,1,5\n", "no column of cpu (cores used by all pods)"),
        ("second,cpu\n0,1\n15,1\n", "no column of rate"),
        ("second,rps,qps,cpu\n0,1,1,1\n15,1,1,1\n", "both 'rps' and 'qps' are rate"),
        ("second,rps,cpu\n0,1,0.1\n0,1,0.1\n", "a time comes twice"),
        ("second,rps,cpu\n0,1,0.1\n10,1,0.1\n20,1,0.1\n24,1,0.1\n", "rows are not 10 s apart"),
        ("0,1,0.1\n15,1,0.1\n", "the first line has no names"),
        ("", "is empty"),
    ],
)
def test_bad_files_are_refused_in_one_line(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(HistoryError) as caught:
        read_service_csv(written(tmp_path, text))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_sound_is_read_when_asked_for(tmp_path: Path) -> None:
    path = written(tmp_path, "second,rps,cpu\n0,1,0.1\n15,-4,0.1\n30,3,0.3\n45,4,0.4\n60,5,0.5\n")
    history, report = read_service_csv(path, keep_going=True)
    assert history.rate.tolist() == pytest.approx([1, np.nan, 3, 4, 5], nan_ok=True)
    assert report.lost == {"broken lines": 1}
    torn = written(tmp_path, "rps,cpu,second\n1,0.1\n2,0.2,15\n3,0.3,30\n")
    assert read_service_csv(torn, keep_going=True)[0].rate.tolist() == [2, 3]


def test_the_reader_fits_the_source(tmp_path: Path) -> None:
    assert reader_for(str(tmp_path)).__name__ == "read_service_prometheus"
    assert reader_for("https://prometheus.example").__name__ == "read_service_prometheus"
    assert reader_for("metrics.csv").__name__ == "read_service_csv"
