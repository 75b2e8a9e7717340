"""What arrives per second over time, be it records or requests, and where the knowledge comes from."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from trimtab.core.array_file import Provenance, fields_of, load_arrays, save_arrays
from trimtab.core.errors import WorkloadError

__all__ = ["DAY_S", "Flags", "Floats", "Provenance", "RateTrace", "load_trace", "rate_told", "save_trace"]

Floats: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]

FORMAT = "trimtab-trace"
FORMER_FORMAT = "trimtab-stream-trace"
"""Of files from the time when only streams had traces; the rest of such a file is the same."""
VERSION = 1
DAY_S = 86_400


@dataclass(frozen=True, eq=False)
class RateTrace:
    """What arrives per second, one number per step of `step_s`; the first step begins at `start_s`.

    `start_s` counts from midnight of the first day, so that the hour of the day is known. In a part of a
    longer trace nothing may arrive at all; a whole one in which nothing does is a mistake.

    >>> trace = RateTrace(np.array([1.0, 3.0]), step_s=60, provenance=Provenance("toy"))
    >>> trace.scaled(100.0).rates.tolist()
    [50.0, 150.0]
    """

    rates: Floats
    step_s: float
    provenance: Provenance
    start_s: float = 0.0
    is_part: bool = False

    def __post_init__(self) -> None:
        source = self.provenance.source
        if self.rates.ndim != 1:
            raise WorkloadError(f"{source}: rates of shape {self.rates.shape}; a trace is one row of numbers")
        if len(self.rates) == 0:
            raise WorkloadError(f"{source}: no rates; a trace needs at least one step")
        bad = np.flatnonzero(~np.isfinite(self.rates) | (self.rates < 0))
        if bad.size:
            raise WorkloadError(
                f"{source}: rate {self.rates[bad[0]]} at step {bad[0]}; fill or cut such steps"
            )
        if not (self.is_part or self.rates.any()):
            raise WorkloadError(f"{source}: nothing arrives, every rate is 0; choose another span")
        if not (np.isfinite(self.step_s) and self.step_s > 0):
            raise WorkloadError(f"{source}: steps of {self.step_s} s; they must be longer than 0")
        if not (np.isfinite(self.start_s) and self.start_s >= 0):
            raise WorkloadError(f"{source}: begins at {self.start_s} s; count from midnight of the first day")

    @property
    def length_s(self) -> float:
        return len(self.rates) * self.step_s

    @property
    def days(self) -> int:
        """Days that are covered at least in part."""
        return int(np.ceil((self.start_s + self.length_s) / DAY_S))

    def scaled(self, mean_rate: float) -> RateTrace:
        """The same shape with another mean."""
        if not (np.isfinite(mean_rate) and mean_rate > 0):
            raise WorkloadError(
                f"{self.provenance.source}: a mean of {mean_rate} per second; give a number above 0"
            )
        if not self.rates.any():
            raise WorkloadError(
                f"{self.provenance.source}: nothing arrives in this part; scale the whole trace instead"
            )
        factor = mean_rate / self.rates.mean()
        settings = {**self.provenance.settings, "mean_rate": mean_rate}
        return replace(
            self, rates=self.rates * factor, provenance=replace(self.provenance, settings=settings)
        )

    def between(self, start_s: float, end_s: float) -> RateTrace:
        """The steps that begin in a span of time (as `start_s` counts): a split by time, silent or not."""
        begins = self.start_s + self.step_s * np.arange(len(self.rates))
        inside = (begins >= start_s) & (begins < end_s)
        if not inside.any():
            raise WorkloadError(
                f"{self.provenance.source}: nothing between {start_s:g} s and {end_s:g} s; it covers "
                f"{self.start_s:g} s to {self.start_s + self.length_s:g} s"
            )
        settings = {**self.provenance.settings, "start_s": start_s, "end_s": end_s}
        return RateTrace(
            self.rates[inside],
            self.step_s,
            replace(self.provenance, settings=settings),
            start_s=float(begins[inside][0]),
            is_part=True,
        )

    def day(self, number: int, count: int = 1) -> RateTrace:
        """So many days from day `number`, which counts from 0."""
        return self.between(number * DAY_S, (number + count) * DAY_S)


def rate_told(rate: float) -> str:
    """A number per second for people: large ones whole, small ones with three digits that count.

    >>> rate_told(13_250.4), rate_told(2.5), rate_told(0.00123)
    ('13,250', '2.5', '0.00123')
    """
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def save_trace(trace: RateTrace, path: str | Path) -> None:
    """Write a trace as one file: the rates plus a JSON header, no pickle."""
    header = {
        "step_s": trace.step_s,
        "start_s": trace.start_s,
        "provenance": asdict(trace.provenance),
    }
    save_arrays(path, {"rates": trace.rates}, header, form=FORMAT, version=VERSION)


def load_trace(path: str | Path) -> RateTrace:
    """Read a trace file, or say in one line why it cannot be read."""
    again = "import it again"
    arrays, header = load_arrays(
        path, form=FORMAT, version=VERSION, what="trace", formers=(FORMER_FORMAT,), way_out=again
    )
    with fields_of(path, what="trace", way_out=again):
        rates = arrays["rates"].astype(np.float64)
        provenance = Provenance(**header["provenance"])
        return RateTrace(rates, float(header["step_s"]), provenance, start_s=float(header["start_s"]))
