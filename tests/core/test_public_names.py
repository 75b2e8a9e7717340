import subprocess
import sys
from importlib import import_module
from importlib.metadata import version
from pkgutil import iter_modules

import pytest

import trimtab
import trimtab.core

HEAVY = ("cyclopts", "matplotlib", "numba", "numpy", "polars", "pydantic", "rich")
CORE = [module.name for module in iter_modules(trimtab.core.__path__, "trimtab.core.")]

TIMED_IMPORT = """
import sys, time
began = time.perf_counter()
import trimtab
took = time.perf_counter() - began
print(took, *(name for name in {heavy} if name in sys.modules))
"""


def fresh_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


def test_import_is_quick_and_light() -> None:
    answers = [fresh_python(TIMED_IMPORT.format(heavy=HEAVY)).split() for _ in range(5)]
    assert min(float(took) for took, *_ in answers) <= 0.3
    assert answers[0][1:] == []


def test_core_runs_on_numpy_alone() -> None:
    modules = [name for name in CORE if name != "trimtab.core.settings"]
    banned = [name for name in HEAVY if name != "numpy"]
    code = f"import sys, {', '.join(modules)}\nprint(*(n for n in {banned} if n in sys.modules))"
    assert fresh_python(code).split() == []


@pytest.mark.parametrize("name", trimtab.__all__)
def test_every_public_name_loads_and_is_listed(name: str) -> None:
    assert getattr(trimtab, name) is getattr(trimtab, name)
    assert name in dir(trimtab)


@pytest.mark.parametrize("name", CORE)
def test_core_modules_export_what_they_list(name: str) -> None:
    module = import_module(name)
    assert list(module.__all__) == sorted(module.__all__, key=lambda word: (not word.isupper(), word))
    for exported in module.__all__:
        assert hasattr(module, exported)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'trimtab' has no attribute 'nothing'"):
        trimtab.nothing  # noqa: B018


def test_the_version_is_the_installed_one() -> None:
    assert trimtab.__version__ == version("trimtab")
