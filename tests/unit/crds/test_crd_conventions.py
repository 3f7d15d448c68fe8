"""Conventions of all schemas."""

from collections.abc import Iterator
from typing import Any

import pytest

from support.crd_schemas import crd, root_schema

PLURALS = ("gpuensembles", "gpujobs", "gpuprofiles", "gputopologies")
AS_KUBELET_WRITES = {".status.alignment.policy", ".status.alignment.scope"}
"""Fields with the words of a KubeletConfiguration, so that people can compare the two."""

every_kind = pytest.mark.parametrize("plural", PLURALS)

Schema = dict[str, Any]


def nodes(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from nodes(inner, f"{path}.{name}")
    if "items" in schema:
        yield from nodes(schema["items"], f"{path}[]")


@every_kind
def test_every_field_is_described(plural: str) -> None:
    for path, schema in nodes(root_schema(plural)):
        if path != ".metadata":  # the API server describes it
            assert schema.get("description", "").endswith("."), path


@every_kind
def test_every_list_is_bounded_and_says_how_it_merges(plural: str) -> None:
    for path, schema in nodes(root_schema(plural)):
        if schema.get("type") == "array":
            assert schema["maxItems"] >= 1, path
            assert schema["x-kubernetes-list-type"] in {"map", "set", "atomic"}, path
            if schema["x-kubernetes-list-type"] == "map":
                keys = schema["x-kubernetes-list-map-keys"]
                assert set(keys) <= set(schema["items"]["required"]), path


@every_kind
def test_every_text_is_bounded(plural: str) -> None:
    for path, schema in nodes(root_schema(plural)):
        if schema.get("type") == "string" and path not in {".apiVersion", ".kind"}:
            bounded = {"maxLength", "enum", "format"} & schema.keys()
            assert bounded, path


@every_kind
def test_there_are_no_floats_and_every_number_has_a_least(plural: str) -> None:
    for path, schema in nodes(root_schema(plural)):
        assert schema.get("type") != "number", path
        if schema.get("type") == "integer":
            assert "minimum" in schema, path
            assert schema["format"] in {"int32", "int64"}, path


@every_kind
def test_words_are_written_in_camel_case(plural: str) -> None:
    for path, schema in nodes(root_schema(plural)):
        for word in schema.get("enum", []) if path not in AS_KUBELET_WRITES else []:
            assert word[0].isupper(), (path, word)
            assert word.isalnum(), (path, word)


@every_kind
def test_age_is_the_last_column_and_status_a_subresource(plural: str) -> None:
    (version,) = crd(plural)["spec"]["versions"]
    assert version["additionalPrinterColumns"][-1]["name"] == "Age"
    assert version["subresources"] == {"status": {}}


@every_kind
def test_every_rule_says_what_is_wrong(plural: str) -> None:
    for path, schema in nodes(root_schema(plural)):
        for rule in schema.get("x-kubernetes-validations", []):
            assert {"message", "messageExpression"} & rule.keys(), path


@every_kind
def test_no_column_shows_the_first_of_many(plural: str) -> None:
    # Of a path with several results the API server prints the first.
    (version,) = crd(plural)["spec"]["versions"]
    for column in version["additionalPrinterColumns"]:
        assert "[*]" not in column["jsonPath"], column["name"]
