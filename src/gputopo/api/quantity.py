"""Convert Kubernetes quantities, such as ``500m`` and ``32Gi``, to numbers and back."""

import re
from decimal import Decimal
from math import ceil
from typing import Final

from gputopo.errors import InvalidInputError
from gputopo.runtime.messages import quoted

_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
"""Powers of 2."""

_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
"""Powers of 10."""

_QUANTITY: Final = re.compile(
    r"([0-9]{1,18}(?:\.[0-9]{1,9})?)(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?[0-9]{1,2}))?"
)
_BYTES: Final = re.compile(r"([0-9]+)([kMGT]|[KMGT]i)?")


def parse_thousandths(quantity: object) -> int | None:
    """Return a Kubernetes quantity in thousandths, rounded up; None if it is not a quantity.

    >>> [parse_thousandths(quantity) for quantity in ("500m", "2", "1.5", "1Ki", "many")]
    [500, 2000, 1500, 1024000, None]
    """
    found = _QUANTITY.fullmatch(str(quantity))
    if found is None:
        return None
    number, suffix, exponent = Decimal(found[1]), found[2], found[3]
    if suffix in _BINARY:
        number *= 2 ** _BINARY[suffix]
    else:
        number = number.scaleb(int(exponent) if exponent else _DECIMAL.get(suffix, 0))
    return ceil(number * 1000)


def parse_bytes(quantity: str, field: str) -> int:
    """Return the bytes of an amount of memory.

    The notation is that of the fields of gputopo's API: a whole number with a suffix up to ``Ti``.

    >>> parse_bytes("32Gi", "memory")
    34359738368

    Args:
        quantity: text of at most a few thousand characters, else Python raises ValueError.
        field: name of the field, for the error.

    Raises:
        InvalidInputError: if the quantity is not a whole number of bytes, Ki, Mi, ...
    """
    match = _BYTES.fullmatch(quantity)
    if match is None:
        raise InvalidInputError(
            f"{field}: {quoted(quantity)} is not a whole number of bytes, Ki, Mi, Gi, ..."
        )
    number, suffix = int(match[1]), match[2]
    return (
        number << _BINARY[suffix] if suffix in _BINARY else number * 10 ** _DECIMAL.get(suffix, 0)
    )


def format_bytes(count: int) -> str:
    """Return a number of bytes in the largest binary unit that keeps the number whole.

    >>> format_bytes(34359738368)
    '32Gi'
    """
    for suffix in ("Ti", "Gi", "Mi", "Ki"):
        if count and count % (1 << _BINARY[suffix]) == 0:
            return f"{count >> _BINARY[suffix]}{suffix}"
    return str(count)
