"""Kubernetes' VPA recommender: targets and bounds of known histories, memory windows, kills, policies."""

from __future__ import annotations

import json

import pytest
from benchmarks.pod_exact import FORMULAS, oom_sample, used_constantly
from benchmarks.pod_exact_vpa_vectors import (
    CONFIDENCE,
    CPU_CONSTANT,
    DAY_S,
    GIB,
    HOUR_S,
    MEMORY_CONSTANT,
    MIB,
    OOM,
    PUBLISHED_CHECKPOINT,
    PUBLISHED_PERCENTILES,
)
from hypothesis import given
from hypothesis import strategies as st

from trimtab.core.errors import HistoryError, SettingsError
from trimtab.pod_autoscaling.heuristics.kubernetes.vpa_recommender import (
    Allocation,
    Amounts,
    ContainerPolicy,
    ContainerUsage,
    Recommendation,
    RecommenderSettings,
    ServiceUsage,
    applied,
    confidence,
    proportional_limit,
    recommend,
    rounded_up,
    within_policy,
)

# --- targets and bounds ----------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CPU_CONSTANT)
def test_targets_of_constant_cpu(case):
    usage = used_constantly(cores=case.usage)
    formula = recommend(usage, settings=FORMULAS).target.cpu_millicores
    assert formula == pytest.approx(1000 * case.target, rel=1e-9)
    assert recommend(usage).target.cpu_millicores == case.whole


@pytest.mark.parametrize("case", MEMORY_CONSTANT)
def test_targets_of_constant_memory(case):
    usage = used_constantly(size_bytes=case.usage)
    formula = recommend(usage, settings=FORMULAS).target.memory_bytes
    assert formula == pytest.approx(case.target, rel=1e-9)
    assert recommend(usage).target.memory_bytes == case.whole


@pytest.mark.parametrize(("minutes", "lower", "upper"), CONFIDENCE)
def test_bounds_by_length_of_history(minutes, lower, upper):
    usage = used_constantly(cores=1.0, minutes=minutes)
    assert confidence(usage) == pytest.approx(minutes / 1440)
    target, low, high, _ = recommend(usage, settings=FORMULAS)
    assert low.cpu_millicores / target.cpu_millicores == pytest.approx(lower, rel=1e-9)
    assert high.cpu_millicores / target.cpu_millicores == pytest.approx(upper, rel=1e-9)


def test_bounds_in_whole_millicores():
    # 1 core for 12 h: 1016 + 152 = 1168 for all percentiles; 1168 * 0.99601 = 1163.3, 1168 * 3.
    found = recommend(used_constantly(cores=1.0, minutes=720))
    assert (found.target[0], found.lower[0], found.upper[0]) == (1168, 1163, 3504)


def test_sparse_samples_count_for_less_than_the_clock():
    container = ContainerUsage(ServiceUsage())
    for hour in range(25):
        container.add_cpu(1.0, at_s=HOUR_S * hour)
    assert confidence(container.service) == 25 / 1440  # a day by the clock, 25 samples
    assert confidence(container.service, confidence_s=HOUR_S) == 25 / 60


def test_percentiles_are_of_target_lower_and_upper():
    service = ServiceUsage()
    container = ContainerUsage(service)
    # 100 samples: 60 of 0.1 core, 33 of 1 core, 7 of 4 cores, within minutes: hardly any decay.
    for number in range(100):
        container.add_cpu(0.1 if number < 60 else 1.0 if number < 93 else 4.0, at_s=float(number))
    found = recommend(service, settings=FORMULAS)
    # The 50th is in the bucket of 0.1 core, the 90th in that of 1 core, the 95th in that of 4.
    assert found.target.cpu_millicores == pytest.approx(1168.7236, rel=1e-6)
    days = 99 / 86_400
    low = 1.15 * 0.2 * (1.05 ** (8 + 1) - 1)  # 1 + 0.1 * 5 = 1.5 = 1.05 ** 8.3
    assert found.lower.cpu_millicores == pytest.approx(1000 * low * (1 + 0.001 / days) ** -2, rel=1e-9)
    assert found.upper.cpu_millicores == pytest.approx(
        1000 * 1.15 * 4.124698514136815 * (1 + 1 / days), rel=1e-9
    )


def test_without_any_history():
    """Least sizes, and an upper bound to match: nothing is scaled yet."""
    found = recommend(ServiceUsage())
    assert found.target == found.lower == found.upper == Amounts(25, 262_144_000)


def test_one_sample_gives_a_target_and_no_bounds_to_speak_of():
    service = ServiceUsage()
    container = ContainerUsage(service)
    container.add_cpu(1.0, at_s=0.0)
    container.add_memory(GIB, at_s=0.0)
    found = recommend(service)
    assert found.target == Amounts(1168, 1_238_659_775)
    assert found.lower == Amounts(25, 262_144_000)
    assert found.upper == Amounts(1e14, 1e14)  # the largest amount there is


@pytest.mark.parametrize(
    ("containers", "cpu", "memory"), [(1, 25, 262_144_000), (2, 12, 131_072_000), (3, 8, 87_381_333)]
)
def test_containers_share_the_least_size_of_a_pod(containers, cpu, memory):
    found = recommend(used_constantly(cores=0.001, size_bytes=MIB), containers=containers)
    # 0.01 core is the end of the first bucket: 10 m + 1 m, above the 8 m of one in three.
    assert found.target == Amounts(max(cpu, 11), memory)


def test_rounding_up_to_steps():
    settings = RecommenderSettings(cpu_step_millicores=50, memory_step_bytes=MIB)
    found = recommend(used_constantly(cores=1.0, size_bytes=GIB), settings=settings)
    # 1168 m are 1200 m; 1238659775 bytes are 1181.28 MiB.
    assert found.target == Amounts(1200, 1182 * MIB)
    assert found.uncapped == found.target
    assert rounded_up(34, 50) == 50


# --- samples ---------------------------------------------------------------------------------------------


def test_cpu_samples_weigh_a_tenth_whatever_the_request():
    service = ServiceUsage()
    ContainerUsage(service).add_cpu(3.0, at_s=0.0)
    assert service.cpu.total == 0.1


def test_late_repeated_and_negative_samples_are_not_taken():
    container = ContainerUsage(ServiceUsage())
    assert container.add_cpu(1.0, at_s=60.0)
    assert not container.add_cpu(1.0, at_s=60.0)
    assert not container.add_cpu(1.0, at_s=30.0)
    assert not container.add_cpu(-1.0, at_s=90.0)
    assert container.service.samples == 1
    assert container.add_memory(5.0, at_s=60.0)
    assert container.add_memory(5.0, at_s=60.0)  # of memory, the same moment is good
    assert not container.add_memory(5.0, at_s=30.0)
    assert not container.add_memory(-5.0, at_s=90.0)


def test_pods_of_a_service_share_its_histograms():
    service = ServiceUsage()
    first, second = ContainerUsage(service), ContainerUsage(service)
    first.add_cpu(1.0, at_s=100.0)
    second.add_cpu(1.0, at_s=40.0)
    assert (service.first_s, service.last_s, service.samples) == (40.0, 100.0, 2)


def peaks(container: ContainerUsage) -> dict[int, float]:
    weights = container.service.memory.weights
    return {int(bucket): float(weights[bucket]) for bucket in weights.nonzero()[0]}


def test_one_memory_peak_a_day_replaced_by_a_higher_one():
    container = ContainerUsage(ServiceUsage())
    container.add_memory(512 * MIB, at_s=0.0)
    # Dated to the end of its day, which is also the reference: weight 1.
    assert container.window_end_s == DAY_S and peaks(container) == {26: 1.0}
    container.add_memory(300 * MIB, at_s=HOUR_S)
    assert peaks(container) == {26: 1.0}
    container.add_memory(GIB, at_s=2 * HOUR_S)
    assert peaks(container) == {37: 1.0} and container.memory_peak_bytes == GIB
    container.add_memory(300 * MIB, at_s=DAY_S)  # the next window begins, a half-life later
    assert peaks(container) == {37: 1.0, 19: 2.0} and container.window_end_s == 2 * DAY_S


def test_windows_keep_their_beat_over_a_gap():
    container = ContainerUsage(ServiceUsage())
    container.add_memory(GIB, at_s=1000.0)
    container.add_memory(GIB, at_s=1000.0 + 3.5 * DAY_S)
    assert container.window_end_s == 1000.0 + 4 * DAY_S


def test_a_window_that_began_at_zero_takes_no_peak():
    """A quirk of the original: a peak of 0 is never replaced, until the next window."""
    container = ContainerUsage(ServiceUsage())
    container.add_memory(0, at_s=0.0)
    container.add_memory(GIB, at_s=60.0)
    assert peaks(container) == {0: 1.0}


# --- kills -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vector", OOM, ids=lambda vector: vector.why)
def test_memory_after_a_kill(vector):
    assert oom_sample(vector) == vector.sample


def test_a_kill_replaces_the_peak_and_repeated_kills_do_not_run_away():
    container = ContainerUsage(ServiceUsage())
    container.add_memory(300 * MIB, at_s=0.0)
    assert container.add_oom(512 * MIB, at_s=60.0)  # 614.4 MiB: 1 + 644245094 * 5e-9 = 4.22 = 1.05 ** 29.5
    assert peaks(container) == {29: 1.0}
    for minute in range(2, 10):
        container.add_oom(512 * MIB, at_s=60.0 * minute)
    assert peaks(container) == {29: 1.0} and container.memory_peak_bytes == 300 * MIB


def test_kills_before_the_window_are_not_taken_and_late_ones_are():
    container = ContainerUsage(ServiceUsage())
    container.add_memory(GIB, at_s=1000.0)
    assert not container.add_oom(GIB, at_s=999.0)
    container.add_memory(GIB, at_s=5000.0)
    assert container.add_oom(GIB, at_s=2000.0)  # older than the last sample, but of this window
    assert container.oom_peak_bytes == 1_288_490_188


def test_a_first_kill_needs_no_sample_before():
    container = ContainerUsage(ServiceUsage())
    assert container.add_oom(200 * MIB, at_s=50.0)
    assert container.window_end_s == 50.0 + DAY_S and container.oom_peak_bytes == 300 * MIB


def test_kills_by_other_settings():
    container = ContainerUsage(ServiceUsage(), RecommenderSettings(oom_ratio=2.0, oom_least_bytes=MIB))
    container.add_oom(10 * MIB, at_s=0.0)
    assert container.oom_peak_bytes == 20 * MIB


# --- merge and checkpoints -------------------------------------------------------------------------------


def test_merging_services():
    first, second = used_constantly(cores=1.0, minutes=60), used_constantly(cores=1.0, minutes=30)
    second.first_s = -600.0
    first.merge(second)
    assert (first.first_s, first.last_s, first.samples) == (-600.0, 3600.0, 61 + 31)
    assert first.cpu.percentile(0.9) == pytest.approx(1.016281388554)
    empty = ServiceUsage()
    empty.merge(first)
    assert (empty.first_s, empty.samples) == (-600.0, 92)
    empty.merge(ServiceUsage())
    assert empty.last_s == 3600.0


def test_a_checkpoint_goes_around():
    usage = used_constantly(cores=1.0, size_bytes=GIB)
    again = ServiceUsage.load(json.loads(json.dumps(usage.save())))
    assert recommend(again) == recommend(usage)
    assert (again.first_s, again.last_s, again.samples) == (0.0, DAY_S, 1441)


def test_a_published_checkpoint():
    usage = ServiceUsage.load(PUBLISHED_CHECKPOINT)
    for kind, share, value in PUBLISHED_PERCENTILES:
        assert getattr(usage, kind).percentile(share) == pytest.approx(value, rel=1e-9)
    # 10 m + 1 m is less than the least size; 159171265 + 23875689.75 bytes too.
    assert recommend(usage).target == Amounts(25, 262_144_000)
    assert usage.save()["cpuHistogram"] == {
        **PUBLISHED_CHECKPOINT["cpuHistogram"],
        "totalWeight": pytest.approx(4396.8574),
    }


def test_other_versions_are_refused():
    with pytest.raises(HistoryError, match="version 'v2'; give one of v3"):
        ServiceUsage.load({"version": "v2"})


# --- policies, requests, limits --------------------------------------------------------------------------

FOUND = Recommendation(Amounts(500, GIB), Amounts(300, GIB // 2), Amounts(900, 2 * GIB), Amounts(500, GIB))


def test_policies_cap_target_and_bounds_but_not_what_was_uncapped():
    policy = ContainerPolicy(least=Amounts(600, 0), most=Amounts(800, GIB))
    found = within_policy(FOUND, policy)
    assert found.target == Amounts(600, GIB)
    assert found.lower == Amounts(600, GIB // 2)
    assert found.upper == Amounts(800, GIB)
    assert found.uncapped == FOUND.target


def test_the_most_wins_over_the_least():
    policy = ContainerPolicy(least=Amounts(900, 0), most=Amounts(400, 0))
    assert within_policy(FOUND, policy).target.cpu_millicores == 400


def test_requests_only_stay_below_the_limits():
    policy, present = ContainerPolicy(limits_follow=False), Allocation(100, 450, GIB, None)
    found = within_policy(FOUND, policy, present)
    assert found.target == Amounts(450, GIB) and found.upper == Amounts(450, 2 * GIB)
    assert applied(found.target, present, policy) == Allocation(450, 450, GIB, None)
    # Where limits follow, they do not cap.
    assert within_policy(FOUND, ContainerPolicy(), present).target == FOUND.target


@pytest.mark.parametrize(
    ("limit", "requested", "recommended", "expected"),
    [
        (1000, 300, 450, 1500),  # in proportion
        (1000, 300, 100, 333),  # 333.3, cut
        (None, 300, 450, None),  # no limit stays none
        (0, 300, 450, None),  # 0 is no limit
        (800, None, 450, 450),  # a limit alone is the request too
        (300, 300, 450, 450),  # equal stay equal
        (400, 0, 450, 450),  # a request of 0 has no proportion: raised to the request,
        (800, 0, 450, None),  # never lowered
        (800, 300, 0, None),  # nothing recommended
        (3 * GIB, GIB, 7, 21),
    ],
)
def test_limits_in_proportion(limit, requested, recommended, expected):
    assert proportional_limit(limit, requested, recommended) == expected


def test_what_is_not_controlled_stays():
    present, target = Allocation(100, 200, GIB, 2 * GIB), Amounts(300, 3 * GIB)
    memory_alone, cpu_alone = ContainerPolicy(controls_cpu=False), ContainerPolicy(controls_memory=False)
    assert applied(target, present) == Allocation(300, 600, 3 * GIB, 6 * GIB)
    assert applied(target, present, memory_alone) == Allocation(100, 200, 3 * GIB, 6 * GIB)
    assert applied(target, present, cpu_alone) == Allocation(300, 600, GIB, 2 * GIB)
    assert applied(target, present, ContainerPolicy(active=False)) == present
    requests_only = ContainerPolicy(limits_follow=False)
    assert applied(target, present, requests_only) == Allocation(300, 200, 3 * GIB, 2 * GIB)
    assert applied(target, Allocation(100, None, None, None)) == Allocation(300, None, 3 * GIB, None)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (lambda: RecommenderSettings(target_percentile=90), "such as 0.9"),
        (lambda: RecommenderSettings(memory_window_s=0), "windows and steps"),
        (lambda: RecommenderSettings(oom_ratio=0.5), "OOM ratio from 1"),
        (lambda: ContainerPolicy(least=Amounts(-1, 0)), "amounts from 0"),
    ],
)
def test_refusals(bad, message):
    with pytest.raises(SettingsError, match=message):
        bad()


@given(st.lists(st.floats(0.0, 8.0), min_size=1, max_size=60), st.integers(1, 4))
def test_bounds_enclose_the_target(cores, containers):
    service = ServiceUsage()
    container = ContainerUsage(service)
    for minute, used in enumerate(cores):
        container.add_cpu(used, at_s=60.0 * minute)
        container.add_memory(1e9 * used, at_s=60.0 * minute)
    target, lower, upper, _ = recommend(service, containers=containers)
    for place in range(2):
        assert lower[place] <= target[place] <= upper[place]
        assert isinstance(target[place], int)
