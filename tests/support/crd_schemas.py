"""Convert the schemas in ``crds/`` and those of the pydantic models to one common form.

The form is JSON Schema reduced to what both can say: types, properties, required, bounds, words
and defaults. What a CRD rejects by CEL as not yet supported is left out, and ``replicas`` is the 1
that its CEL rule demands.
"""

import copy
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from hypothesis import strategies as st
from pydantic import BaseModel

CRDS = Path(__file__).parents[2] / "crds"

Schema = dict[str, Any]

INT_OR_STRING = "int-or-string"
"""Type of a quantity in the common form: a number or a text."""

_NOT_YET = [{"rule": "false"}]
_TIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$"
_LARGEST = 2**31 - 1
_KEPT = (
    *("type", "enum", "pattern", "minimum", "maximum", "minLength", "maxLength", "maxItems"),
    *("minItems", "minProperties", "maxProperties", "default"),
)


@cache
def crd(plural: str) -> Schema:
    """Return a CustomResourceDefinition."""
    document: Schema = yaml.safe_load((CRDS / f"{plural}.gputopo.io.yaml").read_text())
    return document


def root_schema(plural: str) -> Schema:
    """Return the whole schema of a kind, as written."""
    (version,) = crd(plural)["spec"]["versions"]
    schema: Schema = version["schema"]["openAPIV3Schema"]
    return schema


def of_crd(plural: str, part: str) -> Schema:
    """Return ``spec`` or ``status`` of a kind in the common form."""
    return _from_crd(root_schema(plural)["properties"][part])


def of_model(model: type[BaseModel]) -> Schema:
    """Return what a model accepts in the common form."""
    document = model.model_json_schema(by_alias=True)
    return _from_model(document, document.get("$defs", {}))


def _from_crd(schema: Mapping[str, Any]) -> Schema:
    common = {key: schema[key] for key in _KEPT if key in schema}
    if schema.get("x-kubernetes-int-or-string"):
        common["type"] = INT_OR_STRING
    if any(rule["rule"] == "self == 1" for rule in schema.get("x-kubernetes-validations", [])):
        common["maximum"] = 1
    properties = {
        name: _from_crd(inner)
        for name, inner in schema.get("properties", {}).items()
        if not _is_to_come(inner)
    }
    if properties:
        common["properties"] = properties
        common["required"] = sorted(schema.get("required", []))
        common.pop("default", None)
    if "items" in schema:
        common["items"] = _from_crd(schema["items"])
    if "additionalProperties" in schema:
        common["values"] = _from_crd(schema["additionalProperties"])
    if "enum" in common:
        common["enum"] = sorted(common["enum"])
    return common


def _is_to_come(schema: Mapping[str, Any]) -> bool:
    rules = schema.get("x-kubernetes-validations", [])
    return [{"rule": rule["rule"]} for rule in rules] == _NOT_YET


def _from_model(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Schema:
    schema = _without_null(schema)
    if "anyOf" in schema and (quantity := _int_or_string(schema)):
        return quantity
    if "$ref" in schema:
        schema = {**definitions[schema["$ref"].rpartition("/")[2]], **_beside(schema)}
    common = {key: schema[key] for key in _KEPT if key in schema}
    if "exclusiveMaximum" in schema:
        common["maximum"] = schema["exclusiveMaximum"] - 1
    if "exclusiveMinimum" in schema:
        common["minimum"] = schema["exclusiveMinimum"] + 1
    if "properties" in schema:
        common["properties"] = {
            name: _from_model(inner, definitions) for name, inner in schema["properties"].items()
        }
        common["required"] = sorted(schema.get("required", []))
    if "items" in schema:
        common["items"] = _from_model(schema["items"], definitions)
    for values in schema.get("patternProperties", {}).values():
        common["values"] = _from_model(values, definitions)
    if "enum" in common:
        common["enum"] = sorted(common["enum"])
    # An absent list, object or optional value needs no default in a CRD.
    if common.get("default") is None or isinstance(common["default"], list | dict):
        common.pop("default", None)
    return common


def _int_or_string(schema: Mapping[str, Any]) -> Schema:
    """Return the common form of a choice between an integer and a text, else an empty object."""
    texts = [each for each in schema["anyOf"] if each.get("type") == "string"]
    others = [each for each in schema["anyOf"] if each.get("type") not in {"string", "null"}]
    if len(texts) != 1 or others != [{"type": "integer"}]:
        return {}
    kept = {key: texts[0][key] for key in _KEPT if key in texts[0]}
    return {**kept, "type": INT_OR_STRING}


def _without_null(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    choices = [each for each in schema.get("anyOf", []) if each.get("type") != "null"]
    return {**schema, **choices[0]} if choices else schema


def _beside(schema: Mapping[str, Any]) -> Schema:
    return {key: schema[key] for key in ("default",) if key in schema}


def instances(schema: Schema) -> st.SearchStrategy[Any]:
    """Draw values that the schema, in the common form, accepts."""
    match schema["type"]:
        case "boolean":
            return st.booleans()
        case "integer":
            return st.integers(schema["minimum"], schema.get("maximum", _LARGEST))
        case "string":
            return _texts(schema)
        case "int-or-string":
            return st.one_of(st.integers(0, _LARGEST), _texts(schema))
        case "array":
            least, most = schema.get("minItems", 0), min(schema["maxItems"], 3)
            return st.lists(instances(schema["items"]), min_size=least, max_size=most)
        case _:
            return _objects(schema)


def _objects(schema: Schema) -> st.SearchStrategy[Any]:
    if "values" in schema:
        keys = st.sampled_from(["app", "example.org/team"])
        return st.dictionaries(keys, instances(schema["values"]), min_size=schema["minProperties"])
    if "properties" not in schema:
        return st.just({"spec": {"containers": []}})
    properties = {name: instances(inner) for name, inner in schema["properties"].items()}
    required = {name: properties.pop(name) for name in schema["required"]}
    return st.fixed_dictionaries(required, optional=properties)


def _texts(schema: Schema) -> st.SearchStrategy[str]:
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    shortest, longest = schema.get("minLength", 0), schema.get("maxLength", 64)
    if "pattern" not in schema:
        return st.text(min_size=shortest, max_size=min(longest, shortest + 8))
    if schema["pattern"] == _TIME:  # of the format date-time, so the time must exist
        return st.datetimes().map(lambda time: f"{time.replace(microsecond=0).isoformat()}Z")
    drawn = st.from_regex(re.compile(schema["pattern"], re.ASCII), fullmatch=True)
    return drawn.filter(lambda text: shortest <= len(text) <= longest and "\n" not in text)


def broken(schema: Schema, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield copies of an accepted value with one error each, and a name of the error."""
    for wrong in _wrong_values(schema, value):
        yield f"{wrong!r:.60}", wrong
    if "properties" in schema:
        for name in schema["required"]:
            yield f"{name} is missing", {k: v for k, v in value.items() if k != name}
        for name in value:
            for what, wrong in broken(schema["properties"][name], value[name]):
                yield f"{name}: {what}", {**value, name: wrong}
    if "values" in schema:
        yield from _broken_entries(schema, value)
    if schema["type"] == "array" and value:
        yield from _broken_items(schema, value)


def _broken_items(schema: Schema, value: Any) -> Iterator[tuple[str, Any]]:
    for what, wrong in broken(schema["items"], value[0]):
        yield f"0: {what}", [wrong, *value[1:]]
    if schema["maxItems"] <= 128:
        yield "too many", copy.deepcopy(value[:1]) * (schema["maxItems"] + 1)


def _broken_entries(schema: Schema, value: Any) -> Iterator[tuple[str, Any]]:
    many = range(schema["maxProperties"] + 1)
    yield "no entry", {}
    yield "too many entries", {f"k{number}": "" for number in many}
    name = next(iter(value))
    for what, wrong in broken(schema["values"], value[name]):
        yield f"{name}: {what}", {**value, name: wrong}


def _wrong_values(schema: Schema, value: object) -> Iterator[object]:
    yield "No words" if not isinstance(value, str) else ["words"]
    if "enum" in schema:
        yield "NoSuchWord"
    if "minimum" in schema:
        yield schema["minimum"] - 1
    if "maximum" in schema:
        yield schema["maximum"] + 1
    if schema.get("minLength"):
        yield ""
    if "maxLength" in schema:
        yield "1" * (schema["maxLength"] + 1)
    if "pattern" in schema:
        yield "No Such/Thing"
