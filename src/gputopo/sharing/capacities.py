"""The load capacities of GPU models as text: ``NVIDIA A100-SXM4-80GB=50,NVIDIA H100 PCIe=60``."""

import re
from collections.abc import Iterator
from typing import Final

from gputopo.sharing.loadlaw import LoadCapacity
from gputopo.sharing.model import SharingError

MAX_CAPACITY_PERCENT: Final = 200
"""Highest sum of the occupancies, in percent of one GPU."""

_NUMBER: Final = re.compile(r"[0-9]{1,3}")


def parse_capacities(text: str) -> dict[str, LoadCapacity]:
    """Return the capacity of each GPU model; an empty text has none.

    The capacity of the DRAM is always 100 %.

    Raises:
        SharingError: an entry is not ``MODEL=PERCENT``, or a model occurs twice.
    """
    found: dict[str, LoadCapacity] = {}
    for model, capacity in map(_parse_entry, _entries(text)):
        if model in found:
            raise SharingError(f"load capacity: GPU model {model!r} occurs twice; remove one entry")
        found[model] = capacity
    return found


def _entries(text: str) -> Iterator[str]:
    return (entry.strip() for entry in text.split(",")) if text.strip() else iter(())


def _parse_entry(entry: str) -> tuple[str, LoadCapacity]:
    model, _, number = (part.strip() for part in entry.rpartition("="))
    percent = int(number) if _NUMBER.fullmatch(number) else 0
    if not model or not 1 <= percent <= MAX_CAPACITY_PERCENT:
        raise SharingError(
            f"load capacity: {entry!r}; must be MODEL=PERCENT with a whole percent in"
            f" 1..{MAX_CAPACITY_PERCENT}, such as NVIDIA A100-SXM4-80GB=50"
        )
    return model, LoadCapacity(percent / 100)
