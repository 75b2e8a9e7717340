"""Files that the settings of a run name: where they lay when it began, and what was in them.

A workload of one's own is a file, and files change. A run that goes on, and a decision that is explained,
need them as they were. The run folder tells by which name they were given, where they lay and their digests::

    files.json      {"my.workload": {"path": "/data/my.workload", "sha256": "5c0e..."}}
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trimtab.core.errors import TrimtabError

if TYPE_CHECKING:
    from trimtab.core.run_folder import RunFolder
    from trimtab.core.settings import Settings

__all__ = ["FILES", "digests_of", "files_as_text", "found_files", "refuse_changed_files", "with_names"]

FILES = "files.json"


def files_as_text(settings: Settings) -> dict[str, str]:
    """What to write into a new run folder, by file name; nothing where settings name no file."""
    found = {
        name: {"path": str(Path(name).resolve()), "sha256": digest}
        for name, digest in digests_of(settings.model_dump(mode="json")).items()
    }
    return {FILES: json.dumps(found, indent=2, ensure_ascii=False) + "\n"} if found else {}


def found_files(run: RunFolder) -> dict[str, str]:
    """Where the files of a run lie now, by their names in its settings; those that have changed are left out.

    Names count from here, so that a folder may move together with its files; then the place where a file was.
    """
    found: dict[str, str] = {}
    for name, entry in _kept(run).items():
        there = (place for place in (name, entry["path"]) if _is_file(place))
        place = next((place for place in there if _digest(place) == entry["sha256"]), None)
        if place is not None:
            found[name] = place
    return found


def refuse_changed_files(run: RunFolder) -> dict[str, str]:
    """Where all files of a run lie now; refuses a run with a file that is not as it was."""
    found = found_files(run)
    for name, entry in _kept(run).items():
        if name not in found:
            there = _is_file(entry["path"])
            state = "has changed since the run began" if there else "is no longer there"
            raise TrimtabError(
                f"{run.path}: its file {entry['path']} {state}; put it back as it was, or start a new run"
            )
    return found


def _kept(run: RunFolder) -> dict[str, dict[str, str]]:
    return run.read_json(FILES) if (run.path / FILES).is_file() else {}


def digests_of(plain: Any) -> dict[str, str]:
    """The digest of every file that plain settings name.

    >>> digests_of({"workload": {"name": "tpch", "jobs": 20}})
    {}
    """
    return {name: _digest(name) for name in sorted(set(_texts(plain))) if _is_file(name)}


def with_names(plain: Any, names: Mapping[str, str]) -> Any:
    """Plain settings in which some texts are replaced by others.

    >>> with_names({"workload": {"name": "my.workload"}}, {"my.workload": "/data/my.workload"})
    {'workload': {'name': '/data/my.workload'}}
    """
    if isinstance(plain, Mapping):
        return {key: with_names(value, names) for key, value in plain.items()}
    if isinstance(plain, list | tuple):
        return [with_names(value, names) for value in plain]
    return names.get(plain, plain) if isinstance(plain, str) else plain


def _texts(plain: Any) -> Iterator[str]:
    if isinstance(plain, str):
        yield plain
    elif isinstance(plain, Mapping | list | tuple):
        for value in plain.values() if isinstance(plain, Mapping) else plain:
            yield from _texts(value)


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except OSError:
        return False  # too long to be a name, or not ours to look at


def _digest(path: str) -> str:
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
