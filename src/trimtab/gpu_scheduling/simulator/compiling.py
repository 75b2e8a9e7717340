"""The compiler of this wing's engine: which files it is made of, hence when it must compile anew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba.core.dispatcher import Dispatcher

from trimtab.compiling import Compiler, fingerprint, is_importable, is_kept

__all__ = [
    "cache_folder",
    "called_from_python",
    "compiled",
    "fingerprint",
    "inlined",
    "is_importable",
    "is_kept",
    "jit",
    "specialise",
]

_PACKAGE = Path(__file__).parent
_WRAPPERS = ("no_cpython_wrapper", "no_cfunc_wrapper")


class EngineCompiler(Compiler):
    """Compiles functions that only compiled code calls: without a door for Python, hence sooner."""

    def jit(self, function: Callable[..., Any], **settings: Any) -> Any:
        found = super().jit(function, **settings)
        if isinstance(found, Dispatcher):
            found.targetoptions.update(dict.fromkeys(_WRAPPERS, True))
        return found


def called_from_python(function: Any) -> Any:
    """The same function with a door for Python, and one for calls by its address."""
    if isinstance(function, Dispatcher):
        function.targetoptions.update(dict.fromkeys(_WRAPPERS, False))
    return function


_compiler = EngineCompiler(
    [
        *sorted(_PACKAGE.glob("*.py")),
        _PACKAGE.parent / "problem.py",
        *(
            _PACKAGE.parent / "heuristics" / f"{name}.py"
            for name in (
                "disciplines",
                "displacing",
                "fragments",
                "look_ahead",
                "malo",
                "metaheuristic",
                "mosa",
                "moving",
                "orders",
                "placements",
                "queue",
                "reserving",
                "rule",
                "words",
            )
        ),
        *(_PACKAGE.parent / "das" / f"{name}.py" for name in ("experience", "scoring")),
    ]
)
cache_folder = _compiler.cache_folder
compiled = _compiler.compiled
inlined = _compiler.inlined
jit = _compiler.jit
specialise = _compiler.specialise
