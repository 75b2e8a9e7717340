"""The compiler of this wing's engine: which files it is made of, hence when it must compile anew."""

from __future__ import annotations

from pathlib import Path

from trimtab.compiling import Compiler

__all__ = ["cache_folder", "inlined", "jit", "merged"]

_compiler = Compiler(sorted(Path(__file__).parent.glob("*.py")))
cache_folder = _compiler.cache_folder
inlined = _compiler.inlined
jit = _compiler.jit
merged = _compiler.merged
