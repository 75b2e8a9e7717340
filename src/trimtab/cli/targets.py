"""Where verbs write. What cannot be written is refused before any work is done for it."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["check_file", "check_new_folder"]


def check_new_folder(path: Path | None) -> None:
    """Refuse a run folder that could not be made; None: there will be none."""
    from trimtab.core.errors import TrimtabError

    if path is None:
        return
    if path.exists():
        raise TrimtabError(f"{path}: exists, and a run is never overwritten; choose another folder")
    _check_above(path)


def check_file(path: Path | None, *, makes_folders: bool = False) -> None:
    """Refuse a file that could not be written; None: there will be none."""
    from trimtab.core.errors import TrimtabError

    if path is None:
        return
    if path.is_dir():
        raise TrimtabError(f"{path}: is a folder; name a file to write in it")
    if path.exists() and not path.is_file():
        raise TrimtabError(f"{path}: is no file, and would be replaced by one; name a file to write")
    if not makes_folders and not path.parent.exists():
        raise TrimtabError(f"{path}: the folder {path.parent} does not exist; make it first")
    _check_above(path)


def _check_above(path: Path) -> None:
    from trimtab.core.errors import TrimtabError

    above = next(folder for folder in path.parents if folder.exists())
    if not above.is_dir():
        raise TrimtabError(f"{path}: {above} is a file, not a folder; choose another place")
    if not os.access(above, os.W_OK | os.X_OK):
        raise TrimtabError(f"{path}: nothing may be written in {above}; choose another place")
