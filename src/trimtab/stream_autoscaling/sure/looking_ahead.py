"""What would a decision earn, if the base rule decided everything from then on?

The simulator itself answers: two copies of the job live on with the same arrivals and luck, one after the
decision and one after what the base rule would have done instead, both under the base rule. Arrivals and
luck are inputs that no decision changes, so the difference is an input-dependent baseline (Mao et al., ICLR
2019) at its sharpest: the decision's own doing. Most decisions are the base rule's own and need no look.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from trimtab.stream_autoscaling.problem import Decider, Floats, Graph, Integers, StreamPolicy, allowed
from trimtab.stream_autoscaling.simulator.simulator import StreamSimulator

__all__ = ["Begin", "gains", "returns"]

Begin = Callable[[Graph], Decider]


def returns(
    simulator: StreamSimulator, rows: Integers, wanted: Integers, begin: Begin, intervals: int
) -> Floats:
    """Reward of so many intervals after asking for each alternative, [rows, alternatives].

    `wanted` [rows, alternatives, V] is what is asked for first. From then on decides whoever `begin` gives
    for the graph of all lives, alternatives of a row side by side; it takes over in mid-flight.
    """
    each = wanted.shape[1]
    lives = simulator.copied(np.repeat(rows, each))
    decider = begin(lives.graph)
    asked = wanted.reshape(-1, wanted.shape[2])
    total = np.zeros(len(asked))
    for _ in range(intervals):
        total += lives.step(asked).rewards
        if lives.ended.all():
            break
        asked = decider.decide(lives.snapshot())
    return total.reshape(len(rows), each)


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
    both = returns(simulator, rows, np.stack([ours[rows], theirs[rows]], axis=1), rule.begin, intervals)
    found[rows] = both[:, 0] - both[:, 1]
    return found
