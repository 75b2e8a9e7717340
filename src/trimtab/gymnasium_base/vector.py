"""What environments that are stepped together have in common: seeds, and who begins anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray

from trimtab.core.errors import SettingsError, TrimtabError
from trimtab.gymnasium_base.seeds import LARGEST_DRAWN_SEED

__all__ = ["SeededVectorEnv"]


class SeededVectorEnv(VectorEnv[Any, Any, NDArray[Any]]):
    """`num_envs` environments that take the same course as single ones with the same seeds.

    An environment that has ended is reset by the next `step`, whose action for it is not looked at
    (Gymnasium's NEXT_STEP).
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - as Gymnasium declares it
        "render_modes": [],
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }

    def __init__(self, num_envs: int) -> None:
        if num_envs < 1:
            raise SettingsError(f"num_envs = {num_envs}; it must be at least 1")
        self.num_envs = num_envs
        self._generators = [seeding.np_random(None)[0] for _ in range(num_envs)]

    def _begun(
        self, seed: int | Sequence[int | None] | None, options: dict[str, Any] | None, *, running: bool
    ) -> dict[int, int]:
        """Which environments a reset begins anew, and the seed of each."""
        chosen = self._chosen(options, running=running)
        if seed is None or isinstance(seed, int):
            super().reset(seed=seed)
            given = [None if seed is None else seed + index for index in range(self.num_envs)]
        else:
            given = list(seed)
        if len(given) != self.num_envs:
            raise SettingsError(f"{len(given)} seeds for {self.num_envs} environments")
        seeds: dict[int, int] = {}
        for index in np.flatnonzero(chosen).tolist():
            one = given[index]
            if one is not None:
                self._generators[index] = seeding.np_random(one)[0]
            seeds[index] = self._draw(index) if one is None else one
        return seeds

    def _draw(self, index: int) -> int:
        return int(self._generators[index].integers(LARGEST_DRAWN_SEED))

    def _chosen(self, options: dict[str, Any] | None, *, running: bool) -> NDArray[np.bool_]:
        """Who is to begin anew: all, or those of Gymnasium's `reset_mask`."""
        if options is None or "reset_mask" not in options:
            return np.ones(self.num_envs, np.bool_)
        mask = np.asarray(options["reset_mask"])
        if mask.dtype != np.bool_ or mask.shape != (self.num_envs,) or not mask.any():
            raise SettingsError(
                f"reset_mask = {options['reset_mask']!r}; give {self.num_envs} times true or false, once true"
            )
        if not running and not mask.all():
            raise TrimtabError("no episode is running; call reset() without a reset_mask first")
        return mask

    def _seeds_told(self, seeds: dict[int, int]) -> dict[str, NDArray[Any]]:
        """Seeds as a reset's `info` has them."""
        begun = np.array([index in seeds for index in range(self.num_envs)])
        return {"seed": np.array([seeds.get(index, 0) for index in range(self.num_envs)]), "_seed": begun}

    def _of_all(self, infos: dict[str, Any]) -> dict[str, Any]:
        """What every environment reports; `_name` says who does, as Gymnasium has it."""
        return infos | {f"_{name}": np.ones(self.num_envs, np.bool_) for name in infos}
