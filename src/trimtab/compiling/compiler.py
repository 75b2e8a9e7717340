"""Compile plain functions, keep the result on disk, and never use a stale one.

numba's own cache does not notice a change in a *called* function of another file, so the cache folder
of an engine is named after everything it is made of: change a line and the engine compiles anew.
"""

from __future__ import annotations

import hashlib
import sys
import types
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numba
import numba.core.config
import numpy as np
from numba.core.dispatcher import Dispatcher

from trimtab.core.errors import TrimtabError

__all__ = ["Compiler", "fingerprint", "is_importable", "is_kept"]

_PACKAGE = Path(__file__).parent
_LOCATOR = "trimtab.compiling.locator.PackageLocator"


class Compiler:
    """Compiles the functions of one engine; `sources` are the files it is made of, besides these here.

    >>> compiler = Compiler([Path(__file__)])
    >>> compiler.cache_folder().name.startswith("engine-")
    True
    """

    def __init__(self, sources: Iterable[Path]) -> None:
        self._sources = [*sorted(_PACKAGE.glob("*.py")), *sources]
        self._compiled: dict[Callable[..., Any], Callable[..., Any]] = {}
        self._folder = self.cache_folder()

    def cache_folder(self) -> Path:
        """Where compiled code of this version of the engine lies."""
        digest = hashlib.sha256()
        for source in self._sources:
            digest.update(source.read_bytes())
        return Path.home() / ".cache" / "trimtab" / f"engine-{digest.hexdigest()[:16]}"

    def inlined(self, function: Callable[..., Any]) -> Any:
        """For small functions on the hot path: handing over a state of ten arrays costs more than they do."""
        return self.jit(function, forceinline=True)

    def merged(self, function: Callable[..., Any]) -> Any:
        """For functions with one caller: compiled as a part of it, not by themselves first."""
        return self.jit(function, inline="always")

    def jit(
        self,
        function: Callable[..., Any],
        *,
        inline: str = "never",
        forceinline: bool = False,
        counted: bool = False,
        cached: bool = True,
    ) -> Any:
        """`numba.njit` with the cache in our folder; other users of numba keep their own.

        An engine allocates nothing, so it goes without reference counting (`counted`), which took three
        quarters of its time.
        """
        settings: dict[str, Any] = {
            "cache": cached,
            "error_model": "numpy",
            "forceinline": forceinline,
            "inline": inline,
            "_nrt": counted,
            "nogil": True,
        }
        with _places(self._folder):
            return numba.njit(**settings)(function)

    def compiled(self, function: Callable[..., Any]) -> Any:
        """Compile a plain function together with the plain functions it calls.

        Rules are written without numba, so that they run live on numpy alone; here each becomes a compiled
        twin whose calls lead to compiled twins. Rules from outside may allocate, so theirs are counted.
        """
        if isinstance(function, Dispatcher) or numba.core.config.DISABLE_JIT:  # pyright: ignore[reportAttributeAccessIssue]
            return function
        if function not in self._compiled:
            self._compiled[function] = self.specialise(
                function,
                {},
                fingerprint(function),
                counted=not function.__module__.startswith("trimtab."),
                cached=is_importable(function),
            )
        return self._compiled[function]

    def specialise(
        self,
        function: Callable[..., Any],
        replacements: dict[str, Any],
        label: str,
        *,
        counted: bool = False,
        cached: bool = True,
    ) -> Any:
        """Compile a copy of `function` in which some global names mean something else.

        The label becomes part of its name, hence of its place in the cache.
        """
        plain = getattr(function, "py_func", function)
        if plain.__closure__:
            raise TrimtabError(
                f"rule {plain.__name__!r} uses variables of the function around it, which cannot be "
                "compiled; define it at the top of a module, or give simulate() an object with decide()"
            )
        names = plain.__globals__ | replacements
        for name in plain.__code__.co_names:
            if isinstance(names.get(name), types.FunctionType) and names[name] is not plain:
                names[name] = self.compiled(names[name])
        copy = types.FunctionType(plain.__code__, names, f"{plain.__name__}_{label}", plain.__defaults__)
        copy.__qualname__ = copy.__name__
        copy.__module__ = plain.__module__
        if numba.core.config.DISABLE_JIT:  # pyright: ignore[reportAttributeAccessIssue]
            return copy
        return self.jit(copy, counted=counted, cached=cached)


@contextmanager
def _places(folder: Path) -> Generator[None]:
    """Let numba keep code below a folder, that of our own files by their place in the package."""
    config: Any = numba.core.config
    wanted = {"CACHE_DIR": str(folder), "CACHE_LOCATOR_CLASSES": _LOCATOR}
    before = {name: getattr(config, name, "") for name in wanted}
    try:
        for name, value in wanted.items():
            setattr(config, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(config, name, value)


def is_importable(function: Callable[..., Any]) -> bool:
    """Whether another process can find the function by name; only then may its code be kept on disk."""
    home = sys.modules.get(function.__module__)
    return (
        getattr(home, function.__name__, None) is function and Path(function.__code__.co_filename).is_file()
    )


def is_kept(function: Any) -> bool:
    """Whether compiled code of a function lies on disk, to be used by the next call.

    Code is kept by what is written in its file and, but for files of this package, by the file's folder.
    """
    cache = getattr(function, "_cache", None)  # a plain function has none
    index = getattr(cache, "_cache_file", None)
    return index is not None and bool(index._load_index())


def fingerprint(function: Callable[..., Any], seen: frozenset[Any] = frozenset()) -> str:
    """Changes when the function changes, or a plain function or constant it uses."""
    code = function.__code__
    constants = [c for c in code.co_consts if not isinstance(c, types.CodeType)]
    parts = [code.co_code.hex(), repr(constants), repr(code.co_names), repr(function.__defaults__)]
    for name in code.co_names:
        used = function.__globals__.get(name)
        if isinstance(used, types.FunctionType) and used not in seen:
            parts.append(fingerprint(used, seen | {function}))
        elif isinstance(used, int | float | str | bytes | tuple | np.generic | np.ndarray):
            parts.append(f"{name}={used!r}")
    return hashlib.sha256("|".join(parts).encode()).hexdigest()[:12]
