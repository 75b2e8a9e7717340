"""A browser, a report of made-up episodes, and a page that shows it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.browser.opened import Opened
from tests.sample_report import write_sample
from tests.synthetic_episodes import RULES, episode

from trimtab.dag_scheduling.episode import Episode

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ARGUMENTS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)


@pytest.fixture(scope="module")
def episodes() -> list[Episode]:
    return [episode(policy) for policy in RULES]


@pytest.fixture(scope="module")
def report(episodes: list[Episode], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_sample(path, episodes)
    return path


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as engine:
        launched = engine.chromium.launch(executable_path=chromium, args=list(ARGUMENTS))
        yield launched
        launched.close()


@pytest.fixture
def opened(browser: Browser, report: Path) -> Iterator[Opened]:
    """A fresh page; at the end of every test it must have been quiet."""
    opened = Opened(browser, report)
    yield opened
    assert opened.complaints == []
    opened.page.context.close()
