"""Format the rejected field and its value for error messages."""

from collections.abc import Collection, Iterable
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pydantic import ValidationError

_LONGEST: Final = 80


def quoted(value: object) -> str:
    """Return a value for an error message: quoted, on one line, at most 80 characters.

    >>> quoted("ring")
    "'ring'"
    """
    return _cut(repr(value))


def shortened(text: str, most: int) -> str:
    """Return a text with at most ``most`` characters; the end of a longer one becomes ``...``.

    >>> shortened("GPU 3 is unhealthy", 10)
    'GPU 3 i...'
    """
    return text if len(text) <= most else text[: most - 3] + "..."


def first_error(
    error: "ValidationError",
    *,
    prefix: str = "",
    fields: Collection[str] = (),
    skip: Collection[str] = (),
) -> str:
    """Return pydantic's first error as one line: ``field: value: what is wrong``.

    Args:
        error: the error that pydantic raised.
        prefix: path of the validated object, such as ``spec``. If it is empty, an error that is in
            no single field begins with ``value``.
        fields: names of the object's fields. The error suggests one of them for a misspelt field.
        skip: parts of pydantic's path that are not fields, such as members of a union.
    """
    detail = error.errors(include_url=False, include_context=False)[0]
    field = field_path((part for part in detail["loc"] if part not in skip), prefix=prefix)
    if detail["type"] == "missing":
        return f"{field}: is required"
    if detail["type"] == "extra_forbidden":
        near = get_close_matches(field, fields, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        return f"{field}: there is no such field{hint}"
    return f"{field or 'value'}: {quoted(detail['input'])}: {detail['msg']}"


def field_path(parts: Iterable[int | str], *, prefix: str = "") -> str:
    """Return the path of a field as users write it, at most 80 characters.

    >>> field_path(("links", 3, "kind"), prefix="spec")
    'spec.links[3].kind'
    """
    path = prefix
    for part in parts:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
    return _cut(path)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
