"""Static, HPA, KEDA and MPC: decisions worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.pod_autoscaling.snapshots import services_of, snapshot_of

from trimtab.core.errors import SettingsError
from trimtab.pod_autoscaling.heuristics.forecasts import trend_forecast
from trimtab.pod_autoscaling.policies import make_policy
from trimtab.pod_autoscaling.problem import Snapshot

ONE = services_of()


def decided(name: str, *snapshots: Snapshot) -> list[float]:
    """The last decision of a rule on one service after another snapshot."""
    decider = make_policy(name).begin(snapshots[0].services)
    return [decider.decide(snapshot) for snapshot in snapshots][-1][0].tolist()


def later(step: int, **given: Any) -> Snapshot:
    return snapshot_of(ONE, now_s=36_000.0 + 15 * step, **given)


def test_static_keeps_or_sets_each_number() -> None:
    assert decided("static", snapshot_of(ONE, size=(4, 1.0, 512))) == [4, 1, 512]
    assert decided("static:replicas=6,cpu=2", snapshot_of(ONE, size=(4, 1.0, 512))) == [6, 2, 512]
    assert decided("static:replicas=60,memory=9000", snapshot_of(ONE, size=(4, 1.0, 512))) == [20, 1, 4096]


def test_hpa_scales_up_in_proportion() -> None:
    # 4 pods at 90 % of 1 core, target 60: ratio 1.5, 6 pods. Adding 2 is within 4 pods or 100 % in 15 s.
    assert decided("hpa:target=60", snapshot_of(ONE, cpu=3.6)) == [6, 1, 512]
    # At 65 % the ratio is 1.083: within the tolerance of 0.1.
    assert decided("hpa:target=60", snapshot_of(ONE, cpu=2.6)) == [4, 1, 512]
    # Pods of 2 cores at 90 % of them, and the size as given.
    busy = snapshot_of(ONE, size=(4, 2.0, 512), cpu=7.2)
    assert decided("hpa:target=60,cpu=3", busy) == [6, 3, 512]


def test_hpa_scales_down_after_five_minutes_only() -> None:
    # 4 pods at 20 %, target 60: 4 · 0.2 / 0.6 is 1.33, so 2 pods; the first want was the 4 there are.
    idle = [later(step, cpu=0.8) for step in range(21)]
    assert decided("hpa:target=60", *idle[:20]) == [4, 1, 512]
    assert decided("hpa:target=60", *idle) == [2, 1, 512]
    assert decided("hpa:target=60,down_wait_s=0", *idle[:2]) == [2, 1, 512]


def test_hpa_counts_a_pod_without_a_metric_as_full_on_the_way_down_and_idle_on_the_way_up() -> None:
    # Three of four pods known. Down: (3 · 0.3 + 1.0) / 4 is 47 %, of target 60 0.78; ceil(4 · 0.783) is 4.
    measured = [True, True, True, False]
    quiet = [later(step, pod_cpu=0.3, pod_measured=measured) for step in range(2)]
    assert decided("hpa:target=60,down_wait_s=0", *quiet) == [4, 1, 512]
    # Up: (3 · 0.9 + 0) / 4 is 67 %, of target 50 1.34; ceil(4 · 1.34) is 6.
    assert decided("hpa:target=50", snapshot_of(ONE, pod_cpu=0.9, pod_measured=measured)) == [6, 1, 512]


def test_hpa_leaves_out_pods_that_are_starting_or_going() -> None:
    # The fourth pod is pending and the fifth on its way out: 3 pods at 90 %. Counted in as idle, the
    # pending one makes it 67 % of 1 core: of target 50 1.34, and ceil(4 · 1.34) is 6.
    going: Any = {"pod_pending": [False] * 3 + [True, False], "pod_ending": [False] * 4 + [True]}
    snapshot = snapshot_of(ONE, pods=5, pod_exists=True, pod_cpu=0.9, **going)
    assert decided("hpa:target=50", snapshot) == [6, 1, 512]


def test_hpa_trusts_the_cpu_of_a_new_pod_once_all_of_its_window_was_ready() -> None:
    """4 pods at 90 % of target 60: 6; with the fourth, ready for half a minute, counted as idle: 5."""
    new: Any = {"pod_started_s": [0.0] * 3 + [35_940.0], "pod_ready_changed_s": [0.0] * 3 + [35_970.0]}
    short, long = (snapshot_of(ONE, cpu=3.6, metric_window_s=window_s, **new) for window_s in (15.0, 60.0))
    assert decided("hpa:target=60", short) == [6, 1, 512]
    assert decided("hpa:target=60", long) == [5, 1, 512]


def test_hpa_counts_only_changes_that_were_made() -> None:
    """Something else kept the service at 1 pod: the limit of 4 pods in 15 s still starts from there."""
    stuck = [later(step, size=(1, 1.0, 512), cpu=1.0, pod_cpu=9.0) for step in range(3)]
    assert decided("hpa:target=60", *stuck) == [5, 1, 512]


def test_keda_divides_the_total_by_the_target_per_pod() -> None:
    # 26 requests inside, 3 per pod: 8.67, so 9 pods; 4 there are, and up to 8 may be had within 15 s.
    crowd = snapshot_of(ONE, in_flight=26.0)
    assert decided("keda:in_flight=3", crowd) == [8, 1, 512]
    # 5 per pod: 5.2, so 6.
    assert decided("keda:in_flight=5", crowd) == [6, 1, 512]
    # 100/s at 13/s per pod: 7.7, so 8. The larger of two.
    assert decided("keda:in_flight=6,rate=13,cpu=2", crowd) == [8, 2, 512]
    # 4 pods of target 6 for 24.5: within 10 %.
    assert decided("keda:in_flight=6", snapshot_of(ONE, in_flight=24.5)) == [4, 1, 512]


def test_keda_does_not_scale_down_on_half_of_its_metrics() -> None:
    rate = np.full((1, 20), np.nan)
    quiet = [later(step, in_flight=1.0, rate=rate) for step in range(2)]
    assert decided("keda:in_flight=3,rate=20,down_wait_s=0", *quiet) == [4, 1, 512]
    assert decided("keda:in_flight=3,down_wait_s=0", *quiet) == [1, 1, 512]


def test_keda_needs_a_target() -> None:
    with pytest.raises(SettingsError, match="nothing to go by; give in_flight or rate"):
        decided("keda:in_flight=0", snapshot_of(ONE))


def test_forecast_draws_rises_out_and_falls_not() -> None:
    known = np.ones((1, 4), bool)
    usual: Any = {"horizon_s": 35.0, "deviations": 1.0}
    # Slope 1/s of 100, 115, 130, 145: 145 + 35; the changes do not vary.
    assert trend_forecast(np.array([[100.0, 115, 130, 145]]), known, 15.0, **usual).tolist() == [180.0]
    assert trend_forecast(np.array([[145.0, 130, 115, 100]]), known, 15.0, **usual).tolist() == [100.0]
    # 100, 110, 100, 110: least squares give 6/15 · 1/3 ... slope (-1.5·100 - .5·110 + .5·100 + 1.5·110)/5 = 2
    # per interval, 0.1333/s; changes 10, -10, 10 have mean 3.33 and deviation √(800/9) = 9.428.
    risen = trend_forecast(np.array([[100.0, 110, 100, 110]]), known, 15.0, **usual)
    assert risen == pytest.approx([110 + 35 * 2 / 15 + np.sqrt(800 / 9)])
    assert np.isnan(trend_forecast(np.ones((1, 4)), known & False, 15.0, **usual)).all()


def test_mpc_sizes_for_the_forecast() -> None:
    # 300/s of 20 ms: 6 cores; at 85 % of 2-core pods 3.53, so 4. The size 1 core before does not matter.
    flat = snapshot_of(ONE, rate=300.0, cpu=6.0, size=(2, 1.0, 512), cpu_limit=4.0)
    assert decided("mpc", flat) == [4, 2, 512]
    assert decided("mpc:cpu=0", flat) == [8, 1, 512]
    # Told 10 ms: 3 cores, 1.76 pods. Told 20 ms and wrong by half: 9 cores, 5.3 pods.
    assert decided("mpc:cpu_ms=10", flat) == [2, 2, 512]
    assert decided("mpc:cpu_ms=20,error=1.5", flat) == [6, 2, 512]
    # 100, 115, 130, 145 becomes 180: 3.6 cores, 2.1 pods.
    rising = snapshot_of(ONE, rate=[100.0] * 17 + [115, 130, 145], size=(1, 2.0, 512))
    assert decided("mpc:cpu_ms=20", rising) == [3, 2, 512]


def test_mpc_scales_down_to_the_highest_want_of_a_minute() -> None:
    quiet = [later(step, rate=20.0, cpu=0.4, size=(4, 2.0, 512)) for step in range(6)]
    assert [decided("mpc", *quiet[: step + 1])[0] for step in range(6)] == [4, 4, 4, 4, 4, 1]


def test_mpc_without_requests_goes_to_the_least() -> None:
    silent = [later(step, rate=0.0, cpu=0.0) for step in range(6)]
    assert decided("mpc:cpu=0", *silent) == [1, 1, 512]
