import json
import math
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from trimtab.core import bundle as module
from trimtab.core.bundle import (
    Bundle,
    load_bundle,
    load_tensors,
    save_bundle,
    save_tensors,
)
from trimtab.core.errors import BundleError

DTYPES = ("?", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8")
ARRAYS = st.sampled_from(DTYPES).flatmap(
    lambda dtype: arrays_of.arrays(dtype, arrays_of.array_shapes(min_dims=0, max_dims=4, min_side=0))
)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=8).filter(
    lambda name: name != "__metadata__"
)
TENSORS = st.dictionaries(NAMES, ARRAYS, max_size=5)


def same_bits(one: np.ndarray, other: np.ndarray) -> bool:
    """Equal to the last bit: NaN is NaN, and 0.0 is not -0.0."""
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


def all_same_bits(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    return one.keys() == other.keys() and all(same_bits(one[name], other[name]) for name in one)


def raw_file(path: Path, header: Any, data: bytes = b"") -> Path:
    """A safetensors file with whatever header, written by hand."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


def tensor(begin: int, end: int, shape: Any = (2,), dtype: Any = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


@pytest.fixture
def policy() -> Bundle:
    return Bundle(
        name="first",
        wing="dag_scheduling",
        kind="decima",
        manifest={
            "settings": {"width": 16, "slope": 0.2},
            "features": ["tasks left", "mean duration"],
            "trained": {"iterations": 3},
            "scores": {"mean_jct_s": 12.5},
        },
        tensors={"encoder/weight": np.arange(6, dtype=np.float32).reshape(2, 3), "steps": np.array(7)},
    )


# --- files of tensors ---------------------------------------------------------------------------


@given(tensors=TENSORS, metadata=st.dictionaries(NAMES, NAMES, max_size=3))
def test_every_bit_comes_back(tmp_path_factory, tensors, metadata) -> None:
    path = tmp_path_factory.mktemp("trip") / "tensors.safetensors"
    save_tensors(path, tensors, metadata)
    again, metadata_again = load_tensors(path)
    assert all_same_bits(tensors, again)
    assert metadata_again == metadata


@given(tensors=TENSORS)
def test_the_reference_implementation_reads_ours(tmp_path_factory, tensors) -> None:
    path = tmp_path_factory.mktemp("ours") / "tensors.safetensors"
    save_tensors(path, tensors, {"kind": "decima"})
    assert all_same_bits(safetensors.numpy.load_file(path), tensors)
    with safetensors.safe_open(path, framework="numpy") as file:
        assert file.metadata() == {"kind": "decima"}


@given(tensors=TENSORS)
def test_we_read_the_reference_implementation(tmp_path_factory, tensors) -> None:
    path = tmp_path_factory.mktemp("theirs") / "tensors.safetensors"
    safetensors.numpy.save_file(tensors, path, metadata={"kind": "decima"})
    again, metadata = load_tensors(path)
    assert all_same_bits(again, tensors)
    assert metadata == {"kind": "decima"}


def test_the_layout_is_the_published_one(tmp_path: Path) -> None:
    save_tensors(tmp_path / "one", {"b": np.array([1, 2], dtype="<u2"), "a": np.array([3], dtype="<u4")})
    octets = (tmp_path / "one").read_bytes()
    length = int.from_bytes(octets[:8], "little")
    assert length % 8 == 0
    assert json.loads(octets[8 : 8 + length]) == {
        "a": {"dtype": "U32", "shape": [1], "data_offsets": [0, 4]},
        "b": {"dtype": "U16", "shape": [2], "data_offsets": [4, 8]},
    }
    assert octets[8 + length :] == bytes([3, 0, 0, 0, 1, 0, 2, 0])


def test_a_header_may_list_tensors_in_any_order(tmp_path: Path) -> None:
    header = {"second": tensor(4, 8, [1]), "first": tensor(0, 4, [1])}
    path = raw_file(tmp_path / "one", header, np.array([1, 2], dtype="<f4").tobytes())
    assert load_tensors(path)[0] == {"second": [2], "first": [1]}


def test_layout_in_memory_does_not_matter(tmp_path: Path) -> None:
    grid = np.arange(6, dtype=np.float32).reshape(2, 3)
    save_tensors(tmp_path / "one", {"big": grid.astype(">f4"), "turned": grid.T, "every other": grid[:, ::2]})
    tensors, metadata = load_tensors(tmp_path / "one")
    assert metadata == {}
    assert same_bits(tensors["big"], grid)
    np.testing.assert_array_equal(tensors["turned"], grid.T)
    np.testing.assert_array_equal(tensors["every other"], grid[:, ::2])


def test_loaded_arrays_may_be_changed(tmp_path: Path) -> None:
    save_tensors(tmp_path / "one", {"a": np.zeros(2), "b": np.zeros(2)})
    tensors, _ = load_tensors(tmp_path / "one")
    tensors["a"] += 1
    assert tensors["b"].sum() == 0


@pytest.mark.parametrize(
    ("tensors", "metadata", "reason"),
    [
        ({"a": np.zeros(2, dtype=complex)}, {}, "tensor 'a' has dtype complex128"),
        ({"a": np.array(["text"])}, {}, "tensor 'a' has dtype <U4"),
        ({"a": np.array([None])}, {}, "tensor 'a' has dtype object"),
        ({"__metadata__": np.zeros(2)}, {}, "cannot be named '__metadata__'"),
        ({7: np.zeros(2)}, {}, "cannot be named 7"),
        ({"\ud800": np.zeros(2)}, {}, "not valid text; rename it"),
        ({}, {"iteration": 7}, "metadata is text only"),
    ],
)
def test_what_the_format_cannot_hold_is_refused(tmp_path: Path, tensors, metadata, reason: str) -> None:
    with pytest.raises(BundleError, match=reason):
        save_tensors(tmp_path / "one", tensors, metadata)
    assert list(tmp_path.iterdir()) == []


BAD_HEADERS = {
    "no JSON": (b'{"a": ', "not valid JSON"),
    "no text": (b'{"\xff": 1}', "not valid JSON"),
    "not an object": (b"[1]", "no JSON header"),
    "nested beyond reason": (b'{"a":' * 100_000, "not valid JSON"),
    "a name twice": (b'{"a": {"dtype": "F32", "dtype": "F64"}}', "not valid JSON"),
    "metadata that is no object": ({"__metadata__": 3}, "metadata of its header is not text"),
    "metadata that is no text": ({"__metadata__": {"a": 3}}, "metadata of its header is not text"),
    "an unknown dtype": ({"a": tensor(0, 8, dtype="BF16")}, "dtype BF16, not known here; use BOOL, U8"),
    "a dtype that is no text": ({"a": tensor(0, 8, dtype=["F32"])}, "dtype .*not known here"),
    "no dtype": ({"a": {"shape": [2], "data_offsets": [0, 8]}}, "'a' lacks a dtype, shape or data_offsets"),
    "no object": ({"a": [0, 8]}, "'a' lacks a dtype, shape or data_offsets"),
    "a shape that is no list": ({"a": tensor(0, 8, shape={})}, "'a' lacks a dtype, shape or data_offsets"),
    "one offset": ({"a": {**tensor(0, 8), "data_offsets": [0]}}, "'a' lacks a dtype, shape or data_offsets"),
    "a negative side": ({"a": tensor(0, 8, shape=[-2])}, "'a' has a size that is no count"),
    "a side in text": ({"a": tensor(0, 8, shape=["2"])}, "'a' has a size that is no count"),
    "a fractional side": ({"a": tensor(0, 8, shape=[2.0])}, "'a' has a size that is no count"),
    "a true side": ({"a": tensor(0, 4, shape=[True])}, "'a' has a size that is no count"),
    "a side beyond 64 bits": (
        {"a": tensor(0, 0, shape=[0, 2**70]), "b": tensor(0, 8)},
        "a shape beyond numpy",
    ),
    "too many sides": ({"a": tensor(0, 8, shape=[2] + [1] * 70)}, "a shape beyond numpy"),
    "offsets too close": ({"a": tensor(0, 4), "b": tensor(4, 8)}, "'a' needs 8 bytes, its offsets 0 to 4"),
    "offsets backwards": ({"a": tensor(8, 0)}, "'a' needs 8 bytes, its offsets 8 to 0"),
    "offsets out of range": ({"a": tensor(0, 16, shape=[4])}, "cut short, 8 of 16 bytes"),
    "an overlap": ({"a": tensor(0, 8), "b": tensor(4, 12)}, "'b' overlaps the one before"),
    "the same place twice": ({"a": tensor(0, 8), "b": tensor(0, 8)}, "'b' overlaps the one before"),
    "a gap": ({"a": tensor(4, 12)}, "'a' leaves a gap before it"),
    "bytes left over": ({"a": tensor(0, 4, shape=[1])}, "4 bytes behind the last tensor"),
    "a bool of 2": ({"a": tensor(0, 8, shape=[8], dtype="BOOL")}, "bytes that are not bool"),
}


@pytest.mark.parametrize(("header", "reason"), BAD_HEADERS.values(), ids=BAD_HEADERS.keys())
def test_a_bad_header_is_refused(tmp_path: Path, header: Any, reason: str) -> None:
    path = raw_file(tmp_path / "bad", header, data=bytes([2] * 8))
    with pytest.raises(BundleError, match=reason) as refusal:
        load_tensors(path)
    assert str(refusal.value).startswith(f"{path}: ")
    assert "\n" not in str(refusal.value)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="none: no such file; check the path"):
        load_tensors(tmp_path / "none")


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="cannot be read: Is a directory"):
        load_tensors(tmp_path)


def test_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    for number, octets in enumerate(
        [b"", b"short", b"\x80\x04\x95 pickled bytes", b"PK\x03\x04 an archive of arrays"]
    ):
        path = tmp_path / str(number)
        path.write_bytes(octets)
        with pytest.raises(BundleError, match="not a safetensors file"):
            load_tensors(path)


def test_a_header_too_large_is_refused_whatever_the_file_holds(tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes((100_000_001).to_bytes(8, "little") + b"{}")
    with pytest.raises(BundleError, match="header of 100000001 bytes is too large"):
        load_tensors(path)


def test_a_header_too_large_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LONGEST_HEADER", 100)
    save_tensors(tmp_path / "small", {"a": np.zeros(1)})
    with pytest.raises(BundleError, match="is too long; save fewer tensors"):
        save_tensors(tmp_path / "large", {"a" * 100: np.zeros(1)})


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    octets = save_tensors(tmp_path / "whole", {"a": np.arange(3), "b": np.ones(2)}).read_bytes()
    path = tmp_path / "cut"
    for length in range(len(octets)):
        path.write_bytes(octets[:length])
        with pytest.raises(BundleError, match=r"cut short|not a safetensors file"):
            load_tensors(path)


@given(
    octets=st.binary(max_size=200)
    | st.binary(max_size=100).map(lambda text: len(text).to_bytes(8, "little") + text)
)
def test_any_bytes_are_read_or_refused(tmp_path_factory, octets: bytes) -> None:
    path = tmp_path_factory.mktemp("any") / "file"
    path.write_bytes(octets)
    with suppress(BundleError):
        load_tensors(path)


# --- writing that fails -------------------------------------------------------------------------


def broken_disk(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """From now on, files of this name cannot be brought to disk."""
    whole = module._write

    def half(part: Path, octets: bytes) -> None:
        if name in part.name:
            part.write_bytes(octets[: len(octets) // 2])
            raise OSError(28, "No space left on device")
        whole(part, octets)

    monkeypatch.setattr(module, "_write", half)


def test_a_failed_write_leaves_the_old_tensors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save_tensors(tmp_path / "one", {"a": np.zeros(100)})
    broken_disk(monkeypatch, "one")
    with pytest.raises(BundleError, match="one: cannot be written: No space left on device"):
        save_tensors(path, {"a": np.ones(100)})
    assert load_tensors(path)[0]["a"].sum() == 0
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["policy.safetensors", "manifest.json"])
def test_a_failed_write_leaves_the_old_bundle(tmp_path: Path, monkeypatch, policy: Bundle, name: str) -> None:
    folder = save_bundle(tmp_path / "policy", policy)
    broken_disk(monkeypatch, name)
    with pytest.raises(BundleError, match="cannot be written: No space left on device"):
        save_bundle(folder, replace(policy, name="second"))
    assert load_bundle(folder).name == "first"
    assert len(list(folder.iterdir())) == 2


def test_who_is_reading_the_old_tensors_goes_on_reading_them(tmp_path: Path) -> None:
    path = save_tensors(tmp_path / "one", {"a": np.zeros(3)})
    before = path.read_bytes()
    with path.open("rb") as reader:
        save_tensors(path, {"a": np.ones(3)})
        assert reader.read() == before != path.read_bytes()


def test_an_interruption_leaves_the_old_tensors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save_tensors(tmp_path / "one", {"a": np.zeros(3)})

    def interrupted(part: Path, octets: bytes) -> None:
        part.write_bytes(octets)
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "_write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save_tensors(path, {"a": np.ones(3)})
    assert load_tensors(path)[0]["a"].sum() == 0
    assert list(tmp_path.iterdir()) == [path]


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path, policy: Bundle) -> None:
    with pytest.raises(BundleError, match="cannot be written: No such file"):
        save_tensors(tmp_path / "none" / "one", {})
    (tmp_path / "file").write_text("")
    with pytest.raises(BundleError, match="cannot be written: Not a directory"):
        save_tensors(tmp_path / "file" / "one", {})
    with pytest.raises(BundleError, match="cannot make the folder: Not a directory"):
        save_bundle(tmp_path / "file" / "policy", policy)


# --- bundles ------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", [".", "policy.safetensors", "manifest.json"])
def test_a_bundle_comes_back_from_its_folder_or_a_file_of_it(
    tmp_path: Path, policy: Bundle, file: str
) -> None:
    folder = save_bundle(tmp_path / "deep" / "policy", policy)
    assert sorted(path.name for path in folder.iterdir()) == ["manifest.json", "policy.safetensors"]
    again = load_bundle(folder / file)
    assert (again.name, again.wing, again.kind) == ("first", "dag_scheduling", "decima")
    assert again.manifest == policy.manifest
    assert all_same_bits(again.tensors, policy.tensors)


def test_saving_at_the_path_of_the_tensors_is_saving_in_its_folder(tmp_path: Path, policy: Bundle) -> None:
    assert save_bundle(tmp_path / "policy" / "policy.safetensors", policy) == tmp_path / "policy"


def test_the_manifest_is_for_people(tmp_path: Path, policy: Bundle) -> None:
    folder = save_bundle(tmp_path / "policy", replace(policy, name="Größe"))
    text = (folder / "manifest.json").read_text(encoding="utf-8")
    assert '"name": "Größe"' in text
    assert list(json.loads(text)) == [
        "format", "name", "wing", "kind", "settings", "features", "trained", "scores", "sha256",
    ]  # fmt: skip


def test_sections_left_out_are_empty(tmp_path: Path, policy: Bundle) -> None:
    save_bundle(tmp_path, replace(policy, manifest={"notes": "more"}))
    expected = {"settings": {}, "features": {}, "trained": {}, "scores": {}, "notes": "more"}
    assert load_bundle(tmp_path).manifest == expected


def test_the_manifest_takes_numpy_values_and_writes_null_for_what_is_not_finite(
    tmp_path: Path, policy: Bundle
) -> None:
    scores = {
        "jct": np.float32(0.5),
        "all": np.array([1, 2]),
        "pair": (1, 2),
        "none": math.nan,
        "rest": math.inf,
    }
    save_bundle(tmp_path, replace(policy, manifest={"scores": scores}))
    expected = {"jct": 0.5, "all": [1, 2], "pair": [1, 2], "none": None, "rest": None}
    assert load_bundle(tmp_path).manifest["scores"] == expected


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"manifest": {"sha256": "mine"}}, "may not set 'sha256'"),
        ({"manifest": {"settings": {"rule": {1, 2}}}}, r"does not fit JSON \(a value of type set\)"),
        ({"manifest": {"settings": {"text": "\ud800"}}}, "does not fit JSON"),
        ({"tensors": {"a": np.array([1.0, math.nan])}}, "'a' holds numbers that are not finite"),
        ({"tensors": {"a": np.array([1.0, -math.inf], dtype="f2")}}, "'a' holds numbers that are not finite"),
    ],
)
def test_a_bundle_that_could_not_be_loaded_is_not_saved(
    tmp_path: Path, policy: Bundle, change, reason: str
) -> None:
    with pytest.raises(BundleError, match=reason):
        save_bundle(tmp_path / "policy", replace(policy, **change))
    assert list(tmp_path.iterdir()) == []


def test_weights_that_are_not_finite_are_refused(tmp_path: Path, policy: Bundle, monkeypatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(module, "_refuse_non_finite", lambda *_: None)
        save_bundle(tmp_path, replace(policy, tensors={"a": np.array([math.inf])}))
    assert load_tensors(tmp_path / "policy.safetensors")[0]["a"] == math.inf
    with pytest.raises(BundleError, match="'a' holds numbers that are not finite; use an earlier checkpoint"):
        load_bundle(tmp_path)


def test_any_flipped_byte_of_the_tensors_is_refused(tmp_path: Path, policy: Bundle) -> None:
    folder = save_bundle(tmp_path / "policy", policy)
    path = folder / "policy.safetensors"
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(BundleError, match="not the file its manifest describes"):
            load_bundle(folder)


def test_any_flipped_byte_of_the_manifest_that_changes_its_meaning_is_refused(
    tmp_path: Path, policy: Bundle
) -> None:
    folder = save_bundle(tmp_path / "policy", policy)
    path = folder / "manifest.json"
    whole = path.read_bytes()
    meaning = json.loads(whole)
    refused = 0
    for place in range(len(whole)):
        flipped = whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]
        try:
            if json.loads(flipped) == meaning:
                continue
        except ValueError:
            pass
        path.write_bytes(flipped)
        with pytest.raises(BundleError):
            load_bundle(folder)
        refused += 1
    assert refused > len(whole) / 2


def test_tensors_of_another_bundle_are_refused(tmp_path: Path, policy: Bundle) -> None:
    save_bundle(tmp_path / "one", policy)
    save_bundle(tmp_path / "two", replace(policy, name="second"))
    (tmp_path / "one" / "policy.safetensors").replace(tmp_path / "two" / "policy.safetensors")
    with pytest.raises(BundleError, match="not the file its manifest describes"):
        load_bundle(tmp_path / "two")


@pytest.mark.parametrize(
    ("manifest", "reason"),
    [
        ("{", "manifest.json: not valid JSON"),
        ('{"format": 1, "format": 1}', "manifest.json: not valid JSON"),
        ("[1]", "not the manifest of a bundle"),
        ('{"name": "first"}', "not the manifest of a bundle"),
        ('{"format": 2}', "bundle format 2, this trimtab reads 1; upgrade trimtab or train again"),
        ('{"format": 1, "name": "first", "wing": 3}', "no wing in the manifest"),
        ('{"format": 1, "name": "a", "wing": "b", "kind": "c"}', "no sha256 in the manifest"),
    ],
)
def test_a_bad_manifest_is_refused(tmp_path: Path, policy: Bundle, manifest: str, reason: str) -> None:
    save_bundle(tmp_path, policy)
    (tmp_path / "manifest.json").write_text(manifest)
    with pytest.raises(BundleError, match=reason):
        load_bundle(tmp_path)


def test_a_folder_without_a_bundle_is_refused(tmp_path: Path, policy: Bundle) -> None:
    with pytest.raises(BundleError, match=r"manifest\.json: no such file"):
        load_bundle(tmp_path)
    save_bundle(tmp_path, policy)
    (tmp_path / "policy.safetensors").unlink()
    with pytest.raises(BundleError, match=r"policy\.safetensors: no such file"):
        load_bundle(tmp_path)
