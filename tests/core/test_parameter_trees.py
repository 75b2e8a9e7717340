"""Trees of parameters as flat tensors, and back."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of
from tests.core.test_bundle import same_bits

from trimtab.core.bundle import flatten, load_tensors, save_tensors, unflatten
from trimtab.core.errors import BundleError

STEPS = st.text("abcdef", min_size=1, max_size=3)
TREES = st.recursive(
    arrays_of.arrays("f4", arrays_of.array_shapes(min_dims=0, max_dims=2)),
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3) | st.dictionaries(STEPS, inner, min_size=1, max_size=3)
    ),
    max_leaves=8,
)


def same_tree(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return (
            isinstance(other, dict)
            and one.keys() == other.keys()
            and all(same_tree(one[k], other[k]) for k in one)
        )
    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other) and all(map(same_tree, one, other))
    return same_bits(one, other)


@given(tree=TREES.filter(lambda tree: isinstance(tree, dict | list)))
def test_trees_come_back(tree: Any) -> None:
    assert same_tree(unflatten(flatten(tree)), tree)


@given(tree=TREES.filter(lambda tree: isinstance(tree, dict | list)))
def test_trees_come_back_through_a_file(tmp_path_factory, tree: Any) -> None:
    path = save_tensors(tmp_path_factory.mktemp("tree") / "tree", flatten(tree))
    assert same_tree(unflatten(load_tensors(path)[0]), tree)


def test_a_list_of_more_than_ten_keeps_its_order() -> None:
    assert unflatten(dict(sorted(flatten({"a": list(range(12))}).items())))["a"] == list(range(12))


def test_an_empty_tree_stays_empty() -> None:
    assert unflatten(flatten({})) == {}


@pytest.mark.parametrize(
    ("tree", "reason"),
    [
        (np.zeros(2), "is a dict or a list, not ndarray"),
        ({"a": {"b": []}}, "'a/b' is empty and would be lost"),
        ({"a": [None]}, "'a/0' is no array but NoneType"),
        ({"a/b": np.zeros(2)}, "'a/b' cannot be part of a path"),
        ({"": np.zeros(2)}, "'' cannot be part of a path"),
        ({3: np.zeros(2)}, "3 cannot be part of a path"),
        ({"a": {"0": np.zeros(2)}}, "'0' would come back as an item of a list"),
    ],
)
def test_a_tree_that_would_not_come_back_is_refused(tree: Any, reason: str) -> None:
    with pytest.raises(BundleError, match=reason):
        flatten(tree)


def test_a_leaf_that_is_also_a_branch_is_refused() -> None:
    with pytest.raises(BundleError, match="cannot also hold the tensor 'b'"):
        unflatten({"a": 1.0, "a/b": 2.0})
