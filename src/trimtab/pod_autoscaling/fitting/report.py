"""What a fit found, how sure it is, and what to mistrust."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = ["NAN", "Estimate", "FitReport"]

NAN = float("nan")


class Estimate(NamedTuple):
    """One number with its 95 % interval; NaN where an interval cannot be told."""

    name: str
    value: float
    low: float
    high: float
    unit: str
    how: str


@dataclass
class FitReport:
    """The account of a fit beside the application.

    >>> report = FitReport("shop.csv", samples=240)
    >>> report.estimates.append(Estimate("cpu_ms", 20.1, 19.8, 20.4, "ms", "CPU against rate"))
    >>> report.warn("the rate hardly varies")
    >>> print(*report.lines(), sep="\\n")
    shop.csv: 240 samples
      cpu_ms                  20.1 ms (19.8 to 20.4): CPU against rate
      warning                 the rate hardly varies
    """

    source: str
    samples: int
    estimates: list[Estimate] = field(default_factory=list)
    r_squared: dict[str, float] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    assumptions: list[str] = field(default_factory=list)
    impossible: list[str] = field(default_factory=list)
    """Warnings of what no service can be like: a column means something else. `fit-profile` refuses it."""

    def warn(self, sentence: str) -> None:
        """Note once what makes the result doubtful."""
        if sentence not in self.warnings:
            self.warnings.append(sentence)

    def cannot_be(self, sentence: str) -> None:
        """Warn of what no service can be like."""
        self.warn(sentence)
        self.impossible.append(sentence)

    def assume(self, sentence: str) -> None:
        """Note once what was not measured and is taken for granted."""
        if sentence not in self.assumptions:
            self.assumptions.append(sentence)

    def value(self, name: str) -> float:
        """The estimate of this name."""
        return next(one.value for one in self.estimates if one.name == name)

    def lines(self) -> list[str]:
        """The report for a terminal, one finding a line."""
        lines = [f"{self.source}: {self.samples:,} samples"]
        for one in self.estimates:
            interval = f" ({one.low:.4g} to {one.high:.4g})" if one.low == one.low else ""
            lines.append(f"  {one.name:<23} {one.value:.4g} {one.unit}".rstrip() + f"{interval}: {one.how}")
        lines += [f"  {f'R² of {name}':<23} {value:.3f}" for name, value in self.r_squared.items()]
        lines += [f"  {'warning':<23} {sentence}" for sentence in self.warnings]
        return lines + [f"  {'assumed':<23} {sentence}" for sentence in self.assumptions]

    def as_dict(self) -> dict[str, object]:
        """The same as plain values, for JSON; an interval that is not known is None."""
        return {
            "source": self.source,
            "samples": self.samples,
            "estimates": [
                {**one._asdict(), "low": _or_none(one.low), "high": _or_none(one.high)}
                for one in self.estimates
            ],
            "r_squared": dict(self.r_squared),
            "warnings": list(self.warnings),
            "assumptions": list(self.assumptions),
        }


def _or_none(value: float) -> float | None:
    return value if value == value else None
