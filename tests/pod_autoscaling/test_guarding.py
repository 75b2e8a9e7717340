"""The guard for services: what it is told, and that a policy behind it does as it should."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from tests.pod_autoscaling.snapshots import services_of, snapshot_of

from trimtab.control.reasons import Acting, Reason, Step
from trimtab.core.errors import SettingsError
from trimtab.pod_autoscaling.application import Application
from trimtab.pod_autoscaling.deployment import Deployment
from trimtab.pod_autoscaling.guarding import (
    GuardedPolicy,
    counts_of,
    evidence_of,
    guard_of,
    needs_of,
    turns_of,
)
from trimtab.pod_autoscaling.policies import make_policy
from trimtab.pod_autoscaling.problem import CPU, MEMORY, Pods
from trimtab.pod_autoscaling.simulator.simulator import simulate

SERVICE = services_of(1, slo_s=0.4)


def needs(**given):
    snapshot = snapshot_of(SERVICE, **given)
    return needs_of(snapshot, guard_of(SERVICE, 15.0).settings)


def test_evidence_is_that_of_the_last_interval():
    # 100 requests a second for 15 s, 2 % of them late; 0.3 s of 0.4 s.
    seen = evidence_of(snapshot_of(SERVICE, rate=100.0, late=0.02, latency_p99_s=0.3))
    assert seen.total == 1500 and seen.bad == pytest.approx(30)
    assert seen.latency_ratio == pytest.approx(0.75) and seen.data_age_s == 0


def test_without_metrics_there_is_an_age_and_no_evidence():
    complete = np.ones((1, 20), bool)
    complete[0, -3:] = False
    seen = evidence_of(snapshot_of(SERVICE, complete=complete))
    assert seen.data_age_s == 45 and seen.total == 0 and seen.bad == 0 and np.isnan(seen.latency_ratio)
    assert evidence_of(snapshot_of(SERVICE, present=False)).data_age_s == np.inf


def test_needs_are_read_off_usage():
    # Pods use 0.5, 0.6, 0.7 and 0.8 cores: the busiest needs 0.84. Memory peaked at 400 MiB: 440.
    found = needs(pod_cpu=[[0.5, 0.6, 0.7, 0.8]], cpu=2.6, memory=400.0)
    assert found.floor[0, CPU] == pytest.approx(0.84)
    assert found.floor[0, MEMORY] == pytest.approx(440)
    assert found.capacity == pytest.approx(2.6 / 0.95)
    # No sample of a pod that is not ready counts.
    found = needs(pod_cpu=[[0.5, 0.6, 0.7, 0.8]], pod_ready=[[True, True, True, False]])
    assert found.floor[0, CPU] == pytest.approx(0.735)
    # Nor do columns without a pod: a simulator has room for twice the most replicas.
    snapshot = snapshot_of(SERVICE, pod_cpu=[[0.5, 0.6, 0.7, 0.8]])
    roomy = snapshot._replace(pods=Pods(*(np.pad(one, ((0, 0), (0, 76))) for one in snapshot.pods)))
    assert needs_of(roomy, guard_of(SERVICE, 15.0).settings).floor[0, CPU] == pytest.approx(0.84)
    assert needs(pod_ready=False).floor[0, CPU] == 0


@pytest.mark.parametrize(("killed_at", "floor"), [(300.0, 440.0), (600.0, 720.0), (450.0, 550.0)])
def test_after_a_kill_memory_grows_by_a_fifth_and_100_mib_at_least(killed_at, floor):
    killed_s = [[np.nan, 35_800.0, np.nan, np.nan]]
    found = needs(memory=400.0, pod_killed_s=killed_s, pod_killed_at=killed_at)
    assert found.floor[0, MEMORY] == pytest.approx(floor)
    long_ago = [[np.nan, 30_000.0, np.nan, np.nan]]
    assert needs(memory=400.0, pod_killed_s=long_ago, pod_killed_at=900.0).floor[0, MEMORY] == pytest.approx(
        440
    )


def test_a_number_that_is_missing_takes_no_need_away():
    memory = np.full((1, 20), 400.0)
    memory[0, 3] = np.nan
    killed_s = [[np.nan, 35_800.0, np.nan, np.nan]]
    found = needs(
        memory=memory, pod_cpu=[[0.5, 0.6, np.nan, 0.8]], pod_killed_s=killed_s, pod_killed_at=450.0
    )
    assert found.floor[0, MEMORY] == pytest.approx(550) and found.floor[0, CPU] == pytest.approx(0.84)


def test_needs_stay_within_bounds():
    assert needs(memory=5000.0).floor[0, MEMORY] == 4096


def test_services_with_other_quanta_need_a_guard_of_their_own():
    mixed = services_of(2, quantum=[[1, 0.01, 16], [1, 0.1, 16]])
    with pytest.raises(SettingsError, match="the same quanta; guard them one by one"):
        guard_of(mixed, 15.0)


@dataclass
class Always:
    """The same answer whatever happens."""

    size: tuple[float, float, float]
    name: str = "always"

    def begin(self, services):
        return self

    def decide(self, snapshot):
        return np.tile(np.asarray(self.size), (len(snapshot.now_s), 1))


def played(policy, seconds: int = 900):
    rates = 60 + 40 * np.sin(np.arange(seconds) / 120)
    return simulate(Application(), rates, policy, Deployment(), seed=1)


RULE = "hpa:target=70,cpu=1"


@pytest.mark.pods
def test_in_shadow_mode_the_rule_is_left_alone():
    alone, behind = (
        played(make_policy(RULE)),
        played(GuardedPolicy(Always((20, 4, 4096)), make_policy(RULE), mode="shadow")),
    )
    assert np.array_equal(alone.size, behind.size) and np.array_equal(alone.late, behind.late)


@pytest.mark.pods
def test_turns_of_a_canary_are_drawn_by_its_seed():
    turns = {}
    for seed in range(3):
        policy = GuardedPolicy(
            make_policy("multi"),
            make_policy("hpa:cpu=1"),
            mode="canary",
            canary={"seed": seed, "slot_ticks": 5, "share": 0.5},
        )
        simulate(Application(), np.full(900, 20.0), policy, Deployment(), seed=0)
        assert policy.canary is not None
        resting = [one.reasons[0, Step.CHOOSE] == Reason.RESTING for one in policy.acted]
        slots = np.reshape(resting, (12, 5))
        assert (slots == slots[:, :1]).all()
        turns[seed] = tuple(slots[:, 0])
        assert turns_of(policy.acted, policy.canary) == (12 - slots[:, 0].sum(), 12)
    assert len({*turns.values()}) == 3
    assert GuardedPolicy(make_policy("multi"), make_policy("hpa")).canary is None


def test_an_answer_that_is_no_number_leaves_the_rule_to_act():
    behind = played(GuardedPolicy(Always((np.nan, 1, 512)), make_policy(RULE)))
    alone = played(make_policy(RULE))
    assert behind.size[:, 0].mean() >= alone.size[:, 0].mean()
    assert behind.late.sum() <= alone.late.sum() + 5


@pytest.mark.pods
def test_who_asks_for_the_least_does_little_harm_and_is_told_why():
    policy = GuardedPolicy(Always((1, 0.1, 64)), make_policy(RULE))
    alone, free, behind = (played(one) for one in (make_policy(RULE), Always((1, 0.1, 64)), policy))
    assert free.late.sum() > 10 * max(alone.late.sum(), 10)
    assert behind.late.sum() < 0.2 * free.late.sum()
    decider = policy.begin(SERVICE)
    decider.decide(snapshot_of(SERVICE))
    assert decider.last is not None and any("heuristic" in line for line in decider.last.explain(0))


class Raising:
    """Fails at every decision but the first."""

    name = "raising"

    def begin(self, services):
        self.decided = 0
        return self

    def decide(self, snapshot):
        self.decided += 1
        if self.decided > 1:
            raise ValueError("no such key")
        return snapshot.size


def test_a_policy_that_raises_has_given_no_answer():
    policy = GuardedPolicy(Raising(), make_policy(RULE))
    decider, snapshot = policy.begin(SERVICE), snapshot_of(SERVICE)
    actions = [decider.decide(snapshot) for _ in range(25)]
    assert decider.last is not None and "the policy raised ValueError: no such key" in decider.last.explain(0)
    assert np.array_equal(actions[-1], decider.last.heuristic)
    assert [one.raised for one in policy.acted] == ["", *["ValueError: no such key"] * 24]
    # The rule acts for 20 ticks in any case, then for want of an answer.
    assert counts_of(policy.acted) == {
        (Acting.HEURISTIC, Reason.OBSERVING): 20,
        (Acting.HEURISTIC, Reason.INVALID): 5,
    }


class Meddling(Always):
    """Works in place on what it is shown, and leaves nothing of it."""

    def decide(self, snapshot):
        for seen in (snapshot.size, *snapshot.samples, *snapshot.pods):
            seen[:] = 0
        return super().decide(snapshot)


def test_a_policy_that_works_in_place_does_not_blind_the_guard():
    told = []
    for policy in (Always((1, 0.1, 64)), Meddling((1, 0.1, 64))):
        decider = GuardedPolicy(policy, make_policy(RULE), record={"observe_ticks": 0}).begin(SERVICE)
        decider.decide(snapshot_of(SERVICE))
        assert decider.last is not None
        told.append(decider.last.explain(0))
    assert told[0] == told[1]
    assert "needs: replicas 1 → 4: present traffic needs the capacity" in told[1]


@pytest.mark.parametrize("surprise", ["much", np.zeros((3, 3)), None])
def test_a_surprise_that_is_none_lets_the_rule_act(surprise):
    policy = Always((1, 0.1, 64))
    policy.surprise = surprise
    decider = GuardedPolicy(policy, make_policy(RULE), record={"observe_ticks": 0}).begin(SERVICE)
    decider.decide(snapshot_of(SERVICE))
    assert decider.last is not None and decider.last.reasons[0, Step.CHOOSE] == Reason.SURPRISED


def test_what_the_rule_raises_is_raised():
    decider = GuardedPolicy(Always((1, 0.1, 64)), Raising()).begin(SERVICE)
    decider.decide(snapshot_of(SERVICE))
    with pytest.raises(ValueError, match="no such key"):
        decider.decide(snapshot_of(SERVICE))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"mode": "life"}, """guard: mode = "life": should be 'shadow', 'canary' or 'active'"""),
        ({"mod": "active"}, "guard: mod is not a setting; did you mean 'mode'?"),
    ],
)
def test_settings_are_refused_before_anything_begins(settings, said):
    with pytest.raises(SettingsError) as refusal:
        GuardedPolicy(make_policy("multi"), make_policy(RULE), **settings)
    assert str(refusal.value) == said
