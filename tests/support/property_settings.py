"""Number of examples of property tests; GPUTOPO_LONG sets a large number."""

import os
from collections import Counter
from typing import Final

from hypothesis import HealthCheck, settings

LONG: Final = bool(os.environ.get("GPUTOPO_LONG"))

fuzzed: Final = settings(
    max_examples=100_000 if LONG else 100,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],  # it fails on a machine that stalls
)
"""For tests whose inputs are cheap and many."""

TRIED: Final = Counter[str]()
"""Number of inputs of each kind in this run; pytest prints them at the end."""


def tried(kind: str) -> None:
    """Count one input."""
    TRIED[kind] += 1
