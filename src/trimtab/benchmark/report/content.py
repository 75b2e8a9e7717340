"""What a report says, as plain records; how it looks is decided in `page.py` and beside it.

A wing turns its episodes into *sections* (curves, Gantt charts); nothing here knows which wing it
was, so a second wing needs no second report.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from trimtab.core.errors import TrimtabError

__all__ = [
    "Curve",
    "CurvesSection",
    "EstimateLike",
    "GanttPanel",
    "GanttSection",
    "Measured",
    "Reference",
    "Report",
    "ReportColumn",
    "ReportRow",
    "ReportTable",
    "Section",
]


class EstimateLike(Protocol):
    """A number with its 95 % interval, such as `trimtab.Estimate`."""

    @property
    def value(self) -> float: ...
    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...


@dataclass(frozen=True)
class Measured:
    """A number with its interval; a number measured once has an interval of no width.

    >>> Measured(61.2, 58.0, 64.4)
    Measured(value=61.2, low=58.0, high=64.4)
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class ReportColumn:
    """One measure in the comparison."""

    key: str
    heading: str
    unit: str = ""  # "s", "%", "×" or nothing; shares are given between 0 and 1 with unit "%"
    lower_is_better: bool = True


@dataclass(frozen=True)
class ReportRow:
    """One policy: a number per column, in the order of the columns; None (or NaN) where not measured.

    `change` is the *paired* change of the first column against `ReportTable.reference`
    (-0.25 = a quarter less), which an interval per policy cannot tell.
    """

    policy: str
    values: Sequence[EstimateLike | None]
    verdict: str = ""
    change: EstimateLike | None = None

    def __post_init__(self) -> None:
        # NaN is neither below nor above anything: which row is best would depend on their order.
        object.__setattr__(self, "values", tuple(_known(value) for value in self.values))
        object.__setattr__(self, "change", _known(self.change))


def _known(number: EstimateLike | None) -> EstimateLike | None:
    return None if number is None or math.isnan(number.value) else number


@dataclass(frozen=True)
class ReportTable:
    """The comparison; the first column is what policies are judged by."""

    columns: Sequence[ReportColumn]
    rows: Sequence[ReportRow]
    caption: str = ""
    reference: str = ""  # policy that `change` is measured against
    name: str = ""  # of what was played, where there are several tables

    def __post_init__(self) -> None:
        if not self.columns or not self.rows:
            raise TrimtabError("a report needs at least one column and one policy in its table")
        for row in self.rows:
            if len(row.values) != len(self.columns):
                raise TrimtabError(
                    f"policy {row.policy} has {len(row.values)} values for {len(self.columns)} "
                    "columns; give one (or None) per column"
                )

    def best(self, column: int) -> int | None:
        """Row with the best value of a column, or None if nothing was measured."""
        sign = 1 if self.columns[column].lower_is_better else -1
        measured = [
            (sign * value.value, place)
            for place, row in enumerate(self.rows)
            if (value := row.values[column]) is not None
        ]
        return min(measured)[1] if measured else None


@dataclass(frozen=True, eq=False)
class Curve:
    """A step function: `y[i]` holds from `x[i]` on."""

    policy: str
    x: NDArray[np.int64]  # milliseconds
    y: NDArray[np.float64]
    job_x: NDArray[np.int64] | None = None  # where each job lies on the curve


@dataclass(frozen=True)
class Reference:
    """A line across a chart that is no policy's: a limit, say.

    >>> Reference("limit 5 s", 5.0)
    Reference(label='limit 5 s', value=5.0, upright=False)
    """

    label: str
    value: float  # on the axis it stands on; milliseconds where it is upright
    upright: bool = False


@dataclass(frozen=True, eq=False)
class CurvesSection:
    """One line per policy over time."""

    key: str
    heading: str
    text: str
    x_label: str
    y_label: str
    curves: Sequence[Curve]
    y_percent: bool = False
    on_the_clock: bool = False  # x is the time axis of the Gantt charts
    decimals: int = 0  # digits after the point of a value; 0: they are counts
    x_log: bool = False  # a tenfold is as far everywhere; x must be above 0
    y_log: bool = False  # the same upwards; values of 0 are drawn on the base line
    reference: Reference | None = None


@dataclass(frozen=True, eq=False)
class GanttPanel:
    """What ran where under one policy; times in milliseconds on a clock common to all panels."""

    policy: str
    row_count: int
    job: NDArray[np.int64]
    stage: NDArray[np.int64]
    row: NDArray[np.int64]
    start_ms: NDArray[np.int64]
    end_ms: NDArray[np.int64]
    wave: NDArray[np.int64]
    completion_ms: NDArray[np.int64]  # by job


@dataclass(frozen=True, eq=False)
class GanttSection:
    """The same jobs under every policy, on one time axis."""

    key: str
    heading: str
    text: str
    row_word: str  # what a row is: "executor", "GPU"
    job_names: Sequence[str]
    arrival_ms: NDArray[np.int64]  # by job
    wave_names: Sequence[str]
    end_ms: int  # end of the time axis
    panels: Sequence[GanttPanel]
    stage_word: str = "stage"  # what `stage` and `wave` of a panel count
    wave_word: str = "wave"
    unit: str = "s"  # of completion times, as in the table: "s" or "min"


Section = CurvesSection | GanttSection


@dataclass(frozen=True, eq=False)
class Report:
    """Everything on the page."""

    title: str
    table: ReportTable
    sections: Sequence[Section]
    notes: Sequence[str]
    command: str
    other_tables: Sequence[ReportTable] = ()  # sections and facts are of `table`, not of these
    facts: Mapping[str, str] = field(default_factory=dict)  # what was measured, at the top
    provenance: Mapping[str, str] = field(default_factory=dict)  # what made it, at the end
