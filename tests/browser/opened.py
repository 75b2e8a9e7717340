"""A page of a report in a browser, and what it says and asks for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


class Opened:
    """A page with everything it complained about and everything it asked for."""

    def __init__(self, browser: Browser, path: Path, **context: Any) -> None:
        options = {"viewport": {"width": 1280, "height": 1000}, "color_scheme": "light", **context}
        self.page: Page = browser.new_context(**options).new_page()
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("body[data-ready=true]", timeout=30_000)

    def tick_labels(self) -> list[list[str]]:
        """Time labels of each Gantt chart."""
        return [
            plot.locator(".frame text.tick").all_text_contents() for plot in self.page.locator(".plot").all()
        ]

    def settle(self) -> None:
        """Wait until moved charts are drawn, also those outside the window."""
        self.page.wait_for_timeout(400)
        self.page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
