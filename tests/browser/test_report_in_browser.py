"""The report in Chromium, opened as a file: it draws, zooms, sorts, explains, is quiet."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib.resources import files
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from matplotlib.image import imread
from tests.browser.opened import Opened
from tests.sample_report import write_sample
from tests.synthetic_episodes import RULES, episode

from trimtab.benchmark.report import Measured, ReportColumn, ReportRow, ReportTable, write_report
from trimtab.benchmark.report.content import Curve, CurvesSection, Reference
from trimtab.dag_scheduling.episode import Episode, TaskLog
from trimtab.dag_scheduling.workload.profile import WAVE_NAMES

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator

pytestmark = pytest.mark.browser


def canvases(opened: Opened) -> list[Locator]:
    return opened.page.locator("canvas[data-policy]").all()


def tasks_of(shown: Episode) -> TaskLog:
    assert shown.tasks is not None
    return shown.tasks


def to_task(opened: Opened, shown: Episode, panel: int, task: int) -> tuple[float, float]:
    """Middle of a task on the screen, in a chart that shows everything."""
    canvas = opened.page.locator("canvas[data-policy]").nth(panel)
    canvas.scroll_into_view_if_needed()
    opened.settle()
    box = canvas.bounding_box()
    assert box is not None
    log = tasks_of(shown)
    end_ms = 1.012 * max(int(episode(policy).completion_ms.max()) for policy in RULES)
    middle_ms = (log.start_ms[task] + log.end_ms[task]) / 2
    row_height = (box["height"] - 16) / shown.executor_count
    x = box["x"] + box["width"] * float(middle_ms) / end_ms
    return x, box["y"] + 16 + row_height * (int(log.executor[task]) + 0.4)


def longest_task(shown: Episode) -> int:
    return int((tasks_of(shown).end_ms - tasks_of(shown).start_ms).argmax())


def pixels_of(png: bytes) -> np.ndarray:
    """Red, green and blue between 0 and 1, a row per pixel."""
    return imread(BytesIO(png), format="png")[..., :3].reshape(-1, 3)


def luminance(pixels: np.ndarray) -> np.ndarray:
    """Relative luminance after WCAG, 0 black to 1 white."""
    linear = np.where(pixels <= 0.04045, pixels / 12.92, ((pixels + 0.055) / 1.055) ** 2.4)
    return linear @ np.array([0.2126, 0.7152, 0.0722])


def test_everything_is_drawn_and_nothing_is_asked_for(opened: Opened, report: Path) -> None:
    assert [c.get_attribute("data-policy") for c in canvases(opened)] == list(RULES)
    for canvas in canvases(opened):
        assert canvas.get_attribute("data-drawn") == canvas.get_attribute("data-tasks") == "304"
    for chart in opened.page.locator(".chart").all():
        paths = chart.locator(".series path").all()
        assert [path.get_attribute("data-policy") for path in paths] == list(RULES)
        assert all(len(path.get_attribute("d") or "") > 20 for path in paths)
    outside = [url for url in opened.requests if not url.startswith("data:")]
    assert outside == [report.as_uri()]


def test_the_canvas_holds_the_colours_of_the_jobs(opened: Opened) -> None:
    colours = opened.page.evaluate(
        """() => [...document.querySelectorAll("canvas[data-policy]")].map((canvas) => {
          const { width, height } = canvas;
          const pixels = canvas.getContext("2d").getImageData(0, 0, width, height).data;
          const two = (part) => part.toString(16).padStart(2, "0");
          const seen = new Set();
          for (let i = 0; i < pixels.length; i += 4)
            seen.add([...pixels.slice(i, i + 3)].map(two).join(""));
          return [...seen];
        })"""
    )
    for seen in colours:
        # The first three jobs of the palette: blue, teal, green.
        assert {"4390da", "06726e", "23a56f"} <= set(seen)


def test_the_wheel_zooms_all_charts_together(opened: Opened) -> None:
    before = opened.tick_labels()
    canvas = opened.page.locator("canvas[data-policy]").first
    canvas.scroll_into_view_if_needed()
    opened.settle()
    canvas.hover()
    for _ in range(6):
        opened.page.mouse.wheel(0, -120)
    opened.settle()
    after = opened.tick_labels()
    assert after[0] != before[0]
    assert len(after[0]) >= 2
    assert after[0] == after[1] == after[2]
    for zoomed in canvases(opened):
        assert 0 < int(zoomed.get_attribute("data-drawn") or 0) < 304
    assert opened.page.locator(".chart .band").nth(1).is_visible()
    opened.page.get_by_role("button", name="Reset").click()
    opened.settle()
    assert opened.tick_labels() == before


def test_the_wheel_scrolls_the_page_when_there_is_nothing_to_zoom_out_of(opened: Opened) -> None:
    before = opened.tick_labels()
    canvas = opened.page.locator("canvas[data-policy]").first
    canvas.scroll_into_view_if_needed()
    opened.settle()
    canvas.hover()
    scrolled = opened.page.evaluate("scrollY")
    opened.page.mouse.wheel(0, 120)
    opened.settle()
    assert opened.page.evaluate("scrollY") > scrolled
    assert opened.tick_labels() == before


def test_dragging_moves_the_window(opened: Opened) -> None:
    opened.page.get_by_role("button", name="Zoom in").click()
    opened.settle()
    before = opened.tick_labels()
    canvas = opened.page.locator("canvas[data-policy]").first
    canvas.scroll_into_view_if_needed()
    opened.settle()
    box = canvas.bounding_box()
    assert box is not None
    opened.page.mouse.move(box["x"] + 600, box["y"] + 60)
    opened.page.mouse.down()
    opened.page.mouse.move(box["x"] + 300, box["y"] + 60, steps=4)
    opened.page.mouse.up()
    opened.settle()
    assert opened.tick_labels()[0] != before[0]
    # A drag is not a click: no job is followed.
    assert opened.page.locator(".jobs button[aria-pressed=true]").count() == 0


def test_a_clock_has_no_sixtieth_second(opened: Opened) -> None:
    basics = files("trimtab.benchmark.report").joinpath("basics.js").read_text()
    times = "[[59_700, 1000], [179_600, 1000], [3_599_960, 100], [7_199_600, 1000], [179_600, 100]]"
    told = opened.page.evaluate(f"() => {{ {basics}; return {times}.map(([t, step]) => clock(t, step)); }}")
    assert told == ["1:00", "3:00", "1:00:00.0", "2:00:00", "2:59.6"]


def test_keys_zoom_move_and_reset(opened: Opened) -> None:
    before = opened.tick_labels()
    opened.page.locator(".plot").nth(1).focus()
    seen = [before]
    for key in ("+", "+", "ArrowRight", "ArrowLeft", "-"):
        opened.page.keyboard.press(key)
        opened.settle()
        seen.append(opened.tick_labels())
        assert seen[-1][0] != seen[-2][0], key
        assert seen[-1][0] == seen[-1][2], key
    assert seen[2] == seen[4]
    opened.page.keyboard.press("0")
    opened.settle()
    assert opened.tick_labels() == before


@pytest.mark.parametrize("panel", [0, 2])
def test_hovering_tells_job_stage_wave_executor_and_duration(
    opened: Opened, episodes: list[Episode], panel: int
) -> None:
    shown = episodes[panel]
    task = longest_task(shown)
    log = tasks_of(shown)
    opened.page.mouse.move(*to_task(opened, shown, panel, task))
    tooltip = opened.page.locator("#tooltip")
    assert tooltip.is_visible()
    job = int(log.job[task])
    assert tooltip.locator(".head").inner_text() == f"Job {job}, {shown.job_names[job]}"
    told = dict(zip(tooltip.locator("th").all_text_contents(),
                    tooltip.locator("td").all_text_contents(), strict=True))  # fmt: skip
    assert told["stage"] == str(log.stage[task])
    assert told["wave"] == WAVE_NAMES[int(log.wave[task])]
    assert told["executor"] == str(log.executor[task])
    duration_s = (log.end_ms[task] - log.start_ms[task]) / 1000
    assert float(told["duration"].removesuffix(" s")) == pytest.approx(duration_s, abs=0.051)
    opened.page.mouse.move(5, 5)
    assert not tooltip.is_visible()


def test_a_click_follows_a_job_everywhere_until_escape(opened: Opened, episodes: list[Episode]) -> None:
    task = longest_task(episodes[0])
    job = int(tasks_of(episodes[0]).job[task])
    opened.page.mouse.click(*to_task(opened, episodes[0], 0, task))
    opened.settle()
    pressed = opened.page.locator(".jobs button[aria-pressed=true]")
    assert pressed.get_attribute("data-job") == str(job)
    facts = opened.page.locator(".job-facts").inner_text()
    assert facts.startswith(f"Job {job}, {episodes[0].job_names[job]}")
    assert all(f"under {policy}" in facts for policy in RULES)
    assert opened.page.locator("#completion-times .dot").count() == len(RULES)
    opened.page.locator(".plot").first.focus()
    opened.page.keyboard.press("Escape")
    assert pressed.count() == 0
    assert "Click a task" in opened.page.locator(".job-facts").inner_text()


def test_a_job_can_be_followed_by_keyboard(opened: Opened) -> None:
    button = opened.page.locator(".jobs button").nth(2)
    button.focus()
    opened.page.keyboard.press("Enter")
    assert button.get_attribute("aria-pressed") == "true"


def test_hovering_and_keys_read_values_off_a_curve(opened: Opened, episodes: list[Episode]) -> None:
    chart = opened.page.locator("#completion-times .chart")
    chart.scroll_into_view_if_needed()
    opened.settle()
    chart.hover()
    tooltip = opened.page.locator("#tooltip")
    assert tooltip.locator(".head").inner_text().startswith("within ")
    assert tooltip.locator("th").all_text_contents() == list(RULES)
    opened.page.mouse.move(5, 5)
    chart.focus()
    for _ in range(60):
        opened.page.keyboard.press("ArrowRight")
    assert tooltip.locator("td").all_text_contents() == ["100.0 %"] * len(RULES)


def test_the_legend_hides_and_shows_a_line(opened: Opened) -> None:
    button = opened.page.locator("#jobs-in-system .legend button").nth(1)
    lines = opened.page.locator("#jobs-in-system .series path")
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert lines.count() == 2
    button.click()
    assert lines.count() == 3


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_themes_are_readable_and_the_button_switches(
    browser: Browser, report: Path, scheme: str
) -> None:
    opened = Opened(browser, report, color_scheme=scheme)
    card = opened.page.locator(".card").first
    for shown in (scheme, {"light": "dark", "dark": "light"}[scheme]):
        bright = luminance(pixels_of(card.screenshot()))
        page, ink = np.median(bright), bright.min() if shown == "light" else bright.max()
        assert (page > 0.8) == (shown == "light")
        contrast = (max(page, ink) + 0.05) / (min(page, ink) + 0.05)
        assert contrast > 7
        opened.page.locator("#theme").click()
    assert opened.complaints == []
    opened.page.context.close()


def test_a_narrow_window_needs_no_sideways_scrolling(browser: Browser, report: Path) -> None:
    opened = Opened(browser, report, viewport={"width": 420, "height": 800})
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 420
    labels = opened.page.locator(".plot").first.locator(".frame text.tick").all()
    boxes = [box for label in labels if (box := label.bounding_box())]
    for left, right in pairwise(boxes):
        assert left["x"] + left["width"] < right["x"]
    opened.page.context.close()


def test_printing_is_light_and_fits_the_paper(browser: Browser, report: Path) -> None:
    opened = Opened(browser, report, color_scheme="dark")
    opened.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert opened.page.evaluate("document.documentElement.dataset.theme") == "light"
    box = opened.page.locator("canvas[data-policy]").first.bounding_box()
    assert box is not None
    assert box["width"] < 700
    opened.page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert opened.page.evaluate("document.documentElement.dataset.theme") is None
    opened.page.context.close()


def test_markup_in_names_stays_text(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    name = "<img src=x onerror=document.title='broken'>"
    write_sample(path, [episode("fair", name=lambda job: name), episode("fifo", name=lambda job: name)])
    opened = Opened(browser, path)
    opened.page.locator(".jobs button").first.click()
    opened.settle()
    assert name in opened.page.locator(".job-facts").inner_text()
    assert opened.page.locator("img").count() == 0
    assert opened.page.title() == "Rules on made-up jobs"
    assert opened.complaints == []
    opened.page.context.close()


def test_names_without_a_place_to_fold_stay_on_the_page(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    long = [replace(episode(name, name=lambda job: "q" * 300), policy=name * 50) for name in ("fair", "fifo")]
    write_sample(path, long)
    opened = Opened(browser, path)
    assert opened.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    opened.page.locator(".jobs button").first.click()
    opened.settle()
    assert opened.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    opened.page.context.close()


def test_years_have_no_more_ticks_than_there_is_room_for(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    years = np.arange(5) * 365 * 86_400_000
    section = CurvesSection("k", "Years", "", "time", "jobs", [Curve("fair", years, np.arange(5.0))])
    write_report(
        path,
        title="Years",
        table=ReportTable([ReportColumn("m", "Mean", "s")], [ReportRow("fair", [None])]),
        sections=[section],
        facts={},
        notes=[],
        command="",
    )
    opened = Opened(browser, path)
    told = opened.page.locator(".chart text.tick").all_text_contents()
    assert 3 <= len(told) <= 16
    assert told[0] == "0" and all(tick.endswith(" d") for tick in told[1:])
    opened.page.context.close()


def test_the_largest_report_stays_fluid(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    large = [episode(policy, jobs=20, executors=50, tasks=20_000, gap_ms=12_000) for policy in RULES]
    write_sample(path, large)
    opened = Opened(browser, path)
    drawn = [canvas.get_attribute("data-drawn") for canvas in canvases(opened)]
    assert drawn == [str(len(tasks_of(shown).job)) for shown in large]
    opened.page.locator(".plot").nth(1).scroll_into_view_if_needed()
    slowest_ms = opened.page.evaluate(
        """async () => {
          const plot = document.querySelector(".plot");
          const times = [];
          for (const key of ["+", "ArrowRight", "+", "-", "-", "+", "ArrowLeft", "0"]) {
            const began = performance.now();
            plot.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
            await new Promise((done) => requestAnimationFrame(done));
            times.push(performance.now() - began);
          }
          return times.sort((a, b) => a - b)[4];
        }"""
    )
    # About 20 ms on one idle core without a GPU; the bound is for busy machines.
    assert slowest_ms < 500
    assert re.fullmatch(r"0 to \d+:\d\d", opened.page.locator(".window").inner_text())
    opened.page.context.close()


def test_axes_of_powers_and_limits_are_drawn_and_read(browser: Browser, tmp_path: Path) -> None:
    """Values 0.1, 1, 10, 100 are equally far apart, upwards as well as across."""
    moments, powers = np.array([1000, 10_000, 100_000, 1_000_000]), np.array([0.1, 1.0, 10.0, 100.0])
    usual = {"heading": "h", "text": "t", "x_label": "x", "y_label": "y", "decimals": 1}
    sections = [
        CurvesSection("up", **usual, curves=[Curve("a", moments, powers)], y_log=True,
                      reference=Reference("limit 10 s", 10.0)),
        CurvesSection("across", **usual, curves=[Curve("a", moments, powers)], x_log=True,
                      reference=Reference("limit 10 s", 10_000.0, upright=True)),
    ]  # fmt: skip
    path = tmp_path / "report.html"
    table = ReportTable([ReportColumn("m", "M")], [ReportRow("a", [Measured(1, 1, 1)])])
    write_report(path, title="Powers", table=table, sections=sections, facts={}, notes=[], command="")
    opened = Opened(browser, path)
    labels = opened.page.locator("#up .chart text").all_text_contents()
    assert [label for label in labels if label in ("0.1", "1", "10", "100")] == ["0.1", "1", "10", "100"]
    corners = re.findall(r"[HV]([\d.]+)", opened.page.locator("#up .series path").get_attribute("d") or "")
    heights = [float(height) for height in corners[1::2]]
    assert heights[0] - heights[1] == pytest.approx(heights[1] - heights[2], abs=0.2)
    limit = opened.page.locator("#up line.limit")
    assert float(limit.get_attribute("y1") or "nan") == pytest.approx(heights[1], abs=0.1)
    assert opened.page.locator("#up text.limit").text_content() == "limit 10 s"

    drawn = opened.page.locator("#across .series path").get_attribute("d") or ""
    places = [float(place) for place in re.findall(r"H([\d.]+)", drawn)]
    assert places[1] - places[0] == pytest.approx(places[2] - places[1], abs=0.2)
    upright = opened.page.locator("#across line.limit")
    assert float(upright.get_attribute("x1") or "nan") == pytest.approx(places[0], abs=0.1)
    # Half way across lies the geometric mean of the ends, 31.6 s.
    opened.page.locator("#across .chart").focus()
    for _ in range(30):
        opened.page.keyboard.press("ArrowRight")
    tooltip = opened.page.locator("#tooltip")
    assert tooltip.locator(".head").inner_text() == "at 31.6 s"
    assert tooltip.locator("td").all_text_contents() == ["1.0"]
    assert opened.complaints == []
    opened.page.context.close()
