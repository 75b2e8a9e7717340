"""The report of a training in Chromium: curves, and what was measured only once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.browser.opened import Opened

from trimtab.benchmark.report.training import write_training_report

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser

STEP = {"seconds": 2.0, "decisions": 8, "decisions_per_s": 4000.0}


def test_a_single_validation_is_a_point_at_its_time_and_height(browser: Browser, tmp_path: Path) -> None:
    """Validated at the end of three iterations: at the right edge, half as high as the teacher's line."""
    path = tmp_path / "report.html"
    lines = [{**STEP, "iteration": 1}, {**STEP, "iteration": 2}, {**STEP, "iteration": 3, "score": 0.5}]
    write_training_report(path, lines, name="mine", command="")
    opened = Opened(browser, path)
    series = opened.page.locator("#score .series")
    point = series.locator("circle[data-policy=mine]")
    teacher = series.locator("path[data-policy=teacher]")
    middle = {name: float(point.get_attribute(name) or "nan") for name in ("cx", "cy")}
    begin, end = (teacher.get_attribute("d") or "").removeprefix("M").split("H")
    across, up = end.split("V")
    assert middle["cx"] == pytest.approx(float(across), abs=0.1)
    base = float(opened.page.locator("#score line.base").first.get_attribute("y1") or "nan")
    assert base - middle["cy"] == pytest.approx((base - float(up)) / 2, abs=0.1)
    assert begin.endswith(up)
    # What was measured in every iteration stays a line, and the legend hides a point, too.
    assert opened.page.locator("#decisions-per-s .series path").count() == 1
    opened.page.locator("#score .legend button[data-policy=mine]").click()
    assert point.count() == 0
    assert opened.complaints == []
    opened.page.context.close()
