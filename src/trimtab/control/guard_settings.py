"""What a wing and a user may set of the guard: the quantities decided on, and how far a policy is let."""

from __future__ import annotations

import math
from typing import Literal

from trimtab.core.settings import Field, Settings, model_validator

__all__ = ["Canary", "Comparison", "Dimension", "Freshness", "GuardSettings", "Pace", "Record", "Recovery"]

_MANY = 1_000_000


class Dimension(Settings):
    """One quantity that is decided on: replicas, cores of a pod, bytes of memory, slots.

    >>> Dimension(name="cpu", unit="cores", quantum=0.01, least=0.1, most=4, joint=True).down_factor
    1.5
    """

    name: str = Field(min_length=1, description="What it is called in sentences and in the journal.")
    unit: str = Field(default="", description="Unit in which values are given; empty for plain counts.")
    quantum: float = Field(default=1.0, gt=0, description="Every action is a multiple of this.")
    least: float = Field(
        default=0.0, ge=0, description="No action is below, unless a step gives other bounds."
    )
    most: float = Field(gt=0, description="No action is above, unless a step gives other bounds.")
    joint: bool = Field(
        default=False,
        description="Makes up the capacity together with the other joint ones, and is judged with them.",
    )
    up_factor: float = Field(default=2.0, gt=1, le=1000, description="Most a tick may multiply it by.")
    down_factor: float = Field(default=1.5, gt=1, le=1000, description="Most a tick may divide it by.")
    canary_factor: float = Field(
        default=1.25,
        ge=1,
        le=1000,
        description="Canary: at most so many times more or less than the heuristic.",
    )
    canary_quanta: int = Field(
        default=1, ge=0, le=_MANY, description="Canary: so many quanta more or less are allowed in any case."
    )

    @model_validator(mode="after")
    def _some_value_is_allowed(self) -> Dimension:
        if math.ceil(self.least / self.quantum - 1e-9) > math.floor(self.most / self.quantum + 1e-9):
            raise ValueError(
                f"no multiple of quantum = {self.quantum:g} lies between least = {self.least:g} and "
                f"most = {self.most:g}; widen them"
            )
        return self


class Freshness(Settings):
    """When data or an answer is too old to act on."""

    stale_windows: float = Field(
        default=3.0,
        gt=0,
        le=1000,
        description="Older than so many intervals is stale: data as well as answers.",
    )
    hold_ticks: int = Field(
        default=4,
        ge=0,
        le=_MANY,
        description="Without fresh data nothing changes for so long; then the heuristic acts.",
    )


class Pace(Settings):
    """How often a policy may change its mind; how far in one tick is set for each dimension."""

    flip_ticks: int = Field(
        default=3, ge=0, le=_MANY, description="After a change, none the other way for so many ticks."
    )
    stabilisation_s: float = Field(
        default=300.0,
        ge=0,
        le=86_400,
        description="Goes down to the most asked for within so long, no lower.",
    )


class Comparison(Settings):
    """How far from the heuristic a policy may stray."""

    cost_limit: float = Field(
        default=2.0, ge=1, le=1e6, description="The policy may cost so many times what the heuristic would."
    )
    surprise_limit: float = Field(
        default=1.0,
        gt=0,
        le=1e9,
        description="Above this score of surprise (1: the quantile chosen in training) the heuristic acts.",
    )
    leash_start: float = Field(
        default=0.1,
        gt=0,
        le=1,
        description="Share of the heuristic's amounts a new policy may leave out; 1: all.",
    )
    leash_growth: float = Field(
        default=0.001, ge=0, le=1, description="The leash grows by this in every good tick at its end."
    )
    strain_limit: float = Field(
        default=0.9,
        gt=0,
        le=1000,
        description="Latency above so many times its limit: not below the heuristic.",
    )


class Canary(Settings):
    """Where or when a policy in canary mode acts; drawn by hash, so that it can be repeated."""

    share: float = Field(default=0.1, ge=0, le=1, description="Share of environments or slots that it gets.")
    by: Literal["slots", "environments"] = Field(
        default="slots", description="Whether it gets some time everywhere or some environments for good."
    )
    slot_ticks: int = Field(
        default=80,
        ge=1,
        le=_MANY,
        description="Length of a slot; several stabilisation windows, or it shows little.",
    )
    seed: int = Field(default=0, ge=0, description="Seed of the draw.")


class Recovery(Settings):
    """When things are so bad that the larger of both answers is taken, and when that ends."""

    budget: float = Field(
        default=0.01, gt=0, le=1, description="Share of requests that may violate the objective: 1 - SLO."
    )
    burn_limit: float = Field(
        default=14.4,
        gt=0,
        le=1e6,
        description="Budget burnt so many times too fast, in both windows, is trouble.",
    )
    burn_window_s: float = Field(default=3600.0, gt=0, le=1e6, description="Long window of the burn rate.")
    burn_short_s: float = Field(default=300.0, gt=0, le=1e6, description="Short window of the burn rate.")
    slow_limit: float = Field(
        default=2.0, gt=0, le=1000, description="Latency above so many times its limit is trouble ..."
    )
    slow_ticks: int = Field(default=2, ge=1, le=_MANY, description="... when it lasts for so many ticks.")
    good_ticks: int = Field(
        default=20, ge=1, le=_MANY, description="Over when so many ticks on end kept latency and budget."
    )

    @model_validator(mode="after")
    def _windows_are_ordered(self) -> Recovery:
        if self.burn_short_s > self.burn_window_s:
            raise ValueError("burn_short_s exceeds burn_window_s; lower it")
        return self


class Record(Settings):
    """The account of violations a policy is held to, and what follows when it is overdrawn."""

    observe_ticks: int = Field(
        default=20,
        ge=0,
        le=_MANY,
        description="The heuristic acts so long first, to have a record to compare with.",
    )
    prior_share: float = Field(
        default=0.0002,
        gt=0,
        le=1,
        description="Violating share ascribed to the heuristic before anything is seen.",
    )
    sensitivity: float = Field(
        default=8.0,
        gt=0,
        le=1000,
        description="With a share s of the capacity, violations are taken to be s^-this as many.",
    )
    tolerance: float = Field(
        default=0.15,
        ge=0,
        le=1000,
        description="What may be put down to a policy, as a share of the heuristic's usual violations.",
    )
    tolerated_share: float = Field(
        default=0.0, ge=0, le=1, description="Violating share never held against a policy; 0: relative alone."
    )
    patience_ticks: float = Field(
        default=40.0,
        gt=0,
        le=1e6,
        description="Credit of a new policy, in ticks of the heuristic's violations.",
    )
    blame_ticks: int = Field(
        default=4, ge=1, le=_MANY, description="A policy answers for what happens so long after it gave less."
    )
    suspension_ticks: int = Field(
        default=20, ge=1, le=_MANY, description="First suspension; each later one is twice as long."
    )
    longest_suspension_ticks: int = Field(
        default=5760, ge=1, le=_MANY, description="But no longer than this."
    )
    forgive_ticks: int = Field(
        default=480,
        ge=1,
        le=_MANY,
        description="One offence is forgotten for so many ticks acted without another.",
    )


class GuardSettings(Settings):
    """Everything about a guard that does not change from tick to tick.

    >>> settings = GuardSettings(dimensions=(Dimension(name="replicas", least=1, most=20),))
    >>> settings.mode, settings.window_ticks
    ('shadow', 21)
    """

    dimensions: tuple[Dimension, ...] = Field(min_length=1, description="What is decided on, in this order.")
    mode: Literal["shadow", "canary", "active"] = Field(
        default="shadow",
        description="Whether the policy only advises, acts for a share of the time, or acts.",
    )
    interval_s: float = Field(default=15.0, gt=0, le=86_400, description="Seconds between decisions.")
    freshness: Freshness = Field(default=Freshness(), description="When data or an answer is too old.")
    pace: Pace = Field(default=Pace(), description="How often a policy may change its mind.")
    comparison: Comparison = Field(
        default=Comparison(), description="How far from the heuristic it may stray."
    )
    canary: Canary = Field(default=Canary(), description="Where or when it acts in canary mode.")
    recovery: Recovery = Field(default=Recovery(), description="When the larger of both answers is taken.")
    record: Record = Field(default=Record(), description="The account of violations it is held to.")

    @model_validator(mode="after")
    def _names_differ(self) -> GuardSettings:
        names = [dimension.name for dimension in self.dimensions]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"dimension {twice[0]!r} is there twice; give each a name of its own")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """The dimensions by name, in order."""
        return tuple(dimension.name for dimension in self.dimensions)

    @property
    def window_ticks(self) -> int:
        """Ticks in the stabilisation window: now, and all that are no older than it is long, as in HPA."""
        return math.floor(self.pace.stabilisation_s / self.interval_s + 1e-9) + 1

    @property
    def burn_ticks(self) -> tuple[int, int]:
        """Ticks in the long and in the short window of the burn rate."""
        recovery = self.recovery
        long, short = (
            max(round(window / self.interval_s), 1)
            for window in (recovery.burn_window_s, recovery.burn_short_s)
        )
        return long, short
