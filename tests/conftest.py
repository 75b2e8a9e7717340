"""What every test may ask for: shared data, Chromium, Java; one hypothesis profile."""

import os
import shutil
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Deterministic, so a red run is red again; no deadline, since a first call may compile.
settings.register_profile(
    "trimtab",
    derandomize=True,
    deadline=None,
    max_examples=30,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("trimtab")

CHECKOUT = Path(__file__).resolve().parents[1]
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# What names of tests have that may play days of streams: left out where nothing is compiled.
_PLAYING_STREAMS = ("stream", "06_", "README.md", "adding-a-policy.md", "cli.md")
# Kinds of test (markers) that fail where they would skip: TRIMTAB_REQUIRE="spark browser".
_REQUIRED = os.environ.get("TRIMTAB_REQUIRE", "").replace(",", " ").split()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of large public traces, which is not in the repository."""
    folder = Path(os.environ.get("TRIMTAB_SHARED_DATA") or CHECKOUT.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip("no shared data beside the checkout; set TRIMTAB_SHARED_DATA to its folder")
    return folder


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of the system's Chromium, for playwright's `executable_path`."""
    found = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if found is None:
        pytest.skip(f"no browser ({', '.join(_BROWSERS)}); install Debian's chromium")
    return found


@pytest.fixture(scope="session")
def java() -> str:
    """The path of a Java runtime, for Spark."""
    found = shutil.which("java")
    if found is None:
        pytest.skip("no java; install Debian's default-jre-headless")
    return found


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep all Spark tests on one worker, and all browser tests: each starts its system once."""
    for item in items:
        if any(word in item.nodeid for word in _PLAYING_STREAMS):
            item.add_marker("streams")
        for kind in ("spark", "browser"):
            if item.get_closest_marker(kind):
                item.add_marker(pytest.mark.xdist_group(kind))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn the skip of a required kind into a failure, whoever skipped it."""
    report = yield
    wanted = next((kind for kind in _REQUIRED if item.get_closest_marker(kind)), None)
    if report.skipped and wanted and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, but TRIMTAB_REQUIRE names {wanted}: {report.longrepr}"
    return report
