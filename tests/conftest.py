"""What every test may ask for: shared data, Chromium, Java; one hypothesis profile."""

import os
import shutil
import time
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from tests.quick_compilation import compiling_quickly
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

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
_PLAYING_STREAMS = ("stream", "06_", "README.md", "adding-a-policy.md", "cli.md", "gymnasium.md")
# Long tests that share nothing: handed out one by one at the end, so that both workers end together.
_ONE_BY_ONE = ("tests/docs/", "tests/examples/")
# Older code generation, in one piece: compiles in a third of the time. What takes no time is kept as well.
_JAX = {
    "XLA_FLAGS": "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1",
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}
_KEPT_DAYS = 7
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


@pytest.fixture
def quick_compilation() -> Generator[None]:
    """JAX leaves out most optimisations, for tests that compile more than they run."""
    with compiling_quickly():
        yield


def pytest_configure(config: pytest.Config) -> None:
    """Compile programs of JAX quickly, and each once for all workers and for programs that tests start."""
    for name, value in _JAX.items():
        os.environ.setdefault(name, value)
    if "JAX_COMPILATION_CACHE_DIR" in os.environ or not config.pluginmanager.has_plugin("cacheprovider"):
        return
    folder = config.cache.mkdir("jax")
    old = time.time() - _KEPT_DAYS * 86_400
    for program in folder.glob("*-cache"):
        if program.stat().st_mtime < old:
            program.unlink(missing_ok=True)
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder)


class FileByFile(LoadScopeScheduling):
    """Keep the tests of a file on one worker, so that what they share is made and compiled once."""

    def _split_scope(self, nodeid: str) -> str:
        return nodeid if nodeid.startswith(_ONE_BY_ONE) else nodeid.partition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FileByFile:
    """Hand out files, those of most tests first, then the tests that share nothing."""
    return FileByFile(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that may play days of streams."""
    for item in items:
        if any(word in item.nodeid for word in _PLAYING_STREAMS):
            item.add_marker("streams")


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
