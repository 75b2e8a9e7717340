"""Limits in which queueing theory knows the answer; the benchmark `pod_engine` has narrower bars."""

from __future__ import annotations

import math

import numpy as np
import pytest

from trimtab.pod_autoscaling.application import Application, Segment
from trimtab.pod_autoscaling.deployment import Deployment
from trimtab.pod_autoscaling.queueing import (
    erlang_b,
    erlang_c,
    inside_above,
    lognormal_quantile,
    mean_cpu_s,
    mean_inside,
    p99_cpu_s,
)
from trimtab.pod_autoscaling.simulator import Simulator, totals

pytestmark = pytest.mark.pods

WORK_S = 0.02
SEEDS = 24


def endless(variation: float, io_ms: float = 0.0, parts: int = 1) -> Application:
    """Nobody queues, gives up or runs out of memory."""
    part = Segment(cpu_ms=1000 * WORK_S / parts, cpu_variation=variation, io_ms=io_ms)
    return Application(
        segments=(part,) * parts, workers=4096, queue=0, timeout_s=3600, memory_per_request_mib=0, slo_ms=1e6
    )


def steady(
    application: Application,
    rate: float,
    cores: float,
    *,
    replicas: int = 1,
    seconds: int = 900,
    **settings: object,
) -> Simulator:
    """Many seeds at a constant rate, in steady state from 60 s on; totals count from there."""
    usual: dict[str, object] = {"interval_s": 60, "history": 4, "most_memory_mib": 4096, "missing": 0.0}
    made = Simulator([application] * SEEDS, Deployment.model_validate(usual | settings))
    sizes = np.tile(np.array([replicas, cores, 4096.0]), (SEEDS, 1))
    made.reset([np.full(seconds, rate)] * SEEDS, range(SEEDS), sizes=sizes)
    made.step(sizes)
    made.state.totals[:] = 0
    made.state.marks[:] = 0
    while not made.ended.all():
        made.step(sizes)
    return made


def mean_latency_s(made: Simulator) -> float:
    total = made.state.totals.sum(0)
    return float(total[totals.LATENCY_S] / total[totals.ANSWERED])


@pytest.mark.parametrize("cores", [1, 2, 4])
@pytest.mark.parametrize("load", [0.5, 0.7, 0.85])
@pytest.mark.parametrize("variation", [0.35, 4.0])
def test_mean_latency_is_erlangs_whatever_the_distribution_of_work(cores, load, variation):
    # Independent of the module: d + C d / (c (1 - u)).
    expected_s = WORK_S * (1 + erlang_c(load * cores, cores) / (cores * (1 - load)))
    made = steady(endless(variation), load * cores / WORK_S, cores, seconds=60 + 900 // cores)
    assert mean_latency_s(made) == pytest.approx(expected_s, rel=0.03 if load < 0.8 else 0.08)


@pytest.mark.parametrize(("cores", "each"), [(0.4, 1.0), (1.5, 1.0), (2.0, 0.5), (3.0, 2.0)])
def test_parts_of_cores_are_as_the_general_formula_says(cores, each):
    rate = 0.7 * cores / WORK_S
    application = endless(1.0).model_copy(update={"cores_per_request": each})
    expected_s = float(mean_cpu_s(rate, WORK_S, cores, each))
    assert mean_latency_s(steady(application, rate, cores)) == pytest.approx(expected_s, rel=0.03)


def test_time_outside_adds_to_time_on_the_cpu_and_chains_are_as_long_as_their_parts():
    # Three visits to the CPU of a third of the work each, and 30 ms outside in all: Kelly's networks.
    made = steady(endless(1.0, io_ms=10, parts=3), 0.7 / WORK_S, 1.0)
    assert mean_latency_s(made) == pytest.approx(WORK_S / 0.3 + 0.03, rel=0.03)


def test_littles_law():
    total = steady(endless(1.0, io_ms=30), 60.0, 2.0).state.totals.sum(0)
    span_s = SEEDS * 840
    rate = total[totals.ARRIVED] / span_s
    inside = total[totals.INSIDE_S] / span_s
    assert inside == pytest.approx(rate * total[totals.LATENCY_S] / total[totals.ANSWERED], rel=0.002)


@pytest.mark.parametrize(
    ("balancing", "spread"), [("round-robin", 0.02), ("random", 0.02), ("two-choices", 0.01)]
)
def test_requests_are_spread_evenly_over_replicas(balancing, spread):
    made = steady(endless(0.35), 200.0, 1.0, replicas=6, seconds=300, balancing=balancing)
    used_s = made.state.pods["cpu_s"][:, :6].sum(0)
    assert np.abs(used_s / used_s.mean() - 1).max() < spread


def test_random_balancing_makes_each_replica_a_queue_of_its_own_and_two_choices_beat_it():
    rate = 4 * 0.7 / WORK_S
    alone_s = mean_latency_s(steady(endless(1.0), rate, 1.0, replicas=4, balancing="random"))
    assert alone_s == pytest.approx(WORK_S / 0.3, rel=0.04)
    # Many replicas, exponential work: d (1 + u^2 + u^6 + u^14 + ...) (Mitzenmacher 2001); four are near it.
    two_s = mean_latency_s(steady(endless(1.0), rate, 1.0, replicas=4))
    limit_s = WORK_S * (1 + 0.7**2 + 0.7**6 + 0.7**14)
    assert limit_s * 0.95 < two_s < limit_s * 1.15


@pytest.mark.parametrize("burst", [1.0, 3.0, 10.0])
def test_arrivals_are_poisson_or_as_dispersed_as_said(burst):
    deployment = Deployment(interval_s=1, history=4, burst=burst)
    made = Simulator([endless(0.0)] * SEEDS, deployment)
    sizes = np.tile(np.array([1, 4, 4096.0]), (SEEDS, 1))
    made.reset([np.full(300, 40.0)] * SEEDS, range(SEEDS), sizes=sizes)
    counts = []
    while not made.ended.all():
        made.step(sizes)
        counts.append(made.truth.arrived)
    # 7200 seconds: the dispersion is known to 1.7 %, and the mean to burst^0.5 x 0.2 %.
    assert np.mean(counts) == pytest.approx(40, rel=0.01)
    assert np.var(counts) / np.mean(counts) == pytest.approx(burst, rel=0.07)


@pytest.mark.parametrize(("load", "variation", "cores"), [(0.5, 1.0, 1.0), (0.8, 0.1, 2.0), (0.7, 4.0, 4.0)])
def test_the_tail_is_about_what_the_fitted_formula_says(load, variation, cores):
    rate = load * cores / WORK_S
    made = steady(endless(variation), rate, cores, seconds=360)
    found_s = made.truth.latency_p99_s.mean()
    assert found_s == pytest.approx(float(p99_cpu_s(rate, WORK_S, variation, cores)), rel=0.15)


def test_formulas_agree_with_each_other():
    for cores in (1, 2, 5):
        for load in (0.1, 0.6, 0.95):
            offered = load * cores
            expected_s = WORK_S * (1 + erlang_c(offered, cores) / (cores * (1 - load)))
            assert float(mean_cpu_s(offered / WORK_S, WORK_S, cores)) == pytest.approx(expected_s)
    # One core: P(more than n) = u^(n + 1); their sum is the mean.
    above = [float(inside_above(n, 30.0, WORK_S, 1.0)) for n in range(200)]
    assert above[:3] == pytest.approx([0.6, 0.36, 0.216])
    for cores, each in ((1.0, 1.0), (2.5, 1.0), (3.0, 2.0)):
        above = [float(inside_above(n, 0.8 * cores / WORK_S, WORK_S, cores, each)) for n in range(300)]
        assert sum(above) == pytest.approx(float(mean_inside(0.8 * cores / WORK_S, WORK_S, cores, each)))
    assert mean_inside(60.0, WORK_S, 1.0) == math.inf
    assert inside_above(5, 60.0, WORK_S, 1.0) == 1.0
    assert erlang_b(0.0, 3) == 0.0
    assert float(lognormal_quantile(2.0, 0.0)) == 2.0
    assert float(p99_cpu_s(0.0, 1.0, 0.0, 0.5)) == pytest.approx(2.0)
