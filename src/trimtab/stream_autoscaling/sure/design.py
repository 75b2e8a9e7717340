"""What a learned autoscaler is made of; stored in the manifest of its bundle."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

from trimtab.core.errors import SettingsError

__all__ = ["Design", "design_from"]


@dataclass(frozen=True)
class Design:
    """Encoder of the history, actions, sizes, and how much the terms of the lower bound weigh.

    >>> Design(history_encoder="gru").snapshots
    10
    """

    history_encoder: str = "sampler"
    """A name in `encoders.ENCODERS`: sampler, random, full, gru, or one of the rivals."""
    actions: Literal["residual", "gaussian"] = "residual"
    """residual: commit or hold, and steps around the base rule's suggestion; gaussian: as published."""
    history: int = 60
    """Intervals looked back."""
    hidden: int = 32
    layers: int = 2
    """Rounds of message passing."""
    hops: int = 3
    """Neighbours are at most so far away."""
    snapshots: int = 10
    """Of the history, so many moments are looked at (k1)."""
    neighbours: int = 3
    """In each of them, so many neighbours (k2)."""
    reach: float = 4.0
    """Means of latents lie within plus and minus this; published: 1."""
    temperature: float = 0.5
    """Softness of the relaxed picks, of which only the slope is used."""
    divergence_weight: float = 1e-4
    surprise_weight: float = 1e-3
    """Of the cross entropy of the picks."""
    volume_weight: float = 0.0
    """Of the log density of the latents; published together with the cross entropy at 1e-2."""
    information_weight: float = 1e-2
    suggestion_score: float = 4.0
    """Head start of what the base rule suggests over each step away from it."""
    commit_score: float = 3.0
    """Head start of doing what the base rule would: to commit where it would, to hold where it would not."""
    largest_score: float = 8.0
    """What the network adds to a head start is bent to stay within this, so that nothing is ruled out."""
    base_target: float = 0.65
    """Utilisation the suggestion aims at. This and the next are settings of the rule `banded`, by default its
    usual ones."""
    base_limit: float = 0.85
    base_saving: float = 0.15
    base_memory_s: float = 1800.0
    base_recent_s: float = 1800.0
    base_window_s: float = 900.0
    base_catch_up_s: float = 300.0
    base_patience_s: float = 2700.0
    base_blocked: float = 1.0
    band_targets: tuple[float, ...] = (0.58, 0.72, 0.8)
    """Where neither the base rule nor one that aims at one of these would do anything, nothing is done."""
    straight_through: bool = True
    """Off reproduces a defect of the published code: no gradient of the reward reaches the sampler."""
    downstream_only: bool = False
    """On reproduces another: neighbours upstream, whence load will come, are not looked at."""
    truncates: bool = False
    """On reproduces a third: p + int(a p), which at p = 1 can hardly ever scale up."""

    def __post_init__(self) -> None:
        if self.snapshots > self.history:
            raise SettingsError(
                f"snapshots = {self.snapshots} of a history of {self.history} intervals; lower snapshots"
            )
        for name in ("history", "hidden", "layers", "hops", "snapshots", "neighbours"):
            if getattr(self, name) < 1:
                raise SettingsError(f"{name} = {getattr(self, name)} of a network; it must be at least 1")

    @property
    def base(self) -> dict[str, float]:
        """Settings of the rule whose suggestions are stepped around."""
        return {name.removeprefix(_BASE): getattr(self, name) for name in _BASE_FIELDS}

    @property
    def teacher(self) -> str:
        """The rule that a policy does as long as its network says nothing."""
        return "banded:" + ",".join(f"{name}={value:g}" for name, value in self.base.items())


_BASE = "base_"
_BASE_FIELDS = tuple(one.name for one in fields(Design) if one.name.startswith(_BASE))


def design_from(content: Any) -> Design:
    """A design from what a manifest holds; unknown or missing fields raise TypeError."""
    design = Design(**{**content, "band_targets": tuple(content["band_targets"])})
    if design.actions not in ("residual", "gaussian"):
        raise TypeError(f"actions = {design.actions!r}")
    return design
