"""What the compiled engines of all wings share: compiling with a cache of our own, and luck by counting."""

from trimtab.compiling.compiler import Compiler, fingerprint, is_importable, is_kept

__all__ = ["Compiler", "fingerprint", "is_importable", "is_kept"]
