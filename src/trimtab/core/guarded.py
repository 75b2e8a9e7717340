"""A policy that always answers in time: behind a deadline, with a rule that takes over.

A learned policy may be slow (a busy machine), broken (a damaged bundle) or wrong (an action outside
the mask). None of that may stop a cluster: the fallback decides instead, and the reason is kept.
"""

from __future__ import annotations

import queue
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from trimtab.core.errors import SettingsError
from trimtab.core.policy import Policy

__all__ = ["GuardedPolicy"]

_LONGEST_MS = 3_600_000
"""An endless wait for an answer is an error of its own, at the first decision."""
Snapshot = TypeVar("Snapshot")
Action = TypeVar("Action")


class GuardedPolicy(Generic[Snapshot, Action]):
    """Asks `policy`, and `fallback` whenever that is late, fails, or answers what `check` refuses.

    >>> class Slow:
    ...     name = "slow"
    ...
    ...     def decide(self, snapshot: int) -> int:
    ...         threading.Event().wait(1.0)
    ...         return 1
    >>> class Rule:
    ...     name = "rule"
    ...
    ...     def decide(self, snapshot: int) -> int:
    ...         return 2
    >>> guarded = GuardedPolicy(Slow(), Rule(), deadline_ms=5)
    >>> guarded.decide(0), dict(guarded.fallbacks)
    (2, {'late': 1})
    """

    def __init__(
        self,
        policy: Policy[Snapshot, Action],
        fallback: Policy[Snapshot, Action],
        *,
        deadline_ms: float,
        check: Callable[[Snapshot, Action], object] | None = None,
    ) -> None:
        if not 0 < deadline_ms <= _LONGEST_MS:
            raise SettingsError(
                f"deadline_ms = {deadline_ms}; a decision needs some time, give more than 0, an hour at most"
            )
        self.name = policy.name
        self.fallbacks: Counter[str] = Counter()
        """How often the fallback decided, by reason: late, failed, refused."""
        self.last_reason = ""
        """Why the fallback made the last decision; empty if the policy made it."""
        self._policy, self._fallback = policy, fallback
        self._deadline_s = deadline_ms / 1000.0
        self._check = check
        self._questions: queue.SimpleQueue[tuple[int, Any] | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[tuple[int, Any, BaseException | None]] = queue.SimpleQueue()
        self._asked = self._answered = 0
        self._thread: threading.Thread | None = None

    def decide(self, snapshot: Snapshot) -> Action:
        """The policy's action if it comes in time and is allowed, else the fallback's."""
        self.last_reason, action = self._try(snapshot)
        if self.last_reason:
            self.fallbacks[self.last_reason.split(":")[0]] += 1
            return self._fallback.decide(snapshot)
        return action

    def _try(self, snapshot: Snapshot) -> tuple[str, Any]:
        while not self._answers.empty():
            self._answered = self._answers.get()[0]
        if self._answered < self._asked:
            return "late: still busy with an earlier decision", None
        self._asked += 1
        self._worker().put((self._asked, snapshot))
        try:
            self._answered, action, problem = self._answers.get(timeout=self._deadline_s)
        except queue.Empty:
            return f"late: no answer within {self._deadline_s * 1000:g} ms", None
        if problem is not None:
            told = problem if isinstance(problem, Exception) else repr(problem)
            return f"failed: {told}", None
        if self._check is not None:
            try:
                self._check(snapshot, action)
            except Exception as reason:
                return f"refused: {reason}", None
        return "", action

    def _worker(self) -> queue.SimpleQueue[tuple[int, Any] | None]:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=f"policy {self.name}", daemon=True)
            self._thread.start()
        return self._questions

    def _work(self) -> None:
        while (question := self._questions.get()) is not None:
            number, snapshot = question
            try:
                self._answers.put((number, self._policy.decide(snapshot), None))
            # One that calls sys.exit, too: it would end this thread, and nobody would ever be asked again.
            except BaseException as problem:
                self._answers.put((number, None, problem))

    def close(self) -> None:
        """End the thread that asks the policy."""
        if self._thread is not None:
            self._questions.put(None)
            self._thread = None
