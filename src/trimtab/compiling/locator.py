"""Where numba keeps code of this package: by the place in the package, in whichever folder that lies.

numba names a cache's folder after the folder of the source, so a second checkout, a new environment or a run
of CI in a fresh clone would compile everything again. The same source gives the same code wherever it lies,
and numba looks at a source's content before it takes anything. `Compiler` names this to numba, which imports
it (from 0.62 on; an older one does not ask, and compiles for each folder).
"""

from pathlib import Path

from numba.core.caching import UserProvidedCacheLocator

__all__ = ["PackageLocator"]

_PACKAGE = Path(__file__).resolve().parent.parent


class PackageLocator(UserProvidedCacheLocator):
    """Keeps files of other packages by their folders, as numba does."""

    @classmethod
    def get_suitable_cache_subpath(cls, py_file: str) -> str:
        """The folder of a file below the cache's.

        >>> PackageLocator.get_suitable_cache_subpath(__file__)
        'trimtab.compiling'
        """
        folder = Path(py_file).resolve().parent
        if not folder.is_relative_to(_PACKAGE):
            return super().get_suitable_cache_subpath(py_file)
        return ".".join(["trimtab", *folder.relative_to(_PACKAGE).parts])
