import dataclasses

import pytest

from trimtab.core.environment import Environment, Transition
from trimtab.core.errors import SettingsError
from trimtab.core.policy import Policy, check_policy


class Queue:
    """Serves one or two waiting jobs per 10 ms; the workload is how many wait."""

    waiting = 0

    def reset(self, workload: int, seed: int) -> int:
        self.waiting = workload + seed % 2
        return self.waiting

    def step(self, action: int) -> Transition[int]:
        served = min(action, self.waiting)
        self.waiting -= served
        return Transition(
            self.waiting,
            reward=-float(self.waiting),
            terminated=self.waiting == 0,
            truncated=False,
            elapsed_ms=10 * served,
        )


class TwoAtOnce:
    name = "toy/two-at-once"

    def decide(self, snapshot: int) -> int:
        return min(2, snapshot)


def total_reward(environment: Environment[int, int, int], policy: Policy[int, int], workload: int) -> float:
    snapshot, total, ended = environment.reset(workload, seed=0), 0.0, False
    while not ended:
        transition = environment.step(policy.decide(snapshot))
        snapshot, ended = transition.snapshot, transition.ended
        total += transition.reward
    return total


def test_any_object_with_the_right_methods_plays() -> None:
    # Five wait: after each step 3, 1, 0 are left.
    assert total_reward(Queue(), TwoAtOnce(), 5) == -4


def test_protocols_are_recognised_by_shape() -> None:
    assert isinstance(Queue(), Environment)
    assert isinstance(TwoAtOnce(), Policy)
    assert not isinstance(Queue(), Policy)


def test_what_cannot_be_asked_is_refused_before_anything_is_played() -> None:
    check_policy(TwoAtOnce())
    for nothing, said in (("fair", "the name of a policy"), (Queue(), "Queue is no policy: .* no `name`")):
        with pytest.raises(SettingsError, match=said):
            check_policy(nothing)
    with pytest.raises(SettingsError, match="TwoAtOnce is no policy: it has no `begin`"):
        check_policy(TwoAtOnce(), "begin")


@pytest.mark.parametrize(
    ("terminated", "truncated", "ended"),
    [(False, False, False), (True, False, True), (False, True, True)],
)
def test_an_episode_ends_for_either_reason(terminated: bool, truncated: bool, ended: bool) -> None:
    assert Transition(0, 0.0, terminated, truncated, 1).ended is ended


def test_a_transition_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Transition(0, 0.0, False, False, 1).reward = 1.0  # pyright: ignore[reportAttributeAccessIssue]
