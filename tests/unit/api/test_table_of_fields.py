"""Each annotation and label that a part reads is in the table of who may write it."""

import re
from collections import Counter
from pathlib import Path

import pytest

from gputopo.api import names
from gputopo.api.fields import FIELDS, POD_REQUEST, Field, Place, Until, Writer

ROOT = Path(__file__).parents[3]
PARTS = ("src", "operator", "extender", "deviceplugin", "mps", "charts")
NOT_FIELDS = {names.API_VERSION, names.RESOURCE, "gputopo.io/gpu-share", "gputopo.io/operator"}
KEYS = {
    name: value
    for name, value in vars(names).items()
    if name.endswith(("_ANNOTATION", "_LABEL")) and isinstance(value, str)
}


def test_names_module_has_many_keys() -> None:
    assert len(KEYS) > 25


@pytest.mark.parametrize("name", KEYS)
def test_each_annotation_and_label_has_a_row(name: str) -> None:
    place = Place.LABEL if name.endswith("_LABEL") else Place.ANNOTATION
    assert any(each.name == KEYS[name] and each.place is place for each in FIELDS)


def test_each_field_has_one_row() -> None:
    rows = Counter((each.kind, each.place, each.name) for each in FIELDS)
    assert {row for row, count in rows.items() if count > 1} == set()


def keys_in(folder: str) -> dict[str, set[str]]:
    """Return the keys of gputopo in the files of a part, with the names of the files."""
    found: dict[str, set[str]] = {}
    for path in (ROOT / folder).rglob("*"):
        if path.suffix not in {".py", ".yaml", ".tpl"} or path.name == "names.py":
            continue
        for key in re.findall(r"gputopo\.io/[a-z][a-z0-9-]*", path.read_text()):
            found.setdefault(key, set()).add(path.name)
    return found


@pytest.mark.parametrize("folder", PARTS)
def test_a_part_names_no_key_that_is_not_in_the_table(folder: str) -> None:
    known = {*(each.name for each in FIELDS), *NOT_FIELDS}
    unknown = {key: files for key, files in keys_in(folder).items() if key not in known}
    assert unknown == {}


def test_keys_are_found_in_the_parts() -> None:
    assert "gputopo.io/facts" in keys_in("src")
    assert "gputopo.io/tuned" in keys_in("charts")


def test_what_a_pod_requests_does_not_change_after_its_binding() -> None:
    assert POD_REQUEST
    for each in POD_REQUEST:
        assert each.kind == "pods", each
        assert each.writer is Writer.USER, each
        assert each.until in {Until.CREATED, Until.BOUND}, each


def test_no_field_of_a_component_is_one_of_users_too() -> None:
    def writers(field: Field) -> set[Writer]:
        same = [each for each in FIELDS if (each.kind, each.name) == (field.kind, field.name)]
        return {each.writer for each in same}

    assert all(len(writers(each)) == 1 for each in FIELDS)
