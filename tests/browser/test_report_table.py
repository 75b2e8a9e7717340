"""The table of a report in Chromium: it sorts, and the widest is read on a laptop and on less."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.browser.opened import Opened

from trimtab.benchmark.pod_autoscaling.wing import POD
from trimtab.benchmark.report import Measured, ReportRow, ReportTable, write_report

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser

COLUMNS = tuple(enumerate(POD.report_columns))
WIDE_NAMES = ("aware", "hpa (tuned)", "smallest+fast+patient:neighbours=2,tightness=0.3", "predictive-hpa")


def test_headings_sort_the_table(opened: Opened) -> None:
    page = opened.page

    def column(place: int) -> list[float]:
        cells = page.locator(f"#comparison tbody tr > :nth-child({place})").all()
        return [float(cell.get_attribute("data-value") or "nan") for cell in cells]

    heading = page.locator("#comparison thead th").nth(1)
    heading.get_by_role("button").click()
    assert heading.get_attribute("aria-sort") == "ascending"
    assert column(2) == sorted(column(2))
    heading.get_by_role("button").press("Enter")
    assert heading.get_attribute("aria-sort") == "descending"
    assert column(2) == sorted(column(2), reverse=True)
    # Where more is better the first click puts the most on top.
    utilisation = page.locator("#comparison thead th", has_text="Utilisation")
    utilisation.get_by_role("button").click()
    assert utilisation.get_attribute("aria-sort") == "descending"
    assert heading.get_attribute("aria-sort") is None


@pytest.fixture(scope="module")
def wide_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report with the most columns, every one of them with its best marked, and a long name."""
    path = tmp_path_factory.mktemp("wide") / "report.html"
    rows = [
        ReportRow(
            name,
            [
                Measured(v := (15.0 + (place + at) % 4) / (20 if c.unit == "%" else 1), v, v)
                for at, c in COLUMNS
            ],
            verdict="" if place > 1 else "cannot be told from the best",
            change=None if place == 1 else Measured(-0.1, -0.2, 0.1),
        )
        for place, name in enumerate(WIDE_NAMES)
    ]
    write_report(
        path,
        title="Wide",
        table=ReportTable(POD.report_columns, rows, "Made-up hours.", reference="hpa (tuned)"),
        sections=[],
        facts={},
        notes=[],
        command="trimtab compare made-up",
        provenance={},
    )
    return path


def test_the_widest_table_is_seen_whole_on_a_laptop(browser: Browser, wide_report: Path) -> None:
    opened = Opened(browser, wide_report, viewport={"width": 1300, "height": 900})
    inner, outer = opened.page.evaluate(
        "[...document.querySelectorAll('.table-scroll')].flatMap((t) => [t.scrollWidth, t.clientWidth])"
    )
    assert inner <= outer
    opened.page.context.close()


def test_names_and_verdicts_leave_room_for_numbers_in_a_narrow_window(
    browser: Browser, wide_report: Path
) -> None:
    opened = Opened(browser, wide_report, viewport={"width": 700, "height": 900})
    table = opened.page.locator(".table-scroll")
    table.evaluate("(area) => { area.scrollLeft = 10_000; }")
    name = opened.page.locator("#comparison tbody th").nth(2).bounding_box()
    area = table.bounding_box()
    assert name is not None
    assert area is not None
    # However far the numbers are scrolled, the names stand at the left and take a third of the width.
    assert area["x"] <= name["x"] < area["x"] + 30
    assert name["width"] < area["width"] / 3
    verdict = opened.page.locator("#comparison tbody th .verdict").first
    assert verdict.inner_text() == "cannot be told from the best"
    opened.page.context.close()
