"""How unlike training a service is to a policy, and that the guard's rule acts then."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.pod_autoscaling.snapshots import services_of, snapshot_of

from trimtab.control.reasons import Reason, Step
from trimtab.core.bundle import load_bundle, save_bundle
from trimtab.core.errors import BundleError, SettingsError
from trimtab.pod_autoscaling.application import Application
from trimtab.pod_autoscaling.aware.policy import AwarePolicy
from trimtab.pod_autoscaling.aware.surprise import Familiar, Lately
from trimtab.pod_autoscaling.aware.training import with_familiar
from trimtab.pod_autoscaling.deployment import Deployment
from trimtab.pod_autoscaling.guarding import GuardedPolicy
from trimtab.pod_autoscaling.policies import find_bundle, make_policy
from trimtab.pod_autoscaling.simulator.simulator import simulate

SHIPPED = find_bundle("aware")


def test_distances_are_in_deviations_of_training():
    """Two numbers that go together: against their habit is farther off than with it."""
    random = np.random.default_rng(0)
    both = random.normal(size=(5000, 1)) + 0.1 * random.normal(size=(5000, 2))
    found = Familiar.of(both)
    together, apart = found.score(np.array([[2.0, 2.0], [2.0, -2.0]]))
    assert together < 1 < 5 * together < apart
    assert np.mean(found.score(both) > 1) == pytest.approx(0.005, abs=2e-4)


def test_numbers_that_never_moved_count_by_a_tenth():
    found = Familiar.of(np.column_stack([np.random.default_rng(0).normal(size=2000), np.ones(2000)]))
    distance = found.score(np.array([[found.mean[0], 1.2]])) * found.limit
    assert distance == pytest.approx(2.0, rel=0.01)


def test_what_changes_with_who_acts_is_no_surprise_and_everything_else_is():
    random = np.random.default_rng(0)
    seen, far = random.normal(size=(2000, 2)), np.array([[8.0, 0.0], [0.0, 8.0]])
    assert (Familiar.of(seen).score(far) > 2).all()
    sizes, others = Familiar.of(seen, np.column_stack([random.normal(8, 1, 50), np.zeros(50)])).score(far)
    assert sizes < 1 and others > 2


def test_means_are_of_the_last_intervals_and_begin_anew():
    lately = Lately(2, 1)
    for interval in range(11):
        assert not lately.known.any()
        lately.see(np.array([[float(interval)], [1.0]]), np.zeros(2, bool))
    assert lately.known.all() and lately.mean.tolist() == [[5.0], [1.0]]
    for _ in range(29):
        lately.see(np.array([[5.0], [1.0]]), np.zeros(2, bool))
    # 40 by now; from here on a fortieth is new.
    lately.see(np.array([[9.0], [1.0]]), np.zeros(2, bool))
    assert lately.mean[0] == pytest.approx(5.1)
    lately.see(np.array([[7.0], [3.0]]), np.array([True, False]))
    assert lately.mean[0] == pytest.approx(7) and lately.known.tolist() == [False, True]


def shipped() -> AwarePolicy:
    return AwarePolicy(load_bundle(SHIPPED))


def without(bundle):
    return replace(bundle, tensors={k: v for k, v in bundle.tensors.items() if "familiar" not in k})


def shown(policy, times: int, **given):
    """A decider that has seen the same moment so often."""
    services = services_of(1, slo_s=0.4)
    decider = policy.begin(services)
    for _ in range(times):
        decider.decide(snapshot_of(services, **given))
    return decider


def test_the_shipped_policy_knows_what_is_familiar_and_decides_as_it_did_without():
    policy, services = shipped(), services_of(1, slo_s=0.4)
    assert policy.familiar is not None and policy.bundle.manifest["trained"]["familiar"]["quantile"] == 0.995
    bare = AwarePolicy(without(policy.bundle))
    assert bare.familiar is None and bare.begin(services).surprise.tolist() == [0]
    ours, theirs = (one.begin(services) for one in (policy, bare))
    for rate in (20.0, 90.0):
        moment = snapshot_of(services, rate=rate)
        assert ours.decide(moment).tolist() == theirs.decide(moment).tolist()


def test_nothing_is_surprising_at_first_and_what_training_never_had_is_later():
    assert shown(shipped(), 10, late=1.0, failed=1.0, latency_p99_s=30.0).surprise == 0
    assert shown(shipped(), 30, late=1.0, failed=1.0, latency_p99_s=30.0).surprise > 1


def test_the_guard_lets_its_rule_act_where_the_policy_is_surprised():
    services = services_of(1, slo_s=0.4)
    reasons = []
    for policy in (shipped(), AwarePolicy(without(shipped().bundle))):
        guarded = GuardedPolicy(policy, make_policy("hpa:target=70,cpu=1")).begin(services)
        for _ in range(30):
            guarded.decide(snapshot_of(services, failed=1.0, latency_p99_s=0.1, throttled=1.0))
        assert guarded.last is not None
        reasons.append(Reason(guarded.last.reasons[0, Step.CHOOSE]))
    assert reasons == [Reason.SURPRISED, Reason.POLICY_ACTS]


@pytest.mark.pods
def test_what_is_familiar_is_measured_on_services_of_training(tmp_path):
    bundle = without(shipped().bundle)
    trained = {**bundle.manifest["trained"]}
    trained["ground"] = {**trained["ground"], "hours": 0.1, "most_rate": 5.0}
    small = replace(bundle, manifest={**bundle.manifest, "trained": trained})
    found = with_familiar(small, services=3)
    again = AwarePolicy(load_bundle(save_bundle(tmp_path / "again", found)))
    assert again.familiar is not None and again.familiar.limit > 0
    # 24 intervals, of which the first ten say nothing: 14 means of each of three services.
    told = again.bundle.manifest["trained"]["familiar"]
    assert told["services"] == 3 and "hpa:target=70,cpu=1" in told["beside"]
    trained["ground"] = {**trained["ground"], "hours": 0.03}
    with pytest.raises(SettingsError, match="too short to tell what is familiar"):
        with_familiar(replace(small, manifest={**bundle.manifest, "trained": trained}), services=1)


def test_what_does_not_fit_the_features_is_refused():
    bundle = shipped().bundle
    with pytest.raises(BundleError, match="does not fit its features"):
        AwarePolicy(replace(bundle, tensors={**bundle.tensors, "familiar/mean": np.zeros(3)}))


@pytest.mark.pods
@pytest.mark.slow
def test_a_service_of_the_usual_kind_is_left_to_the_policy():
    rates = 60 + 40 * np.sin(np.arange(1800) / 240)
    guarded = GuardedPolicy(shipped(), make_policy("multi"))
    simulate(Application(), rates, guarded, Deployment(start_replicas=4), seed=1)
    surprised = [one.reasons[0, Step.CHOOSE] == Reason.SURPRISED for one in guarded.acted]
    assert np.mean(surprised) < 0.1
