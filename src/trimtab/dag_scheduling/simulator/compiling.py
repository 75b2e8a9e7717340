"""The compiler of this wing's engine: which files it is made of, hence when it must compile anew."""

from __future__ import annotations

from pathlib import Path

from trimtab.compiling import Compiler, fingerprint, is_importable, is_kept

__all__ = [
    "cache_folder",
    "compiled",
    "fingerprint",
    "inlined",
    "is_importable",
    "is_kept",
    "jit",
    "merged",
    "specialise",
]

_PACKAGE = Path(__file__).parent

_compiler = Compiler(
    [
        *sorted(_PACKAGE.glob("*.py")),
        _PACKAGE.parent / "problem.py",
        _PACKAGE.parent / "heuristics.py",
        _PACKAGE.parent / "decima" / "view.py",
    ]
)
cache_folder = _compiler.cache_folder
compiled = _compiler.compiled
inlined = _compiler.inlined
jit = _compiler.jit
merged = _compiler.merged
specialise = _compiler.specialise
