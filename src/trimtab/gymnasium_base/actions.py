"""Actions as they come from outside, made arrays of the right kind or refused; and their masks."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from trimtab.core.errors import ActionError

__all__ = ["Illegal", "Mask", "action_inside", "checked_action", "joined_mask", "many_actions"]

Mask = NDArray[np.int8] | tuple[NDArray[np.int8], ...]
"""As `action_space.sample(mask=...)` takes it: an array, or one for each part of the action."""
Illegal = Literal["raise", "nearest"]
"""Of an action outside its mask: refuse it, or take the nearest inside."""


def checked_action(space: spaces.Space[Any], action: ArrayLike) -> NDArray[Any]:
    """The action as an array of the space's own kind and shape, if it lies in the space.

    >>> checked_action(spaces.MultiDiscrete([3, 5]), [2, 4])
    array([2, 4])
    >>> checked_action(spaces.Discrete(7), 9)
    Traceback (most recent call last):
    trimtab.core.errors.ActionError: action = 9; it must be 0 to 6
    """
    low, high = _bounds(space)
    given = np.asarray(action)
    whole = low.dtype.kind in "iu"
    if given.size != low.size or given.dtype.kind not in ("iu" if whole else "iuf"):
        raise ActionError(
            f"an action of type {given.dtype} and shape {given.shape}; give {low.size} "
            f"{'whole ' if whole else ''}number(s)"
        )
    flat = given.reshape(-1)
    outside = np.flatnonzero(~((low <= flat) & (flat <= high)))  # what is no number is outside, too
    if outside.size:
        at = int(outside[0])
        place = [int(one) for one in np.unravel_index(at, space.shape or ())]
        raise ActionError(f"action{place or ''} = {flat[at]}; it must be {low[at]:g} to {high[at]:g}")
    return flat.astype(low.dtype).reshape(space.shape or ())


def _bounds(space: spaces.Space[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The least and the most of every part of an action."""
    if isinstance(space, spaces.Discrete):
        return np.array([space.start]), np.array([space.start + space.n - 1])
    if isinstance(space, spaces.MultiDiscrete):
        return space.start.reshape(-1), (space.start + space.nvec - 1).reshape(-1)
    assert isinstance(space, spaces.Box)
    return space.low.reshape(-1), space.high.reshape(-1)


def action_inside(mask: NDArray[np.int8], action: int, illegal: Illegal, *, where: str = "") -> int:
    """The action itself where the mask allows it; else the nearest that it allows, or a refusal.

    >>> action_inside(np.array([0, 1, 0, 1], np.int8), 2, "nearest")
    1
    >>> action_inside(np.array([0, 1, 0, 1], np.int8), 2, "raise")
    Traceback (most recent call last):
    trimtab.core.errors.ActionError: action 2 is outside the mask; 2 are inside, such as [1, 3]: see \
info['action_mask']
    """
    if mask[action]:
        return action
    allowed = np.flatnonzero(mask)
    if illegal == "raise":
        raise ActionError(
            f"{where}action {action} is outside the mask; {len(allowed)} are inside, such as "
            f"{allowed[:4].tolist()}: see info['action_mask']"
        )
    return int(allowed[np.argmin(np.abs(allowed - action))])


def many_actions(one: spaces.Space[Any], count: int) -> spaces.Space[Any]:
    """Gymnasium makes a Box of many pairs, which cannot sample under a mask; this space can."""
    if isinstance(one, spaces.MultiDiscrete):
        return spaces.MultiDiscrete(np.tile(one.nvec, (count, 1)))
    return batch_space(one, count)


def joined_mask(mask: Mask | None) -> NDArray[np.bool_]:
    """A mask as sb3-contrib takes it: those of all parts of an action, in a row."""
    if mask is None:
        raise ActionError("actions of this kind have no mask; choose another kind in the settings")
    return np.concatenate(mask if isinstance(mask, tuple) else [mask]).astype(np.bool_)
