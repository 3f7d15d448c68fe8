"""Edges of a custom pattern as they stand on the command line."""

import re
from typing import Final

from gputopo.patterns.model import MAX_GPUS_PER_POD, PatternEdge
from gputopo.runtime.messages import quoted
from gputopo_cli.shared.errors import InputError
from gputopo_cli.shared.words import whole_number

_MAX_WEIGHT: Final = 1000
_EDGE: Final = re.compile(r"(?P<from>\d+)-(?P<to>\d+)(:(?P<weight>\d+))?", re.ASCII)


def edge_list(text: str) -> tuple[PatternEdge, ...]:
    """Return the edges of a list such as ``0-1:2,1-2``: ranks, and a weight where it is not 1.

    Raises:
        InputError: on anything else.
    """
    return tuple(_edge(part.strip()) for part in text.split(",")) if text.strip() else ()


def _edge(text: str) -> PatternEdge:
    found = _EDGE.fullmatch(text)
    if found is None:
        raise InputError(f"edges: {quoted(text)} is not written as 0-1 or 0-1:2")
    return PatternEdge(
        a=whole_number(found["from"], "edges", most=MAX_GPUS_PER_POD - 1),
        b=whole_number(found["to"], "edges", most=MAX_GPUS_PER_POD - 1),
        weight=whole_number(found["weight"] or "1", "edges", 1, _MAX_WEIGHT),
    )
