"""Fitting: the truth of synthetic services is found again; what makes a fit doubtful is said or refused."""

import json

import numpy as np
import pytest
from tests.pod_autoscaling.synthetic_services import Truth, columns_of, service_of

from trimtab.core.errors import HistoryError
from trimtab.pod_autoscaling.fitting import fit_application, service_history
from trimtab.pod_autoscaling.fitting.balancing import slowdown
from trimtab.pod_autoscaling.fitting.regression import robust_line
from trimtab.pod_autoscaling.fitting.smoothing import smoothed


@pytest.mark.parametrize(
    "truth",
    [
        Truth(),
        Truth(cpu_ms=2.0, io_ms=0.5, mean_rate=1500, idle_cpu=0.0),
        Truth(cpu_ms=300, io_ms=100, mean_rate=12, per_request_mib=20),
        Truth(cpu_ms=5, io_ms=400, mean_rate=400, variation=0.2, memory_mib=60, per_request_mib=1),
        Truth(cpu_ms=20, io_ms=30, cpu_limit=2.0, variation=3.0),
        Truth(memory_mib=200, per_request_mib=5, leak_mib_per_hour=12),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_the_truth_is_found_again(truth: Truth, seed: int) -> None:
    """Stated errors: work 2 %, waiting 5 % of the latency, memory 3 % and 15 %, variation 20 %."""
    app, report = fit_application(service_of(truth, seed=seed), balancing="random")
    unloaded_ms = truth.cpu_ms + truth.io_ms
    assert 1000 * app.cpu_s == pytest.approx(truth.cpu_ms, rel=0.02)
    assert 1000 * app.io_s == pytest.approx(truth.io_ms, abs=0.05 * unloaded_ms)
    assert app.segments[0].cpu_variation == pytest.approx(truth.variation, rel=0.2)
    assert app.memory_mib == pytest.approx(truth.memory_mib, rel=0.03)
    assert app.memory_per_request_mib == pytest.approx(truth.per_request_mib, rel=0.15, abs=0.3)
    assert app.leak_mib_per_hour == pytest.approx(truth.leak_mib_per_hour, rel=0.15, abs=0.1)
    assert report.r_squared["CPU"] > 0.95
    if truth.idle_cpu:
        assert report.value("idle_cpu") == pytest.approx(truth.idle_cpu, rel=0.4)


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    """95 % intervals of 60 services: work lies inside in 50 at least (57 expected)."""
    hits = 0
    for seed in range(60):
        _, report = fit_application(service_of(Truth(), seed=seed), balancing="random")
        work = next(one for one in report.estimates if one.name == "cpu_ms")
        assert work.low < work.value < work.high
        hits += work.low <= 20 <= work.high
    assert hits >= 50


def test_outliers_and_holes_do_little_harm() -> None:
    columns = columns_of(Truth(), seed=5)
    luck = np.random.default_rng(1)
    for name in ("cpu", "memory_mib", "latency_s"):
        columns[name][luck.choice(1440, 40, replace=False)] *= 8
        columns[name][luck.choice(1440, 200, replace=False)] = np.nan
    columns["rate"][300:340] = np.nan
    app, _ = fit_application(service_history("rough", 15.0, columns), balancing="random")
    assert 1000 * app.cpu_s == pytest.approx(20, rel=0.05)
    assert 1000 * app.io_s == pytest.approx(30, abs=5)
    assert app.memory_mib == pytest.approx(150, rel=0.05)


def test_steps_without_the_number_of_pods_are_not_steps_of_one_pod() -> None:
    """Two fifths of the time nobody counted the pods: what is found is what the rest says."""
    columns = columns_of(Truth(), seed=5)
    columns["replicas"][300:876] = np.nan
    app, report = fit_application(service_history("uncounted", 15.0, columns), balancing="random")
    assert 1000 * app.cpu_s == pytest.approx(20, rel=0.03)
    assert app.memory_mib == pytest.approx(150, rel=0.03)
    assert app.memory_per_request_mib == pytest.approx(Truth().per_request_mib, rel=0.15)
    assert app.segments[0].cpu_variation == pytest.approx(Truth().variation, rel=0.2)
    assert report.r_squared["memory"] > 0.5


def test_without_limits_latency_is_a_straight_line_s_beginning() -> None:
    columns = columns_of(Truth(cpu_ms=5, io_ms=40, mean_rate=300))
    del columns["cpu_limit"]
    app, report = fit_application(service_history("no limits", 15.0, columns))
    assert 1000 * (app.cpu_s + app.io_s) == pytest.approx(45, rel=0.1)
    assert any("how busy pods were is not known" in sentence for sentence in report.assumptions)


def test_limits_without_the_number_of_pods_say_nothing_of_queueing() -> None:
    columns = columns_of(Truth(cpu_ms=5, io_ms=40, mean_rate=300))
    limited = {name: values for name, values in columns.items() if name != "replicas"}
    unlimited = {name: values for name, values in limited.items() if name != "cpu_limit"}
    app, report = fit_application(service_history("uncounted", 15.0, limited))
    assert app == fit_application(service_history("unlimited", 15.0, unlimited))[0]
    assert any("there were several: pods used up to" in sentence for sentence in report.warnings)
    # As much as one pod may use: then there may be one.
    for name in ("rate", "cpu"):
        limited[name] = limited[name] / 6
    _, report = fit_application(service_history("one", 15.0, limited))
    assert not any("there were several" in sentence for sentence in report.warnings)
    assert any("less work and queueing" in one.how for one in report.estimates)


def test_without_anything_but_rate_and_cpu() -> None:
    columns = columns_of(Truth())
    app, report = fit_application(
        service_history("bare", 15.0, {name: columns[name] for name in ("rate", "cpu", "replicas")})
    )
    assert 1000 * app.cpu_s == pytest.approx(20, rel=0.02)
    assert app.io_s == 0
    said = " ".join(report.warnings)
    assert "no latency" in said
    assert "no memory" in said
    assert "no percentiles" in said


def test_a_percentile_over_the_mean_will_do() -> None:
    columns = columns_of(Truth(variation=0.5, mean_rate=40))
    del columns["latency_p50_s"]
    app, report = fit_application(service_history("no median", 15.0, columns), balancing="random")
    assert app.segments[0].cpu_variation == pytest.approx(0.5, rel=0.25)
    assert any("over mean" in one.how for one in report.estimates)


def test_busy_pods_leave_waiting_open_and_the_report_says_between_what() -> None:
    service = service_of(Truth(cpu_ms=50, io_ms=20, mean_rate=60))
    random, report = fit_application(service, balancing="random")
    emptier, _ = fit_application(service, balancing="two-choices")
    assert 1000 * random.io_s == pytest.approx(20, abs=4)
    assert emptier.io_s > random.io_s
    assert any("set balancing" in sentence for sentence in report.warnings)
    waiting = next(one for one in report.estimates if one.name == "io_ms")
    assert waiting.low <= 1000 * random.io_s < 1000 * emptier.io_s <= waiting.high
    with pytest.raises(HistoryError, match="balancing = 'fair'; use two-choices or random"):
        fit_application(service, balancing="fair")  # pyright: ignore[reportArgumentType]


def test_starts() -> None:
    columns = columns_of(Truth())
    starts = np.array([6.0, 8.0, 10.0, np.nan, -1.0])
    app, report = fit_application(service_history("starts", 15.0, columns, starts_s=starts))
    assert app.start_s == 8
    assert app.start_spread == pytest.approx(np.log([6, 8, 10]).std(ddof=1), rel=1e-3)
    assert report.value("start_s") == 8
    one, _ = fit_application(service_history("one", 15.0, columns, starts_s=np.array([12.0])))
    assert (one.start_s, one.start_spread) == (12, 0.3)


def test_requests_that_use_several_cores() -> None:
    """40 ms of CPU in 10 ms: four cores at a time."""
    rate = np.linspace(5, 20, 200)
    columns = {
        "rate": rate,
        "cpu": 0.04 * rate,
        "latency_s": np.full(200, 0.01),
        "cpu_limit": np.full(200, 8.0),
    }
    app, report = fit_application(service_history("wide", 15.0, columns))
    assert app.cores_per_request == pytest.approx(4, rel=0.05)
    assert app.io_s == 0
    assert any("cores at a time" in sentence for sentence in report.warnings)


def changed(**changes: np.ndarray) -> dict[str, np.ndarray]:
    return {**columns_of(Truth()), **changes}


COLUMNS = columns_of(Truth())
INSIDE = COLUMNS["rate"] * COLUMNS["latency_s"] / COLUMNS["replicas"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"cpu": 1000 * COLUMNS["cpu"]}, "CPU seems to be in millicores, divide by 1000"),
        ({"cpu": 150 * COLUMNS["cpu"]}, "is CPU in millicores"),
        ({"latency_s": 1e5 * COLUMNS["latency_s"]}, "seems to be in milliseconds, divide by 1000"),
        ({"memory_mib": COLUMNS["memory_mib"] * 2**20}, "seems to be in bytes, divide by 1048576 or call it"),
        ({"memory_mib": COLUMNS["memory_mib"] / 1024}, "seems to be in GiB, multiply by 1024"),
        ({"cpu": 10 - 0.02 * COLUMNS["rate"]}, "CPU falls while the rate rises"),
        ({"rate": 0 * COLUMNS["rate"]}, "every rate is 0"),
        ({"latency_s": np.where(np.arange(1440) < 10, 0.05, np.nan)}, "samples with latency; 20 are needed"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, np.ndarray], said: str) -> None:
    # The limit would otherwise tell a lie about the load.
    columns = {**COLUMNS, **changes}
    with pytest.raises(HistoryError) as caught:
        fit_application(service_history("wrong", 15.0, columns))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"rate": np.full(1440, 100.0), "cpu": np.full(1440, 2.0)}, "the rate hardly varies"),
        ({"replicas": COLUMNS["rate"] / 10, "cpu": 0.02 * COLUMNS["rate"]}, "replicas follow the rate"),
        ({"memory_mib": 300 - COLUMNS["rate"] / 10}, "memory falls while more requests are inside"),
        ({"cpu": COLUMNS["cpu"] + 60 * np.random.default_rng(3).random(1440)}, "explains"),
        ({"cpu": np.maximum(0.02 * (COLUMNS["rate"] - 50), 0.001)}, "idle use would be"),
        ({"cpu_limit": np.full(1440, 0.7), "replicas": np.full(1440, 12.0)}, "less than a core"),
    ],
)
def test_what_is_doubtful_is_said(changes: dict[str, np.ndarray], said: str) -> None:
    _, report = fit_application(service_history("odd", 15.0, {**COLUMNS, **changes}))
    assert any(said in sentence for sentence in report.warnings), report.warnings


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"memory_mib": COLUMNS["memory_mib"] * COLUMNS["replicas"]}, "as the sum of all pods does"),
        (
            {
                "memory_mib": COLUMNS["memory_mib"] * COLUMNS["replicas"],
                "latency_s": np.full(1440, np.nan),
                "in_flight": np.full(1440, np.nan),
            },
            "as the sum of all pods does",
        ),
        ({"memory_mib": np.maximum(900 * INSIDE - 600, 1)}, "an idle pod would have -"),
        ({"cpu": 100 * COLUMNS["cpu"] / COLUMNS["replicas"]}, "times their cpu_limit; give both in cores"),
        # Less of latency than that of a limit below use would be left.
        ({"cpu_limit": np.full(1440, 0.05)}, "times their cpu_limit; give both in cores"),
    ],
)
def test_what_no_service_can_be_like_is_kept_apart(changes: dict[str, np.ndarray], said: str) -> None:
    """The fit goes on, as for a service that misbehaves while it is watched; `fit-profile` refuses it."""
    _, report = fit_application(service_history("odd", 15.0, {**COLUMNS, **changes}))
    assert any(said in sentence for sentence in report.impossible), report
    assert {*report.impossible} <= {*report.warnings}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("truth", [Truth(), Truth(per_request_mib=30), Truth(leak_mib_per_hour=12)])
def test_what_can_be_is_not_called_impossible(truth: Truth, seed: int) -> None:
    assert fit_application(service_of(truth, seed=seed, noise=0.1))[1].impossible == []
    # Without replicas the CPU of all pods says nothing of the limit of one.
    columns = {
        name: columns_of(truth, seed=seed)[name] for name in ("rate", "cpu", "memory_mib", "cpu_limit")
    }
    assert fit_application(service_history("alone", 15.0, columns))[1].impossible == []


def test_idle_memory_that_cannot_be_told_from_nothing() -> None:
    app, report = fit_application(service_history("light", 15.0, {**COLUMNS, "memory_mib": 40 * INSIDE}))
    assert app.memory_mib == 1
    assert "the memory of an idle pod cannot be told from 0: taken for 1 MiB" in report.warnings
    assert report.impossible == []


def test_too_few_samples() -> None:
    short = {name: values[:15] for name, values in COLUMNS.items()}
    with pytest.raises(HistoryError, match="15 samples with rate, CPU and replicas; 20 are needed"):
        fit_application(service_history("short", 15.0, short))
    del short["replicas"]
    with pytest.raises(HistoryError, match="15 samples with rate and CPU; 20 are needed"):
        fit_application(service_history("short", 15.0, short))


def test_callers_of_a_slow_service_wait_for_what_is_in_time() -> None:
    """At 30 s, the usual, they would give up before anything is late."""
    slow, _ = fit_application(service_of(Truth(cpu_ms=8000, io_ms=4000, mean_rate=1)))
    assert slow.slo_s > 30
    assert slow.timeout_s == pytest.approx(2 * slow.slo_s, rel=1e-3)
    quick, _ = fit_application(service_of(Truth()))
    assert quick.timeout_s == 30


def test_pods_with_more_requests_inside_than_workers_are_doubted() -> None:
    busy = Truth(cpu_ms=2, io_ms=2000, mean_rate=200)  # a pod of one core has 200 a second: 400 inside
    _, report = fit_application(service_of(busy))
    assert any("and with workers = 64 the others would wait" in one for one in report.warnings)
    _, report = fit_application(service_of(Truth()))
    assert not any("workers = 64" in one for one in report.warnings)


def test_a_limit_that_cannot_be_held() -> None:
    app, _ = fit_application(service_of(Truth()), slo_ms=400.0)
    assert app.slo_s == 0.4
    # A service that became slow keeps its limit; the report says that no size can hold it.
    app, report = fit_application(service_of(Truth()), slo_ms=100.0)
    assert app.unloaded_p99_s >= 0.1 and app.slo_s == 0.1
    assert any("slo_ms = 100 is not above" in sentence for sentence in report.warnings)
    for slo_ms in (-1.0, 1e7, np.nan):
        with pytest.raises(HistoryError, match=r"slo_ms = .*; give milliseconds, an hour of them at most"):
            fit_application(service_of(Truth()), slo_ms=slo_ms)


def test_the_report_in_words_and_as_json() -> None:
    _, report = fit_application(service_of(Truth(), seed=1))
    lines = report.lines()
    assert lines[0] == "synthetic: 1,440 samples"
    assert any(line.startswith("  cpu_ms ") and "CPU against rate" in line for line in lines)
    assert any(line.startswith("  R² of CPU") for line in lines)
    content = json.loads(json.dumps(report.as_dict(), allow_nan=False))
    assert {one["name"] for one in content["estimates"]} >= {"cpu_ms", "io_ms", "memory_mib"}


@pytest.mark.parametrize(
    ("columns", "step_s", "said"),
    [
        ({"rate": np.ones(3)}, 15.0, "no cpu \\(cores used by all pods\\)"),
        ({"rate": np.full(3, np.nan), "cpu": np.ones(3)}, 15.0, "no rate"),
        ({"rate": np.ones(3), "cpu": np.ones(2)}, 15.0, "2 values of cpu for 3 of rate"),
        ({"rate": np.array([1, -2.0]), "cpu": np.ones(2)}, 15.0, "rate = -2 at step 1; mend or cut"),
        ({"rate": np.array([1, np.inf]), "cpu": np.ones(2)}, 15.0, "rate = inf at step 1"),
        ({"rate": np.ones(2), "cpu": np.ones(2), "disk": np.ones(2)}, 15.0, "no column 'disk'"),
        ({"rate": np.ones(2), "cpu": np.ones(2)}, 0.0, "steps of 0.0 s"),
        (
            {
                "rate": np.ones(1),
                "cpu": np.ones(1),
                "latency_p50_s": np.ones(1),
                "latency_p99_s": np.zeros(1),
            },
            15.0,
            "the median latency 1 s is above the 99th percentile 0 s",
        ),
    ],
)
def test_histories_that_are_none(columns: dict[str, np.ndarray], step_s: float, said: str) -> None:
    with pytest.raises(HistoryError, match=said):
        service_history("toy", step_s, columns)


def test_smoothing_drops_rows_as_a_whole() -> None:
    """Groups of two: the second row has a wrong y, so its x does not count either; a hole shifts the rest."""
    x = np.arange(480.0)
    y = 10 + x
    y[1] = np.nan
    y[101] *= 50
    first, second = smoothed(x, y)
    assert len(first) == 479 // 3
    assert second == pytest.approx(10 + first)
    assert first[:2].tolist() == [(0 + 2 + 3) / 3, (4 + 5 + 6) / 3]
    few = smoothed(x[:30], y[:30])
    assert len(few[0]) == 29


# --- formulas ----------------------------------------------------------------------------------------


def test_slowdown_is_erlang_s() -> None:
    """One core: 1 / (1 - load). Two cores at 0.7: C = 0.5765, so 1 + 0.5765 / (2 x 0.3) = 1.961."""
    loads = np.array([0.0, 0.5, 0.7, 0.85])
    assert slowdown(loads, np.ones(4)) == pytest.approx([1, 2, 1 / 0.3, 1 / 0.15])
    assert slowdown(loads[1:], np.full(3, 2.0)) == pytest.approx([1.3333, 1.9608, 3.6036], abs=1e-4)
    assert slowdown(np.array([0.5]), np.array([0.25])) == pytest.approx([8])
    between = slowdown(np.array([0.7]), np.array([1.5]))
    assert 1.961 < between[0] < 3.333
    # Two choices: at 0.85, 1 + 0.7225 + 0.3771 + 0.1028 + 0.0076.
    two = slowdown(loads, np.ones(4), balancing="two-choices")
    assert two == pytest.approx([1, 1.2657, 1.6145, 2.2101], abs=1e-3)


def test_a_robust_line_and_its_interval() -> None:
    luck = np.random.default_rng(0)
    x = luck.random(400) * 10
    y = 1 + 0.5 * x + 0.2 * luck.standard_normal(400)
    y[:20] += 50
    line = robust_line(np.column_stack([np.ones(400), x]), y)
    assert line.coefficients == pytest.approx([1, 0.5], abs=0.05)
    assert (line.low < [1, 0.5]).all()
    assert (line.high > [1, 0.5]).all()
    assert line.high[1] - line.low[1] < 0.06


def test_a_line_through_constant_points() -> None:
    line = robust_line(np.ones((10, 1)), np.full(10, 3.0))
    assert line.coefficients == pytest.approx([3])
    assert line.r_squared == 1
