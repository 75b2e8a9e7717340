"""A trained policy on disk: numbers in a safetensors file, their meaning in a JSON manifest.

::

    my-policy/
      policy.safetensors   8 bytes: length of the header; the header, JSON; the numbers, little-endian
      manifest.json        format, name, wing, kind, settings, features, trained, scores, sha256

Nothing read here can run code (no pickle), and every number of a header is checked before it is
used. The manifest holds the digest of the tensors file, the tensors file the digest of the rest of
the manifest: one that was damaged, edited or put beside another is refused, never played.

The format is public (https://huggingface.co/docs/safetensors). It is read and written here in plain
numpy because a live controller runs on numpy alone.
"""

import hashlib
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trimtab.core.errors import BundleError

__all__ = [
    "Bundle",
    "flatten",
    "load_bundle",
    "load_tensors",
    "save_bundle",
    "save_tensors",
    "unflatten",
]

Tensors: TypeAlias = dict[str, NDArray[Any]]

_FORMAT = 1
_TENSORS_FILE = "policy.safetensors"
_MANIFEST_FILE = "manifest.json"
_IDENTITY = ("name", "wing", "kind")
_SECTIONS = ("settings", "features", "trained", "scores")
_RESERVED = ("format", *_IDENTITY, "sha256")

_METADATA = "__metadata__"
_LENGTH_BYTES = 8
# The limit of the reference implementation. A header this long would describe a million tensors.
_LONGEST_HEADER = 100_000_000
_DTYPES = {
    "BOOL": np.dtype("?"),
    "U8": np.dtype("u1"),
    "I8": np.dtype("i1"),
    "U16": np.dtype("<u2"),
    "I16": np.dtype("<i2"),
    "F16": np.dtype("<f2"),
    "U32": np.dtype("<u4"),
    "I32": np.dtype("<i4"),
    "F32": np.dtype("<f4"),
    "U64": np.dtype("<u8"),
    "I64": np.dtype("<i8"),
    "F64": np.dtype("<f8"),
}
_CODES = {dtype: code for code, dtype in _DTYPES.items()}


# --- files of tensors ---------------------------------------------------------------------------


def save_tensors(
    path: str | Path, tensors: Mapping[str, ArrayLike], metadata: Mapping[str, str] | None = None
) -> Path:
    """Write a safetensors file: a reader sees the old file or the new one, never half of one.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "weights.safetensors"
    >>> _ = save_tensors(path, {"bias": np.zeros(3)}, {"iteration": "7"})
    >>> load_tensors(path)
    ({'bias': array([0., 0., 0.])}, {'iteration': '7'})
    """
    path = Path(path)
    octets = _encode(path, tensors, metadata or {})
    with _replacing(path) as part:
        _write(part, octets)
    return path


def load_tensors(path: str | Path) -> tuple[Tensors, dict[str, str]]:
    """Read a safetensors file into arrays of its own memory, and its metadata."""
    path = Path(path)
    return _decode(path, _read(path))


def _encode(path: Path, tensors: Mapping[str, ArrayLike], metadata: Mapping[str, str]) -> bytes:
    if not all(isinstance(text, str) for pair in metadata.items() for text in pair):
        raise BundleError(f"{path}: safetensors metadata is text only; turn its values into strings")
    arrays = {name: _storable(path, name, tensor) for name, tensor in tensors.items()}
    # Widest numbers first: then each tensor begins at a multiple of its own item size.
    ordered = sorted(arrays.items(), key=lambda item: (-item[1].dtype.itemsize, item[0]))
    header: dict[str, Any] = {_METADATA: dict(metadata)} if metadata else {}
    end = 0
    for name, array in ordered:
        begin, end = end, end + array.nbytes
        code = _CODES[array.dtype]
        header[name] = {"dtype": code, "shape": list(array.shape), "data_offsets": [begin, end]}
    try:
        text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise BundleError(f"{path}: {error.object!r} is not valid text; rename it") from None
    text += b" " * (-len(text) % _LENGTH_BYTES)
    if len(text) > _LONGEST_HEADER:
        raise BundleError(f"{path}: a header of {len(text)} bytes is too long; save fewer tensors")
    length = len(text).to_bytes(_LENGTH_BYTES, "little")
    return b"".join([length, text, *(array.tobytes() for _, array in ordered)])


def _storable(path: Path, name: str, tensor: ArrayLike) -> NDArray[Any]:
    if not isinstance(name, str) or name == _METADATA:
        raise BundleError(f"{path}: a tensor cannot be named {name!r}; choose another name")
    array = np.asarray(tensor)
    array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    if array.dtype not in _CODES:
        raise BundleError(
            f"{path}: tensor {name!r} has dtype {array.dtype}, which the file cannot hold; "
            f"convert it to one of {', '.join(str(dtype) for dtype in _CODES)}"
        )
    return array


def _decode(path: Path, octets: bytes) -> tuple[Tensors, dict[str, str]]:
    header, first = _header(path, octets)
    metadata = header.pop(_METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(text, str) for text in metadata.values()):
        raise BundleError(f"{path}: the metadata of its header is not text; save the file again")
    data = memoryview(octets)[first:]
    places = {name: _Place.of(path, name, described) for name, described in header.items()}
    _check_cover(path, places, len(data))
    tensors = {name: place.read(path, name, data) for name, place in places.items()}
    return tensors, metadata


def _header(path: Path, octets: bytes) -> tuple[dict[str, Any], int]:
    """Read the header and say where the numbers begin."""
    if len(octets) < _LENGTH_BYTES:
        raise BundleError(f"{path}: {len(octets)} bytes are not a safetensors file; check the path")
    length = int.from_bytes(octets[:_LENGTH_BYTES], "little")
    # The first bytes of any other kind of file make a length beyond reason.
    if length > _LONGEST_HEADER:
        raise BundleError(
            f"{path}: not a safetensors file, or its header of {length} bytes is too large; check the path"
        )
    first = _LENGTH_BYTES + length
    text = octets[_LENGTH_BYTES:first]
    if text[:1] != b"{":
        raise BundleError(f"{path}: not a safetensors file (no JSON header); check the path")
    if len(octets) < first:
        raise BundleError(f"{path}: cut short within its header; copy the file again")
    try:
        header = json.loads(text.decode(), object_pairs_hook=_no_twins)
    except (ValueError, RecursionError):
        raise BundleError(f"{path}: its header is not valid JSON; copy the file again") from None
    return header, first


def _no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a name given twice: readers would differ on which one counts."""
    unique = dict(pairs)
    if len(unique) < len(pairs):
        raise ValueError("a name twice")
    return unique


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in the data a tensor lies, and as what."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    begin: int
    end: int

    @classmethod
    def of(cls, path: Path, name: str, described: Any) -> "_Place":
        match described:
            case {"dtype": code, "shape": [*shape], "data_offsets": [begin, end]}:
                counts = [begin, end, *shape]
            case _:
                raise BundleError(
                    f"{path}: tensor {name!r} lacks a dtype, shape or data_offsets; save the file again"
                )
        # type and not isinstance: true is no number of bytes.
        if not all(type(count) is int and count >= 0 for count in counts):
            raise BundleError(f"{path}: tensor {name!r} has a size that is no count; save the file again")
        if not isinstance(code, str) or code not in _DTYPES:
            raise BundleError(
                f"{path}: tensor {name!r} has dtype {code}, not known here; use {', '.join(_DTYPES)}"
            )
        return cls(_DTYPES[code], tuple(shape), begin, end)

    def read(self, path: Path, name: str, data: memoryview) -> NDArray[Any]:
        octets = data[self.begin : self.end]
        try:
            array = np.frombuffer(octets, dtype=self.dtype).reshape(self.shape)
        except (ValueError, OverflowError):  # more axes than numpy has, or an axis beyond 64 bits
            raise BundleError(f"{path}: tensor {name!r} has a shape beyond numpy; reshape it") from None
        # Numbers that are no 0 or 1 are undefined as bool.
        if self.dtype.kind == "b" and array.view(np.uint8).max(initial=0) > 1:
            raise BundleError(f"{path}: tensor {name!r} holds bytes that are not bool; save it again")
        return array.astype(self.dtype.newbyteorder("="), copy=True)


def _check_cover(path: Path, places: Mapping[str, _Place], size: int) -> None:
    """Hold the tensors to fill the data from end to end: no gap, no overlap, nothing behind."""
    reached = 0
    for name, place in sorted(places.items(), key=lambda item: (item[1].begin, item[1].end)):
        needed = math.prod(place.shape) * place.dtype.itemsize
        if place.end - place.begin != needed:
            raise BundleError(
                f"{path}: tensor {name!r} needs {needed} bytes, its offsets "
                f"{place.begin} to {place.end} do not fit; save the file again"
            )
        if place.begin != reached:
            kind = "overlaps the one before" if place.begin < reached else "leaves a gap before it"
            raise BundleError(f"{path}: tensor {name!r} {kind}; save the file again")
        reached = place.end
    if reached > size:
        raise BundleError(f"{path}: cut short, {size} of {reached} bytes of numbers; copy the file again")
    if reached < size:
        raise BundleError(f"{path}: {size - reached} bytes behind the last tensor; copy the file again")


# --- bundles ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Bundle:
    """A trained policy, whole: what it is, how it was trained, how it scored, its numbers.

    `manifest` holds four sections, each empty unless given: `settings` (of the network: enough to
    build it again), `features` (what it reads), `trained` (how), `scores` (how well).

    >>> import tempfile
    >>> bundle = Bundle("first", "dag_scheduling", "decima", {"settings": {"width": 16}}, {"w": np.ones(2)})
    >>> folder = save_bundle(Path(tempfile.mkdtemp()) / "first", bundle)
    >>> again = load_bundle(folder)
    >>> again.kind, again.manifest["settings"], again.tensors
    ('decima', {'width': 16}, {'w': array([1., 1.])})
    """

    name: str
    wing: str
    kind: str
    manifest: dict[str, Any]
    tensors: Tensors


def save_bundle(folder: str | Path, bundle: Bundle) -> Path:
    """Write a bundle's two files into a folder, made if need be; give the folder back.

    Both files are complete on disk before either takes its place; a power cut between the two leaves
    a pair that does not match, which loading refuses. A number in the manifest that is not finite is
    written as null, as in a run folder.
    """
    folder = _folder_of(folder)
    taken = [key for key in bundle.manifest if key in _RESERVED]
    if taken:
        raise BundleError(f"{folder}: the manifest may not set {taken[0]!r}, the bundle does; leave it out")
    _refuse_non_finite(folder, bundle.tensors)
    identity = {key: getattr(bundle, key) for key in _IDENTITY}
    sections = {section: {} for section in _SECTIONS} | bundle.manifest
    content = _as_json_values(folder, {"format": _FORMAT, **identity, **sections})
    metadata = {**identity, "manifest_sha256": _digest_of_manifest(content)}
    tensors = _encode(folder / _TENSORS_FILE, bundle.tensors, metadata)
    content["sha256"] = hashlib.sha256(tensors).hexdigest()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BundleError(f"{folder}: cannot make the folder: {error.strerror}; choose another") from None
    with _replacing(folder / _MANIFEST_FILE) as manifest_part, _replacing(folder / _TENSORS_FILE) as part:
        _write(part, tensors)
        _write(manifest_part, (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode())
    return folder


def load_bundle(path: str | Path) -> Bundle:
    """Read a bundle from its folder (or the path of one of its files), refusing any that was changed."""
    folder = _folder_of(path)
    content = _read_manifest(folder / _MANIFEST_FILE)
    tensors_path = folder / _TENSORS_FILE
    octets = _read(tensors_path)
    if hashlib.sha256(octets).hexdigest() != content.pop("sha256"):
        raise BundleError(
            f"{tensors_path}: not the file its manifest describes (sha256 differs); copy the bundle again"
        )
    tensors, metadata = _decode(tensors_path, octets)
    if metadata.get("manifest_sha256") != _digest_of_manifest(content):
        raise BundleError(
            f"{folder / _MANIFEST_FILE}: changed after it was saved; copy the bundle again or save it anew"
        )
    _refuse_non_finite(folder, tensors)
    sections = {key: value for key, value in content.items() if key not in _RESERVED}
    return Bundle(**{key: content[key] for key in _IDENTITY}, manifest=sections, tensors=tensors)


def _folder_of(path: str | Path) -> Path:
    path = Path(path)
    return path.parent if path.name in (_TENSORS_FILE, _MANIFEST_FILE) else path


def _read_manifest(path: Path) -> dict[str, Any]:
    octets = _read(path)
    try:
        content = json.loads(octets.decode(), object_pairs_hook=_no_twins)
    except (ValueError, RecursionError):
        raise BundleError(f"{path}: not valid JSON; copy the bundle again") from None
    if not isinstance(content, dict) or "format" not in content:
        raise BundleError(f"{path}: not the manifest of a bundle (no format in it); check the path")
    if content["format"] != _FORMAT:
        raise BundleError(
            f"{path}: bundle format {content['format']!r}, this trimtab reads {_FORMAT}; "
            "upgrade trimtab or train again"
        )
    for key in (*_IDENTITY, "sha256"):
        if not isinstance(content.get(key), str):
            raise BundleError(f"{path}: no {key} in the manifest; copy the bundle again")
    return content


def _refuse_non_finite(folder: Path, tensors: Mapping[str, ArrayLike]) -> None:
    for name, tensor in tensors.items():
        array = np.asarray(tensor)
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise BundleError(
                f"{folder}: tensor {name!r} holds numbers that are not finite; use an earlier checkpoint"
            )


def _as_json_values(folder: Path, content: Mapping[str, Any]) -> dict[str, Any]:
    """Bring a manifest to the very values that reading it back will give."""
    try:
        octets = json.dumps(content, default=_plain, ensure_ascii=False).encode()
        return json.loads(octets, parse_constant=lambda _: None)
    except (TypeError, ValueError) as error:
        raise BundleError(f"{folder}: the manifest does not fit JSON ({error}); use plain values") from None


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a value of type {type(value).__name__}")


def _digest_of_manifest(content: Mapping[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


# --- trees of parameters ------------------------------------------------------------------------


def flatten(tree: Any) -> Tensors:
    """Name every array of a tree of dicts and lists by the way to it.

    >>> tree = {"encoder": {"layers": [np.zeros(2), np.ones(3)]}, "scale": np.float32(2)}
    >>> list(flatten(tree))
    ['encoder/layers/0', 'encoder/layers/1', 'scale']
    """
    if not isinstance(tree, Mapping | list | tuple):
        raise BundleError(f"a tree of parameters is a dict or a list, not {type(tree).__name__}; wrap it")
    return dict(_leaves(tree, ()))


def unflatten(tensors: Mapping[str, Any]) -> Any:
    """Build the tree again; names that count 0, 1, 2, ... become a list.

    >>> unflatten({"layers/0": 1.0, "layers/1": 2.0, "head/bias": 3.0})
    {'layers': [1.0, 2.0], 'head': {'bias': 3.0}}
    """
    return _grow({tuple(name.split("/")): tensor for name, tensor in tensors.items()})


def _leaves(tree: Any, way: tuple[str, ...]) -> Iterator[tuple[str, NDArray[Any]]]:
    here = "/".join(way)
    if not isinstance(tree, Mapping | list | tuple):
        array = np.asarray(tree)
        if array.dtype.kind == "O":
            raise BundleError(f"parameter {here!r} is no array but {type(tree).__name__}; leave it out")
        yield here, array
        return
    if way and not tree:
        raise BundleError(f"parameter {here!r} is empty and would be lost; leave it out")
    branches: Iterable[tuple[Any, Any]] = (
        tree.items() if isinstance(tree, Mapping) else ((str(place), item) for place, item in enumerate(tree))
    )
    for step, branch in branches:
        if isinstance(tree, Mapping) and (not isinstance(step, str) or not step or "/" in step):
            raise BundleError(f"parameter {step!r} cannot be part of a path; name it in text without '/'")
        if isinstance(tree, Mapping) and step.isdecimal():
            raise BundleError(f"parameter {step!r} would come back as an item of a list; name it in letters")
        yield from _leaves(branch, (*way, step))


def _grow(leaves: Mapping[tuple[str, ...], Any]) -> Any:
    if () in leaves:
        if len(leaves) > 1:
            longer = next("/".join(way) for way in leaves if way)
            raise BundleError(f"a tensor cannot also hold the tensor {longer!r}; rename one of them")
        return leaves[()]
    branches: dict[str, dict[tuple[str, ...], Any]] = {}
    for way, leaf in leaves.items():
        branches.setdefault(way[0], {})[way[1:]] = leaf
    grown = {step: _grow(branch) for step, branch in branches.items()}
    numbers = [str(place) for place in range(len(grown))]
    return [grown[number] for number in numbers] if grown and grown.keys() == set(numbers) else grown


# --- bytes --------------------------------------------------------------------------------------


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise BundleError(f"{path}: no such file; check the path") from None
    except OSError as error:
        raise BundleError(f"{path}: cannot be read: {error.strerror}; check the path") from None


def _write(part: Path, octets: bytes) -> None:
    with part.open("wb") as file:
        file.write(octets)
        file.flush()
        # On disk before it replaces anything: a power cut leaves the old file, not an empty one.
        os.fsync(file.fileno())


@contextmanager
def _replacing(target: Path) -> Iterator[Path]:
    """Offer a part file, which takes the target's place once all went well."""
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        yield part
        part.replace(target)
    except OSError as error:
        raise BundleError(f"{target}: cannot be written: {error.strerror}; check folder and space") from None
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
