"""A merge patch contains the difference of two objects, and nothing else."""

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gputopo_kube.merge_patch import merge_patch
from support.api.rest import merge

NAMES = st.sampled_from("abc")
VALUES = st.integers(0, 2) | st.lists(st.integers(0, 2), max_size=2)
OBJECTS = st.recursive(
    st.dictionaries(NAMES, VALUES, max_size=3),
    lambda inner: st.dictionaries(NAMES, VALUES | inner, max_size=3),
    max_leaves=8,
)


@given(before=OBJECTS, after=OBJECTS)
def test_patch_changes_one_object_into_the_other(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    patched = copy.deepcopy(before)
    merge(patched, merge_patch(before, after))
    assert patched == after


@given(document=OBJECTS)
def test_patch_of_equal_objects_is_empty(document: dict[str, Any]) -> None:
    assert merge_patch(document, copy.deepcopy(document)) == {}


def test_fields_that_stay_equal_are_not_in_the_patch() -> None:
    before = {"samples": [1, 2], "facts": {"gpuModel": "A100", "links": []}, "summary": "Sensitive"}
    after = {"samples": [1, 2], "facts": {"gpuModel": "H100", "links": []}}
    assert merge_patch(before, after) == {"summary": None, "facts": {"gpuModel": "H100"}}
