"""Seeds of episodes: given, or drawn from earlier ones."""

from __future__ import annotations

from trimtab.core.errors import SettingsError

__all__ = ["LARGEST_DRAWN_SEED", "checked_seed"]

LARGEST_DRAWN_SEED = 2**31
_LAST_SEED = 1 << 62


def checked_seed(seed: int) -> int:
    """The seed, if engines can count so far.

    >>> checked_seed(7)
    7
    """
    if seed > _LAST_SEED:
        raise SettingsError(f"seed {seed}; use a whole number from 0 to 2^62")
    return seed
