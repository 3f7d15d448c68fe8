"""How long tests look for counterexamples: a short while, or very long when asked to."""

import os
from collections import Counter
from typing import Final

from hypothesis import settings

LONG: Final = bool(os.environ.get("GPUTOPO_LONG"))

fuzzed: Final = settings(max_examples=100_000 if LONG else 100, deadline=None)
"""For tests whose inputs are cheap and many."""

TRIED: Final = Counter[str]()
"""How many inputs of each kind were tried in this run; pytest tells at the end."""


def tried(kind: str) -> None:
    """Count one input."""
    TRIED[kind] += 1
