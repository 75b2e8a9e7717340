"""Where compiled code is kept, and whether it is there."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numba
import pytest

import trimtab
from trimtab import Cluster, make_policy, simulate
from trimtab.compiling import Compiler, is_kept
from trimtab.dag_scheduling import batch
from trimtab.dag_scheduling.workload.tpch import tpch_profile

PACKAGE = Path(trimtab.__file__).parent

compiles = pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT), reason="compiled code runs as plain Python here"
)


@pytest.fixture
def jit_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable:
    """Compiles the same function in a folder, as a process does that has just begun."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))

    def jit(folder: str, *, cached: bool = True) -> Callable[[int], int]:
        file = tmp_path / folder / "twice.py"
        if not file.exists():
            file.parent.mkdir()
            file.write_text("def twice(number):\n    return 2 * number\n")
        found = importlib.util.spec_from_file_location("twice", file)
        assert found is not None and found.loader is not None
        module = importlib.util.module_from_spec(found)
        found.loader.exec_module(module)
        return Compiler([]).jit(module.twice, cached=cached)

    return jit


@compiles
def test_code_is_kept_for_the_folder_it_was_compiled_in(jit_in: Callable) -> None:
    first = jit_in("one")
    assert not is_kept(first)
    assert first(3) == 6
    assert is_kept(first) and is_kept(jit_in("one"))
    assert not is_kept(jit_in("two"))


@compiles
def test_code_of_the_package_is_kept_for_all_its_checkouts(tmp_path: Path) -> None:
    """A second checkout with the same sources compiles nothing, and plays the same."""
    played = simulate(
        batch(tpch_profile(), jobs=2, seed=0), make_policy("fifo"), Cluster(executors=2), seed=0
    )
    shutil.copytree(PACKAGE, tmp_path / "trimtab", ignore=shutil.ignore_patterns("bundles", "__pycache__"))
    asked = """
from trimtab import Cluster, make_policy, simulate
from trimtab.dag_scheduling import batch
from trimtab.dag_scheduling.simulator import simulator
from trimtab.dag_scheduling.workload.tpch import tpch_profile

print(simulator.__file__, simulator.is_compiled(make_policy("fifo")), end=" ")
if simulator.is_compiled(make_policy("fifo")):
    jobs = batch(tpch_profile(), jobs=2, seed=0)
    played = simulate(jobs, make_policy("fifo"), Cluster(executors=2), seed=0)
    stats = simulator._player(make_policy("fifo").function).stats
    print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()), played.metrics()["mean_jct_s"])
"""

    def answer() -> list[str]:
        environment = os.environ | {"PYTHONPATH": str(tmp_path)}
        return subprocess.check_output([sys.executable, "-c", asked], env=environment, text=True).split()

    where, *told = answer()
    assert where.startswith(str(tmp_path))
    assert told == ["True", "1", "0", str(played.metrics()["mean_jct_s"])]
    events = tmp_path / "trimtab" / "dag_scheduling" / "simulator" / "events.py"
    events.write_text(events.read_text() + "\nONE_MORE = 1\n")
    assert answer()[1:] == ["False"]


@compiles
def test_code_of_a_file_that_has_changed_is_not_kept(jit_in: Callable, tmp_path: Path) -> None:
    jit_in("one")(3)
    with (tmp_path / "one" / "twice.py").open("a") as file:
        file.write("# more\n")
    again = jit_in("one")
    assert not is_kept(again)
    assert again(3) == 6 and is_kept(again)


@compiles
def test_code_that_is_not_to_be_kept_is_not(jit_in: Callable) -> None:
    never = jit_in("one", cached=False)
    assert never(3) == 6 and not is_kept(never)


def test_of_plain_functions_nothing_is_kept() -> None:
    assert not is_kept(len)
