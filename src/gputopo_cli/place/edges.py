"""Parse the edges of a custom pattern."""

import re
from typing import Final

from gputopo.patterns.model import MAX_GPUS_PER_POD, PatternEdge
from gputopo.runtime.messages import quoted
from gputopo_cli.shared.arguments import parse_integer
from gputopo_cli.shared.errors import InputError

_MAX_WEIGHT: Final = 1000
_EDGE: Final = re.compile(r"(?P<from>\d+)-(?P<to>\d+)(:(?P<weight>\d+))?", re.ASCII)


def parse_edges(text: str) -> tuple[PatternEdge, ...]:
    """Return the edges of a list such as ``0-1:2,1-2``: two ranks, and a weight if it is not 1."""
    return tuple(_parse_edge(part.strip()) for part in text.split(",")) if text.strip() else ()


def _parse_edge(text: str) -> PatternEdge:
    found = _EDGE.fullmatch(text)
    if found is None:
        raise InputError(f"edges: {quoted(text)} is not written as 0-1 or 0-1:2")
    return PatternEdge(
        a=parse_integer(found["from"], "edges", most=MAX_GPUS_PER_POD - 1),
        b=parse_integer(found["to"], "edges", most=MAX_GPUS_PER_POD - 1),
        weight=parse_integer(found["weight"] or "1", "edges", 1, _MAX_WEIGHT),
    )
