"""Parses and formats lists of CPUs as the kernel writes them, for example ``0-3,8``."""

import re
from collections.abc import Collection
from itertools import groupby
from typing import Final

from gputopo.errors import InvalidInputError

_RANGE: Final = re.compile(r"([0-9]{1,7})(?:-([0-9]{1,7}))?")

_MAX_CPUS: Final = 2**16
"""More than any kernel supports (8,192), so that a damaged file cannot fill the memory."""


class CpuListError(InvalidInputError):
    """A text is not a list of CPUs."""


def parse_cpu_list(text: str) -> frozenset[int]:
    """Return the CPUs in a list: 0, 1, 2, 3 and 8 for ``0-3,8``; none for an empty line.

    Raises:
        CpuListError: the text is not a list of CPUs.
    """
    found: set[int] = set()
    for part in text.strip().split(",") if text.strip() else ():
        ends = _RANGE.fullmatch(part)
        if ends is None:
            raise CpuListError(f"{part!r} is not a CPU or a range of CPUs")
        first, last = int(ends[1]), int(ends[2] or ends[1])
        if last < first or last >= _MAX_CPUS:
            raise CpuListError(f"{part!r} is not a range of CPUs below {_MAX_CPUS}")
        found.update(range(first, last + 1))
    return frozenset(found)


def format_cpu_list(cpus: Collection[int]) -> str:
    """Return the list of CPUs that ``taskset -c`` and the kernel accept: ``0-3,8``.

    Neighbours in a range have the same difference to their position in the sorted list. For
    example, 0, 1, 2, 3 and 8 minus 0, 1, 2, 3 and 4 is 0, 0, 0, 0 and 4.
    """
    ranges = groupby(enumerate(sorted(cpus)), key=lambda each: each[1] - each[0])
    runs = [[cpu for _, cpu in run] for _, run in ranges]
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs)
