"""Marks tests that take minutes: ``GPUTOPO_LONG=1`` runs them, and CI leaves them out."""

import os
from typing import Final

import pytest

LONG: Final = pytest.mark.skipif(
    "GPUTOPO_LONG" not in os.environ, reason="takes minutes; GPUTOPO_LONG=1 runs it"
)
