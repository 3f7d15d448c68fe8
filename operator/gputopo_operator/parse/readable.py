"""Parses many objects, so that one that cannot be parsed does not hide the others."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Final, TypeVar

from gputopo_kube.document import Document

Value = TypeVar("Value")

UNREADABLE: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""Errors of the parse of an object whose fields have other types or values than expected."""


def each_readable(parse: Callable[[Document], Value], raws: Iterable[Document]) -> Iterator[Value]:
    """Yield the parsed objects. Objects that cannot be parsed are left out.

    The reconciliation of the object itself reports the error.
    """
    for raw in raws:
        with suppress(*UNREADABLE):
            yield parse(raw)
