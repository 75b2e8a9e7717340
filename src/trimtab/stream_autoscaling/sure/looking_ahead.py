"""What would a decision earn, if the base rule decided everything from then on?

The simulator itself answers: two copies of the job live on with the same arrivals and luck, one after the
decision and one after what the base rule would have done instead, both under the base rule. Arrivals and
luck are inputs that no decision changes, so the difference is an input-dependent baseline (Mao et al., ICLR
2019) at its sharpest: the decision's own doing. Most decisions are the base rule's own and need no look.
"""

from __future__ import annotations

import numpy as np

from trimtab.stream_autoscaling.problem import Floats, Integers, StreamPolicy, allowed
from trimtab.stream_autoscaling.simulator.simulator import StreamSimulator

__all__ = ["gains"]


def gains(
    simulator: StreamSimulator, wanted: Integers, base: Integers, rule: StreamPolicy, intervals: int
) -> Floats:
    """Reward that asking for `wanted` brings more than asking for `base`, over so many intervals, [E].

    The rule must remember nothing, for it takes over in mid-flight. 0 where both come to the same.
    """
    snapshot = simulator.snapshot()
    ours, theirs = allowed(snapshot, wanted), allowed(snapshot, base)
    rows = np.flatnonzero((ours != theirs).any(1) & ~simulator.ended)
    found = np.zeros(simulator.size)
    if not rows.size:
        return found
    both = simulator.copied(np.concatenate([rows, rows]))
    decider = rule.begin(both.graph)
    asked = np.concatenate([ours[rows], theirs[rows]])
    total = np.zeros(len(asked))
    for _ in range(intervals):
        total += both.step(asked).rewards
        if both.ended.all():
            break
        asked = decider.decide(both.snapshot())
    found[rows] = total[: len(rows)] - total[len(rows) :]
    return found
