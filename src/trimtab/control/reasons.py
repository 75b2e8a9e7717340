"""The steps of the guard, the reasons a step may have, and who acts in the end: small numbers, for arrays."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["Acting", "Reason", "Step"]


class Step(IntEnum):
    """The steps, in the order in which they are taken.

    The comparison comes before the pace, so that a cut towards the heuristic, too, is made no faster than
    anything else is taken away; `ENSURE` repeats the needs and bounds on what was chosen, since these win.
    """

    VALIDATE = 0
    PROJECT = 1
    NEEDS = 2
    COMPARE = 3
    PACE = 4
    CHOOSE = 5
    ENSURE = 6


class Acting(IntEnum):
    """Whose action it is."""

    HEURISTIC = 0
    POLICY = 1
    LARGER = 2
    """The larger of both, dimension by dimension, cut to what the policy may cost."""
    HOLD = 3
    """Nobody's: all stays as it is."""


class Reason(IntEnum):
    """Why a step changed something, for one dimension of one environment; 0 where it did not.

    >>> Reason(41).name
    'BOX'
    """

    NONE = 0
    # VALIDATE: the heuristic's answer is taken instead.
    NO_ANSWER = 10
    WRONG_SHAPE = 11
    NOT_FINITE = 12
    NEGATIVE = 13
    EXPIRED = 14
    # PROJECT
    ROUNDED = 20
    BELOW_BOUND = 21
    ABOVE_BOUND = 22
    # NEEDS and ENSURE
    USAGE = 30
    CAPACITY = 31
    OUT_OF_REACH = 32
    """Not even the most that the bounds allow suffices; that is what is taken."""
    # COMPARE; COST in PACE, too
    COST = 40
    BOX = 41
    LEASH = 42
    STRAINED = 43
    # PACE
    TOO_FAST_UP = 50
    TOO_FAST_DOWN = 51
    STABILISED = 52
    FLIP = 53
    # CHOOSE
    POLICY_ACTS = 60
    SHADOW = 61
    RESTING = 62
    KILLED = 63
    OBSERVING = 64
    SUSPENDED = 65
    HELD = 66
    STALE = 67
    INVALID = 68
    SURPRISED = 69
    RECOVERING = 70
    HEURISTIC_UNUSABLE = 71
    """The heuristic should act, but its answer is no number: all stays as it is."""
