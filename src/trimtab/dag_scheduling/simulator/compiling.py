"""Compile plain functions, keep the result on disk, and never use a stale one.

numba's own cache does not notice a change in a *called* function of another file, so the cache folder
is named after everything the engine is made of: change a line and the engine compiles anew.
"""

from __future__ import annotations

import hashlib
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numba.core.config
from numba.core.dispatcher import Dispatcher

__all__ = ["cache_folder", "compiled", "inlined", "jit", "specialise"]

_PACKAGE = Path(__file__).parent
_SOURCES = [
    *sorted(_PACKAGE.glob("*.py")),
    _PACKAGE.parent / "problem.py",
    _PACKAGE.parent / "heuristics.py",
]
_compiled: dict[Callable[..., Any], Callable[..., Any]] = {}


def cache_folder() -> Path:
    """Where compiled code of this version of the engine lies."""
    digest = hashlib.sha256()
    for source in _SOURCES:
        digest.update(source.read_bytes())
    return Path.home() / ".cache" / "trimtab" / f"engine-{digest.hexdigest()[:16]}"


def inlined(function: Callable[..., Any]) -> Any:
    """For small functions on the hot path: handing over a state of twenty arrays costs more than they do."""
    return jit(function, forceinline=True)


def jit(function: Callable[..., Any], **options: bool) -> Any:
    """`numba.njit` with the cache in our folder; other users of numba keep their own.

    Reference counting is off: the engine allocates nothing, and counting took three quarters of its time.
    """
    before = numba.core.config.CACHE_DIR  # pyright: ignore[reportAttributeAccessIssue]
    numba.core.config.CACHE_DIR = str(_FOLDER)  # pyright: ignore[reportAttributeAccessIssue]
    try:
        settings: dict[str, Any] = {"cache": True, "error_model": "numpy", "_nrt": False, **options}
        return numba.njit(**settings)(function)
    finally:
        numba.core.config.CACHE_DIR = before  # pyright: ignore[reportAttributeAccessIssue]


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a plain function together with the plain functions it calls.

    Rules are written without numba, so that they run live on numpy alone; here each becomes a compiled
    twin whose calls lead to compiled twins.
    """
    if isinstance(function, Dispatcher) or numba.core.config.DISABLE_JIT:  # pyright: ignore[reportAttributeAccessIssue]
        return function
    if function not in _compiled:
        _compiled[function] = specialise(function, {}, _fingerprint(function))
    return _compiled[function]


def specialise(function: Callable[..., Any], replacements: dict[str, Any], label: str) -> Any:
    """Compile a copy of `function` in which some global names mean something else.

    The label becomes part of its name, hence of its place in the cache.
    """
    plain = getattr(function, "py_func", function)
    names = plain.__globals__ | replacements
    for name in plain.__code__.co_names:
        if isinstance(names.get(name), types.FunctionType):
            names[name] = compiled(names[name])
    copy = types.FunctionType(plain.__code__, names, f"{plain.__name__}_{label}", plain.__defaults__)
    copy.__qualname__ = copy.__name__
    copy.__module__ = plain.__module__
    if numba.core.config.DISABLE_JIT:  # pyright: ignore[reportAttributeAccessIssue]
        return copy
    return jit(copy)


def _fingerprint(function: Callable[..., Any]) -> str:
    """Changes when the function, or a plain function it calls, changes."""
    code = function.__code__
    parts = [
        code.co_code.hex(),
        repr([c for c in code.co_consts if not isinstance(c, types.CodeType)]),
    ]
    for name in code.co_names:
        called = function.__globals__.get(name)
        if isinstance(called, types.FunctionType) and called is not function:
            parts.append(_fingerprint(called))
        elif isinstance(called, int | float):
            parts.append(f"{name}={called}")
    return hashlib.sha256("|".join(parts).encode()).hexdigest()[:12]


_FOLDER = cache_folder()
