"""The guard: what stands between any policy and a system, real or simulated.

A policy that was learned may be wrong in ways nobody tried. The guard looks at its answer and at that of a
heuristic one would trust alone, and lets through what is safe. It knows nothing of pods or streams: a wing
brings its dimensions, bounds, floors and measures as values.

Seven steps, each with a reason (`Step`, `Reason`): validate, project, needs, compare, pace, choose, ensure.
Which rule wins, from strongest to weakest:

1. **bounds and quanta**: nothing ever comes out that is not a multiple of its quantum within the bounds;
2. **needs**: present usage and traffic, whoever acts; only in shadow mode is the heuristic left alone;
3. **pace**: at most x2 up and /1.5 down in one tick, no turning round for 3 ticks, down no lower than the
   most asked for in 300 s, as Kubernetes' HPA does. It binds the policy. The heuristic, when it acts, is let
   through as it is: it is what would run without us, and has a pace of its own. For the same reason the way
   to the heuristic is open: the policy may always go up as far, and down as far unless the heuristic trades
   one joint dimension for another;
4. **strain and leash**: not below the heuristic while latency is above its limit, and otherwise not further
   below than the record allows (see `record`);
5. **canary box**, then **cost**: at most so many times the heuristic's.

Why a broken policy does little harm: one that answers nonsense is replaced by the heuristic on the spot. One
that asks for too little meets the needs, the leash and the strain rule at once, and the account of its
violations soon: it is suspended, longer each time. One that asks for too much costs at most `cost_limit`
times the heuristic. One that answers at random moves at the pace, mostly upwards, and is cut to that cost.

Ideas: validated data, assessed models and assessed actions come from SOL (Wang et al., ASPLOS 2022), burn
rates in two windows from Google's SRE workbook (2018), falling back to a heuristic from AWARE (Qiu et al.,
ATC 2023). A policy that is late or crashes is the business of `trimtab.core.guarded`, before it comes here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.control.decision import Guarded, Moment
from trimtab.control.evidence import Evidence, Flags, Floats, Needs
from trimtab.control.guard_settings import GuardSettings
from trimtab.control.limits import Measure
from trimtab.control.reasons import Acting, Reason, Step
from trimtab.control.record import judge
from trimtab.control.state import GuardState, fresh_state
from trimtab.control.steps import (
    Codes,
    Frame,
    Instruments,
    affordable,
    as_floats,
    compare,
    frame_of,
    pace,
    project,
    satisfy,
    validate,
)
from trimtab.core.errors import SettingsError
from trimtab.core.randomness import uniform

__all__ = ["Guard"]


class Guard:
    """Lets a policy act as far as that is safe, for E environments at once; a live system is a batch of one.

    `capacity` is what the joint dimensions make up together, such as `product_of(0, 1)` for replicas times
    cores; `cost` is what amounts cost. Both see values in their units.

    >>> from trimtab.control.guard_settings import Dimension
    >>> settings = GuardSettings(dimensions=(Dimension(name="replicas", least=1, most=20),), mode="active")
    >>> guard = Guard(settings)
    >>> state = guard.begin(1)
    >>> for _ in range(21):  # the heuristic is observed for 20 ticks first
    ...     needs = Needs.of(settings, [[8]], floor=3)
    ...     evidence = Evidence.of(1, latency_ratio=0.7, bad=2, total=4500)
    ...     state, guarded = guard.step(state, [[1.0]], np.array([[8.0]]), evidence, needs)
    >>> guarded.action
    array([[8.]])
    >>> print("\\n".join(guarded.explain(0)))
    now replicas 8; the policy asks for replicas 1, the heuristic for replicas 8
    needs: replicas 1 → 3: present usage needs it
    compare: replicas 3 → 8: may leave out 10.0% of what the heuristic asks for, by its record
    choose: the policy acts
    """

    def __init__(
        self, settings: GuardSettings, *, capacity: Measure | None = None, cost: Measure | None = None
    ) -> None:
        if any(one.joint for one in settings.dimensions) != (capacity is not None):
            raise SettingsError(
                "joint dimensions need a measure of capacity, and it needs them; give both or neither"
            )
        self.settings = settings
        self._tools = Instruments(settings, capacity, cost)

    def begin(self, environments: int, *, ids: Sequence[int] | None = None) -> GuardState:
        """Start afresh; `ids` name the environments for the draws of the canary (else their numbers do)."""
        if ids is not None and len(ids) != environments:
            raise SettingsError(f"{len(ids)} ids for {environments} environments; give one for each")
        return fresh_state(self.settings, environments, ids)

    def restart(self, state: GuardState, which: Flags) -> GuardState:
        """Start afresh in some environments, as after an episode; they keep their ids."""
        fresh = fresh_state(self.settings, len(state.ids), state.ids.tolist())
        rows = np.asarray(which, bool)

        def mixed(old: NDArray[Any], new: NDArray[Any]) -> NDArray[Any]:
            return np.where(rows.reshape(-1, *[1] * (old.ndim - 1)), new, old)

        return GuardState(*(mixed(old, new) for old, new in zip(state, fresh, strict=True)))

    def step(
        self, state: GuardState, proposal: Any, heuristic: Floats, evidence: Evidence, needs: Needs
    ) -> tuple[GuardState, Guarded]:
        """Decide one tick.

        `proposal` and `heuristic` are [E, K] in the units of the dimensions. The proposal may be anything:
        None, another shape and NaN are refused here. A heuristic of another shape is the caller's mistake.
        """
        tools = self._tools
        frame = frame_of(tools, state, np.asarray(heuristic, np.float64), needs)
        state, judgement = judge(self.settings, state, evidence)
        codes = np.zeros((len(state.ids), len(Step), len(tools.quantum)), np.int8)
        trail = np.empty((len(Step) + 1, *state.action.shape))

        wish, codes[:, Step.VALIDATE] = validate(tools, frame, proposal, evidence)
        trail[0], trail[1] = _shown(proposal, state.action.shape), wish
        trail[2], codes[:, Step.PROJECT] = project(frame, wish)
        trail[3], codes[:, Step.NEEDS] = satisfy(tools, frame, trail[2])
        trail[4], codes[:, Step.COMPARE] = compare(tools, frame, state, judgement, trail[3])
        trail[5], codes[:, Step.PACE] = pace(tools, frame, state, trail[4])
        acting, codes[:, Step.CHOOSE] = self._choice(state, evidence, frame, codes[:, Step.VALIDATE, 0] == 0)
        trail[6] = trail[7] = _chosen(tools, acting, trail[5], frame)
        if self.settings.mode != "shadow":
            trail[7], codes[:, Step.ENSURE] = satisfy(tools, frame, trail[6])
        would = satisfy(tools, frame, trail[5])[0]
        tick = Tick(frame, acting, asked=trail[4], chosen=trail[6], action=trail[7].copy(), would=would)
        trail[1:] *= tools.quantum
        moment = Moment(self.settings, state, evidence, judgement, tools.in_units(frame.there))
        guarded = Guarded(
            action=trail[-1].copy(),
            acting=acting,
            codes=codes,
            trail=trail,
            heuristic=tools.in_units(frame.heuristic),
            would=tools.in_units(would),
            extra_cost=_extra_cost(tools, would, frame.heuristic),
            short=_short(tools, state, needs),
            moment=moment,
        )
        return self._remembered(state, tick, guarded), guarded

    def _choice(
        self, state: GuardState, evidence: Evidence, frame: Frame, valid: Flags
    ) -> tuple[NDArray[np.int8], Codes]:
        """Who acts, [E], and why, [E, 1]: the first of these reasons that holds."""
        settings = self.settings
        stale = state.stale_ticks
        heuristic, policy, larger, hold = Acting.HEURISTIC, Acting.POLICY, Acting.LARGER, Acting.HOLD
        table = [
            (evidence.killed, heuristic, Reason.KILLED),
            (np.full(len(valid), settings.mode == "shadow"), heuristic, Reason.SHADOW),
            (self._resting(state), heuristic, Reason.RESTING),
            (state.tick < settings.record.observe_ticks, heuristic, Reason.OBSERVING),
            (state.suspended > 0, heuristic, Reason.SUSPENDED),
            ((stale > 0) & (stale <= settings.freshness.hold_ticks), hold, Reason.HELD),
            (stale > 0, heuristic, Reason.STALE),
            (~valid, heuristic, Reason.INVALID),
            (~(evidence.surprise <= settings.comparison.surprise_limit), heuristic, Reason.SURPRISED),
            (state.recovering, larger, Reason.RECOVERING),
        ]
        holds = [row[0] for row in table]
        acting = np.select(holds, [row[1] for row in table], policy)
        why = np.select(holds, [row[2] for row in table], Reason.POLICY_ACTS)
        lost = (acting == heuristic) & ~frame.usable
        why, acting = np.where(lost, Reason.HEURISTIC_UNUSABLE, why), np.where(lost, hold, acting)
        return acting.astype(np.int8), why.astype(np.int8)[:, None]

    def _resting(self, state: GuardState) -> Flags:
        """Canary mode: it is not the turn of these."""
        canary = self.settings.canary
        if self.settings.mode != "canary":
            return np.zeros(len(state.ids), bool)
        slot = state.tick // canary.slot_ticks if canary.by == "slots" else np.zeros_like(state.tick)
        return uniform(canary.seed, state.ids, slot) >= canary.share

    def _remembered(self, state: GuardState, tick: Tick, guarded: Guarded) -> GuardState:
        tools, frame, shadow = self._tools, tick.frame, self.settings.mode == "shadow"
        acted = tick.acting == Acting.POLICY
        asked = state.asked.copy()
        source = tick.asked if shadow else _chosen(tools, tick.acting, tick.asked, frame)
        # Before the first decision what was there counts as asked for, as in HPA.
        source = np.where(state.tick[:, None] == 0, np.maximum(source, np.ceil(frame.current)), source)
        asked[np.arange(len(acted)), state.tick % asked.shape[1]] = source
        change = np.sign((tick.would if shadow else tick.action) - np.floor(frame.current + 0.5))
        share = tools.shares(tick.action, frame.heuristic)
        given = state.given.copy()
        given[np.arange(len(acted)), state.tick % given.shape[1]] = np.where(
            acted, np.minimum(share, 1.0), 1.0
        )
        reached = (guarded.codes[:, Step.COMPARE] == Reason.LEASH).any(axis=1) | (
            share <= 1 - state.leash / 2
        )
        other = (tick.chosen != frame.heuristic).any(axis=1)
        return state._replace(
            tick=state.tick + 1,
            action=guarded.action,
            would=guarded.would,
            asked=asked,
            direction=np.where(change != 0, change, state.direction).astype(np.int8),
            since_change=np.where(change != 0, 0, state.since_change + 1),
            since_other=np.where(other, 0, state.since_other + 1),
            given=given,
            clean_ticks=state.clean_ticks + acted,
            at_leash=acted & reached,
        )


class Tick(NamedTuple):
    """What one tick came to, in quanta."""

    frame: Frame
    acting: NDArray[np.int8]
    asked: Floats
    chosen: Floats
    action: Floats
    would: Floats


def _chosen(tools: Instruments, acting: NDArray[np.int8], policy: Floats, frame: Frame) -> Floats:
    # Many small replicas of one and large ones of the other would cost a multiple of either.
    larger = affordable(tools, frame, np.maximum(policy, frame.heuristic), frame.heuristic)
    options = [frame.heuristic, policy, larger, frame.stays]
    return np.select([(acting == who)[:, None] for who in Acting], options)


def _shown(proposal: Any, shape: tuple[int, ...]) -> Floats:
    answer = as_floats(proposal)
    return np.full(shape, np.nan) if answer is None or answer.shape != shape else answer


def _extra_cost(tools: Instruments, would: Floats, heuristic: Floats) -> Floats:
    """What the policy's costs beyond the heuristic's, as a share of that; without a measure, on average."""
    if tools.cost is None:
        return np.mean(would / np.maximum(heuristic, 1.0), axis=1) - 1
    base = tools.cost(tools.in_units(heuristic))
    return (tools.cost(tools.in_units(would)) - base) / np.where(base > 0, base, 1.0)


def _short(tools: Instruments, state: GuardState, needs: Needs) -> Flags:
    short: Flags = np.any(state.would < needs.floor, axis=1)
    if tools.capacity is not None:
        short = short | (tools.capacity(state.would) < needs.capacity)
    return short
