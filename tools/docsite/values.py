"""Writes the reference of the chart's values from the comments in ``values.yaml``."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import yaml

from docsite.text import cell, code, table

_HEAD = """# Values of the chart

Every value of `charts/gputopo`, with its default. A schema checks the values; a misspelt key is an
error. [Installation](../start/install.md#values) names the values that most installations set. This
page is generated from `values.yaml` by `tools/docs generate`.
"""

_KEY = re.compile(r"^( *)([A-Za-z]\w*):")
_PAGE = re.compile(r"docs/([\w/-]+)\.md(#[\w-]+)?")
_COMMENT = re.compile(r"^ *# ?(.*)")


class Value(NamedTuple):
    """One value: its path in dots, its default, and the comment above it."""

    path: str
    default: object
    comment: str


def values_page(text: str) -> str:
    """Return the page for the text of ``values.yaml``."""
    rows = [
        (
            code(value.path),
            code(json.dumps(value.default)),
            _PAGE.sub(r"[\1](../\1.md\2)", cell(value.comment)),
        )
        for value in parse_values(text)
    ]
    return f"{_HEAD}\n{table(('value', 'default', 'meaning'), rows)}"


def parse_values(text: str) -> list[Value]:
    """Return all values that have no values inside, in the order of the file.

    The comment of a group is in front of the comment of its first value, and is the comment of a
    value that has none.
    """
    defaults = yaml.safe_load(text)
    comments = dict(_keys(text))
    groups = {path.rpartition(".")[0] for path in comments}
    found: list[Value] = []
    waiting = ""
    for path, comment in comments.items():
        joined = " ".join(filter(None, (waiting, comment)))
        waiting = joined if path in groups else ""
        if path not in groups:
            above = comments.get(path.rpartition(".")[0], "")
            found.append(Value(path, _at(defaults, path), joined or above))
    return found


def _keys(text: str) -> Iterator[tuple[str, str]]:
    """Yield the path of each key of a mapping, and the comment directly above it."""
    parents: list[tuple[int, str]] = []
    comment: list[str] = []
    for line in text.splitlines():
        if found := _COMMENT.match(line):
            comment.append(found[1])
            continue
        if found := _KEY.match(line):
            indent = len(found[1])
            parents = [each for each in parents if each[0] < indent] + [(indent, found[2])]
            yield ".".join(name for _, name in parents), " ".join(comment)
        comment = []


def _at(values: Mapping[str, Any], path: str) -> object:
    found: Any = values
    for name in path.split("."):
        found = found[name]
    return found
