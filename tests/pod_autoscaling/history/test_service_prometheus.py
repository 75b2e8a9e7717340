"""Metrics of a service in Prometheus: a fake server on loopback, saved answers, refusals."""

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from tests.loopback_server import serving
from tests.pod_autoscaling.synthetic_services import Truth, columns_of

from trimtab.core.errors import HistoryError
from trimtab.pod_autoscaling.fitting import fit_application
from trimtab.pod_autoscaling.history.service_prometheus import queries_for, read_service_prometheus

START = 1_767_607_200
COLUMNS = columns_of(Truth(), hours=2.0)
COLUMNS["memory_mib"] = COLUMNS["memory_mib"] * 2**20  # Prometheus has bytes
SIGNS = {
    "container_cpu_usage_seconds_total": "cpu",
    "container_memory_working_set_bytes": "memory_mib",
    "kube_deployment_status_replicas_ready": "replicas",
    "kube_pod_container_resource_limits": "cpu_limit",
    "_sum": "latency_s",
    "histogram_quantile(0.5,": "latency_p50_s",
    "histogram_quantile(0.99,": "latency_p99_s",
    "_count": "rate",
}


def series(values: Any, *, first_s: float = START, **labels: str) -> dict[str, Any]:
    pairs = [[first_s + 15 * n, str(value)] for n, value in enumerate(values) if value is not None]
    return {"metric": labels, "values": pairs}


def answer(*rows: dict[str, Any]) -> dict[str, Any]:
    return {"status": "success", "data": {"resultType": "matrix", "result": list(rows)}}


def prometheus(path: str) -> Any:
    """The part of the synthetic service that a query asks for."""
    asked = {name: values[0] for name, values in parse_qs(urlsplit(path).query).items()}
    if "kube_pod_start_time" in asked["query"]:
        return answer(series([6.0, 6.0], pod="a"), series([10.0], pod="b"), series([8.0], pod="c"))
    column = next(name for sign, name in SIGNS.items() if sign in asked["query"])
    first = round((float(asked["start"]) - START) / 15)
    last = round((float(asked["end"]) - START) / 15) + 1
    return answer(series(COLUMNS[column][first:last].tolist(), first_s=float(asked["start"])))


SPAN = {"start_s": START, "end_s": START + 15 * 479, "step_s": 15}


def test_a_service_is_asked_for_by_name_and_fitted() -> None:
    with serving(prometheus) as address:
        history, report = read_service_prometheus(
            address, namespace="shop", workload="cart", latency_metric="http_request_duration_seconds", **SPAN
        )
    assert len(history.rate) == 480
    assert report.read == {"series": 8, "steps": 480, "starts": 3}
    assert report.assumptions == ["no data of in_flight"]
    assert history.memory_mib == pytest.approx(COLUMNS["memory_mib"] / 2**20)
    app, _ = fit_application(history, balancing="random")
    assert 1000 * app.cpu_s == pytest.approx(20, rel=0.03)
    assert 1000 * app.io_s == pytest.approx(30, abs=4)
    assert app.start_s == 8


def test_the_queries() -> None:
    queries = queries_for(
        namespace="shop", workload="cart", latency_metric="h", selector='code!~"5.."', window="2m"
    )
    assert set(queries) == {
        "cpu", "memory_mib", "replicas", "cpu_limit", "starts",
        "rate", "latency_s", "latency_p50_s", "latency_p99_s",
    }  # fmt: skip
    assert queries["rate"] == 'sum(rate(h_count{namespace="shop",code!~"5.."}[2m]))'
    assert "[2m]" in queries["cpu"]
    # A workload is a Deployment or a StatefulSet, and only one of the two tells of it.
    assert queries["replicas"] == (
        'max(kube_deployment_status_replicas_ready{namespace="shop",deployment="cart"}'
        ' or kube_statefulset_status_replicas_ready{namespace="shop",statefulset="cart"})'
    )
    assert queries_for(namespace="shop", workload=None, latency_metric=None) == {}


def test_every_query_is_about_the_pods_of_the_workload_alone() -> None:
    queries = queries_for(namespace="shop", workload="cart", latency_metric="h")
    del queries["replicas"]  # of the Deployment or StatefulSet itself
    for query in queries.values():
        patterns = re.findall('pod=~"(.*?)"', query)
        assert len(patterns) == query.count('namespace="shop"')
        for pattern in patterns:
            assert re.fullmatch(pattern, "cart-7d9f8c6b54-x2k4z")
            assert re.fullmatch(pattern, "cart-0")
            assert not re.fullmatch(pattern, "cart-admin-7d9f8c6b54-x2k4z")
            assert not re.fullmatch(pattern, "cart-admin-0")


def test_queries_can_be_given_and_series_are_added_up() -> None:
    def answering(path: str) -> Any:
        query = parse_qs(urlsplit(path).query)["query"][0]
        if query == "mine":
            return answer(series([1, 2, None], pod="a"), series([10, 20, 30], pod="b"))
        return answer(series([0.1, 0.2, 0.3]))

    with serving(answering) as address:
        history, report = read_service_prometheus(address, rate_query="mine", cpu_query="cpu", **SPAN)
        assert history.rate.tolist() == [11, 22, 30]
        with pytest.raises(HistoryError, match="2 series of latency_s; put them together in the query"):
            read_service_prometheus(address, rate_query="r", cpu_query="c", latency_query="mine", **SPAN)
        with pytest.raises(HistoryError, match=r"no data of cpu .* \(cpu_query\)"):
            read_service_prometheus(address, rate_query="mine", **SPAN)
        with pytest.raises(HistoryError, match="start_s before end_s"):
            read_service_prometheus(address, rate_query="mine", cpu_query="c")
    assert any("no data of memory_mib" in sentence for sentence in report.assumptions)


def test_a_metric_without_data() -> None:
    def answering(path: str) -> Any:
        return answer() if "cpu" in path else answer(series([1, 2]))

    with serving(answering) as address, pytest.raises(HistoryError, match="no data of cpu"):
        read_service_prometheus(address, rate_query="r", cpu_query="cpu", **SPAN)


def test_saved_answers(tmp_path: Path) -> None:
    for name, column in (("rate", "rate"), ("cpu", "cpu"), ("memory", "memory_mib")):
        (tmp_path / f"{name}.json").write_text(json.dumps(answer(series(COLUMNS[column].tolist()))))
    (tmp_path / "starts.json").write_text(json.dumps(answer(series(["NaN"], pod="a"), series([7], pod="b"))))
    history, report = read_service_prometheus(str(tmp_path))
    assert np.array_equal(history.rate, COLUMNS["rate"])
    assert history.memory_mib == pytest.approx(COLUMNS["memory_mib"] / 2**20)
    assert history.starts_s.tolist() == [7]
    assert history.step_s == 15
    assert report.read["starts"] == 1
    (tmp_path / "disk.json").write_text("{}")
    with pytest.raises(HistoryError, match="no metric 'disk'; call the files rate, cpu"):
        read_service_prometheus(str(tmp_path))
    with pytest.raises(HistoryError, match="no such folder"):
        read_service_prometheus(str(tmp_path / "none"))


def test_files_say_their_unit_as_columns_do(tmp_path: Path) -> None:
    told = {"rps": 4, "cpu_millicores": 1500, "memory_mib": 150, "latency_ms": 20, "p99_ms": 90}
    for name, value in told.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(answer(series([value] * 3))))
    history, _ = read_service_prometheus(str(tmp_path))
    found = (history.rate, history.cpu, history.memory_mib, history.latency_s, history.latency_p99_s)
    assert [float(column[0]) for column in found] == [4, 1.5, 150, 0.02, 0.09]
    (tmp_path / "memory_bytes.json").write_text(json.dumps(answer(series([1]))))
    with pytest.raises(HistoryError, match=r"memory_mib\.json: there is another file of memory_mib"):
        read_service_prometheus(str(tmp_path))


def test_the_names_that_are_told_are_taken(tmp_path: Path) -> None:
    (tmp_path / "disk.json").write_text("{}")
    with pytest.raises(HistoryError) as refused:
        read_service_prometheus(str(tmp_path))
    (tmp_path / "disk.json").unlink()
    names = str(refused.value).partition("call the files ")[2].partition(" (.json)")[0].split(", ")
    for name in names:
        (tmp_path / f"{name}.json").write_text(json.dumps(answer(series([1] * 3))))
    assert len(names) == 10
    assert read_service_prometheus(str(tmp_path))[1].assumptions == []


def test_a_pod_that_was_unready_again_has_started_once(tmp_path: Path) -> None:
    for name in ("rate", "cpu"):
        (tmp_path / f"{name}.json").write_text(json.dumps(answer(series([1, 2, 3]))))
    starts = answer(series(["NaN", 8, 8, 7200], pod="a"), series([6, "NaN"], pod="b"))
    (tmp_path / "starts.json").write_text(json.dumps(starts))
    assert read_service_prometheus(str(tmp_path))[0].starts_s.tolist() == [8, 6]


def test_missing_samples_are_unknown(tmp_path: Path) -> None:
    (tmp_path / "rate.json").write_text(json.dumps(answer(series([1, None, 3, 4]))))
    (tmp_path / "cpu.json").write_text(json.dumps(answer(series([0.1, 0.2, "NaN", 0.4]))))
    history, report = read_service_prometheus(str(tmp_path))
    assert history.rate.tolist() == pytest.approx([1, np.nan, 3, 4], nan_ok=True)
    assert report.dropped == {"step without rate": 1, "step without cpu": 1}
    with pytest.raises(HistoryError, match="give a longer step_s"):
        read_service_prometheus(str(tmp_path), step_s=1e-6)
    for step_s in (0, -15):
        with pytest.raises(HistoryError, match=f"steps of {step_s} s; give a length above 0"):
            read_service_prometheus(str(tmp_path), step_s=step_s)
