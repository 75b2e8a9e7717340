"""What the guard is told at every tick: what the system shows, and what it needs and may have."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trimtab.control.guard_settings import GuardSettings
from trimtab.core.errors import ActionError

__all__ = ["Evidence", "Flags", "Floats", "Integers", "Needs"]

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]


class Evidence(NamedTuple):
    """What the system shows of the tick that has just ended, one entry per environment.

    NaN says "not known": unknown ages and surprises count as too high, unknown latencies and requests as
    no evidence at all. An age far below zero, after a clock was set back, counts as too high as well.

    >>> Evidence.of(2, latency_ratio=[0.8, 1.3], bad=[0, 9], total=4500).total
    array([4500., 4500.])
    """

    data_age_s: Floats  # [E]: age of the newest complete metrics, which both policy and heuristic look at
    proposal_age_s: Floats  # [E]: since the policy made its answer
    latency_ratio: Floats  # [E]: latency of the last tick over its limit
    bad: Floats  # [E]: requests (records, jobs) of the last tick that violated the objective
    total: Floats  # [E]: all requests of the last tick
    surprise: Floats  # [E]: out-of-distribution score of what the policy saw
    killed: Flags  # [E]: the kill switch: this policy must not act

    @classmethod
    def of(
        cls,
        environments: int,
        *,
        data_age_s: ArrayLike = 0.0,
        proposal_age_s: ArrayLike = 0.0,
        latency_ratio: ArrayLike = np.nan,
        bad: ArrayLike = 0.0,
        total: ArrayLike = 0.0,
        surprise: ArrayLike = 0.0,
        killed: ArrayLike = False,
    ) -> Evidence:
        """Evidence from numbers or arrays; what is left out is fresh, unknown or harmless."""
        values = (data_age_s, proposal_age_s, latency_ratio, bad, total, surprise)
        rows = [
            _spread(value, (environments,), name)
            for name, value in zip(cls._fields[:-1], values, strict=True)
        ]
        return cls(*rows, killed=_spread(killed, (environments,), "killed").astype(bool))


class Needs(NamedTuple):
    """What there is, what may be and what must be now, in the units of the dimensions.

    `floor` and `capacity` come from present usage, such as 1.1 times the peak of memory, or the cores that
    present traffic takes over 0.95; NaN and 0 mean that nothing is known to be needed.
    """

    current: Floats  # [E, K]: what is asked for now; NaN: as decided last
    least: Floats  # [E, K]
    most: Floats  # [E, K]
    floor: Floats  # [E, K]: least safe value of each dimension
    capacity: Floats  # [E]: least safe value of the joint capacity

    @classmethod
    def of(
        cls,
        settings: GuardSettings,
        current: ArrayLike,
        *,
        least: ArrayLike | None = None,
        most: ArrayLike | None = None,
        floor: ArrayLike = 0.0,
        capacity: ArrayLike = 0.0,
    ) -> Needs:
        """Needs from numbers or arrays; bounds that are left out are those of the settings.

        >>> from trimtab.control.guard_settings import Dimension
        >>> settings = GuardSettings(dimensions=(Dimension(name="replicas", least=1, most=20),))
        >>> Needs.of(settings, [[4], [7]], floor=2).most
        array([[20.],
               [20.]])
        """
        now = np.array(current, np.float64)
        kinds = len(settings.dimensions)
        if now.ndim != 2 or now.shape[1] != kinds:
            raise ActionError(
                f"current has shape {now.shape}; give [environments, {kinds}] for {', '.join(settings.names)}"
            )
        least = [one.least for one in settings.dimensions] if least is None else least
        most = [one.most for one in settings.dimensions] if most is None else most
        return cls(
            now,
            _spread(least, now.shape, "least"),
            _spread(most, now.shape, "most"),
            _spread(floor, now.shape, "floor"),
            _spread(capacity, now.shape[:1], "capacity"),
        )


def _spread(value: ArrayLike, shape: tuple[int, ...], name: str) -> Floats:
    given = np.asarray(value, np.float64)
    try:
        return np.broadcast_to(given, shape).copy()
    except ValueError:
        raise ActionError(
            f"{name} has shape {given.shape}, which does not fit {shape}; give one number or one for each"
        ) from None
