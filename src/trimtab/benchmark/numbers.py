"""Numbers of text tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from trimtab.core.statistics import Estimate

if TYPE_CHECKING:
    from trimtab.benchmark.compare import Row

__all__ = ["NOTHING", "as_number", "as_percent", "as_three_digits", "measure", "with_interval"]


NOTHING = "—"
"""Where there is no number."""


def as_number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.1f}" if value >= 20 else f"{value:.2f}"


def with_interval(estimate: Estimate | None, number: Callable[[float], str] = as_number) -> str:
    if estimate is None or not estimate.is_known:
        return NOTHING
    return f"{number(estimate.value)} [{number(estimate.low)}, {number(estimate.high)}]"


def as_three_digits(value: float) -> str:
    return f"{value:.3f}"


def as_percent(value: float) -> str:
    return f"{100 * value:.0f} %" if value >= 0.1 or value == 0 else f"{100 * value:.1f} %"


def measure(name: str, number: Callable[[float], str] = as_number) -> Callable[[Row], str]:
    return lambda row: number(row.metrics[name].value) if row.metrics[name].is_known else NOTHING
