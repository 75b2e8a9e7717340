"""Situations for tests of the guard: plain ones to reckon with by hand, and random ones for laws."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from trimtab.control.decision import Guarded
from trimtab.control.evidence import Evidence, Needs
from trimtab.control.guard import Guard
from trimtab.control.guard_settings import (
    Canary,
    Comparison,
    Dimension,
    Freshness,
    GuardSettings,
    Pace,
    Record,
    Recovery,
)
from trimtab.control.limits import product_of
from trimtab.control.state import GuardState


def plain_guard(mode: str = "active", **changed: Any) -> Guard:
    """One dimension, replicas from 1 to 100; no leash, no observation, no window, no turning rule."""
    dimension = {"name": "replicas", "least": 1, "most": 100, **changed.pop("dimension", {})}
    usual: dict[str, Any] = {
        "pace": Pace(flip_ticks=0, stabilisation_s=0),
        "comparison": Comparison(leash_start=1.0, cost_limit=1000),
        "record": Record(observe_ticks=0),
    }
    return Guard(GuardSettings(dimensions=(Dimension(**dimension),), mode=mode, **{**usual, **changed}))  # pyright: ignore[reportArgumentType]


class Play:
    """One environment with one dimension, tick by tick; what is done is what there is next."""

    def __init__(self, guard: Guard, current: float) -> None:
        self.guard, self.current = guard, current
        self.state = guard.begin(1)
        self.guarded: Guarded | None = None

    def tick(
        self, proposal: Any, heuristic: float, *, needs: dict[str, Any] | None = None, **evidence: Any
    ) -> float:
        """Decide once; the action."""
        answer = [[proposal]] if isinstance(proposal, int | float) else proposal
        self.state, self.guarded = self.guard.step(
            self.state,
            answer,
            np.array([[float(heuristic)]]),
            Evidence.of(1, **evidence),
            Needs.of(self.guard.settings, [[self.current]], **(needs or {})),
        )
        self.current = float(self.guarded.action[0, 0])
        return self.current

    def said(self) -> str:
        """All sentences about the last decision."""
        assert self.guarded is not None
        return "\n".join(self.guarded.explain(0))


class Inputs(NamedTuple):
    """What one tick of a random play is about."""

    proposal: Any
    heuristic: np.ndarray
    evidence: Evidence
    needs: Needs


def random_guard(number: int, **fixed: Any) -> Guard:
    """Two joint dimensions and one more, with random quanta, bounds and settings."""
    draw = np.random.default_rng(number)
    dimensions = []
    for name, joint in (("replicas", True), ("cpu", True), ("memory", False)):
        quantum = float(draw.choice([1.0, 0.01, 0.25, 16.0, 0.1]))
        least = quantum * float(draw.uniform(0, 5))
        dimensions.append(
            Dimension(
                name=name,
                joint=joint,
                quantum=quantum,
                least=least,
                most=least + quantum * float(draw.uniform(1, 300)),
                up_factor=float(draw.uniform(1.1, 3)),
                down_factor=float(draw.uniform(1.1, 3)),
                canary_factor=float(draw.uniform(1, 2)),
                canary_quanta=int(draw.integers(0, 3)),
            )
        )
    settings: dict[str, Any] = {
        "mode": str(draw.choice(["shadow", "canary", "active"])),
        "freshness": Freshness(hold_ticks=int(draw.integers(0, 3))),
        "pace": Pace(flip_ticks=int(draw.integers(0, 4)), stabilisation_s=float(draw.choice([0, 45, 100]))),
        "comparison": Comparison(
            leash_start=float(draw.choice([0.1, 0.5, 1.0])), cost_limit=float(draw.uniform(1, 3))
        ),
        "canary": Canary(share=0.5, slot_ticks=3, seed=number),
        "record": Record(observe_ticks=int(draw.integers(0, 3)), patience_ticks=2, suspension_ticks=2),
        "recovery": Recovery(good_ticks=2),
        **fixed,
    }
    cost = None if draw.random() < 0.3 else (lambda amounts: amounts[:, 0] * (amounts[:, 1] + amounts[:, 2]))
    return Guard(
        GuardSettings(dimensions=tuple(dimensions), **settings), capacity=product_of(0, 1), cost=cost
    )


def random_play(
    guard: Guard, number: int, *, environments: int = 3, ticks: int = 8, broken: bool = True
) -> Iterator[tuple[GuardState, Inputs, Guarded]]:
    """Random ticks, each with the state before it; `broken` spoils answers, evidence and needs with NaN."""
    draw = np.random.default_rng([number, 1])
    least, most = (
        np.array([getattr(one, name) for one in guard.settings.dimensions]) for name in ("least", "most")
    )
    state, shape = guard.begin(environments), (environments, len(least))
    current = least + draw.random(shape) * (most - least)
    for tick in range(ticks):
        inputs = _random_inputs(guard, draw, current, first=tick == 0, broken=broken)
        before = state
        state, guarded = guard.step(state, *inputs)
        yield before, inputs, guarded
        current = guarded.action


def _random_inputs(
    guard: Guard, draw: np.random.Generator, current: np.ndarray, *, first: bool, broken: bool
) -> Inputs:
    shape, dimensions = current.shape, guard.settings.dimensions
    least, most = (np.array([getattr(one, name) for one in dimensions]) for name in ("least", "most"))

    def anywhere(beyond: float = 0.0) -> np.ndarray:
        return least + (draw.random(shape) * (1 + 2 * beyond) - beyond) * (most - least)

    def spoilt(values: np.ndarray, chance: float, by: float = np.nan) -> np.ndarray:
        return np.where(draw.random(values.shape) < chance * broken, by, values)

    proposal: Any = spoilt(spoilt(np.abs(anywhere(0.5)), 0.1), 0.05, -1.0)
    kind = draw.random() if broken else 1.0
    proposal = None if kind < 0.05 else proposal[:, :1] if kind < 0.1 else "much" if kind < 0.12 else proposal
    environments = len(current)
    evidence = Evidence.of(
        environments,
        data_age_s=spoilt(draw.uniform(0, 55, environments), 0.1),
        proposal_age_s=spoilt(draw.uniform(0, 55, environments), 0.1),
        latency_ratio=spoilt(draw.uniform(0, 1.5, environments) ** 3, 0.2),
        bad=spoilt(draw.uniform(0, 3, environments), 0.1),
        total=spoilt(draw.uniform(0, 1000, environments), 0.1),
        surprise=spoilt(draw.uniform(0, 1.1, environments), 0.1),
        killed=draw.random(environments) < 0.1 * broken,
    )
    joint = (current[:, :2].prod(axis=1) * draw.uniform(0, 1.5, environments)) * (draw.random() < 0.5)
    needs = Needs.of(
        guard.settings,
        current if first else spoilt(current, 0.1),
        floor=spoilt(np.where(draw.random(shape) < 0.5, anywhere(0.2), 0.0), 0.1),
        capacity=spoilt(joint, 0.1),
    )
    return Inputs(proposal, spoilt(anywhere(0.1), 0.05), evidence, needs)
