"""Learners that start on live services: who acts when, what is learned before, how the rule takes over."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.pod_bootstrap import BEFORE, STEPS, counted, shares, times_more
from tests.pod_autoscaling.cheap_services import cheap_settings

from trimtab.control.bootstrap import BootstrapSettings, Phase, Thresholds
from trimtab.control.drift import DriftSettings
from trimtab.core.errors import SettingsError
from trimtab.core.randomness import split
from trimtab.learning.off_policy_settings import OffPolicySettings
from trimtab.pod_autoscaling.aware.bootstrapping import Bootstrapper, BootstrappingSettings
from trimtab.pod_autoscaling.aware.retraining import GivenServices, Outcomes
from trimtab.pod_autoscaling.aware.services import Service, draw_services
from trimtab.pod_autoscaling.aware.task import PRESETS, AwareSettings

pytestmark = pytest.mark.pods

TRAINING = OffPolicySettings(
    hidden=(32,),
    batch=32,
    horizon=10,
    updates_per_step=4,
    cloning_iterations=6,
    offline_iterations=1,
    iterations=10,
    actor_learning_rate=3e-3,
    exploration=0.02,
    final_exploration=0.02,
    anchor=1.0,
)
SETTINGS = cheap_settings(2, TRAINING)
GROUND = SETTINGS.ground
SERVICES = draw_services(GROUND, SETTINGS.deployment, (40, 41), "validation")
OBSERVED, OFFLINE = 40, 7


def started(
    settings: AwareSettings = SETTINGS,
    *,
    drift: DriftSettings | None = None,
    services: list[Service] = SERVICES,
    **phases: float,
) -> Bootstrapper:
    """R1 is what the rule uses where alpha is 1, which anybody reaches, and 1 where it is 0: nobody does."""
    asked = {"observe_ticks": OBSERVED, "evaluation_episodes": 2, "cooldown_ticks": 5, "alpha": 1.0, **phases}
    chosen = BootstrappingSettings(
        phases=BootstrapSettings(**asked), offline_every=1, practice_copies=1, drift=drift
    )
    return Bootstrapper(GivenServices(settings, lambda _: services), chosen, seed=2)


@pytest.fixture(scope="module")
def online() -> Bootstrapper:
    one = started()
    one.live(OBSERVED + OFFLINE + 20)
    return one


def test_the_rule_acts_until_learners_have_learned_offline(online):
    acting = np.stack(online.online)
    assert not acting[: OBSERVED + OFFLINE - 1].any()
    assert acting[-15:].all()
    assert [event.phase for event in online.events] == [Phase.OFFLINE] * 2 + [Phase.ONLINE] * 2
    assert set(online.fitted) == {0, 1}
    assert online.fallbacks == 0


def test_what_was_cloned_answers_nearly_like_the_rule(online):
    """Where the rule moves at all: there, answering nothing is off by as much as the rule moves."""
    fleet = online._fleet
    steps = fleet.replay.layout.split(fleet.replay.in_order()[:OBSERVED])
    moved = np.abs(steps.guide) > 0.1
    answered = np.stack([fleet.actors(np.arange(2))(seen) for seen in steps.observation])
    assert moved.sum() > 10
    assert np.abs(answered - steps.guide)[moved].mean() < 0.5 * np.abs(steps.guide)[moved].mean()


def test_nobody_acts_who_does_not_reach_r1():
    """So services live exactly as under the rule alone."""
    one = started(alpha=0.0)
    one.live(OBSERVED + OFFLINE + 10)
    assert not np.stack(one.online).any()
    alone = GivenServices(SETTINGS, lambda _: SERVICES)
    alone.reset(split(2, "services"))
    alone.by_rule[:] = True
    for _ in range(len(one.online)):
        alone.step(alone.teacher(alone.observe()))
    assert one._task.lived.late.tolist() == alone.lived.late.tolist()
    assert one._task.lived.cores_held.tolist() == alone.lived.cores_held.tolist()


def test_below_r2_the_rule_takes_over_and_the_application_is_fitted_anew():
    one = started()
    one.live(OBSERVED + OFFLINE + 5)
    assert np.stack(one.online)[-1].all()
    before = dict(one.fitted)
    one.starts[0].thresholds = Thresholds(act=0.0, stop=2.0)
    one.live(10)
    assert one.fallbacks == 1
    event = one.events[-1] if one.events[-1].phase is Phase.OFFLINE else one.events[-2]
    assert (event.service, event.phase) == (0, Phase.OFFLINE) and "below R2" in event.because
    acting = np.stack(one.online)
    # For five intervals at least the rule acts, however good the learner is.
    assert not acting[event.tick : event.tick + 5, 0].any()
    assert acting[event.tick : event.tick + 5, 1].all()
    assert one.fitted[0] is not before[0] and one.fitted[1] is before[1]


def test_a_service_that_no_application_fits_waits_and_holds_up_nobody():
    """Nothing arrives at service 0 for as long as it is observed; then there is something to go by."""
    trace = SERVICES[0].trace
    rates = np.where(np.arange(len(trace.rates)) < 15 * OBSERVED, 0.0, trace.rates)
    silent = replace(SERVICES[0], trace=replace(trace, rates=rates))
    one = started(services=[silent, SERVICES[1]])
    one.live(OBSERVED + OFFLINE + 2)
    waiting = [event for event in one.events if event.service == 0]
    assert [event.phase for event in waiting] == [Phase.OFFLINE] * 2
    assert waiting[1].because.startswith("no application fits yet: service 0: nothing arrived")
    assert set(one.fitted) == {1} and one.online[-1].tolist() == [False, True]
    one.live(25)
    true = silent.application
    assert one.fitted[0].cpu_s == pytest.approx(true.cpu_s, rel=0.2)
    assert one._iterations[0] > 0


IMPATIENT = TRAINING.model_copy(update={"cloning_iterations": 1, "offline_iterations": 0})
"""Evaluated with the first iteration offline."""


def test_a_trace_that_begins_anew_while_the_rule_is_watched_shifts_nothing():
    """30 intervals each time, of the last of which nothing is known."""
    settings = cheap_settings(30 * 15 / 3600, IMPATIENT)
    drawn = draw_services(settings.ground, settings.deployment, (40, 41), "validation")
    one = started(settings, services=drawn)
    one.live(OBSERVED)
    live = one._ruled_lately(np.arange(2))
    assert len(one._task.lived.reward) == OBSERVED - 1
    assert live == pytest.approx(np.nanmean(one._task.lived.reward, axis=0))
    one.live(5)
    assert one.online[-1].all()
    # What came before the new beginning is still held to whoever acted then.
    one.online[:15] = [np.ones(2, bool)] * 15
    ruled = one._task.lived.reward[15 : OBSERVED - 1]
    assert one._ruled_lately(np.arange(2)) == pytest.approx(np.nanmean(ruled, axis=0))


def test_only_episodes_since_the_last_round_of_training_count(monkeypatch):
    """R1 is .5; the second episode of the first round and the first of the second would reach it together."""
    one = started(SETTINGS.model_copy(update={"training": IMPATIENT}), services=SERVICES[:1])
    one.live(OBSERVED)
    one.starts[0].thresholds = Thresholds(act=0.5, stop=0.0)
    one._credits = {0: 0.0}
    earned = iter([[0.0, 0.4], [0.6, 0.2], [0.4, 0.6]])
    monkeypatch.setattr(one, "_play", lambda *_, **__: np.array([next(earned)]))
    # Iterations at 40, 50 and 60; the last of them reaches R1.
    one.live(20)
    assert not np.stack(one.online).any()
    one.live(1)
    assert one.events[-1][:3] == (60, 0, Phase.ONLINE) and next(earned, None) is None


def test_a_learner_that_acted_all_the_time_waits_until_the_rule_has_shown_what_it_earns():
    one = started(SETTINGS.model_copy(update={"training": IMPATIENT}))
    one.live(OBSERVED + 49)
    assert np.stack(one.online)[-OBSERVED:].all()
    one.starts[0].thresholds = Thresholds(act=0.0, stop=2.0)
    # It falls back at 90, where an iteration is due; the next is at 100.
    one.live(1)
    assert one.events[-1][:3] == (90, 0, Phase.OFFLINE)
    one.live(10)
    assert 0 not in one._credits and not np.stack(one.online)[-10:, 0].any()
    one.live(1)
    assert 0 in one._credits and one.events[-1][:3] == (100, 0, Phase.ONLINE)


def test_each_learner_tries_out_as_much_as_its_own_time_online_tells(monkeypatch):
    """The second has been online for all its iterations: what it answers has no noise any more."""
    loud = IMPATIENT.model_copy(update={"exploration": 0.5, "final_exploration": 0.0})
    one = started(SETTINGS.model_copy(update={"training": loud}))
    one.live(OBSERVED + 5)
    assert one.online[-1].all()
    one._acted[:] = [0, loud.iterations * loud.horizon]
    plain = one._fleet.actors(np.arange(2))(one._task.observe())
    asked, answer = [], one._fleet.player.answer
    monkeypatch.setattr(one._fleet.player, "answer", lambda actions: (asked.append(actions), answer(actions)))
    one.live(1)
    off = np.abs(asked[0] - plain).max(axis=1)
    assert off[0] > 0.05 and off[1] < 1e-5


def test_all_that_was_observed_is_kept_however_long():
    one = started(observe_ticks=1000)
    for _ in range(1001):
        one._log.note(one._task.snapshot)
    assert len(one._log) == 1000


def test_the_same_seed_gives_the_same_life(online):
    again = started()
    again.live(len(online.online))
    assert again._task.lived.late.tolist() == online._task.lived.late.tolist()
    assert again.events == online.events


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"context": "gru", "sequence_steps": 16}, "set context = none"),
        ({"cloning_iterations": 0, "offline_iterations": 0}, "nothing is learned before"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes, told):
    training = TRAINING.model_copy(update=changes)
    with pytest.raises(SettingsError, match=told):
        started(SETTINGS.model_copy(update={"training": training}))


def test_rewards_that_r1_means_nothing_for_are_refused():
    """Minus a cost never reaches R1, so the learner would never act, and nobody would know why."""
    with pytest.raises(SettingsError, match=r"reward = lagrangian.*; set reward = aware"):
        started(SETTINGS.model_copy(update={"reward": "lagrangian"}))


@pytest.mark.parametrize(("observed", "horizon"), [(19, 10), (40, 40)])
def test_too_short_a_look_is_refused_before_it_begins(observed, horizon):
    training = TRAINING.model_copy(update={"horizon": horizon})
    settings = SETTINGS.model_copy(update={"training": training})
    least = max(20, horizon + 1)
    with pytest.raises(SettingsError, match=f"observe_ticks = {observed}.*; observe {least} or more"):
        started(settings, observe_ticks=observed)


def test_the_shipped_settings_are_direct_control_of_one_service_each():
    preset = PRESETS.load("bootstrap")
    assert (preset.actions, preset.reward) == ("logratio3", "aware")
    assert preset.training.context == "none" and preset.training.needs_log
    assert preset.training.anchor > 0 and preset.training.anchor_iterations > 0


def test_the_benchmark_counts_what_comes_after_the_rule():
    """Two services for two episodes; before that everything was late, and must not count."""
    length = BEFORE + 2 * STEPS
    late = np.ones((length, 2))
    late[BEFORE:] = [0.1, 0.3]
    one = Outcomes(np.full((length, 2), 10.0), late, *np.ones((6, length, 2)))
    whole, second = counted(one), counted(one, 1, 2)
    assert whole.late == pytest.approx([8, 24]) and second.late == pytest.approx([4, 12])
    assert times_more(whole, whole._replace(late=whole.late / 4)).value == pytest.approx(4)
    assert shares(whole, whole._replace(cores_held=2 * whole.cores_held))["CPU"].value == pytest.approx(2)


def test_an_alarm_sends_a_learner_back_offline_though_its_rewards_are_above_r2():
    """Limits at which any ten rewards are an alarm, after the five that say what is usual."""
    jumpy = DriftSettings(reference_steps=5, window=10, most_spread=1e-9, leave_out=0)
    watched, unwatched = started(drift=jumpy), started()
    for one in (watched, unwatched):
        one.live(OBSERVED + OFFLINE + 20)
    assert all(event.phase is not Phase.OFFLINE for event in unwatched.events[2:])
    back = [event for event in watched.events[2:] if event.phase is Phase.OFFLINE]
    assert {event.service for event in back} == {0, 1} and watched.fallbacks == 0
    assert all("scatter" in event.because for event in back)
    online = next(event for event in watched.events if event.phase is Phase.ONLINE)
    first = next(event for event in back if event.service == online.service)
    # 5 + 10 intervals of which metrics told the reward.
    told = np.isfinite(watched._task.lived.reward[online.tick : first.tick, first.service])
    assert told.sum() == 15 and told[-1]
    # For five intervals at least the rule acts.
    assert not np.stack(watched.online)[first.tick : first.tick + 5, first.service].any()
