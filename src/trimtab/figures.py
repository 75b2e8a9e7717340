"""What the drawings of all wings share: paper, sizes, axes, legends, titles, and writing files.

Figures are made without pyplot: no display is needed and no state is left behind. Importing this costs
matplotlib, so drawings are imported where a picture is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Annotation

from trimtab.core.errors import TrimtabError

__all__ = [
    "DOTS_PER_INCH",
    "WIDTH_INCHES",
    "Paper",
    "legend_above",
    "line_figure",
    "panel_title",
    "paper_of",
    "save_figure",
    "shortened",
]

WIDTH_INCHES, DOTS_PER_INCH = 12.0, 100  # 1200 pixels: the width of a README


@dataclass(frozen=True)
class Paper:
    """What a figure is drawn on."""

    page: str
    ink: str
    muted: str
    idle: str
    line: str


LIGHT = Paper(page="#ffffff", ink="#1b2127", muted="#57626d", idle="#f1f3f5", line="#d5dadf")
DARK = Paper(page="#14181c", ink="#e7ebee", muted="#a2adb8", idle="#1d2328", line="#39424b")


def paper_of(*, dark: bool) -> Paper:
    """The colours of a light or a dark page.

    >>> paper_of(dark=False).page
    '#ffffff'
    """
    return DARK if dark else LIGHT


def line_figure(*, dark: bool) -> tuple[Figure, Axes, Paper]:
    """Empty axes with a light grid; the paper tells the colours to write with.

    >>> figure, axes, paper = line_figure(dark=True)
    >>> figure.axes == [axes], paper.page
    (True, '#14181c')
    """
    paper = paper_of(dark=dark)
    figure = Figure((9, 4.4), dpi=DOTS_PER_INCH, facecolor=paper.page)
    axes = figure.add_axes((0.085, 0.125, 0.89, 0.77))
    axes.set_facecolor(paper.page)
    axes.grid(color=paper.line, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[:].set_visible(False)
    axes.tick_params(colors=paper.muted, length=0, labelsize=10.5)
    return figure, axes, paper


LEGEND_LETTERS, HANDLE_LETTERS, ROW_HEIGHT = 110, 6, 0.06
"""Letters that fit beside each other above the axes, how many a line sample takes, height of a row."""


def legend_above(axes: Axes, paper: Paper) -> None:
    """Above the axes, where it cannot cover a line; more rows make the axes lower."""
    labels = [str(line.get_label()) for line in axes.get_lines()]
    columns = LEGEND_LETTERS // (max(map(len, labels), default=1) + HANDLE_LETTERS)
    columns = max(1, min(6, columns))
    rows = -(-len(labels) // columns)
    box = axes.get_position()
    axes.set_position((box.x0, box.y0, box.width, box.height - ROW_HEIGHT * max(rows - 1, 0)))
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(0, 1.0),
        borderaxespad=0.4,
        ncols=columns,
        frameon=False,
        labelcolor=paper.ink,
        fontsize=11,
        handlelength=2.6,
    )


def shortened(text: str, letters: int) -> str:
    """At most so many letters.

    >>> shortened("aggregate", 5)
    'aggr…'
    """
    return text if len(text) <= letters else f"{text[: letters - 1]}…"


def panel_title(axes: Axes, name: str, paper: Paper, *, rise: float, room: float) -> Annotation:
    """The name of a policy above the left end of its panel, `rise` points up.

    A name that would take more than `room` points is written smaller, and a very long one is cut short.
    """
    # A bold letter is about 0.66 of its size wide.
    size = min(max(room / (0.66 * max(len(name), 1)), 9.0), 14.0)
    return axes.annotate(
        shortened(name, int(room / (0.66 * size))),
        (0, 1),
        (0, rise),
        xycoords="axes fraction",
        textcoords="offset points",
        color=paper.ink,
        fontsize=size,
        fontweight="bold",
    )


def save_figure(figure: Figure, path: str | Path) -> None:
    """Write a figure as the suffix says; the same figure gives the same bytes."""
    kind = Path(path).suffix.lower().lstrip(".")
    if kind not in ("png", "svg"):
        raise TrimtabError(f"{path}: pictures are written as .png or .svg; change the suffix")
    if kind == "png":
        figure.savefig(path, format=kind)
        return
    with rc_context({"svg.hashsalt": "trimtab"}):
        figure.savefig(path, format=kind, metadata={"Date": None}, dpi=2 * DOTS_PER_INCH)
