"""How long tests look for counterexamples: a short while, or very long when asked to."""

import os
from typing import Final

from hypothesis import settings

LONG: Final = bool(os.environ.get("GPUTOPO_LONG"))

fuzzed: Final = settings(max_examples=100_000 if LONG else 100, deadline=None)
"""For tests whose inputs are cheap and many."""
