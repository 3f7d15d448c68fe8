"""Makes the messages to gputopo's agent, as ``docs/reference/steps-format.md`` defines them."""

from __future__ import annotations

import os
from numbers import Integral
from typing import Final

MAX_COUNT: Final = 2**53 - 1  # the largest integer that every JSON parser reads exactly


def new_run() -> str:
    """Return a random ID for a new count of steps: 24 characters of ``[0-9a-f]``."""
    return os.urandom(12).hex()


def encode(run: str, steps: int, seconds: float, samples: int | None) -> bytes:
    """Return the message with a count of steps; it has at most 150 bytes."""
    optional = "" if samples is None else f',"samples":{samples}'
    return f'{{"v":1,"run":"{run}","steps":{steps},"seconds":{seconds:.6f}{optional}}}'.encode()


def as_count(value: object) -> int | None:
    """Return ``value`` as an ``int``, or None if it is not an integer from 0 to ``MAX_COUNT``.

    numpy's integers are accepted. Tensors and arrays are not: reading their value can block.
    """
    if not isinstance(value, (int, Integral)):
        return None
    count = int(value)
    return count if 0 <= count <= MAX_COUNT else None
