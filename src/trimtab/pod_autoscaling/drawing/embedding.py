"""A picture of contexts: what an encoder made of each service, where they differ most.

AWARE (Qiu et al., ATC 2023) shows its embeddings so, to see whether services that are alike lie together.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from trimtab.core.errors import TrimtabError
from trimtab.figures import legend_above, line_figure, save_figure

__all__ = ["Components", "draw_embedding", "embedding_figure", "principal_components"]

_COLOURS = colormaps["viridis"]
_BAR = (0.9, 0.125, 0.016, 0.77)
_MARKS = {"seen in training": "o", "never seen": "^"}


class Components(NamedTuple):
    """Where contexts lie in their two main directions."""

    places: NDArray[np.float64]  # [services, 2]
    shares: NDArray[np.float64]  # [2]: of the whole variance


def principal_components(contexts: ArrayLike) -> Components:
    """The first two principal components of contexts [services, numbers], their largest parts positive.

    >>> found = principal_components([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]])
    >>> found.places[:, 0].round(3).tolist(), found.shares.round(3).tolist()
    ([-1.414, 0.0, 1.414], [1.0, 0.0])
    """
    values = np.asarray(contexts, np.float64)
    if values.ndim != 2 or min(values.shape) < 2:
        raise TrimtabError(
            f"contexts of shape {list(values.shape)}; two directions need two services and two numbers each"
        )
    centred = values - values.mean(0)
    _, sizes, directions = np.linalg.svd(centred, full_matrices=False)
    two = directions[:2]
    # A direction and its opposite are as good: the same contexts must give the same picture everywhere.
    two = two * np.sign(two[np.arange(2), np.abs(two).argmax(1)])[:, None]
    variances = np.square(sizes)
    return Components(centred @ two.T, variances[:2] / max(float(variances.sum()), 1e-12))


def draw_embedding(
    contexts: ArrayLike, work_s: ArrayLike, seen: ArrayLike, path: str | Path, *, dark: bool = False
) -> None:
    """Write the picture, as PNG or SVG by the suffix of `path`."""
    save_figure(embedding_figure(contexts, work_s, seen, dark=dark), path)


def embedding_figure(
    contexts: ArrayLike, work_s: ArrayLike, seen: ArrayLike, *, dark: bool = False
) -> Figure:
    """A mark for each service: its colour is the true CPU work of a request, in seconds; its shape tells
    whether its application was `seen` in training."""
    found, work, known = principal_components(contexts), np.asarray(work_s, float), np.asarray(seen, bool)
    if not len(found.places) == len(work) == len(known):
        raise TrimtabError(
            f"{len(found.places)} contexts, work of {len(work)} services and {len(known)} marks; "
            "give one of each for every service"
        )
    if not (work > 0).all():
        raise TrimtabError(f"a request with {work.min():g} s of work; colours need more than 0")
    figure, axes, paper = line_figure(dark=dark)
    box = axes.get_position()
    axes.set_position((box.x0, box.y0, 0.79, box.height))
    colours = LogNorm(1000 * work.min(), 1000 * max(work.max(), work.min() * 1.01))
    for (label, mark), which in zip(_MARKS.items(), (known, ~known), strict=True):
        if not which.any():
            continue
        axes.scatter(
            *found.places[which].T, c=1000 * work[which], norm=colours, cmap=_COLOURS, marker=mark,
            s=34, linewidths=0.6, edgecolors=paper.ink, zorder=3,
        )  # fmt: skip
        # The legend lists lines: one without points, with the shape alone.
        axes.plot(
            [], [], linestyle="none", marker=mark, color=paper.muted, markersize=6,
            label=f"{label} ({int(which.sum())})",
        )  # fmt: skip
    legend_above(axes, paper)
    shares = 100 * found.shares
    axes.set_xlabel(f"first component ({shares[0]:.0f} % of the variance)", color=paper.muted, fontsize=11)
    axes.set_ylabel(f"second component ({shares[1]:.0f} %)", color=paper.muted, fontsize=11)
    bar = figure.colorbar(axes.collections[0], cax=figure.add_axes(_BAR))
    bar.set_label("CPU work of a request (ms)", color=paper.muted, fontsize=11)
    bar.ax.tick_params(colors=paper.muted, labelsize=10.5)
    bar.outline.set_visible(False)  # pyright: ignore[reportAttributeAccessIssue, reportCallIssue]
    return figure
