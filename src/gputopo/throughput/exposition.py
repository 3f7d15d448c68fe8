"""Parse one counter in the text that a Prometheus endpoint returns.

The format is Prometheus' text format 0.0.4; the lines of OpenMetrics 1.0 have the same structure.
"""

import re
from itertools import islice
from typing import Final

from gputopo.errors import InvalidInputError
from gputopo.runtime.messages import quoted
from gputopo.throughput.message import MAX_COUNT

MAX_EXPOSITION_BYTES: Final = 2**20
"""Maximum size of the text."""

_MAX_NUMBER_BYTES: Final = 64
_MAX_LABEL_SETS: Final = 1024

# Labels and value after the name. Possessive quantifiers (`*+`) never backtrack, so that the time
# is linear, and a line with a million quotation marks needs no memory.
_REST: Final = rb"""(?:\{(?:[^"}\n]++|"(?:[^"\\\n]++|\\.)*+")*+\})?[ \t]*+(?<=[} \t])(\S++)"""


class StepMetricError(InvalidInputError):
    """A counter of steps cannot be parsed; the error names the metric, the value and the rule."""


def parse_metric(text: bytes, name: str) -> int:
    """Return the number of steps in the metric ``name``, rounded down.

    If the metric has several label sets, the result is the maximum. In synchronous training all
    ranks count the same steps, so the sum over a label ``rank`` would depend on the number of
    ranks.

    Raises:
        StepMetricError: if the text is too large, the metric is missing or has more than 1,024
            label sets, or one of the values is not a valid count.
    """
    if len(text) > MAX_EXPOSITION_BYTES:
        raise StepMetricError(
            f"metric {name}: the endpoint returned {len(text)} bytes; at most"
            f" {MAX_EXPOSITION_BYTES} are allowed"
        )
    found = re.finditer(rb"^" + re.escape(name.encode()) + _REST, text, re.MULTILINE)
    values = [match[1] for match in islice(found, _MAX_LABEL_SETS + 1)]
    if not values:
        raise StepMetricError(f"metric {name}: not found; check the name and the endpoint")
    if len(values) > _MAX_LABEL_SETS:
        raise StepMetricError(f"metric {name}: more than {_MAX_LABEL_SETS} label sets")
    return max(_steps(name, value) for value in values)


def _steps(name: str, value: bytes) -> int:
    try:
        steps = float(value) if len(value) <= _MAX_NUMBER_BYTES else -1.0
    except ValueError:
        steps = -1.0
    if not 0 <= steps <= MAX_COUNT:  # also rejects NaN
        raise StepMetricError(
            f"metric {name}: {quoted(value)}; must be a number from 0 to {MAX_COUNT}"
        )
    return int(steps)
