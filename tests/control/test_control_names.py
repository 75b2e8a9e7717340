"""The room is light, its public names load, and its settings go through a file."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pkgutil import iter_modules

import pytest
from tests.control.services import pod_guard

import trimtab.control
from trimtab.control import GuardSettings, Reason
from trimtab.control.decision import _BECAUSE
from trimtab.core.settings import load_settings, settings_as_toml

MODULES = [module.name for module in iter_modules(trimtab.control.__path__, "trimtab.control.")]


@pytest.mark.parametrize("name", trimtab.control.__all__)
def test_every_public_name_loads_and_is_listed(name):
    assert getattr(trimtab.control, name) is getattr(trimtab.control, name)
    assert name in dir(trimtab.control)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"module 'trimtab.control' has no attribute 'nothing'"):
        trimtab.control.nothing  # noqa: B018


@pytest.mark.parametrize("name", MODULES)
def test_modules_export_what_they_list(name):
    module = import_module(name)
    assert all(hasattr(module, exported) for exported in module.__all__)


def test_control_runs_on_numpy_alone():
    heavy = ["numba", "jax", "polars", "matplotlib", "river", "scipy"]
    code = f"import sys, {', '.join(MODULES)}\nprint(*(n for n in {heavy} if n in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_every_reason_has_a_sentence():
    assert set(_BECAUSE) == set(Reason) - {Reason.NONE}


def test_settings_go_through_a_file(tmp_path):
    settings = pod_guard(mode="canary").settings
    path = tmp_path / "guard.toml"
    path.write_text(settings_as_toml(settings))
    assert load_settings(GuardSettings, path) == settings
