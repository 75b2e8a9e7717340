"""What the autoscaler of the Flink operator remembers between decisions."""

from __future__ import annotations

import numpy as np

from trimtab.stream_autoscaling.heuristics.measures import intervals_in
from trimtab.stream_autoscaling.problem import Flags, Floats, Integers

__all__ = ["DelayedScaleDown", "ScalingHistory"]


class DelayedScaleDown:
    """Scale-downs wait, and are then done to the largest parallelism recommended while they waited.

    A recommendation to stay or to scale up ends the waiting of that vertex; any rescale ends all of it.
    """

    def __init__(self, shape: tuple[int, int], wait_s: float, interval_s: float) -> None:
        self._wait_s = wait_s
        # Those of exactly `wait_s` ago count too: after an hour of one-minute intervals there are 61.
        kept = intervals_in(wait_s, interval_s) + 1 if wait_s > 0 else 1
        self._recommended = np.zeros((kept, *shape), np.int64)  # a ring; 0 where nothing was recommended
        self._outside = np.zeros((kept, *shape), bool)
        self._since_s = np.full(shape, np.nan)
        self._place = 0

    def apply(
        self, wanted: Integers, outside: Flags, current: Integers, judged: Flags, now_s: Floats
    ) -> tuple[Integers, Flags]:
        """What to do of what is wanted, and whether the vertex was out of its band when it was wanted.

        `judged` are the vertices for which there is a recommendation at all. Arrays are [E, V], `now_s` [E].
        """
        down = judged & (wanted < current)
        self.forget(judged & ~down)
        if self._wait_s <= 0:
            return wanted, outside
        self._place = (self._place + 1) % len(self._recommended)
        self._recommended[self._place] = np.where(down, wanted, 0)
        self._outside[self._place] = outside
        now = np.broadcast_to(now_s[:, None], down.shape)
        self._since_s = np.where(down & np.isnan(self._since_s), now, self._since_s)
        waited = down & (now - self._since_s >= self._wait_s - 1e-6)
        largest, was_outside = self._largest()
        done = np.where(down, np.where(waited, largest, current), wanted)
        return done, np.where(down, waited & was_outside, outside)

    def forget(self, vertices: Flags) -> None:
        self._since_s[vertices] = np.nan
        self._recommended[:, vertices] = 0

    def _largest(self) -> tuple[Integers, Flags]:
        """The largest recommendation in the ring, and whether the latest of its kind was out of band."""
        kept = len(self._recommended)
        age = (self._place - np.arange(kept)) % kept
        newest_of_largest = (self._recommended * kept + (kept - 1 - age)[:, None, None]).argmax(0)[None]
        largest = np.take_along_axis(self._recommended, newest_of_largest, 0)[0]
        return largest, np.take_along_axis(self._outside, newest_of_largest, 0)[0]


class ScalingHistory:
    """The last few rescales of each vertex, newest last; NaN where there was none."""

    def __init__(self, shape: tuple[int, int], count: int, age_s: float) -> None:
        self._age_s = age_s
        empty = np.full((count, *shape), np.nan)
        self.before, self.after, self.rate, self.expected, self._when_s = (empty.copy() for _ in range(5))

    def _arrays(self) -> tuple[Floats, ...]:
        return self.before, self.after, self.rate, self.expected, self._when_s

    def add(
        self, changed: Flags, before: Integers, after: Integers, rate: Floats, expected: Floats, now_s: Floats
    ) -> None:
        """Write down the vertices that change, [E, V]: parallelism, true rate, and the rate hoped for."""
        now = np.broadcast_to(now_s[:, None], changed.shape)
        for array, new in zip(self._arrays(), (before, after, rate, expected, now), strict=True):
            array[:-1, changed] = array[1:, changed]
            array[-1, changed] = new[changed]

    def trim(self, begun: Flags, now_s: Floats) -> None:
        """Forget what is too old, and everything of environments that have just begun."""
        gone = (now_s[:, None] - self._when_s > self._age_s) | begun[:, None]
        for array in self._arrays():
            array[gone] = np.nan

    def ineffective(self, current: Integers, rate: Floats, *, threshold: float) -> Flags:
        """Whether the last rescale of a vertex, upwards, gained less than this share of what was hoped."""
        before, after, then, expected = (array[-1] for array in self._arrays()[:4])
        known = np.isfinite(expected) & np.isfinite(then) & np.isfinite(rate)
        hoped = np.where(known, expected, 0.0) - np.where(known, then, 0.0)
        gained = np.where(known, rate, 0.0) - np.where(known, then, 0.0)
        share = np.where(
            hoped != 0, gained / np.where(hoped != 0, hoped, 1.0), np.where(gained > 0, np.inf, np.nan)
        )
        effective = np.where(known, share >= threshold, np.isposinf(rate))
        return (after > before) & (after == current) & ~effective
