"""A rule: in which order jobs go, where each is placed, and what happens when one does not fit.

The three parts combine freely. Each is a plain function, written once with loops, numbers and arrays only:
live they run as they stand, in replay the simulator compiles them. A discipline calls the other two by the
names `priority` and `place`, which stand for the order and the placement of the rule.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from trimtab.core.errors import SettingsError
from trimtab.core.policy import Parameter, with_settings
from trimtab.gpu_scheduling.problem import Action, Snapshot

__all__ = [
    "DISCIPLINE",
    "ORDER",
    "PLACEMENT",
    "SETTINGS_OF_A_PART",
    "DisciplineFunction",
    "OrderFunction",
    "Parameters",
    "PlacementFunction",
    "Rule",
    "Setting",
    "label",
]

ORDER, PLACEMENT, DISCIPLINE = 0, 1, 2
"""Rows of a rule's table of settings."""
SETTINGS_OF_A_PART = 8

Parameters = NDArray[np.float64]
OrderFunction = Callable[[Snapshot, int, Parameters], float]
"""`(snapshot, job, settings of the order)`: lower goes first, equal ones in order of arrival."""
PlacementFunction = Callable[[Snapshot, int, Parameters], tuple[int, int]]
"""`(snapshot, job, settings of the placement)`: how many machines it wrote to `machine_order` (0: the gang
does not fit) and the GPU for a share (NOWHERE: the engine's choice)."""
DisciplineFunction = Callable[[Snapshot, Parameters], Action]
"""`(snapshot, table of all settings)`."""


@dataclass(frozen=True)
class Setting(Parameter):
    """A setting of one part of a rule.

    >>> Setting("power", 1.0, "power of a job's age", low=0, high=10).part == ORDER
    True
    """

    part: int = ORDER


@dataclass(frozen=True)
class Rule:
    """Three parts with their settings; call `decide` or hand it to `simulate`.

    >>> from trimtab.gpu_scheduling.heuristics import disciplines, orders, placements
    >>> rule = Rule("mine", orders.smallest, placements.best_fit, disciplines.backfill)
    >>> rule.sentence.split(";")[0]
    'Fewest GPUs first'
    """

    name: str
    order: OrderFunction
    placement: PlacementFunction
    discipline: DisciplineFunction
    parameters: tuple[Setting, ...] = ()
    needs_durations: bool = False
    """It is of use only where durations are known or predicted."""
    timed: bool = True
    """Time alone can change its answer, so it is worth asking again when nothing has happened."""

    @property
    def values(self) -> tuple[float, ...]:
        return tuple(parameter.value for parameter in self.parameters)

    @property
    def table(self) -> Parameters:
        """Values of the settings: a row for each of order, placement and discipline."""
        table = np.zeros((3, SETTINGS_OF_A_PART))
        used = [0, 0, 0]
        for setting in self.parameters:
            if used[setting.part] == SETTINGS_OF_A_PART:
                raise SettingsError(
                    f"policy {self.name!r}: more than {SETTINGS_OF_A_PART} settings of a part; leave some out"
                )
            table[setting.part, used[setting.part]] = setting.value
            used[setting.part] += 1
        return table

    def decide(self, snapshot: Snapshot) -> Action:
        return self.decide_by(snapshot, self.table)

    def decide_by(self, snapshot: Snapshot, table: Parameters) -> Action:
        """What it would do with these settings in place of its own."""
        return _bound(self.order, self.placement, self.discipline)(snapshot, table)

    @property
    def sentence(self) -> str:
        """What the rule does: the first lines of its parts' docstrings."""
        first, *others = (_told(part) for part in (self.order, self.placement, self.discipline))
        return "; ".join([first, *(text[:1].lower() + text[1:] for text in others)]) + "."

    def with_values(self, values: Mapping[str, float]) -> Rule:
        """The same rule with other settings; unknown names and bad values are refused."""
        changed = with_settings(self.name, self.parameters, values)
        return replace(self, parameters=tuple(one for one in changed if isinstance(one, Setting)))


def label(rule: Rule) -> str:
    """The parts of a rule in one word, for the names of compiled code.

    >>> from trimtab.gpu_scheduling.heuristics import disciplines, orders, placements
    >>> label(Rule("mine", orders.smallest, placements.best_fit, disciplines.backfill))
    'smallest_best_fit_backfill'
    """
    return "_".join(part.__name__ for part in (rule.order, rule.placement, rule.discipline))


def _told(part: Callable[..., object]) -> str:
    return (part.__doc__ or part.__name__).strip().split("\n")[0].removesuffix(".")


@lru_cache(maxsize=256)
def _bound(
    order: OrderFunction, placement: PlacementFunction, discipline: DisciplineFunction
) -> DisciplineFunction:
    """The discipline as plain Python, with `priority` and `place` meaning the other two parts."""
    names = discipline.__globals__ | {"priority": order, "place": placement}
    return types.FunctionType(discipline.__code__, names, discipline.__name__, discipline.__defaults__)
