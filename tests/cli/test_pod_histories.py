"""`trimtab import` and `trimtab fit-profile` for services: what a user sees, and mistakes in one line."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.pod_autoscaling.history.azure_files import durations_file, minutes_file
from tests.pod_autoscaling.synthetic_services import Truth, columns_of

from trimtab.pod_autoscaling.workload.applications import make_application
from trimtab.rates.traces import load_trace


def metrics(folder: Path, **changes: np.ndarray) -> str:
    """Two hours of the synthetic service as a CSV."""
    columns = {**columns_of(Truth(), hours=2.0), **changes}
    names = {"rate": "rps", "cpu": "cpu_cores"}
    table = np.column_stack([15 * np.arange(480), *columns.values()])
    header = ",".join(["second", *(names.get(name, name) for name in columns)])
    np.savetxt(folder / "shop.csv", table, delimiter=",", header=header, comments="", fmt="%.6g")
    return "shop.csv"


def test_a_profile_is_fitted_and_can_be_used(run: Callable, tmp_path: Path) -> None:
    answer = run("fit-profile", metrics(tmp_path), "--out", "shop.toml", "--set", "step_s=15")
    assert answer.code == 0, answer
    assert "cpu_ms" in answer.out
    assert "R² of CPU" in answer.out
    assert "next: trimtab simulate pod --app shop.toml" in answer.out
    assert "a full pod (64 requests at work, 512 in its queue) holds 1," in answer.out
    app = make_application(str(tmp_path / "shop.toml"))
    assert app.name == "shop"
    assert 1000 * app.cpu_s == pytest.approx(20, rel=0.03)


def test_columns_of_another_meaning_leave_no_profile(refused: Callable, tmp_path: Path) -> None:
    columns = columns_of(Truth(), hours=2.0)
    summed = metrics(tmp_path, memory_mib=columns["memory_mib"] * columns["replicas"])
    assert "shop.csv: memory goes up and down with" in refused("fit-profile", summed, "--out", "x.toml")
    percent = metrics(tmp_path, cpu=100 * columns["cpu"] / columns["replicas"])
    assert "times their cpu_limit" in refused("fit-profile", percent, "--out", "x.toml")
    assert not (tmp_path / "x.toml").exists()


def test_a_profile_as_json(run: Callable, tmp_path: Path) -> None:
    words = [
        "fit-profile",
        metrics(tmp_path),
        "--out",
        "x.toml",
        "--name",
        "cart",
        "--slo-ms",
        "300",
        "--json",
    ]
    found = run(*words).json
    assert found["application"]["name"] == "cart"
    assert found["application"]["slo_ms"] == 300
    assert found["profile"] == "x.toml"
    assert found["read"]["read"] == {"rows": 480}
    assert found["r_squared"]["CPU"] > 0.9


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["shop.csv", "--out", "x.json"], "a profile is TOML; call it x.toml"),
        (["shop.csv", "--out", "none/x.toml"], "the folder none does not exist"),
        (["shop.csv", "--out", "shop.csv"], "shop.csv: is the history itself; name another file to write"),
        (["none.csv", "--out", "x.toml"], "none.csv: no such file"),
        (["shop.csv", "--out", "x.toml", "--slo-ms", "3"], "slo_ms = 3 is not above"),
        (
            ["shop.csv", "--out", "x.toml", "--set", "cpu_units=m"],
            "--set cpu_units: shop.csv has no such option",
        ),
        (["shop.csv", "--out", "x.toml", "--set", "latency_unit=days"], "latency_unit = 'days'"),
        (["http://127.0.0.1:9", "--out", "x.toml"], "give latency_metric and workload, or the query itself"),
        (
            ["http://127.0.0.1:9", "--out", "x.toml", "--set", "workload=shop"],
            "no data of rate (requests per second that arrived); give latency_metric, or the query itself",
        ),
    ],
)
def test_mistakes(refused: Callable, tmp_path: Path, words: list[str], said: str) -> None:
    metrics(tmp_path)
    assert said in refused("fit-profile", *words)
    assert not (tmp_path / "x.toml").exists()


def test_wrong_units_are_refused(refused: Callable, tmp_path: Path) -> None:
    path = metrics(tmp_path, cpu=1000 * columns_of(Truth(), hours=2.0)["cpu"])
    assert "seems to be in millicores" in refused("fit-profile", path, "--out", "x.toml")


def test_calls_of_azure_become_a_trace(run: Callable, tmp_path: Path) -> None:
    minutes_file(tmp_path, {"a1": [60, 120, 180]}, name="calls.d01.csv")
    answer = run("import", "azure-functions", "calls.d01.csv", "--out", "mine.trace")
    assert answer.code == 0, answer
    assert "trimtab simulate pod --trace mine.trace" in answer.out
    assert load_trace(tmp_path / "mine.trace").rates.tolist() == [1, 2, 3]


def test_durations_of_azure_become_an_application(run: Callable, tmp_path: Path) -> None:
    durations_file(tmp_path, {"a1": (100, 50, 80, 320)})
    words = ["import", "azure-profile", "durations.csv", "--out", "mine.toml", "--set", "cpu_share=0.5"]
    answer = run(*words)
    assert "mine.toml: 50 ms of work and 50 ms of waiting" in answer.out
    assert make_application(str(tmp_path / "mine.toml")).unloaded_s == pytest.approx(0.1)
    assert run(*words, "--json").json["application"] == "mine.toml"
