"""Convert Kubernetes quantities of memory, such as ``32Gi``, to bytes and back."""

import re

from gputopo.topology.model import TopologyError

_SUFFIXES = {
    "": 1,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}
_QUANTITY = re.compile(r"(\d+)(" + "|".join(suffix for suffix in _SUFFIXES if suffix) + r")?")


def parse_bytes(quantity: str) -> int:
    """Return the bytes of a quantity.

    >>> parse_bytes("32Gi")
    34359738368

    Raises:
        TopologyError: if the quantity is not a whole number of bytes, Ki, Mi, ...
    """
    match = _QUANTITY.fullmatch(quantity)
    if match is None:
        raise TopologyError(f"memory: {quantity!r} is not a whole number of bytes, Ki, Mi, Gi, ...")
    return int(match[1]) * _SUFFIXES[match[2] or ""]


def format_bytes(count: int) -> str:
    """Return a number of bytes in the largest binary unit that keeps the number whole.

    >>> format_bytes(34359738368)
    '32Gi'
    """
    for suffix in ("Ti", "Gi", "Mi", "Ki"):
        if count and count % _SUFFIXES[suffix] == 0:
            return f"{count // _SUFFIXES[suffix]}{suffix}"
    return str(count)
