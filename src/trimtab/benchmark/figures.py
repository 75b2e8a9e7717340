"""Figures of a benchmark: a measure against the load of the cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from trimtab.benchmark.report.content import EstimateLike
from trimtab.core.colours import policy_styles
from trimtab.core.errors import TrimtabError
from trimtab.figures import legend_above, line_figure, save_figure

__all__ = ["load_sweep", "load_sweep_figure"]

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "h")
# Above this ratio a straight scale would press the lighter loads into one line.
WIDEST_LINEAR_RATIO = 20.0


def load_sweep(
    rows: Sequence[tuple[str, float, EstimateLike]],
    path: Path,
    *,
    measure: str = "mean job completion time (s)",
    reference: float | None = None,
    dark: bool = False,
) -> None:
    """Write a measure against the load, a line with its 95 % band per policy, as PNG or SVG.

    `reference` draws a line across, such as 1 for ratios to another policy.
    """
    save_figure(load_sweep_figure(rows, measure=measure, reference=reference, dark=dark), path)


def load_sweep_figure(
    rows: Sequence[tuple[str, float, EstimateLike]],
    *,
    measure: str = "mean job completion time (s)",
    reference: float | None = None,
    dark: bool = False,
) -> Figure:
    """The figure itself; loads are shares of what the cluster can do (0.8 = 80 %)."""
    if not rows:
        raise TrimtabError("no rows to draw; a load sweep needs at least one policy and load")
    figure, axes, paper = line_figure(dark=dark)
    styles = policy_styles([policy for policy, _, _ in rows], dark=dark)
    for place, (policy, (colour, dashes)) in enumerate(styles.items()):
        points = sorted(
            ((load, estimate) for name, load, estimate in rows if name == policy),
            key=lambda point: point[0],
        )
        loads = np.array([load for load, _ in points]) * 100
        values = [estimate.value for _, estimate in points]
        low, high = [e.low for _, e in points], [e.high for _, e in points]
        axes.fill_between(loads, low, high, color=colour, alpha=0.18, linewidth=0, label="_band")
        (line,) = axes.plot(loads, values, color=colour, linewidth=1.9, label=policy)
        line.set(marker=MARKERS[place % len(MARKERS)], markersize=5.5, markeredgecolor=paper.page)
        if dashes:
            line.set_dashes(dashes)
    if reference is not None:
        axes.axhline(reference, color=paper.muted, linewidth=1, zorder=1)
    values = [estimate.value for _, _, estimate in rows]
    lowest = min(min(values), *(estimate.low for _, _, estimate in rows))
    if lowest > 0 and max(values) / min(values) > WIDEST_LINEAR_RATIO:
        axes.set_yscale("log")
    elif reference is None:
        axes.set_ylim(bottom=min(0.0, lowest))
    axes.xaxis.set_major_formatter(lambda load, _: f"{load:.0f} %")
    axes.set_xticks(sorted({load * 100 for _, load, _ in rows}))
    axes.set_xlabel("load: work arriving as a share of capacity", color=paper.muted, fontsize=11)
    axes.set_ylabel(measure, color=paper.muted, fontsize=11)
    legend_above(axes, paper)
    return figure
