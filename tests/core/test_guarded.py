"""A policy behind a deadline: who decides, why, and how often; never a wait beyond the deadline."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

import pytest

from trimtab.core.errors import ActionError, SettingsError
from trimtab.core.guarded import GuardedPolicy
from trimtab.core.policy import Policy

PATIENT_MS = 20_000.0
"""Long enough for a thread on a busy machine; no test waits that long."""


class Doing:
    """A policy made of a function."""

    def __init__(self, name: str, decide: Callable[[int], int]) -> None:
        self.name = name
        self._decide = decide

    def decide(self, snapshot: int) -> int:
        return self._decide(snapshot)


def minus(snapshot: int) -> int:
    return -snapshot


RULE = Doing("rule", lambda snapshot: 100 + snapshot)


@contextmanager
def guarded(
    decide: Callable[[int], int],
    *,
    deadline_ms: float = PATIENT_MS,
    check: Callable[[int, int], object] | None = None,
) -> Generator[GuardedPolicy[int, int]]:
    made = GuardedPolicy(Doing("learned", decide), RULE, deadline_ms=deadline_ms, check=check)
    yield made
    made.close()


def wait_until(true: Callable[[], bool]) -> None:
    last = time.monotonic() + 20.0
    while not true():
        assert time.monotonic() < last, "waited in vain"
        time.sleep(0.001)


def threads_of_policies() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "policy learned"}


def test_a_good_policy_decides_everything_and_keeps_its_name():
    with guarded(minus) as policy:
        assert isinstance(policy, Policy)
        assert policy.name == "learned"
        assert [policy.decide(number) for number in (3, 5, 7)] == [-3, -5, -7]
        assert policy.last_reason == "" and not policy.fallbacks


def test_a_late_policy_is_replaced_and_used_again_once_it_answers():
    """The first question blocks; until it is answered the rule decides at once, without a new wait."""
    going_on = threading.Event()
    asked: list[int] = []

    def decide(snapshot: int) -> int:
        asked.append(snapshot)
        going_on.wait(20.0)
        return -snapshot

    with guarded(decide, deadline_ms=30) as policy:
        assert policy.decide(1) == 101
        assert policy.last_reason == "late: no answer within 30 ms"
        before = time.monotonic()
        assert [policy.decide(number) for number in range(2, 52)] == list(range(102, 152))
        # 50 deadlines of 30 ms would take 1.5 s.
        assert time.monotonic() - before < 1.0
        assert policy.last_reason == "late: still busy with an earlier decision"
        assert asked == [1]
        assert policy.fallbacks == {"late": 51}
        policy._deadline_s = PATIENT_MS / 1000
        going_on.set()
        wait_until(lambda: not policy._answers.empty())
        # The answer to question 1 has come meanwhile; it must not pass for that to question 60.
        assert policy.decide(60) == -60
        assert policy.last_reason == "" and policy.fallbacks == {"late": 51}


def test_a_failing_policy_is_replaced_and_used_again():
    def decide(snapshot: int) -> int:
        if snapshot < 2:
            raise ValueError(f"no idea about {snapshot}")
        return -snapshot

    with guarded(decide) as policy:
        assert [policy.decide(number) for number in (0, 1)] == [100, 101]
        assert policy.last_reason == "failed: no idea about 1"
        assert policy.decide(2) == -2
        assert policy.last_reason == ""
        assert policy.fallbacks == {"failed": 2}


def test_a_policy_that_would_end_the_program_is_replaced_and_used_again():
    def decide(snapshot: int) -> int:
        if snapshot == 1:
            raise SystemExit(3)
        return -snapshot

    with guarded(decide) as policy:
        assert policy.decide(1) == 101
        assert policy.last_reason == "failed: SystemExit(3)"
        assert policy.decide(2) == -2


def test_a_forbidden_answer_is_refused_with_the_reason_of_the_check():
    checked: list[tuple[int, int]] = []

    def check(snapshot: int, action: int) -> None:
        checked.append((snapshot, action))
        if snapshot > 5:
            raise ActionError(f"{action} is outside the mask")

    with guarded(minus, check=check) as policy:
        assert policy.decide(4) == -4 and policy.last_reason == ""
        assert policy.decide(6) == 106
        assert policy.last_reason == "refused: -6 is outside the mask"
        assert policy.decide(5) == -5 and policy.last_reason == ""
        assert policy.fallbacks == {"refused": 1}
    # The rule is trusted: its answer to 6 was not asked about.
    assert checked == [(4, -4), (6, -6), (5, -5)]


def test_reasons_are_counted_apart():
    def decide(snapshot: int) -> int:
        if snapshot == 1:
            raise KeyError("one: with a colon")
        return -snapshot

    def check(snapshot: int, action: int) -> None:
        if snapshot == 2:
            raise ActionError("two")

    with guarded(decide, check=check) as policy:
        assert [policy.decide(number) for number in (0, 1, 2, 1)] == [0, 101, 102, 101]
        assert policy.fallbacks == {"failed": 2, "refused": 1}


def test_a_rule_that_fails_is_not_hidden():
    def helpless(snapshot: int) -> int:
        raise RuntimeError("the rule failed too")

    policy: GuardedPolicy[int, int] = GuardedPolicy(
        Doing("learned", helpless), Doing("rule", helpless), deadline_ms=PATIENT_MS
    )
    with pytest.raises(RuntimeError, match="the rule failed too"):
        policy.decide(0)
    policy.close()


def test_no_thread_before_the_first_question_and_none_after_close():
    before = threads_of_policies()
    policy: GuardedPolicy[int, int] = GuardedPolicy(Doing("learned", minus), RULE, deadline_ms=PATIENT_MS)
    assert threads_of_policies() == before
    policy.decide(1)
    (thread,) = threads_of_policies() - before
    # A daemon: a policy that hangs for ever must not keep the controller from ending.
    assert thread.daemon
    policy.close()
    thread.join(20.0)
    assert not thread.is_alive()


@pytest.mark.parametrize("asked_before", [False, True])
def test_a_closed_policy_can_be_asked_again(asked_before):
    with guarded(minus) as policy:
        if asked_before:
            assert policy.decide(1) == -1
        policy.close()
        policy.close()
        policy._deadline_s = 5.0
        assert policy.decide(2) == -2
        assert policy.decide(3) == -3


@pytest.mark.parametrize("deadline_ms", [0, -5, float("nan"), float("inf"), 1e300])
def test_a_deadline_that_leaves_no_time_or_has_no_end_is_refused(deadline_ms):
    with pytest.raises(SettingsError, match="a decision needs some time, give more than 0") as caught:
        GuardedPolicy(Doing("learned", minus), RULE, deadline_ms=deadline_ms)
    assert "\n" not in str(caught.value)
