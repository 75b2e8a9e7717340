"""Arrays on disk with a header in words: one file, no pickle, and a clear line when it is not one of ours."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.core.errors import WorkloadError

__all__ = ["Provenance", "fields_of", "load_arrays", "save_arrays"]

OURS = "trimtab-"
"""What the names of our formats begin with."""


@dataclass(frozen=True)
class Provenance:
    """Where data come from: enough to make them again.

    >>> Provenance("batch", {"jobs": 20, "seed": 1}).source
    'batch'
    """

    source: str
    settings: Mapping[str, object] = field(default_factory=dict)


def save_arrays(
    path: str | Path,
    arrays: Mapping[str, NDArray[Any]],
    header: Mapping[str, object],
    *,
    form: str,
    version: int,
) -> None:
    """Write arrays and a header as one file; an interrupted write leaves the old file."""
    told = {"format": form, "version": version, **header}
    path = Path(path)
    partial = path.with_name(path.name + ".partial")
    with partial.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, header=np.array(json.dumps(told)), **arrays)
    partial.replace(path)


def load_arrays(
    path: str | Path,
    *,
    form: str,
    version: int,
    what: str,
    formers: tuple[str, ...] = (),
    way_out: str = "import the history again",
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Read what `save_arrays` wrote, or say in one line why `path` is not a `what` file.

    `formers` are earlier names of the same format.

    >>> load_arrays(Path("nowhere.workload"), form="x", version=1, what="workload")
    Traceback (most recent call last):
    trimtab.core.errors.WorkloadError: nowhere.workload: no such file; `trimtab import` writes workload files
    """
    path = Path(path)
    if path.is_file() and not zipfile.is_zipfile(path):
        raise WorkloadError(f"{path}: not a {what} file; `trimtab import` makes them of histories")
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        header = json.loads(str(arrays.pop("header")))
    except FileNotFoundError:
        raise WorkloadError(f"{path}: no such file; `trimtab import` writes {what} files") from None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as problem:
        raise WorkloadError(f"{path}: not a {what} file ({problem}); `trimtab import` writes them") from None
    if not isinstance(header, dict):
        raise WorkloadError(f"{path}: not a {what} file (no header); `trimtab import` writes them")
    found = str(header.get("format"))
    if found not in (form, *formers) and found.startswith(OURS):
        raise WorkloadError(
            f"{path}: holds a {_in_words(found)}, where a {_in_words(form)} is wanted; use it "
            "as what it is, or name another file"
        )
    if found not in (form, *formers) or header.get("version") != version:
        raise WorkloadError(
            f"{path}: format {header.get('format')!r} version {header.get('version')}, expected "
            f"{form!r} version {version}; {way_out}"
        )
    return arrays, header


@contextmanager
def fields_of(path: str | Path, *, what: str, way_out: str = "import the history again") -> Iterator[None]:
    """Around making something of what was read: fields that are missing or wrong become one line.

    >>> with fields_of("mine.workload", what="workload"):
    ...     {}["template"]
    Traceback (most recent call last):
    trimtab.core.errors.WorkloadError: mine.workload: a workload file with wrong fields ('template'); \
import the history again
    """
    try:
        yield
    except (KeyError, TypeError, ValueError, IndexError) as problem:
        raise WorkloadError(f"{path}: a {what} file with wrong fields ({problem}); {way_out}") from None
    except WorkloadError as problem:
        raise WorkloadError(f"{path}: {problem}") from None


def _in_words(form: str) -> str:
    """``gpu workload`` for ``trimtab-gpu-workload``."""
    return form.removeprefix(OURS).replace("-", " ")
