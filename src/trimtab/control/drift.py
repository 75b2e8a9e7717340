"""Noticing that a policy no longer fits: its rewards drop, or scatter as they never did.

Three detectors with different strengths, on one series of numbers:

- `WindowRule` (AWARE, ATC 2023): the last ten steps are 10 % below the reference, or scatter too much: fast
  for large drops, blind for small ones;
- `PageHinkley` (Page 1954; Hinkley 1971): the sum of deviations below the mean so far: fast, sometimes wrong;
- `Adwin` (Bifet and Gavaldà, SDM 2007): a window that is cut wherever its two parts differ: slow and sure.

`DriftWatch` puts them together: Page-Hinkley warns, the window rule or ADWIN raises the alarm. It first
learns what is usual, and watches ``1 + (reward - usual) / scale``, so that no limit depends on the scale of
the rewards. Where the load has seasons, give what a predictor expected: then residuals are watched.
"""

from __future__ import annotations

import math
from collections import deque
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from trimtab.core.errors import SettingsError
from trimtab.core.settings import Field, Settings

__all__ = ["Adwin", "Drift", "DriftSettings", "DriftWatch", "PageHinkley", "Seen", "WindowRule"]

# A reward whose noise is above 1/25 of its mean is measured by its noise: else it would alarm by itself.
_SMALLEST_NOISE_RATIO = 25.0


class DriftSettings(Settings):
    """Limits of the detectors, for values whose usual mean is 1."""

    reference_steps: int = Field(default=100, ge=2, le=1_000_000, description="Steps that say what is usual.")
    window: int = Field(default=10, ge=2, le=1_000_000, description="Steps the window rule looks at.")
    least_mean: float = Field(
        default=0.9, gt=0, lt=1, description="Window rule: alarm when their mean is below this share."
    )
    most_spread: float = Field(
        default=0.07, gt=0, le=100, description="Window rule: alarm when their standard deviation is above."
    )
    leave_out: int = Field(
        default=1,
        ge=0,
        le=100,
        description="Window rule: so many of them, the farthest from their mean, are no scatter.",
    )
    slack: float = Field(
        default=0.01, ge=0, le=1, description="Page-Hinkley: deviations up to this are usual."
    )
    threshold: float = Field(default=1.0, gt=0, le=1e6, description="Page-Hinkley: sum that makes it warn.")
    confidence: float = Field(default=0.002, gt=0, lt=1, description="ADWIN: chance of a false cut (delta).")


class WindowRule:
    """Alarm when the mean of the last steps is below a share of the reference, or their spread too large.

    Live rewards have lone dips, such as an interval in which a pod starts: `leave_out` of the steps, those
    farthest from the mean, do not count for the spread. For the mean they do.

    >>> rule = WindowRule(reference_steps=4, window=2, least_mean=0.9, most_spread=0.5)
    >>> [rule.update(value) for value in (1, 1, 1, 1, 1, 0.8, 0.8)]
    [False, False, False, False, False, False, True]
    """

    def __init__(
        self,
        *,
        reference_steps: int = 100,
        window: int = 10,
        least_mean: float = 0.9,
        most_spread: float = 0.07,
        leave_out: int = 0,
        reference: float | None = None,
    ) -> None:
        if window < 2 or reference_steps < 1:
            raise SettingsError(
                f"window = {window}, reference_steps = {reference_steps}; give 2 and 1 at least"
            )
        if not 0 <= leave_out <= window - 2:
            raise SettingsError(f"leave_out = {leave_out} of window = {window} steps; leave 2 at least")
        self._leave_out = leave_out
        self._reference_steps, self._least_mean, self._most_spread = reference_steps, least_mean, most_spread
        self._recent: deque[float] = deque(maxlen=window)
        self.reset_reference()
        if reference is not None:
            self._sum, self._count = reference * reference_steps, reference_steps

    @property
    def reference(self) -> float:
        """The mean that is usual; NaN while it is being learned."""
        return self._sum / self._count if self._count >= self._reference_steps else math.nan

    def reset_reference(self) -> None:
        """Learn anew what is usual, as after every change of the policy."""
        self._sum, self._count = 0.0, 0
        self.mean, self.spread = math.nan, math.nan
        self._recent.clear()

    def update(self, value: float) -> bool:
        """Take in one step; whether it raises the alarm. While the reference is learned there is none."""
        if self._count < self._reference_steps:
            self._sum, self._count = self._sum + value, self._count + 1
            return False
        self._recent.append(value)
        if len(self._recent) < (self._recent.maxlen or 0):
            return False
        self.mean = math.fsum(self._recent) / len(self._recent)
        self.spread = self._spread()
        size = abs(self.reference)
        too_low = self.mean < self.reference - (1 - self._least_mean) * size
        return too_low or self.spread > self._most_spread * size

    def _spread(self) -> float:
        """Standard deviation of the recent steps, without those that are left out."""
        kept = sorted(self._recent, key=lambda one: abs(one - self.mean))
        kept = kept[: len(kept) - self._leave_out]
        mean = math.fsum(kept) / len(kept)
        return math.sqrt(math.fsum((one - mean) ** 2 for one in kept) / len(kept))


class PageHinkley:
    """Alarm when values stay below their own mean, by more than `slack` each and `threshold` in all.

    m(t) = sum of (x - mean + slack), faded by `memory` a step; alarm when max m - m(t) > threshold. Begins
    again after an alarm.

    >>> detector = PageHinkley(slack=0.01, threshold=1.0, least_steps=5)
    >>> [detector.update(value) for value in (1, 1, 1, 1, 1, 0.3, 0.3)]
    [False, False, False, False, False, False, True]
    """

    def __init__(
        self,
        *,
        slack: float = 0.01,
        threshold: float = 1.0,
        least_steps: int = 100,
        memory: float = 0.9999,
    ) -> None:
        if not (threshold > 0 and 0 < memory <= 1):
            raise SettingsError(
                f"threshold = {threshold}, memory = {memory}; give more than 0, and at most 1 for the memory"
            )
        self._slack, self._threshold, self._least, self._memory = slack, threshold, least_steps, memory
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self._count, self._mean, self._sum, self._highest = 0, 0.0, 0.0, -math.inf

    def update(self, value: float) -> bool:
        """Take in one step; whether it raises the alarm."""
        self._count += 1
        self._mean += (value - self._mean) / self._count
        self._sum = self._memory * self._sum + (value - self._mean) + self._slack
        self._highest = max(self._highest, self._sum)
        if self._count < self._least or self._highest - self._sum <= self._threshold:
            return False
        self.reset()
        return True


class Adwin:
    """A window of all steps since the last change: cut where the means of its two parts differ too much.

    The window is kept as buckets of 1, 2, 4, ... steps, at most `most_buckets` of each size, so it takes
    O(log n) memory. Every `check_every` steps each boundary between buckets is tried: with n0 and n1 steps
    before and after it, variance v and L = ln(2 ln(n) / confidence), the parts differ if their means do by
    more than ``sqrt(2 v L / m) + 2 L / (3 m)``, where 1/m is the sum of 1 / (n - shortest + 1) over both.
    Then the oldest bucket goes, and the test is made again.

    >>> detector = Adwin()
    >>> changes = [step for step in range(400) if detector.update(0.9 if step < 200 else 0.6)]
    >>> changes[0], detector.fell
    (239, True)
    """

    def __init__(
        self, *, confidence: float = 0.002, check_every: int = 8, most_buckets: int = 5, shortest: int = 5
    ) -> None:
        if not 0 < confidence < 1 or min(check_every, most_buckets, shortest) < 1:
            raise SettingsError(
                f"confidence = {confidence}, check_every = {check_every}, most_buckets = {most_buckets}, "
                f"shortest = {shortest}; give a confidence between 0 and 1, and 1 at least for the others"
            )
        self._confidence, self._check_every = confidence, check_every
        self._most_buckets, self._shortest = most_buckets, shortest
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        # rows[i]: buckets of 2**i steps, oldest first: their sums and sums of squared deviations.
        self._rows: list[list[tuple[float, float]]] = [[]]
        self._clock = 0
        self.fell = False
        """At the last change the mean fell."""

    def __len__(self) -> int:
        return sum(len(row) << size for size, row in enumerate(self._rows))

    @property
    def mean(self) -> float:
        """Mean of the window; NaN while it is empty."""
        total = math.fsum(one[0] for row in self._rows for one in row)
        return total / len(self) if len(self) else math.nan

    def update(self, value: float) -> bool:
        """Take in one step; whether the window was cut."""
        self._rows[0].append((value, 0.0))
        self._compress()
        self._clock += 1
        if self._clock % self._check_every or len(self) <= 2 * self._shortest:
            return False
        changed = False
        while (cut := self._cut()) is not None:
            self.fell = cut if not changed else self.fell
            changed = True
            self._drop_oldest()
        return changed

    def _compress(self) -> None:
        size = 0
        while len(self._rows[size]) > self._most_buckets:
            (sum_a, squares_a), (sum_b, squares_b) = self._rows[size][:2]
            del self._rows[size][:2]
            if size + 1 == len(self._rows):
                self._rows.append([])
            half = 1 << size
            between = (sum_a - sum_b) ** 2 / (2 * half)
            self._rows[size + 1].append((sum_a + sum_b, squares_a + squares_b + between))
            size += 1

    def _drop_oldest(self) -> None:
        self._rows[-1].pop(0)
        while len(self._rows) > 1 and not self._rows[-1]:
            self._rows.pop()

    def _cut(self) -> bool | None:
        """Whether the mean fell at a boundary that parts the window; None if there is no such boundary."""
        sizes = np.array([1 << size for size in range(len(self._rows) - 1, -1, -1) for _ in self._rows[size]])
        sums, squares = np.array([one for row in reversed(self._rows) for one in row]).T
        steps, total = int(sizes.sum()), sums.sum()
        inside = squares.sum() + (sizes * (sums / sizes - total / steps) ** 2).sum()
        before, sum_before = np.cumsum(sizes)[:-1], np.cumsum(sums)[:-1]
        after = steps - before
        long = (before >= self._shortest) & (after >= self._shortest)
        if not long.any():
            return None
        before, sum_before, after = before[long], sum_before[long], after[long]
        fall = sum_before / before - (total - sum_before) / after
        surprise = math.log(2 * math.log(steps) / self._confidence)
        per_step = 1 / (before - self._shortest + 1) + 1 / (after - self._shortest + 1)
        limit = np.sqrt(2 * per_step * inside / steps * surprise) + 2 / 3 * surprise * per_step
        parted = np.flatnonzero(np.abs(fall) > limit)
        return bool(fall[parted[0]] > 0) if len(parted) else None


class Drift(IntEnum):
    """What a watch says."""

    LEARNING = 0
    STEADY = 1
    WARN = 2
    """Look closer: evaluate the policy beside the heuristic, collect fresh experience."""
    ALARM = 3
    """The policy no longer fits: let the heuristic act and train again."""


class Seen(NamedTuple):
    """What a watch says of one step, and why."""

    drift: Drift
    because: str = ""


class DriftWatch:
    """Watches the rewards of one policy on one system.

    Call `reset_reference` after every change of the policy: what was usual is so no longer.

    >>> watch = DriftWatch(DriftSettings(reference_steps=20))
    >>> said = [watch.update(0.8 + 0.01 * (step % 2)) for step in range(60)]
    >>> said[19].drift.name, said[59].drift.name
    ('LEARNING', 'STEADY')
    >>> [watch.update(0.5) for _ in range(4)][-1].because
    'the last 10 rewards lie at 85% of what is usual, 90% is the limit'
    """

    def __init__(self, settings: DriftSettings | None = None) -> None:
        self.settings = settings or DriftSettings()
        self.reset_reference()

    def reset_reference(self) -> None:
        """Learn anew what is usual; forget everything else."""
        one = self.settings
        self._learned: list[tuple[float, float]] = []
        self._usual, self._scale = math.nan, math.nan
        # Values are scaled such that 1 is usual: the rule need not learn it.
        self._window = WindowRule(
            window=one.window,
            least_mean=one.least_mean,
            most_spread=one.most_spread,
            leave_out=one.leave_out,
            reference=1.0,
        )
        self._page_hinkley = PageHinkley(slack=one.slack, threshold=one.threshold)
        self._adwin = Adwin(confidence=one.confidence)

    def update(self, reward: float, *, predicted: float = 0.0) -> Seen:
        """Take in the reward of one step, and what a predictor expected if there is one.

        A reward that is no number says nothing about the policy, and is left out.
        """
        residual = reward - predicted
        if not math.isfinite(residual):
            return Seen(Drift.LEARNING if math.isnan(self._usual) else Drift.STEADY, "the reward is unknown")
        if math.isnan(self._usual):
            self._learn(reward, residual)
            return Seen(Drift.LEARNING)
        return self._watch(1 + (residual - self._usual) / self._scale)

    def _learn(self, reward: float, residual: float) -> None:
        self._learned.append((reward, residual))
        if len(self._learned) < self.settings.reference_steps:
            return
        rewards, residuals = np.array(self._learned).T
        noise = _SMALLEST_NOISE_RATIO * float(residuals.std())
        self._usual = float(residuals.mean())
        self._scale = max(abs(float(rewards.mean())), noise, 1e-12)
        for value in 1 + (residuals - self._usual) / self._scale:
            self._page_hinkley.update(float(value))
            self._adwin.update(float(value))
        self._learned = []

    def _watch(self, value: float) -> Seen:
        """Ask all three, whatever the first says: each must see every step."""
        one, rule = self.settings, self._window
        window, slow, sum_ = rule.update(value), self._adwin.update(value), self._page_hinkley.update(value)
        if window and rule.mean < one.least_mean:
            return Seen(
                Drift.ALARM,
                f"the last {one.window} rewards lie at {rule.mean:.0%} of what is usual, "
                f"{one.least_mean:.0%} is the limit",
            )
        if window:
            return Seen(
                Drift.ALARM,
                f"the last {one.window} rewards scatter by {rule.spread:.1%} of what is usual, "
                f"{one.most_spread:.1%} is the limit",
            )
        if slow and self._adwin.fell:
            return Seen(Drift.ALARM, f"rewards fell to {self._adwin.mean:.0%} of what is usual (ADWIN)")
        if sum_:
            return Seen(Drift.WARN, "rewards have been below their mean for a while (Page-Hinkley)")
        return Seen(Drift.STEADY)
