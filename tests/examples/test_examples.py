"""Every numbered example runs as a user would run it."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("[0-9]*.py"))
ARGUMENTS = {"04_train_a_stock_agent": ["2048"]}  # a few seconds of training
NEEDS_AGENTS = {"04_train_a_stock_agent"}
EXPECTED = {
    "01_simulate": ["fifo", "fair", "capped-srpt"],
    "02_write_your_own_policy": ["mean JCT of small-first over that of fair"],
    "03_import_your_history": ["tasks", "seed 1  fair"],
    "04_train_a_stock_agent": ["MaskablePPO", "fair", "random", "over 10 unseen workloads"],
    "05_train_your_own": ["mine ", "capped-srpt-local", "first decision"],
    "06_scale_a_stream": ["7,200 steps of 60 s", "7.00 ms a record", "flink", "slot-hours", "picture:"],
    "07_scale_a_service": ["20.0 ms of CPU a request", "guarded by hpa", "cores held", "picture:"],
}


def test_examples_are_numbered_without_gaps_and_expected() -> None:
    assert [int(path.name[:2]) for path in EXAMPLES] == list(range(1, len(EXAMPLES) + 1))
    assert set(EXPECTED) == {path.stem for path in EXAMPLES}


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(path: Path, tmp_path: Path) -> None:
    if path.stem in NEEDS_AGENTS and find_spec("sb3_contrib") is None:
        pytest.skip("no sb3_contrib; pip install '.[agents]'")
    done = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:trimtab", str(path), *ARGUMENTS.get(path.stem, [])],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"},  # a third of the time, which is compiling
    )
    assert done.returncode == 0, f"{path.name}\n{done.stdout}\n{done.stderr}"
    for words in EXPECTED[path.stem]:
        assert words in done.stdout, f"{path.name} does not print {words!r}:\n{done.stdout}"
    assert not list(tmp_path.iterdir()), f"{path.name} leaves files behind"
