"""How many requests a pod bears, and how much memory: learned from trouble, since no metric tells of it.

A pod works on as many requests at a time as it has workers (threads, connections, processes); further ones
wait, however idle its CPU is. When requests were late for two intervals in a row though CPU was to spare and
no pod was killed, pods were too crowded: from then on three quarters of the most that was inside a pod while
all was well are the limit, or half of those that were at work there in trouble: as many as were finished, for
as long as each takes when all is well (Little's law). It rises again by a third of a percent per interval, to
twice as much in an hour, lest one accident counts for ever.

Pods that are full refuse requests. So when requests failed while memory was near its worst and no pod was
killed, that worst is what a full pod holds: a limit above it is for nothing. It counts until a pod is killed
all the same, and a little less with time.
"""

from __future__ import annotations

import numpy as np

from trimtab.pod_autoscaling.heuristics.measures import completed, just_begun, known, rounded_up
from trimtab.pod_autoscaling.problem import Flags, Floats, Integers, Snapshot

__all__ = ["Crowding"]

# Times the budget that is late in trouble; and the share of CPU below which it is not the CPU's fault.
_TROUBLE, _SPARE = 5.0, 0.88
_LEFT, _LEFT_AT_WORK, _RECOVERY = 0.75, 0.5, 1.003
_MEMORY_KEPT = 0.9985
# Pods are full when so many requests fail, and so many times as many as in the middle interval of those seen
# (some services answer a percent with errors on the best of days), with so much of the worst memory in use,
# and not because the limit of memory is near. What is known of it fades: the limit rises by 5 % in an hour.
_FAILING, _MORE_THAN_USUAL = 0.001, 3.0
_NEAR_PEAK, _BELOW_LIMIT, _FULL_FADES = 0.8, 0.95, 1.0002


class Crowding:
    """What each service was seen to bear, [E] each."""

    def __init__(self, size: int) -> None:
        self._most = np.full(size, np.inf)  # requests inside a pod
        self._well = np.full(size, np.nan)  # the most inside a pod while all was well
        self._stay_s = np.full(size, np.nan)  # and how long each stayed then
        self._peak = np.full(size, np.nan)  # MiB of a pod, in the worst interval it is remembered for
        self._wanted = np.full(size, np.nan)  # MiB that a pod should have had then
        self._passing = np.full(size, np.nan)  # MiB for minutes in which requests became heavier
        self._full = np.full(size, np.inf)  # MiB of a pod that was full

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
        at_work = completed(snapshot)[:, -1] / ready * self._stay_s
        borne = np.maximum(np.fmax(_LEFT * self._well, _LEFT_AT_WORK * at_work), 1.0)
        self._most = np.where(trouble, np.minimum(self._most, borne), _RECOVERY * self._most)
        self._well = np.where(well, np.fmax(inside, self._well / _RECOVERY), self._well)
        self._stay_s = np.where(well, samples.latency_s[:, -1], self._stay_s)
        wanted = rounded_up(rate * self._stay_s / self._most)
        return np.where(np.isfinite(wanted), wanted, 0.0)

    def memory(self, snapshot: Snapshot, lately: Floats) -> Floats:
        """MiB that a pod needed at most, [E], given what it was in the last minutes; NaN: nobody knows."""
        self._peak[just_begun(snapshot)] = np.nan
        self._peak = np.fmax(lately, _MEMORY_KEPT * self._peak)
        return self._peak

    def wanted_memory(self, snapshot: Snapshot, risen: Floats, calm: Floats, heavier: Flags) -> Floats:
        """MiB that a pod should have had at most, [E]: as after a rise, or as in calm; NaN: nobody knows.

        What was wanted when the peak came is remembered, and not the peak: the usual falls after a rush, so a
        reserve for how much the peak was above it would grow while use falls. A peak of minutes in which
        requests became `heavier` is not remembered once they are over: the queue came from too little CPU.
        """
        samples = snapshot.samples
        told = known(snapshot, samples.memory)
        newest = told[:, -1] & (samples.memory[:, -1] >= np.where(told, samples.memory, 0.0).max(1))
        fresh = just_begun(snapshot)
        self._wanted[fresh] = self._passing[fresh] = np.nan
        kept = _MEMORY_KEPT * self._wanted
        wanted = np.fmax(np.where(newest | np.isnan(kept), risen, calm), kept)
        # The same number as while they became heavier: the peak is still the one of then.
        self._passing = np.where(heavier, calm, self._passing)
        self._wanted = np.where((calm == self._passing) & np.isfinite(kept), kept, wanted)
        return wanted

    def full_memory(self, snapshot: Snapshot, peak: Floats) -> Floats:
        """MiB of a full pod, [E], given the worst that is remembered; infinite where none was seen."""
        samples = snapshot.samples
        told = known(snapshot, samples.memory, samples.failed)
        killed = samples.kills[:, -3:] > 0
        used, failed = samples.memory[:, -1], samples.failed[:, -1]
        usual = np.median(np.where(told, samples.failed, 0.0), axis=1)
        full = told[:, -1] & (failed > np.maximum(_FAILING, _MORE_THAN_USUAL * usual)) & ~killed.any(1)
        full &= (used >= _NEAR_PEAK * peak) & (used < _BELOW_LIMIT * samples.memory_limit[:, -1])
        kept = np.where(just_begun(snapshot) | killed[:, -1], np.inf, _FULL_FADES * self._full)
        self._full = np.where(full & np.isinf(kept), peak, kept)
        self._full = np.fmax(self._full, peak)
        return self._full

    def taken(self, rows: Integers) -> Crowding:
        """The same for some services; a row may be named twice."""
        other = Crowding(len(rows))
        for name, values in vars(self).items():
            setattr(other, name, values[rows].copy())
        return other
