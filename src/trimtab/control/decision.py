"""What the guard decided: the action, a reason for every step, and sentences made of them on demand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.control.evidence import Evidence, Flags, Floats
from trimtab.control.guard_settings import GuardSettings
from trimtab.control.reasons import Acting, Reason, Step
from trimtab.control.record import Judgement
from trimtab.control.state import GuardState

__all__ = ["Guarded", "Moment"]


class Moment(NamedTuple):
    """What the guard knew when it decided; sentences take their numbers from here."""

    settings: GuardSettings
    state: GuardState
    evidence: Evidence
    judgement: Judgement
    current: Floats  # [E, K]


@dataclass(frozen=True)
class Guarded:
    """One decision for every environment, and how it came about.

    See `trimtab.control.Guard` for an example.
    """

    action: Floats
    """[E, K]: what to do."""
    acting: NDArray[np.int8]
    """[E]: whose action it is, an `Acting`."""
    codes: NDArray[np.int8]
    """[E, steps, K]: why a step changed something, a `Reason`."""
    trail: Floats
    """[steps + 1, E, K]: what the policy asked for (as it came), and what each step left of it."""
    heuristic: Floats
    """[E, K]: the heuristic's answer, within the bounds."""
    would: Floats
    """[E, K]: what the policy would have done; in shadow, had it acted all along."""
    extra_cost: Floats
    """[E]: cost of that beyond the heuristic's."""
    short: Flags
    """[E]: what the policy would have had in the last tick is less than what is needed now."""
    moment: Moment

    @property
    def reasons(self) -> NDArray[np.int8]:
        """[E, steps]: the weightiest reason of each step, over dimensions."""
        return self.codes.max(axis=2)

    def explain(self, environment: int) -> tuple[str, ...]:
        """The decision for one environment in sentences, one for each step that changed something."""
        said = [self._opening(environment)]
        for step in Step:
            codes = self.codes[environment, step]
            said += [
                self._sentence(environment, step, Reason(int(code)))
                for code in dict.fromkeys(codes.tolist())
                if code
            ]
        return tuple(said)

    def _opening(self, environment: int) -> str:
        policy, rule = (self._amounts(row[environment]) for row in (self.trail[0], self.heuristic))
        now = self._amounts(self.moment.current[environment])
        return f"now {now}; the policy asks for {policy}, the heuristic for {rule}"

    def _sentence(self, environment: int, step: Step, reason: Reason) -> str:
        because = _BECAUSE[reason](self.moment, environment)
        if step in (Step.VALIDATE, Step.CHOOSE):
            return f"{step.name.lower()}: {because}"
        changes = "; ".join(
            self._change(environment, step, index)
            for index in np.flatnonzero(self.codes[environment, step] == reason).tolist()
        )
        return f"{step.name.lower()}: {changes}: {because}"

    def _change(self, environment: int, step: Step, index: int) -> str:
        dimension = self.moment.settings.dimensions[index]
        before, after = self.trail[step, environment, index], self.trail[step + 1, environment, index]
        return _with_unit(f"{dimension.name} {before:.6g} → {after:.6g}", dimension.unit)

    def _amounts(self, row: Floats) -> str:
        dimensions = self.moment.settings.dimensions
        return ", ".join(
            _with_unit(f"{one.name} {value:.6g}", one.unit)
            for one, value in zip(dimensions, row, strict=True)
        )

    def who(self, environment: int) -> Acting:
        """Whose action it is."""
        return Acting(int(self.acting[environment]))


def _with_unit(said: str, unit: str) -> str:
    return f"{said} {unit}" if unit else said


Because = Callable[[Moment, int], str]


def _plain(sentence: str) -> Because:
    def because(moment: Moment, environment: int) -> str:
        return sentence

    return because


def _aged(age_s: float) -> str:
    return f"{-age_s:.6g} s ahead of the clock" if age_s < 0 else f"{age_s:.6g} s old"


def _expired(moment: Moment, environment: int) -> str:
    limit = moment.settings.freshness.stale_windows * moment.settings.interval_s
    return f"the answer is {_aged(moment.evidence.proposal_age_s[environment])}, {limit:g} s is the limit"


def _stale(moment: Moment, environment: int) -> str:
    age, ticks = moment.evidence.data_age_s[environment], moment.state.stale_ticks[environment]
    return f"the data is {_aged(age)}, stale for {ticks} ticks now"


def _held(moment: Moment, environment: int) -> str:
    return (
        f"{_stale(moment, environment)}: nothing is changed for {moment.settings.freshness.hold_ticks} ticks"
    )


def _cost(moment: Moment, environment: int) -> str:
    return f"may cost {moment.settings.comparison.cost_limit:g} times what the heuristic's would"


def _leash(moment: Moment, environment: int) -> str:
    return (
        f"may leave out {moment.state.leash[environment]:.1%} of what the heuristic asks for, by its record"
    )


def _strained(moment: Moment, environment: int) -> str:
    ratio = moment.evidence.latency_ratio[environment]
    return f"latency is {ratio:.3g} times its limit: not less than the heuristic asks for"


def _stabilised(moment: Moment, environment: int) -> str:
    return f"as much was asked for within {moment.settings.pace.stabilisation_s:g} s"


def _flip(moment: Moment, environment: int) -> str:
    return f"went the other way within {moment.settings.pace.flip_ticks} ticks"


def _resting(moment: Moment, environment: int) -> str:
    canary = moment.settings.canary
    return f"the heuristic acts: canary has {canary.share:.0%} of {canary.by}, not this one"


def _suspended(moment: Moment, environment: int) -> str:
    state = moment.state
    usual = moment.judgement.usual[environment]
    return (
        f"the heuristic acts: suspended for {state.suspended[environment]} more ticks, offence "
        f"{state.offences[environment]}: more violations than {usual:.3%}, the heuristic's, allow"
    )


def _observing(moment: Moment, environment: int) -> str:
    left = moment.settings.record.observe_ticks - moment.state.tick[environment]
    return f"the heuristic acts for {left} more ticks, to have a record to compare with"


def _surprised(moment: Moment, environment: int) -> str:
    score, limit = moment.evidence.surprise[environment], moment.settings.comparison.surprise_limit
    return f"the heuristic acts: surprise {score:.3g} is above {limit:g}, training saw nothing like it"


def _recovering(moment: Moment, environment: int) -> str:
    burn, ratio = moment.judgement.burn[environment], moment.evidence.latency_ratio[environment]
    state, recovery = moment.state, moment.settings.recovery
    return (
        f"the larger of both acts: budget burns {burn:.3g} times too fast, latency is {ratio:.3g} times its "
        f"limit; {state.good_ticks[environment]} of {recovery.good_ticks} good ticks"
    )


_BECAUSE: dict[Reason, Because] = {
    Reason.NO_ANSWER: _plain("the policy gave no answer; the heuristic's is taken"),
    Reason.WRONG_SHAPE: _plain("the answer has not one number for every dimension; the heuristic's is taken"),
    Reason.NOT_FINITE: _plain("the answer has a value that is no number; the heuristic's is taken"),
    Reason.NEGATIVE: _plain("the answer has a value below zero; the heuristic's is taken"),
    Reason.EXPIRED: _expired,
    Reason.ROUNDED: _plain("rounded to whole quanta"),
    Reason.BELOW_BOUND: _plain("the least allowed"),
    Reason.ABOVE_BOUND: _plain("the most allowed"),
    Reason.USAGE: _plain("present usage needs it"),
    Reason.CAPACITY: _plain("present traffic needs the capacity"),
    Reason.OUT_OF_REACH: _plain("more is needed, but this is the most allowed"),
    Reason.COST: _cost,
    Reason.BOX: _plain("canary stays near the heuristic"),
    Reason.LEASH: _leash,
    Reason.STRAINED: _strained,
    Reason.TOO_FAST_UP: _plain("no faster up in one tick"),
    Reason.TOO_FAST_DOWN: _plain("no faster down in one tick"),
    Reason.STABILISED: _stabilised,
    Reason.FLIP: _flip,
    Reason.POLICY_ACTS: _plain("the policy acts"),
    Reason.SHADOW: _plain("the heuristic acts: the policy is a shadow"),
    Reason.RESTING: _resting,
    Reason.KILLED: _plain("the heuristic acts: the kill switch is on"),
    Reason.OBSERVING: _observing,
    Reason.SUSPENDED: _suspended,
    Reason.HELD: _held,
    Reason.STALE: _stale,
    Reason.INVALID: _plain("the heuristic acts: the policy's answer cannot be used"),
    Reason.SURPRISED: _surprised,
    Reason.RECOVERING: _recovering,
    Reason.HEURISTIC_UNUSABLE: _plain("all stays as it is: the heuristic's answer is no number either"),
}
