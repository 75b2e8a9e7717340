"""The benchmark of learned autoscalers: which services, what counts, and when a bar holds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.pod_learning import (
    DRIFTING,
    HPA_70,
    RIVAL_SEEDS,
    TUNED_FILE,
    TUNING,
    FullPodSuite,
    RivalSuite,
    asked_policy,
    best_setting,
    costs,
    either_rows,
    full_pod_rows,
    learned_rows,
    memory_rows,
    quality_rows,
    rival_rows,
    share_ratio,
    told_mpc,
    tuned_hpa,
)
from benchmarks.pod_services import (
    TRAFFIC,
    Contestant,
    HeldOutSuite,
    Measures,
    Pair,
    Played,
    ServiceUnit,
    held_out_services,
    measured,
    play,
    same_for_all,
    workloads,
)
from tests.pod_autoscaling.made_up_episodes import made_up_episode

from trimtab.benchmark.playing import Progress, Work, Workers
from trimtab.pod_autoscaling.heuristics.rule import Rule
from trimtab.pod_autoscaling.policies import make_policy
from trimtab.pod_autoscaling.workload.applications import application_names, make_application

DAY = 86_400


def played(
    name: str, *, cores: float = 4.0, late: float = 10.0, memory: float = 0.8, count: int = 10
) -> Played:
    """So many workloads of a thousand requests each that are all alike."""
    one = Measures(24 * cores, late, 1000, late / 1000, memory, 1.0, memory, 1.0, 0, 0, 0.8, 0.5)
    return Played(name, {field: np.full(count, value) for field, value in one._asdict().items()})


def test_services_are_unseen_and_of_all_kinds() -> None:
    names = held_out_services()
    assert len(set(names)) == 8
    assert set(names) <= set(application_names("test"))
    apps = [make_application(name) for name in names]
    every = [make_application(name) for name in application_names("test")]
    for measure in (
        lambda app: app.cpu_s,
        lambda app: app.cpu_variation,
        lambda app: app.io_s / app.unloaded_s,
    ):
        middle = float(np.median([measure(app) for app in every]))
        above = sum(measure(app) > middle for app in apps)
        assert 3 <= above <= 5
    assert [app.cpu_s for app in apps] == sorted(app.cpu_s for app in apps)


def test_no_two_workloads_share_a_seed_and_tuning_sees_other_days() -> None:
    suite = HeldOutSuite()
    scenarios = suite.scenarios()
    assert len(scenarios) == 8 * len(TRAFFIC)
    seeds = [
        seed for place in range(40) for test in (True, False) for seed in suite.seeds_of(place, 5, test=test)
    ]
    assert len(set(seeds)) == 400
    for place in (0, 4, 39):
        for test, days in ((True, range(11, 14)), (False, range(9))):
            _, trace = suite.draw(scenarios[place], suite.seeds_of(place, 1, test=test)[0])
            assert trace.start_s // DAY in days


def test_work_needs_four_cores_or_what_a_hundred_requests_need() -> None:
    suite = HeldOutSuite()
    for scenario in suite.scenarios()[::5]:
        settings = suite.arriving(scenario, 0)
        work_s = make_application(scenario.workload.application).cpu_s
        assert (settings.mean_cores, settings.most_rate, settings.hours) == (4.0, 100.0, 1.5)
        assert suite.deployment.most_replicas > 2 * min(4.0, 100 * work_s)


def test_workloads_stand_in_the_order_in_which_they_are_played() -> None:
    order = workloads(HeldOutSuite(), 3)
    assert len(order) == 120
    assert [one.number for one in order[:4]] == [0, 1, 2, 0]
    assert [one.traffic for one in order[:15:3]] == list(TRAFFIC)
    assert {one.service for one in order[:15]} == {held_out_services()[0]}


def test_measures_count_from_a_moment_on() -> None:
    """Two hours; the only kill is at three quarters, after the first hour."""
    episode = made_up_episode()
    whole, half = measured(episode, 0.0), measured(episode, 3600.0)
    assert whole.late == episode.late.sum()
    assert half.late == episode.late[240:].sum()
    assert whole.core_hours == pytest.approx(episode.metrics()["core_hours"])
    assert whole.late_share == pytest.approx(episode.metrics()["late_share"])
    assert (whole.kills, whole.late_kills) == (1, 1)
    assert half.memory_used == whole.settled_memory_used == pytest.approx(episode.memory_used[240:].sum())
    assert half.reward == pytest.approx(episode.rewards_aware[240:].mean())


def test_tuned_settings_are_never_later_than_hpa_70() -> None:
    usual = {(70.0, 1.0): (6.0, 0.01)}
    assert best_setting(usual) == (70.0, 1.0)
    assert best_setting(usual | {(90.0, 4.0): (3.0, 0.011)}) == (70.0, 1.0)
    assert best_setting(usual | {(80.0, 2.0): (5.0, 0.01), (60.0, 2.0): (5.5, 0.0)}) == (80.0, 2.0)


def test_the_shipped_settings_belong_to_the_workloads_as_they_are() -> None:
    tuned = tuned_hpa()
    for scenario in TUNING.scenarios():
        rule = tuned.policy(scenario)
        assert isinstance(rule, Rule)
        assert rule.values["target"] in (50, 60, 70, 80, 90)
        assert rule.values["cpu"] in (0.5, 1, 2, 4)


def test_settings_of_other_workloads_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        SystemExit, match=r"other\.json is missing; run `python -m benchmarks\.pod_learning --tune`"
    ):
        tuned_hpa(tmp_path / "other.json")
    content = json.loads(TUNED_FILE.read_text())
    name = f"{held_out_services()[0]} bursty"
    content["tuned"][name]["ground"]["hours"] = 7.0
    (tmp_path / "other.json").write_text(json.dumps(content))
    with pytest.raises(SystemExit, match=f"other.json has no settings for {name} as it is now"):
        tuned_hpa(tmp_path / "other.json")


def test_mpc_is_told_the_work_of_its_own_service() -> None:
    scenario = HeldOutSuite().scenarios()[7]
    rule = told_mpc("mpc", 1.5).policy(scenario)
    assert isinstance(rule, Rule)
    work_s = make_application(scenario.workload.application).cpu_s
    assert rule.values["cpu_ms"] == pytest.approx(1000 * work_s)
    assert rule.values["error"] == 1.5


def test_work_drifts_in_mid_episode_and_only_what_follows_counts() -> None:
    change = DRIFTING.drift.changes[0]
    assert change.cpu == 1.5
    assert change.at_s == DRIFTING.from_s == DRIFTING.hours * 3600 / 2


def test_an_unknown_policy_ends_the_benchmark_in_one_line() -> None:
    with pytest.raises(SystemExit, match=r"error: no policy 'pod/nobody'; known: "):
        asked_policy("nobody")


def test_late_shares_are_of_all_requests() -> None:
    assert share_ratio(played("a", late=5), played("b", late=20)).value == pytest.approx(0.25)
    assert share_ratio(played("a", late=0), played("b", late=0)).value == 1.0
    assert share_ratio(played("a", late=1), played("b", late=0)).value > 1e300


@pytest.mark.parametrize(
    ("cores", "late", "holds"),
    [(3.4, 90.0, True), (3.5, 10.0, False), (9.0, 3.3, True), (9.0, 3.4, False)],
)
def test_against_a_wrong_model_one_of_two_gains_is_enough(cores: float, late: float, holds: bool) -> None:
    """15 % fewer than 4 cores are 3.4; a third of 10 late requests are 3.3."""
    barred, saved, share = either_rows("them", played("us", cores=cores, late=late), played("them"))
    assert barred.holds is holds
    assert barred.value == pytest.approx(min(cores / 4 / 0.85, 3 * late / 10))
    assert (saved.value, share.value) == pytest.approx((cores / 4, late / 10))
    assert saved.holds and share.holds


def test_bars_hold_by_value_and_name_who_is_compared() -> None:
    names = ("hpa-50", HPA_70, "hpa tuned for each workload", "mpc with the true work")
    rows = quality_rows(played("us", cores=3.0, late=9), {name: played(name) for name in names})
    assert [row.holds for row in rows] == [True] * len(rows)
    rows = quality_rows(played("us", cores=3.5, late=11), {name: played(name) for name in names})
    missed = [row.name for row in rows if not row.holds]
    assert missed == ["us / hpa-70: share of late requests", "us / hpa-50: core-hours"]


def test_memory_is_judged_after_the_first_hour() -> None:
    assert [row.holds for row in memory_rows(played("us", memory=0.71))] == [True] * 4
    assert [row.holds for row in memory_rows(played("us", memory=0.69))] == [False, True, True, True]


def test_where_a_full_pod_is_known_its_memory_is_the_least() -> None:
    """Every service of the benchmark leaves room above it, and the most it can ever hold lies below it."""
    suite = FullPodSuite()
    for name in held_out_services():
        service = make_application(name)
        deployment = suite.deployment_of(service)
        inside = service.memory_per_request_mib * (service.workers + service.queue)
        holds = service.memory_mib + service.cache_mib + inside + 1.5 * service.leak_mib_per_hour
        assert holds < deployment.least_memory_mib < 1.06 * holds
        assert deployment.least_memory_mib <= deployment.start_memory_mib <= deployment.most_memory_mib
    ours, told = played("us", memory=0.4), played("us", memory=0.3)
    rows = {row.name.partition(": ")[2]: row.value for row in full_pod_rows(ours, told)}
    assert rows["memory used over memory held, after the first hour"] == pytest.approx(0.3)


def test_against_learned_rivals_the_cost_counts() -> None:
    """Ten of a thousand late is the budget, so with as many the cost is that of what is held."""
    suite, seeds = RivalSuite(), 1
    theirs = {"rival": played("rival", count=20)}
    cost, cores, late, *overview = rival_rows(suite, played("us", cores=3.0, count=20), theirs, seeds)
    assert cost.name == "us / rival, 4 services: cost" and cost.holds
    assert cost.value == pytest.approx(cores.value, rel=1e-4) and cores.value == pytest.approx(0.75)
    assert (late.value, cores.bar, late.bar) == (1.0, "none", "none")
    assert [(row.name, row.value) for row in overview[:2]] == [
        ("us (4 services, 1 seed): core-hours a day", pytest.approx(72)),
        ("us (4 services, 1 seed): share of late requests", pytest.approx(0.01)),
    ]
    # Cores saved by letting everybody wait are paid for.
    cost, cores, late, *_ = rival_rows(suite, played("us", cores=3.9, late=900, count=20), theirs, seeds)
    assert cores.value < 1 < cost.value and late.value == pytest.approx(90)
    assert not cost.holds and cores.holds and late.holds


def test_learned_rivals_meet_the_hours_of_everybody_else() -> None:
    every, some = HeldOutSuite(), RivalSuite()
    at = {one.name: place for place, one in enumerate(every.scenarios())}
    assert [one.service for one in workloads(some, 1)][:: len(TRAFFIC)] == [*held_out_services()[::2]]
    for place, scenario in enumerate(some.scenarios()):
        assert some.seeds_of(place, 2) == every.seeds_of(at[scenario.name], 2)


def test_the_fine_is_for_the_work_of_the_requests() -> None:
    """1,000 requests in an hour and a half, a tenth late beyond the budget: 20 cores for each needed."""
    suite = HeldOutSuite()
    within, above = (costs(suite, played("us", late=late, count=40), 1) for late in (10, 110))
    work_s = [make_application(one.service).cpu_s for one in workloads(suite, 1)]
    assert within == pytest.approx(np.full(40, 4.0), rel=1e-6)
    assert above - within == pytest.approx(20 * 0.1 * 1000 * np.array(work_s) / 5400)


def test_all_learned_rivals_play_and_nobody_plays_against_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[list[str], int]] = []

    def without_playing(
        workers: Workers, suite: HeldOutSuite, contestants: list[Contestant], *, seeds: int
    ) -> dict[str, Played]:
        asked.append(([one.name for one in contestants], seeds))
        return {one.name: played(one.name, count=20 * seeds) for one in contestants}

    monkeypatch.setattr("benchmarks.pod_learning.play", without_playing)
    six = ["q-learning", "a-sarsa", "miras", "adrl", "simppo", "deepscaling"]
    rows = learned_rows(Workers(1), played("aware", count=200), 5)
    assert asked == [(six, RIVAL_SEEDS)]
    assert [row.name for row in rows if row.bar != "none"] == [
        f"aware / {one}, 4 services: cost" for one in six
    ]
    learned_rows(Workers(1), played("simppo", count=40), 1)
    assert asked[1] == ([name for name in six if name != "simppo"], 1)


@pytest.mark.pods
def test_costs_are_those_of_the_episodes() -> None:
    suite = HeldOutSuite(hours=0.05)
    one_pod = make_policy("static:replicas=1")
    with Workers(1) as workers:
        found = play(workers, suite, [same_for_all("one pod", one_pod)], seeds=1)["one pod"]
    ours = costs(suite, found, 1)
    for place in (0, 17, 39):
        ((episode,),) = suite.play(suite.scenarios()[place], suite.seeds_of(place, 1), [one_pod])
        assert ours[place] == pytest.approx(episode.metrics()["cost"])
    # One pod is too few for most of them, so there are fines to compare.
    assert (found["late_share"] > suite.deployment.objective.budget).sum() > 20


@pytest.mark.pods
def test_everybody_meets_the_same_requests() -> None:
    suite = HeldOutSuite(hours=0.05)
    with Workers(1) as workers:
        found = play(
            workers,
            suite,
            [
                same_for_all("static", make_policy("static")),
                Contestant("mpc", told_mpc("mpc").policy),
            ],
            seeds=1,
        )
    assert list(found) == ["static", "mpc"]
    for one in found.values():
        assert one["core_hours"].shape == (40,)
        assert (one["finished"] > 0).sum() >= 36
    # Twice the mean need, in pods of one core and of two.
    assert 1.0 <= found["mpc"]["core_hours"].mean() / found["static"]["core_hours"].mean() <= 1.3
    # Three minutes at rates in proportion to the mean: what was finished differs by what is still inside.
    ratio = found["mpc"]["finished"].sum() / found["static"]["finished"].sum()
    assert ratio == pytest.approx(1.0, abs=0.05)


@pytest.mark.pods
def test_pairs_side_by_side_are_as_pairs_apart() -> None:
    """Whatever is decided for one service: no luck and no rounding depends on who is played beside it."""
    suite = HeldOutSuite(hours=0.1)
    names = ("aware", "multi", "mpc", "hpa-vpa", "keda", "autothrottle", "predictive-hpa:period_s=3600")
    policies = tuple(make_policy(name) for name in names)
    pairs = [Pair(suite.scenarios()[at], suite.seeds_of(at, 2), policies) for at in (30, 31, 33)]
    together = ServiceUnit(suite, tuple(pairs)).play()
    for pair, found in zip(pairs, together, strict=True):
        assert [found] == ServiceUnit(suite, (pair,)).play()


@pytest.mark.pods
def test_equal_policies_play_once_and_get_the_same() -> None:
    suite = HeldOutSuite(hours=0.05)
    usual, other = (make_policy("hpa", {"target": 70, "cpu": cpu}) for cpu in (1, 2))
    again = make_policy("hpa", {"target": 70, "cpu": 1})
    tuned = (again, other)
    unit = ServiceUnit(
        suite,
        tuple(Pair(suite.scenarios()[at], suite.seeds_of(at, 1), (usual, tuned[at])) for at in range(2)),
    )
    assert unit.episodes == 4
    assert unit.plays() == [(usual, [0, 1]), (other, [1])]
    first, second = unit.play()
    assert first[0] == first[1]
    assert second[0] != second[1]


def test_rivals_are_played_apart() -> None:
    """Their luck depends on the place among the services they run."""
    asked: list[int] = []

    class Counting(Workers):
        def play(self, units: Sequence[Work], progress: Progress | None = None) -> list[list[list[Any]]]:
            asked.extend(unit.episodes // 2 for unit in units)
            nothing = Measures(*[1.0] * len(Measures._fields))
            return [[[[nothing] * 2]] * (unit.episodes // 2) for unit in units]

    for suite, pairs in ((HeldOutSuite(), [5] * 8), (RivalSuite(), [1] * 20)):
        asked.clear()
        play(Counting(1), suite, [same_for_all("static", make_policy("static"))], seeds=2)
        assert asked == pairs
