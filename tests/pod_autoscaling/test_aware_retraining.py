"""Given services, what metrics say of them, applications fitted to that, and learners that go on from it."""

from __future__ import annotations

from datetime import UTC, datetime

import jax
import numpy as np
import pytest
from tests.pod_autoscaling.cheap_services import cheap_settings
from tests.pod_autoscaling.snapshots import services_of, snapshot_of

from trimtab.core.errors import SettingsError
from trimtab.core.randomness import split
from trimtab.learning.off_policy_settings import OffPolicySettings
from trimtab.learning.off_policy_state import LearnerShape, new_parameters
from trimtab.pod_autoscaling.aware import retraining
from trimtab.pod_autoscaling.aware.retraining import (
    GivenServices,
    MetricsLog,
    fit_services,
    practice_services,
    retrained,
)
from trimtab.pod_autoscaling.aware.services import Service, draw_services
from trimtab.pod_autoscaling.aware.task import layout_of
from trimtab.pod_autoscaling.policies import make_policy
from trimtab.pod_autoscaling.simulator.simulator import simulate_batch

pytestmark = pytest.mark.pods

TRAINING = OffPolicySettings(
    hidden=(8,),
    batch=4,
    warmup=4,
    horizon=3,
    iterations=2,
    reset_every=2,
    checkpoint_every=2,
    validate_every=2,
    updates_per_step=0,
    members=2,
)
SETTINGS = cheap_settings(0.5, TRAINING)
GROUND = SETTINGS.ground


def services(count: int = 2) -> list[Service]:
    return draw_services(GROUND, SETTINGS.deployment, range(40, 40 + count), "validation")


def ruled(steps: int) -> tuple[GivenServices, MetricsLog]:
    """Services that the rule has served for a while."""
    drawn, log = services(), MetricsLog()
    task = GivenServices(SETTINGS, lambda _: drawn)
    task.reset(3)
    task.by_rule[:] = True
    for _ in range(steps):
        task.step(task.teacher(task.observe()))
        log.note(task.snapshot)
    return task, log


@pytest.fixture(scope="module")
def observed() -> tuple[GivenServices, MetricsLog]:
    return ruled(100)


def test_where_the_rule_acts_services_live_exactly_as_under_the_rule_alone(observed):
    drawn = services()
    luck = [split(3, "luck", 0, row) % 2**31 for row in range(2)]
    alone = simulate_batch(
        make_policy(observed[0].design.teacher),
        [one.application for one in drawn],
        [one.trace for one in drawn],
        SETTINGS.deployment,
        seeds=luck,
        sizes=np.stack([one.size for one in drawn]),
    )
    lived = observed[0].lived
    for row, episode in enumerate(alone):
        assert lived.late[:, row].tolist() == episode.late[:100].tolist()
        assert lived.cores_held[:, row] == pytest.approx(episode.cores_held[:100])


def test_answers_are_carried_out_where_the_rule_does_not_act():
    task = GivenServices(SETTINGS, lambda _: services())
    task.reset(0)
    task.by_rule[:] = [True, False]
    before = task.snapshot.size.copy()
    task.step(np.ones((2, 3), np.float32))
    assert task.snapshot.size[1, 0] == 2 * before[1, 0]
    assert task.snapshot.size[0, 0] <= before[0, 0]


def test_other_numbers_of_services_are_refused():
    counts = iter((2, 2, 3))
    task = GivenServices(SETTINGS, lambda _: services(next(counts)))
    with pytest.raises(SettingsError, match="3 services where there were 2"):
        task.reset(0)
    fresh = GivenServices(SETTINGS, lambda _: services())
    with pytest.raises(SettingsError, match="step first"):
        _ = fresh.lived


def test_the_work_of_a_request_is_found_again(observed):
    task, log = observed
    fitted = fit_services(log, task, [0, 1])
    for row, application in fitted.items():
        true = task.applications[row]
        assert application.cpu_s == pytest.approx(true.cpu_s, rel=0.05)
        assert application.slo_s == pytest.approx(true.slo_s)
        assert 0.5 < application.memory_mib / (true.memory_mib + true.cache_mib) < 2


def test_copies_meet_the_traffic_that_was_seen_in_the_size_that_was_there(observed):
    task, log = observed
    fitted = fit_services(log, task, [1])
    copies = practice_services(log, fitted, [1], copies=3, steps=20, seed=5)
    assert len(copies) == 3
    seen = task.snapshot.samples.rate[1]
    for copy in copies:
        assert len(copy.trace.rates) == 20 and copy.trace.step_s == 15
        assert 0.2 * seen.max() < copy.trace.rates.mean() < 5 * seen.max()
        assert copy.size[0] >= 1
    assert len({copy.trace.start_s for copy in copies}) > 1
    with pytest.raises(SettingsError, match="observe longer"):
        practice_services(log, fitted, [1], copies=1, steps=200, seed=5)


def test_copies_of_a_stretch_in_which_the_trace_began_anew():
    """Half an hour is 120 intervals; the row before the new beginning is later by the clock."""
    task, log = ruled(123)
    fitted = fit_services(log, task, [0])
    seam = slice(118, 122)
    times = [one["now_s"][0] for one in log._rows[seam]]
    assert times[0] > times[1]
    for steps in (4, 1):
        (copy,) = practice_services(log, fitted, [0], copies=1, steps=steps, seed=1, span=seam)
        assert (len(copy.trace.rates), copy.trace.step_s) == (steps, 15)


def test_of_pods_that_begin_together_each_start_counts_once():
    """Not the fastest alone; of the first nobody knows, and a pod that is ready again has not begun again."""
    log, one = MetricsLog(), services_of()
    began_s, ready_s = [0.0, 100.0, 100.0, 100.0], np.array([0.0, 108.0, 120.0, 131.0])
    for now_s in (110.0, 125.0, 140.0):
        changed = {"pod_ready_changed_s": ready_s, "pod_ready": ready_s <= now_s}
        log.note(snapshot_of(one, now_s=now_s, pod_started_s=began_s, **changed))
    again_s = [0.0, 150.0, 120.0, 131.0]
    log.note(snapshot_of(one, now_s=155.0, pod_started_s=began_s, pod_ready_changed_s=again_s))
    np.testing.assert_array_equal(log.starts_s(0), [np.nan, 8.0, 20.0, 31.0])


def test_the_oldest_starts_are_forgotten_but_not_those_of_pods_that_are_there(monkeypatch):
    """The first pod stays, three come and go at a time: it was ready after 8 s and again much later."""
    monkeypatch.setattr(retraining, "_MOST_STARTS", 5)
    log, one = MetricsLog(), services_of()
    for step in range(4):
        now_s = 100.0 + 100 * step
        began_s, ready_s = [92.0, now_s, now_s, now_s], [100.0 + 50 * step, *now_s + np.array([1, 2, 3])]
        log.note(snapshot_of(one, now_s=now_s + 5, pod_started_s=began_s, pod_ready_changed_s=ready_s))
    np.testing.assert_array_equal(log.starts_s(0), [8.0, 3.0, 1.0, 2.0, 3.0])


def test_a_log_keeps_no_more_than_it_should(observed):
    log = MetricsLog(keep=3)
    for _ in range(5):
        log.note(observed[0].snapshot)
    assert len(log) == 3
    with pytest.raises(SettingsError, match="keep at least 1"):
        MetricsLog(keep=0)


def test_learners_go_on_from_the_parameters_they_are_given(observed, tmp_path):
    """Nothing is learned with no updates: every member still is what it began as."""
    task, log = observed
    fitted = fit_services(log, task, [0, 1])
    shape = LearnerShape.of(TRAINING, layout_of(SETTINGS))
    start = {"actor": new_parameters(shape, np.random.default_rng(0))["actor"]}

    def draw(seed: int) -> list[Service]:
        return practice_services(log, fitted, [0, 1], copies=1, steps=10, seed=seed)

    found = retrained(SETTINGS, start, draw, tmp_path / "run", clock=lambda: datetime(2025, 1, 1, tzinfo=UTC))
    for leaf, other in zip(jax.tree.leaves(found["actor"]), jax.tree.leaves(start["actor"]), strict=True):
        assert np.asarray(leaf).shape == (2, *np.shape(other))
        assert np.allclose(leaf, np.stack([other, other]))
