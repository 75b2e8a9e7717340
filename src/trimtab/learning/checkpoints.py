"""Trees of arrays to files and back: parameters to use, states to continue from."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from trimtab.core.bundle import load_tensors, save_tensors
from trimtab.core.errors import TrimtabError

__all__ = ["load_tree", "named_leaves", "save_tree"]


def named_leaves(tree: Any) -> dict[str, NDArray[Any]]:
    """Give every array of a tree the name of its place, and bring it to the host.

    >>> sorted(named_leaves({"head": [np.zeros(2), np.zeros(3)]}))
    ['head/0', 'head/1']
    """
    leaves = jax.tree_util.tree_leaves_with_path(jax.device_get(tree))
    return {"/".join(map(_step, path)): np.asarray(leaf) for path, leaf in leaves}


def save_tree(path: Path, tree: Any, notes: dict[str, str]) -> None:
    """Write a tree and a few notes, whole or not at all."""
    save_tensors(path, named_leaves(tree), notes)


def load_tree(path: Path, like: Any) -> tuple[Any, dict[str, str]]:
    """Read a tree of the same form as `like`, with its notes; refuse any other."""
    tensors, notes = load_tensors(path)
    wanted = jax.tree_util.tree_leaves_with_path(like)
    names = ["/".join(map(_step, place)) for place, _ in wanted]
    for name, (_, leaf) in zip(names, wanted, strict=True):
        found = tensors.get(name)
        if found is None or found.shape != leaf.shape or found.dtype != leaf.dtype:
            held = "nothing" if found is None else f"{found.dtype}{list(found.shape)}"
            raise TrimtabError(
                f"{path}: holds {held} where {name} = {leaf.dtype}{list(leaf.shape)} belongs; "
                "it was made by another task or other settings"
            )
    # Copied: a device on the host would otherwise borrow the file's memory, which an update uses up.
    leaves = [jnp.array(tensors[name], copy=True) for name in names]
    return jax.tree.unflatten(jax.tree.structure(like), leaves), notes


def _step(entry: Any) -> str:
    """One step of a path through a tree: the key, index or field name it takes."""
    for kind in ("key", "idx", "name"):
        if hasattr(entry, kind):
            return str(getattr(entry, kind))
    raise TypeError(f"cannot name the step {entry!r}")
