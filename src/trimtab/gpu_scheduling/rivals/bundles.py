"""Bundles of rivals: where they are shipped, and how one is checked before it is played."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from trimtab.core.bundle import Bundle
from trimtab.core.errors import BundleError

__all__ = ["BUNDLES", "WING", "checked"]

WING = "gpu_scheduling"
BUNDLES = Path(str(files("trimtab.gpu_scheduling").joinpath("das", "bundles")))
"""The one folder where the policies of this wing are looked for."""


def checked(bundle: Bundle, kind: str, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, NDArray[Any]]:
    """The tensors of a bundle, or one line that says why they are not those of such a policy."""
    if (bundle.wing, bundle.kind) != (WING, kind):
        raise BundleError(
            f"{bundle.name}: a policy of {bundle.wing} ({bundle.kind}), and here {WING} ({kind}) is needed"
        )
    found = {name: array.shape for name, array in bundle.tensors.items()}
    if found != dict(shapes):
        raise BundleError(f"{bundle.name}: its tensors are not those of {kind}; practise again")
    return bundle.tensors
