"""Rules that look ahead: the seasonal forecast, the oracle, and the queueing formula behind our own rule."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.pod_autoscaling.snapshots import services_of, snapshot_of

from trimtab.core.errors import SettingsError
from trimtab.pod_autoscaling.application import Application, Segment
from trimtab.pod_autoscaling.deployment import Deployment
from trimtab.pod_autoscaling.heuristics.forecasts import proven_forecast
from trimtab.pod_autoscaling.heuristics.headroom import Behaviour, busiest, fitted, mean_latency_s
from trimtab.pod_autoscaling.heuristics.oracle import Oracle
from trimtab.pod_autoscaling.heuristics.predictive import LastPeriod, start_up_s
from trimtab.pod_autoscaling.policies import make_policy
from trimtab.rates.traces import Provenance, RateTrace

ONE = services_of()
FLAT = np.ones(1)


def at(place: int) -> np.ndarray:
    return np.array([place])


def test_the_last_period_is_corrected_by_the_last_minutes_and_their_error() -> None:
    past = LastPeriod(1, intervals=4, compared=2)
    for place, rate in enumerate((100.0, 200.0, 400.0, 100.0)):
        assert np.isnan(past.ahead(at(place), at(1), 0.5)[0])
        past.lived(at(place), rate * FLAT)
    # A period later 150 and 250 come where 100 and 200 did. Of the four intervals before, two are compared.
    past.lived(at(0), 150.0 * FLAT)
    past.lived(at(1), 250.0 * FLAT)
    # 400 / 300 times the 400 that come next. Errors 150 - 133.3 and 250 - 266.7: 16.67 each.
    assert past.ahead(at(2), at(1), 0.5)[0] == pytest.approx(400 * 4 / 3)
    assert past.ahead(at(2), at(1), 0.8413447)[0] == pytest.approx(400 * 4 / 3 + 50 / 3)  # one deviation
    # Two ahead the highest counts: after the 100 at place 3 comes the 150 of now at place 0.
    assert past.ahead(at(3), at(2), 0.5)[0] == pytest.approx(150 * 4 / 3)


def test_corrections_are_bounded_and_what_is_unknown_wipes_out_nothing() -> None:
    past = LastPeriod(1, intervals=2, compared=1)
    for place, rate in ((0, 100.0), (1, 100.0), (0, 1000.0)):
        past.lived(at(place), rate * FLAT)
    # Ten times as much: 2 is believed, and the error of 1000 - 200 is added at one deviation.
    assert past.ahead(at(1), at(1), 0.5)[0] == pytest.approx(200.0)
    past.lived(at(1), np.nan * FLAT)
    assert past.ahead(at(1), at(1), 0.5)[0] == pytest.approx(100.0)


def test_pods_are_seen_to_take_so_long_to_start() -> None:
    started = 36_000.0 + np.array([[0.0, 10.0, 20.0, 30.0]])
    ready = started + [[5.0, 9.0, 40.0, np.nan]]
    snapshot = snapshot_of(
        ONE, now_s=36_100.0, pod_started_s=started, pod_ready_changed_s=ready, pod_ready=[1, 1, 1, 0]
    )
    assert start_up_s(snapshot).tolist() == [9.0]
    assert start_up_s(snapshot_of(ONE, pod_exists=False)).tolist() == [0.0]


def test_predictive_hpa_has_pods_ready_before_yesterdays_rush() -> None:
    # Periods of 8 intervals; at place 6 the rate is 400/s of 20 ms, else 100/s. Pods were ready after 10 s.
    decider = make_policy("predictive-hpa:period_s=120,recent_s=60,quantile=0.5,target=80").begin(ONE)
    wanted = []
    for step in range(16):
        rate = 400.0 if (step - 1) % 8 == 6 else 100.0  # of the interval that is over
        snapshot = snapshot_of(ONE, rate=rate, cpu=rate / 50, pod_cpu=0.5, now_s=36_000.0 + 15 * step)
        wanted.append(decider.decide(snapshot)[0, 0])
    # 400 · 0.02 / 0.8 are 10 pods. They start at 5, one interval ahead, and at 6, for the rush is there
    # until 7. HPA keeps what was wanted: at 62 % of target 80 it would have 4 · 0.5 / 0.8, but not within
    # five minutes.
    assert wanted == [4.0] * 13 + [10.0, 10.0] + [4.0]


APP = Application(
    segments=(Segment(cpu_ms=20, io_ms=30),), memory_mib=100, memory_per_request_mib=2, cache_mib=50
)


def test_the_oracle_has_pods_for_the_highest_rate_of_the_next_45_seconds() -> None:
    trace = RateTrace(np.array([100.0] * 60 + [300.0] * 60), 1.0, Provenance("a step"), start_s=36_000.0)
    decider = Oracle().knowing([APP], [trace], Deployment()).begin(ONE)
    now = snapshot_of(ONE, size=(2, 2.0, 512), now_s=36_015.0)
    # Until 36 060 s, exclusive: 100/s, 2 cores, 1.18 pods of 2 cores at 85 %.
    assert decider.decide(now)[0, :2].tolist() == [2, 2]
    # One second later there are 300/s ahead: 6 cores, 3.53 pods.
    later = snapshot_of(ONE, size=(2, 2.0, 512), now_s=36_016.0)
    size = decider.decide(later)[0]
    assert size[:2].tolist() == [4, 2]
    # 75 % busy, and four pods of 2 cores wait as one of 6: 0.75^(√14 - 1) / (6 · 0.25) = 0.303, so 0.03 +
    # 0.02 · 1.303 = 56.1 ms and 4.2 inside a pod of 75/s; with three deviations 10.4. 150 + 2 · 10.4 =
    # 170.7 MiB, at 85 % 200.9.
    assert size[2] == 208
    # After its end a trace goes on as it ended.
    assert decider.decide(snapshot_of(ONE, now_s=40_000.0))[0, 0] == 4


def test_the_oracle_counts_what_has_leaked() -> None:
    leaky = APP.model_copy(update={"leak_mib_per_hour": 100.0})
    trace = RateTrace(np.full(7200, 300.0), 1.0, Provenance("flat"))
    decider = Oracle().knowing([leaky], [trace], Deployment()).begin(ONE)
    # After two hours, less the 45 s that it looks ahead: 200 MiB more than above, at 85 %.
    size = decider.decide(snapshot_of(ONE, size=(4, 2.0, 512), now_s=7155.0))[0]
    assert size.tolist() == [4, 2, pytest.approx((170.7 + 200) / 0.85, abs=8)]


def test_the_oracle_does_not_run_live() -> None:
    with pytest.raises(SettingsError, match="oracle must know what will arrive"):
        Oracle().begin(ONE)


@pytest.mark.parametrize(
    ("cores", "utilisation", "slowdown"),
    # One core: 1 / (1 - u), exactly. Two: 1 / (1 - u²) within 3 %. Half a core: twice the work, and the
    # same queue.
    [(1, 0.5, 2.0), (1, 0.9, 10.0), (2, 0.85, 1 / (1 - 0.85**2)), (0.5, 0.5, 4.0), (4, 0.0, 1.0)],
)
def test_latency_of_known_queues(cores: float, utilisation: float, slowdown: float) -> None:
    found = mean_latency_s(0.02 * FLAT, 0.03 * FLAT, utilisation * FLAT, cores * FLAT, FLAT)
    assert found == pytest.approx([0.03 + 0.02 * slowdown], rel=0.03)


def test_the_fit_finds_what_the_formula_was_made_of() -> None:
    utilisation, cores = np.array([[0.3, 0.6, 0.8, 0.9]]), np.array([[2.0, 2.0, 3.0, 3.0]])
    pods = np.array([[1.0, 2.0, 4.0, 4.0]])
    mean_s = mean_latency_s(np.array([[0.02]]), np.array([[0.03]]), utilisation, cores, pods)
    counts = np.array([[True, True, True, False]])
    work_s = np.full((1, 4), 0.02)
    found = fitted(work_s, utilisation, cores, pods, mean_s, 5 * mean_s, counts)
    assert found.outside_s == pytest.approx([0.03])
    assert found.tail == pytest.approx([5.0])
    unknown = fitted(work_s, utilisation, cores, pods, mean_s, 5 * mean_s, counts & False)
    assert np.isnan([unknown.outside_s, unknown.tail]).all()


def test_the_fit_knows_that_requests_were_lighter_before() -> None:
    work_s, busy = np.array([[0.02, 0.02, 0.03, 0.03]]), np.full((1, 4), 0.6)
    cores, pods = np.full((1, 4), 2.0), np.ones((1, 4))
    mean_s = mean_latency_s(work_s, np.array([[0.05]]), busy, cores, pods)
    found = fitted(work_s, busy, cores, pods, mean_s, 5 * mean_s, pods > 0)
    assert [found.work_s[0], found.outside_s[0], found.tail[0]] == pytest.approx([0.03, 0.05, 5.0])


def test_pods_may_be_so_busy_that_the_limit_just_holds() -> None:
    seen = Behaviour(0.02 * FLAT, 0.0 * FLAT, 4.0 * FLAT)
    usual: Any = {"least": 0.4 * FLAT, "most": 0.95}
    # One pod for 0.7 cores: 4 · 0.02 / min(1, L) / (1 - u) with L = 0.7 / u. At u = 0.7, L = 1: 267 ms.
    assert busiest(seen, 4 * 0.02 / 0.3 * FLAT, 0.7 * FLAT, FLAT, **usual) == pytest.approx([0.7], abs=0.01)
    # A limit that nothing holds, one that everything holds, and nothing known.
    assert busiest(seen, 0.01 * FLAT, 0.7 * FLAT, FLAT, **usual).tolist() == [0.4]
    assert busiest(seen, 99.0 * FLAT, 0.7 * FLAT, FLAT, **usual) == pytest.approx([0.95])
    assert np.isnan(busiest(Behaviour(*(np.nan * FLAT,) * 3), 1.0 * FLAT, FLAT, FLAT, **usual)).all()


def test_larger_pods_may_be_busier() -> None:
    seen = Behaviour(0.02 * np.ones(3), 0.03 * np.ones(3), 4.0 * np.ones(3))
    demand, pods = 6.0 * np.ones(3), np.array([8.0, 4.0, 2.0])
    found = busiest(seen, 0.4 * np.ones(3), demand, pods, least=0.4 * np.ones(3), most=0.95)
    assert (np.diff(found) > 0.01).all()


def test_many_pods_behind_two_choices_are_as_good_as_three_times_the_cores() -> None:
    # Mitzenmacher's limit for single cores at 70 %: 1 + 0.7² + 0.7⁶ + 0.7¹⁴ = 1.61 times the work.
    found = mean_latency_s(0.02 * FLAT, 0.0 * FLAT, 0.7 * FLAT, FLAT, 20 * FLAT)
    assert found == pytest.approx([0.02 * (1 + 0.7**2 + 0.7**6 + 0.7**14)], rel=0.03)


def test_a_proven_forecast_averages_noise_away_and_follows_what_wanders() -> None:
    known = np.ones((1, 20), bool)
    # Noise around 100: the mean of 8 and what the higher of two was above it, not the last (80 or 120).
    noise = np.array([[80.0, 120, 120, 80] * 5])
    found = proven_forecast(noise, known, deviations=2.0)
    # After any four (two low, two high), the mean of 4 is 100 and one of the next two is 120, but after
    # "120, 120" both are 80: short by 20, 20, 20, -20 in turn; mean 10 and deviation 17.3, of 15 tries one
    # more high. All the same it is between the highest there was and 20 above it.
    assert 120 <= found[0] <= 150
    # A ramp of 10 per interval: the trend of pairs foretells 10 · 2 from the last pair's middle, which is
    # 10 · 1.5 ahead of the last; the higher of the next two is 20 ahead. So it always falls short by 5,
    # with no deviation.
    ramp = 100 + 10 * np.arange(20.0)[None]
    assert proven_forecast(ramp, known, deviations=2.0) == pytest.approx(ramp[:, -1] + 20)


def test_a_forecast_that_could_not_be_proven_yet_is_the_last_rate_and_some() -> None:
    rate, counts = np.full((1, 20), 100.0), np.arange(20)[None] >= 17
    # Three intervals known: one could be tried, four are wanted. 10 % for each deviation.
    assert proven_forecast(rate, counts, deviations=2.0).tolist() == pytest.approx([120.0])
    assert np.isnan(proven_forecast(rate, counts & False, deviations=2.0)).all()
    # Gaps are left out: of every third interval nobody knows.
    gaps = np.arange(20)[None] % 3 > 0
    assert proven_forecast(np.where(gaps, 100.0, np.nan), gaps, deviations=2.0) == pytest.approx([100.0])


def test_the_beginning_of_a_rush_is_drawn_out() -> None:
    rate, known = np.full((4, 20), 100.0), np.ones((4, 20), bool)
    # A fifth more goes on for two intervals and a half; a tenfold spike adds what there was before, 100.
    rate[:2, -1] = 120.0, 1000.0
    # As much up and down is usual here, and in the last the first interval is but six intervals ago.
    rate[2, ::2], rate[2, 1::2] = 100.0, 120.0
    rate[3, -1], known[3, :13] = 120.0, False
    found = proven_forecast(rate, known, deviations=0.0)
    assert found[:2].tolist() == [170.0, 1100.0]
    assert (found[2:] < 125).all()
