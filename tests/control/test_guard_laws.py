"""Laws of the guard, on random settings, answers, evidence and needs, spoilt ones included."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.control.situations import Inputs, random_guard, random_play

from trimtab.control.decision import Guarded
from trimtab.control.evidence import Evidence, Needs
from trimtab.control.guard import Guard
from trimtab.control.reasons import Acting, Reason, Step
from trimtab.control.state import GuardState, state_from_arrays

numbers = st.integers(0, 10**6)
many = settings(max_examples=20, deadline=None)


def test_random_plays_meet_every_reason():
    """Else the laws below would say nothing about some of them."""
    met = {
        int(code)
        for number in range(40)
        for _, _, guarded in random_play(random_guard(number), number)
        for code in np.unique(guarded.codes)
    }
    assert met == set(Reason)


def quantum_of(guard: Guard) -> np.ndarray:
    return np.array([one.quantum for one in guard.settings.dimensions])


def whole_bounds_of(guard: Guard, inputs: Inputs) -> tuple[np.ndarray, np.ndarray]:
    quantum = quantum_of(guard)
    return np.ceil(inputs.needs.least / quantum - 1e-9), np.floor(inputs.needs.most / quantum + 1e-9)


def quanta(guard: Guard, amounts: np.ndarray) -> np.ndarray:
    return np.rint(amounts / quantum_of(guard))


def current_of(guard: Guard, state: GuardState, inputs: Inputs) -> np.ndarray:
    return np.where(np.isnan(inputs.needs.current), state.action, inputs.needs.current) / quantum_of(guard)


@many
@given(numbers)
def test_whatever_comes_in_only_whole_quanta_within_the_bounds_come_out(number):
    guard = random_guard(number)
    for _, inputs, guarded in random_play(guard, number):
        for amounts in (guarded.action, guarded.would):
            assert np.isfinite(amounts).all()
            counted = amounts / quantum_of(guard)
            np.testing.assert_allclose(counted, np.rint(counted), atol=1e-6)
            low, high = whole_bounds_of(guard, inputs)
            assert (np.rint(counted) >= low).all() and (np.rint(counted) <= high).all()
        assert np.isfinite(guarded.extra_cost).all()


@many
@given(numbers)
def test_what_acts_is_never_below_what_is_needed(number):
    guard = random_guard(number, mode="active" if number % 2 else "canary")
    for _, inputs, guarded in random_play(guard, number):
        _, high = whole_bounds_of(guard, inputs)
        done = quanta(guard, guarded.action)
        floor = np.ceil(np.nan_to_num(inputs.needs.floor) / quantum_of(guard) - 1e-9)
        assert (done >= np.minimum(floor, high)).all()
        enough = guarded.action[:, :2].prod(axis=1) >= np.nan_to_num(inputs.needs.capacity) * (1 - 1e-6)
        assert (enough | (done[:, :2] >= high[:, :2]).all(axis=1)).all()


@many
@given(numbers)
def test_a_policy_goes_no_faster_than_the_pace_unless_needs_or_bounds_demand_it(number):
    guard = random_guard(number, mode="active")
    up, down = (
        np.array([getattr(one, name) for one in guard.settings.dimensions])
        for name in ("up_factor", "down_factor")
    )
    for state, inputs, guarded in random_play(guard, number):
        low, high = whole_bounds_of(guard, inputs)
        current, done = current_of(guard, state, inputs), quanta(guard, guarded.action)
        heuristic = quanta(guard, guarded.heuristic)
        free = (guarded.acting == Acting.POLICY) & (guarded.codes[:, Step.ENSURE] == 0).all(axis=1)
        most = np.maximum(np.maximum(np.floor(current * up + 1e-6), np.floor(current) + 1), heuristic)
        least = np.minimum(np.ceil(current / down - 1e-6), np.ceil(current) - 1)
        assert (done <= np.maximum(most, low))[free].all()
        assert (done >= np.minimum(np.minimum(least, heuristic), high))[free].all()


@many
@given(numbers)
def test_in_shadow_the_proposal_changes_nothing_that_is_done(number):
    guard = random_guard(number, mode="shadow")
    quantum = quantum_of(guard)
    for state, inputs, guarded in random_play(guard, number):
        low, high = whole_bounds_of(guard, inputs)
        usable = np.isfinite(inputs.heuristic).all(axis=1)
        expected = np.clip(np.floor(inputs.heuristic / quantum + 0.5), low, high)
        np.testing.assert_allclose(quanta(guard, guarded.action)[usable], expected[usable])
        _, other = guard.step(state, None, *inputs[1:])
        np.testing.assert_array_equal(other.action, guarded.action)
        assert not (guarded.acting == Acting.POLICY).any()


@many
@given(numbers)
def test_a_policy_that_asks_for_what_the_heuristic_does_gets_it_or_stays_on_the_way(number):
    guard = random_guard(number, mode="active")
    state = guard.begin(3)
    for _, inputs, guarded in random_play(guard, number, broken=False):
        same = inputs.heuristic
        state, guarded = guard.step(state, same, same, inputs.evidence, inputs.needs)
        current, done = current_of(guard, state, inputs), quanta(guard, guarded.action)
        heuristic = quanta(guard, guarded.heuristic)
        free = (guarded.codes[:, [Step.NEEDS, Step.ENSURE]] == 0).all(axis=(1, 2))
        free &= guarded.acting == Acting.POLICY
        # Only the pace and the bounds are left to change it, and these keep it between now and the heuristic.
        assert (guarded.codes[:, Step.COMPARE] == 0)[free].all()
        low, high = whole_bounds_of(guard, inputs)
        now = np.clip(np.floor(current + 0.5), low, high)
        assert (done >= np.minimum(now, heuristic))[free].all()
        assert (done <= np.maximum(now, heuristic))[free].all()
        upwards = (heuristic >= now) & free[:, None]
        recent = guarded.codes[:, Step.PACE] == Reason.COST
        np.testing.assert_array_equal(done[upwards & ~recent], heuristic[upwards & ~recent])


@many
@given(numbers)
def test_environments_of_a_batch_do_not_know_of_each_other(number):
    guard = random_guard(number)
    states = [guard.begin(1, ids=[row]) for row in range(3)]
    for _, inputs, guarded in random_play(guard, number):
        for row in range(3):
            alone: Inputs = _row(inputs, row)
            states[row], one = guard.step(states[row], *alone)
            np.testing.assert_array_equal(one.action[0], guarded.action[row])
            np.testing.assert_array_equal(one.codes[0], guarded.codes[row])
            assert one.explain(0) == guarded.explain(row)


def _row(inputs: Inputs, row: int) -> Inputs:
    proposal = inputs.proposal
    if isinstance(proposal, np.ndarray):
        proposal = proposal[row : row + 1]
    return Inputs(
        proposal,
        inputs.heuristic[row : row + 1],
        Evidence._make(one[row : row + 1] for one in inputs.evidence),
        Needs._make(one[row : row + 1] for one in inputs.needs),
    )


@many
@given(numbers)
def test_a_saved_state_goes_on_as_if_nothing_had_happened(number):
    guard = random_guard(number)
    for state, inputs, guarded in random_play(guard, number):
        again = state_from_arrays(
            guard.settings, {name: value.tolist() for name, value in state._asdict().items()}
        )
        _, same = guard.step(again, *inputs)
        np.testing.assert_array_equal(same.action, guarded.action)
        np.testing.assert_array_equal(same.codes, guarded.codes)


@many
@given(numbers)
def test_a_step_leaves_its_inputs_alone(number):
    guard = random_guard(number)
    for state, inputs, _ in random_play(guard, number, ticks=4):
        arrays = [*state, *inputs.evidence, *inputs.needs, inputs.heuristic]
        copies = [one.copy() for one in arrays]
        guard.step(state, *inputs)
        for one, copy in zip(arrays, copies, strict=True):
            np.testing.assert_array_equal(one, copy)


@many
@given(numbers)
def test_every_change_has_a_reason_and_every_reason_a_sentence(number):
    guard = random_guard(number)
    for _, _, guarded in random_play(guard, number):
        changed = np.abs(np.diff(guarded.trail[1:], axis=0)) > 1e-6 * quantum_of(guard)
        for step in Step:
            if step not in (Step.VALIDATE, Step.CHOOSE):
                assert (guarded.codes[:, step] > 0)[changed[step - 1]].all()
        _check_sentences(guarded)


def _check_sentences(guarded: Guarded) -> None:
    for row in range(len(guarded.action)):
        said = guarded.explain(row)
        steps = [step for step in Step if guarded.reasons[row, step]]
        assert len(said) >= 1 + len(steps)
        assert {line.split(":")[0] for line in said[1:]} == {step.name.lower() for step in steps}


@many
@given(numbers)
def test_restarting_some_environments_leaves_the_others_as_they_are(number):
    guard = random_guard(number)
    which = np.array([True, False, True])
    for state, _, _ in random_play(guard, number, ticks=4):
        restarted, fresh = guard.restart(state, which), guard.begin(3)
        for name in GuardState._fields:
            np.testing.assert_array_equal(getattr(restarted, name)[~which], getattr(state, name)[~which])
            np.testing.assert_array_equal(getattr(restarted, name)[which], getattr(fresh, name)[which])
