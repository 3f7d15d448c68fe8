"""Compare objects of the cluster with the files from which they were made. Pure."""

from collections.abc import Iterator
from typing import Any, Final

_LONGEST: Final = 80


def differences(wanted: object, found: object, path: str = "") -> Iterator[str]:
    """Yield the paths at which an object of the cluster is not as in its file.

    The API server adds fields with defaults, so the object may have more fields than the file.
    """
    if isinstance(wanted, dict) and isinstance(found, dict):
        for key, value in wanted.items():
            if key in found:
                yield from differences(value, found[key], f"{path}.{key}")
            else:
                yield f"{path}.{key} is missing"
    elif isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        for number, (one, other) in enumerate(zip(wanted, found, strict=True)):
            yield from differences(one, other, f"{path}[{number}]")
    elif wanted != found:
        yield f"{path} is {_short(found)}, not {_short(wanted)}"


def undefined_fields(definition: dict[str, Any], found: dict[str, Any]) -> Iterator[str]:
    """Yield the fields of a CRD's schemas that the cluster has and the file has not.

    They show a definition of another version, which ``differences`` cannot show if it has only more
    fields.
    """
    for wanted, actual in zip(
        definition["spec"]["versions"], found["spec"]["versions"], strict=False
    ):
        known = set(_properties(wanted["schema"]["openAPIV3Schema"]))
        yield from sorted(set(_properties(actual["schema"]["openAPIV3Schema"])) - known)


def _properties(schema: object, path: str = "") -> Iterator[str]:
    if isinstance(schema, dict):
        for name, inner in schema.get("properties", {}).items():
            yield f"{path}.{name}"
            yield from _properties(inner, f"{path}.{name}")
        yield from _properties(schema.get("items"), f"{path}[]")
        yield from _properties(schema.get("additionalProperties"), f"{path}{{}}")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
