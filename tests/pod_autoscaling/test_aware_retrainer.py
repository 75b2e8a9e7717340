"""Policies that serve: watched, and retrained where they no longer fit."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import jax
import numpy as np
import pytest
from benchmarks.pod_drift import gained_rows
from tests.pod_autoscaling.cheap_services import cheap_settings

from trimtab.control.drift import Drift, DriftSettings, Seen
from trimtab.core.errors import SettingsError
from trimtab.core.randomness import split
from trimtab.learning.off_policy_settings import OffPolicySettings
from trimtab.learning.off_policy_state import LearnerShape, new_parameters
from trimtab.pod_autoscaling.aware.policy import AwarePolicy, LearnedPolicy
from trimtab.pod_autoscaling.aware.retrainer import Retrainer, Retraining, RetrainingSettings
from trimtab.pod_autoscaling.aware.retraining import GivenServices, Outcomes
from trimtab.pod_autoscaling.aware.rewards import as_measured, spent_of
from trimtab.pod_autoscaling.aware.services import draw_services
from trimtab.pod_autoscaling.aware.task import PRESETS, layout_of
from trimtab.pod_autoscaling.policies import make_policy
from trimtab.pod_autoscaling.simulator.simulator import simulate_batch

pytestmark = pytest.mark.pods

TRAINING = OffPolicySettings(hidden=(8,), horizon=40)
SETTINGS = cheap_settings(0.5, TRAINING)
SERVICES = draw_services(SETTINGS.ground, SETTINGS.deployment, (40, 41), "validation")
GATHERED = 30
ASKED = RetrainingSettings(gathered=GATHERED, iterations=4, copies=1, compared=2)


def always(answer: float) -> dict[str, Any]:
    """A policy that answers the same whatever it sees: 0 leaves sizes as they are."""
    shape = LearnerShape.of(TRAINING, layout_of(SETTINGS))
    actor = jax.tree.map(np.zeros_like, new_parameters(shape, np.random.default_rng(0))["actor"])
    actor["last"]["bias"] = np.full(3, 10 * answer, np.float32)
    return {"actor": actor}


class Says:
    """A watch that has made up its mind: what it says at which update, counted anew after a reset."""

    def __init__(self, drift: Drift, at: int) -> None:
        self._drift, self._at, self.resets = drift, at, 0
        self._count = 0

    def update(self, reward: float) -> Seen:
        self._count += 1
        said = self._count == self._at and not self.resets
        return Seen(self._drift, "made up") if said else Seen(Drift.STEADY)

    def reset_reference(self) -> None:
        self.resets, self._count = self.resets + 1, 0


def serving(drift: Drift = Drift.ALARM, policy: Any = None, **given: Any) -> Retrainer:
    """Both services under one policy; at the third interval of service 0 its watch speaks, else none."""
    task = GivenServices(SETTINGS, lambda _: SERVICES)
    asked = {"settings": ASKED, "clock": lambda: datetime(2025, 1, 1, tzinfo=UTC), **given}
    one = Retrainer(task, policy or always(0), **asked)
    one._watches = [Says(drift, 3), Says(drift, 0)]  # type: ignore[list-item]
    return one


def told(one: Retrainer) -> list[tuple[int, int, Retraining]]:
    return [(it.tick, it.service, it.what) for it in one.happenings]


def test_an_alarm_is_followed_by_gathering_training_and_a_swap():
    asked: list[dict[int, slice]] = []

    def train(spans: Any) -> dict[int, Any]:
        asked.append(dict(spans))
        return {0: always(-1)}

    one = serving(policy=always(0), trainer=train, settings=ASKED.model_copy(update={"compared": 0}))
    one.live(2 + GATHERED)
    assert told(one) == [(2, 0, Retraining.ALARMED)] and not asked
    size = one.task.snapshot.size.copy()
    one.live(1)
    assert asked == [{0: slice(-GATHERED, None)}]
    assert told(one)[1:] == [(2 + GATHERED, 0, Retraining.SWAPPED)]
    # From that interval on it acts; the other service is left alone.
    assert one.task.snapshot.size[0, 1] == pytest.approx(size[0, 1] / 1.5, abs=0.01)
    assert one.task.snapshot.size[1].tolist() == size[1].tolist()
    assert [watch.resets for watch in one._watches] == [1, 0]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [(0.0, -1.0, Retraining.KEPT), (1.0, -0.01, Retraining.SWAPPED)],
    ids=["sizes that vanish", "the largest sizes, in place of which smaller ones come"],
)
def test_only_what_earns_more_on_copies_comes_to_serve(old, new, what):
    one = serving(policy=always(old))

    def train(spans: Any) -> dict[int, Any]:
        assert one.practise(spans).keys() == {0}
        return {0: always(new)}

    one._trainer = train
    one.live(3 + GATHERED)
    assert [it.what for it in one.happenings] == [Retraining.ALARMED, what]
    assert "on copies it earns" in one.happenings[-1].because


def test_metrics_that_nothing_fits_are_gathered_for_longer():
    """Sizes vanish, so nobody is answered, and latency is unknown."""
    one = serving(policy=always(-1))
    one.live(3 + GATHERED)
    assert told(one)[1:] == [(2 + GATHERED, 0, Retraining.KEPT)]
    assert "no application fits: service 0" in one.happenings[-1].because
    assert one._watches[0].resets == 0  # type: ignore[attr-defined]
    one.live(GATHERED)
    assert [it.tick for it in one.happenings] == [2, 2 + GATHERED, 2 + 2 * GATHERED]


def test_what_did_not_fit_at_a_warning_is_no_reason_after_an_alarm():
    """Whoever trains elsewhere has fitted nothing, and leaves the service as it is."""
    one = serving(policy=always(-1), trainer=lambda _: {})
    one.live(GATHERED)
    one._warn(0, "made up", retrains=True)
    assert "no application fits" in one.happenings[-1].because
    one.live(3)
    assert told(one)[-1] == (2 + GATHERED, 0, Retraining.KEPT)
    assert one.happenings[-1].because == "nothing was learned"
    assert one._watches[0].resets == 1  # type: ignore[attr-defined]


def test_on_the_spot_a_policy_goes_on_learning_from_what_it_was():
    one = serving(settings=ASKED.model_copy(update={"compared": 0}))
    one.live(3 + GATHERED)
    before, after = always(0)["actor"], one.policies[0]["actor"]
    assert jax.tree.structure(before) == jax.tree.structure(after)
    moved = [np.abs(a - b).max() for a, b in zip(*map(jax.tree.leaves, (before, after)), strict=True)]
    assert 0 < max(moved) < 0.5
    assert one.fitted[0].cpu_s == pytest.approx(SERVICES[0].application.cpu_s, rel=0.1)


def test_policies_that_differ_by_now_are_each_retrained_from_their_own():
    one = serving(settings=ASKED.model_copy(update={"compared": 0}))
    one.live(GATHERED)
    one.policies[1] = always(0.05)
    span = slice(-GATHERED, None)
    found = one.practise({0: span, 1: span})
    biases = [found[row]["actor"]["last"]["bias"] for row in (0, 1)]
    assert np.abs(biases[0]).max() < 0.2 and np.abs(biases[1] - 0.5).max() < 0.2


@pytest.mark.parametrize("rule_earns", [0.7, 0.9])
def test_after_a_warning_it_is_retrained_only_where_the_rule_does_better_on_copies(rule_earns, monkeypatch):
    one = serving(Drift.WARN, trainer=lambda _: {})
    one._watches[0]._at = GATHERED  # type: ignore[attr-defined]
    monkeypatch.setattr(one, "_played", lambda row, policy: rule_earns if policy is None else 0.8)
    one.live(GATHERED + 1)
    assert told(one)[0] == (GATHERED - 1, 0, Retraining.WARNED)
    assert f"it earns 0.800, the rule {rule_earns:.3f}" in one.happenings[0].because
    assert [it.what for it in one.happenings[1:]] == [Retraining.ALARMED] * (rule_earns > 0.8)
    assert one.fitted.keys() == {0}


def test_on_copies_the_rule_saves_what_a_policy_wastes():
    one = serving(Drift.WARN, policy=always(1), trainer=lambda _: {})
    one._watches[0]._at = GATHERED  # type: ignore[attr-defined]
    one.live(GATHERED)
    assert [it.what for it in one.happenings] == [Retraining.WARNED, Retraining.ALARMED]


def test_what_was_learned_elsewhere_is_compared_on_copies_too():
    """A policy that wastes, and another one that is taken from elsewhere: fewer pods, and all in time."""
    one = serving(policy=always(1), trainer=lambda _: {0: always(0)})
    one.live(3 + GATHERED)
    assert told(one)[0] == (2, 0, Retraining.ALARMED)
    assert one.happenings[1].because.startswith("on copies it earns")
    assert set(one.fitted) == {0}


def test_who_is_not_to_retrain_only_learns_anew_what_is_usual():
    one = serving(trainer=lambda _: {0: always(-1)})
    one.live(3 + GATHERED, retrains=False)
    assert told(one) == [(2, 0, Retraining.ALARMED)]
    assert one._watches[0].resets == 1  # type: ignore[attr-defined]
    assert one.policies[0]["actor"]["last"]["bias"].tolist() == [0, 0, 0]


def test_the_watch_itself_raises_the_alarm():
    """Limits at which any three rewards are too far apart."""
    drift = DriftSettings(reference_steps=5, window=3, most_spread=1e-9)
    asked = ASKED.model_copy(update={"drift": drift})
    task = GivenServices(SETTINGS, lambda _: SERVICES)
    one = Retrainer(task, always(0), asked, clock=lambda: datetime(2025, 1, 1, tzinfo=UTC))
    one.live(12)
    assert [it.what for it in one.happenings] == [Retraining.ALARMED] * 2
    assert all("scatter" in it.because for it in one.happenings)


@pytest.mark.parametrize("shown", [20.0, 60.0], ids=["usual price", "another price to begin with"])
def test_a_policy_serves_exactly_as_it_does_alone(shown):
    """Smoothed, and with a price of lateness that moves; what it earns is told at the usual one."""
    settings = PRESETS.load("aware", {"ground.drift_share": 0, "ground.most_rate": 20.0, "multiplier": shown})
    drawn = draw_services(settings.ground, settings.deployment, (0, 1), "test")
    bundled = make_policy("aware")
    assert isinstance(bundled, AwarePolicy) and bundled.design.smoothing == settings.smoothing < 1
    task = GivenServices(settings, lambda _: drawn)
    one = Retrainer(task, bundled.parameters, clock=lambda: datetime(2025, 1, 1, tzinfo=UTC))
    one.live(80)
    alone = simulate_batch(
        LearnedPolicy("alone", bundled.parameters, task.design),
        [it.application for it in drawn],
        [it.trace for it in drawn],
        settings.deployment,
        seeds=[split(split(0, "serving"), "luck", 0, row) % 2**31 for row in range(2)],
        sizes=np.stack([it.size for it in drawn]),
    )
    lived, prices = task.lived, task._observer.prices
    for row, episode in enumerate(alone):
        assert lived.cores_held[:, row].tolist() == episode.cores_held[:80].tolist()
        assert lived.late[:, row].tolist() == episode.late[:80].tolist()
    assert (prices != shown).all()
    seen, told = task._seen, as_measured(task.snapshot)
    spent = spent_of(told, task.snapshot.services.budget, seen.usual_cores, task.design)
    assert task.measured()[0] == pytest.approx(-(spent.held + shown * spent.late))


def test_contexts_are_refused():
    training = TRAINING.model_copy(update={"context": "gru"})
    task = GivenServices(SETTINGS.model_copy(update={"training": training}), lambda _: SERVICES)
    with pytest.raises(SettingsError, match="set context = none"):
        Retrainer(task, {}, clock=lambda: datetime(2025, 1, 1, tzinfo=UTC))


def test_the_benchmark_tells_what_retraining_gains():
    """Of ten requests an interval 2 and 4 are late before, 1 after; half as many cores are held."""
    one = np.ones((4, 3))
    without = Outcomes(10 * one, one * [2.0, 9.0, 4.0], one, 2 * one, one, one, 0 * one, one)
    after = without._replace(late=one, cores_held=one)
    rows = {row.name: row.value for row in gained_rows(without, after, slice(1, 4), [0, 2])}
    assert [round(value, 9) for value in rows.values()] == [1.0, 0.0, 0.3, 0.1, 3.0]
    assert "CPU" in next(iter(rows)) and all(name.startswith("retrained services") for name in rows)
