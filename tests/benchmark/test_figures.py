"""The load sweep: a line and a band per policy."""

from pathlib import Path

import numpy as np
import pytest

from trimtab.benchmark.figures import load_sweep, load_sweep_figure
from trimtab.benchmark.report import Measured
from trimtab.core.errors import TrimtabError

ROWS = [
    (policy, load, Measured(value, 0.9 * value, 1.1 * value))
    for policy, value in (("fair", 100.0), ("srpt", 70.0))
    for load in (0.8, 0.5, 0.9)
]


def test_points_are_sorted_by_load_and_keep_their_values() -> None:
    (axes,) = load_sweep_figure(ROWS).axes
    assert [line.get_label() for line in axes.lines] == ["fair", "srpt"]
    np.testing.assert_allclose(np.asarray(axes.lines[1].get_xdata()), [50, 80, 90])
    np.testing.assert_allclose(np.asarray(axes.lines[1].get_ydata()), [70, 70, 70])


def test_the_band_is_the_interval() -> None:
    (axes,) = load_sweep_figure(ROWS).axes
    heights = np.asarray(axes.collections[0].get_paths()[0].vertices)[:, 1]
    assert (heights.min(), heights.max()) == pytest.approx((90, 110))


def test_ratios_get_a_reference_line() -> None:
    (axes,) = load_sweep_figure(ROWS, measure="ratio to fair", reference=1.0).axes
    assert axes.get_ylabel() == "ratio to fair"
    assert len(axes.lines) == 3


def test_saturation_is_drawn_on_a_log_scale() -> None:
    steep = [*ROWS, ("fair", 0.99, Measured(9000.0, 8000.0, 9900.0))]
    assert load_sweep_figure(steep).axes[0].get_yscale() == "log"
    assert load_sweep_figure(ROWS).axes[0].get_yscale() == "linear"


def test_the_file_is_written(tmp_path: Path) -> None:
    load_sweep(ROWS, tmp_path / "sweep.png", dark=True)
    assert (tmp_path / "sweep.png").read_bytes().startswith(b"\x89PNG")


def test_an_empty_sweep_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrimtabError, match="no rows"):
        load_sweep([], tmp_path / "sweep.png")
