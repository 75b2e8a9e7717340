"""How many requests may be inside a pod: learned from trouble, since no metric tells of workers.

A pod works on as many requests at a time as it has workers (threads, connections, processes); further ones
wait, however idle its CPU is. When requests were late for two intervals in a row though CPU was to spare and
no pod was killed, pods were too crowded: from then on three quarters of the most that was inside a pod while
all was well are the limit. It rises again by a third of a percent per interval, to twice as much in an hour,
lest one accident counts for ever.
"""

from __future__ import annotations

import numpy as np

from trimtab.pod_autoscaling.heuristics.measures import just_begun, known, rounded_up
from trimtab.pod_autoscaling.problem import Floats, Integers, Snapshot

__all__ = ["Crowding"]

# Times the budget that is late in trouble; and the share of CPU below which it is not the CPU's fault.
_TROUBLE, _SPARE = 5.0, 0.88
_LEFT, _RECOVERY = 0.75, 1.003
_MEMORY_KEPT = 0.9985


class Crowding:
    """What each service was seen to bear, [E] each."""

    def __init__(self, size: int) -> None:
        self._most = np.full(size, np.inf)  # requests inside a pod
        self._well = np.full(size, np.nan)  # the most inside a pod while all was well
        self._stay_s = np.full(size, np.nan)  # and how long each stayed then
        self._peak = np.full(size, np.nan)  # MiB of a pod, in the worst interval it is remembered for

    def pods(self, snapshot: Snapshot, rate: Floats) -> Floats:
        """Take the last interval in; the least pods for so many requests per second, [E]; 0: any number."""
        samples = snapshot.samples
        fresh = just_begun(snapshot)
        for kept, empty in ((self._most, np.inf), (self._well, np.nan), (self._stay_s, np.nan)):
            kept[fresh] = empty
        told = known(snapshot, samples.in_flight, samples.latency_s, samples.cpu)[:, -1] & ~fresh
        ready = np.maximum(samples.ready[:, -1], 1.0)
        inside, held = samples.in_flight[:, -1] / ready, ready * samples.cpu_limit[:, -1]
        late, budget = samples.late[:, -1], snapshot.services.budget
        well = told & (late <= budget) & (samples.rate[:, -1] > 0)
        spare = (samples.cpu[:, -1] < _SPARE * held) & (samples.kills[:, -3:].sum(1) == 0)
        twice = samples.late[:, -2:].min(1) > _TROUBLE * budget
        trouble = told & twice & spare & np.isfinite(self._well)
        self._most = np.where(
            trouble, np.minimum(self._most, np.maximum(_LEFT * self._well, 1.0)), _RECOVERY * self._most
        )
        self._well = np.where(well, np.fmax(inside, self._well / _RECOVERY), self._well)
        self._stay_s = np.where(well, samples.latency_s[:, -1], self._stay_s)
        wanted = rounded_up(rate * self._stay_s / self._most)
        return np.where(np.isfinite(wanted), wanted, 0.0)

    def memory(self, snapshot: Snapshot, lately: Floats) -> Floats:
        """MiB that a pod needed at most, [E], given what it was in the last minutes; NaN: nobody knows."""
        self._peak[just_begun(snapshot)] = np.nan
        self._peak = np.fmax(lately, _MEMORY_KEPT * self._peak)
        return self._peak

    def taken(self, rows: Integers) -> Crowding:
        """The same for some services; a row may be named twice."""
        other = Crowding(len(rows))
        for name, values in vars(self).items():
            setattr(other, name, values[rows].copy())
        return other
