"""Writes the reference of the API's fields from the CustomResourceDefinitions."""

from collections.abc import Iterator, Mapping, Sequence
from textwrap import fill
from typing import Any

import yaml

from docsite.text import cell, code, table

Schema = Mapping[str, Any]

_HEAD = """# Fields of the API

All fields of the API group `gputopo.io/v1alpha1`, with the limits that the API server checks.
[API](api.md) explains them with examples; `kubectl explain gpujob.spec` shows them in a terminal.
This page is generated from `crds/` by `tools/docs generate`.
"""


def fields_page(definitions: Sequence[str]) -> str:
    """Return the page for the texts of these CustomResourceDefinitions."""
    sections = [_section(yaml.safe_load(text)) for text in definitions]
    return "\n".join([_HEAD, *sections])


def _section(definition: Schema) -> str:
    kind, version = definition["spec"]["names"]["kind"], definition["spec"]["versions"][0]
    schema = version["schema"]["openAPIV3Schema"]
    parts = [f"## {kind}\n\n{fill(schema['description'], 100)}\n"]
    for part in ("spec", "status"):
        rows = list(_rows(schema["properties"][part], part))
        parts.append(f"### {part} of a {kind}\n\n{table(('field', 'type', 'meaning'), rows)}")
    return "\n".join(parts)


def _rows(schema: Schema, path: str) -> Iterator[tuple[str, str, str]]:
    required = set(schema.get("required", ()))
    for name, each in schema.get("properties", {}).items():
        inner = f"{path}.{name}"
        yield code(inner), _type(each, required=name in required), cell(each.get("description", ""))
        yield from _rows(_items(each), f"{inner}{_suffix(each)}")


def _items(schema: Schema) -> Schema:
    """Return the schema of the values that a field contains, also inside lists and maps."""
    extra = schema.get("additionalProperties")
    inner = schema.get("items") or (extra if isinstance(extra, Mapping) else None)
    return schema if inner is None else _items(inner)


def _suffix(schema: Schema) -> str:
    return "[]" if schema.get("type") == "array" else ""


def _type(schema: Schema, *, required: bool) -> str:
    """Return type, limits and default of a field.

    >>> _type({"type": "integer", "minimum": 1, "maximum": 16}, required=True)
    'integer, 1 to 16, required'
    """
    parts = [_type_name(schema)]
    if "enum" in schema:
        parts = [", ".join(code(str(each)) for each in schema["enum"])]
    parts += _limits(schema)
    if "default" in schema:
        parts.append(f"default {code(_json(schema['default']))}")
    if required:
        parts.append("required")
    return cell(", ".join(parts))


def _type_name(schema: Schema) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        return "quantity"
    name = str(schema.get("type", "any"))
    return f"list of {_type_name(schema['items'])}s" if name == "array" else name


def _limits(schema: Schema) -> list[str]:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return [f"{low} to {high}"]
    if low is not None:
        return [f"at least {low}"]
    return [] if high is None else [f"at most {high}"]


def _json(value: object) -> str:
    return yaml.safe_dump(value, default_flow_style=True).removesuffix("\n...\n").strip()
