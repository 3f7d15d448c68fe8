"""Parses what a container sends: datagrams of the ``gputopo-steps`` protocol, and log lines."""

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from gputopo.errors import InvalidInputError
from gputopo.runtime.messages import quoted

MAX_DATAGRAM_BYTES: Final = 512
"""Maximum size of a message."""

MAX_COUNT: Final = 2**53 - 1
"""Maximum of a counter: the largest integer that every JSON implementation represents exactly."""

MAX_SECONDS: Final = 1e10
"""Maximum of the sender's clock, about 300 years; a double still resolves microseconds."""

MAX_LINE_BYTES: Final = 1024
"""Only this part of a log line is parsed."""

_RUN: Final = re.compile(r"[A-Za-z0-9_-]{1,32}")
_COLOURS: Final = re.compile(rb"\x1b\[[0-9;]*m")
_LOGGED: Final = re.compile(rb"(?<![\w-])gputopo-steps ([0-9]{1,16})(?!\w|\.[0-9])")


class StepMessageError(InvalidInputError):
    """A datagram is not a valid message; the error names the field, the value and the rule."""


@dataclass(frozen=True, slots=True)
class StepMessage:
    """The count of steps of a training process at one time.

    Attributes:
        run: random ID of the process. A new ID means that the process has restarted.
        steps: optimizer steps since the start of the process.
        seconds: the sender's monotonic clock when it counted ``steps``.
        samples: training samples since the start; None if the sender does not count them.
    """

    run: str
    steps: int
    seconds: float
    samples: int | None = None


def parse_message(datagram: bytes) -> StepMessage:
    """Return the message in a datagram, for instance ``{"v":1,"run":"a","steps":7,"seconds":2.5}``.

    Unknown fields are ignored, so that senders of later releases can add fields.

    Raises:
        StepMessageError: the datagram is not a message of version 1.
    """
    document = _decoded(datagram)
    version, run = document.get("v"), document.get("run")
    if type(version) is not int or version != 1:  # True is equal to 1
        raise StepMessageError(f"v: {quoted(version)}; only version 1 is supported")
    if not isinstance(run, str) or not _RUN.fullmatch(run):
        raise StepMessageError(f"run: {quoted(run)}; must be 1 to 32 of the characters A-Za-z0-9_-")
    samples = document.get("samples")
    return StepMessage(
        run,
        _count("steps", document.get("steps")),
        _seconds(document.get("seconds")),
        None if samples is None else _count("samples", samples),
    )


def parse_log_line(line: bytes) -> int | None:
    """Return the steps in a log line such as ``epoch 3: gputopo-steps 1200, loss 0.25``.

    Only the first 1,024 bytes of the line are parsed, in linear time. Return None if these bytes
    contain no count of steps, if the count is above ``MAX_COUNT``, or if its digits may continue
    after these bytes.
    """
    start = _COLOURS.sub(b"", line[:MAX_LINE_BYTES])
    found = _LOGGED.search(start)
    if found is None or (found.end() == len(start) and len(line) > MAX_LINE_BYTES):
        return None
    steps = int(found[1])
    return steps if steps <= MAX_COUNT else None


def _decoded(datagram: bytes) -> dict[str, Any]:
    if len(datagram) > MAX_DATAGRAM_BYTES:
        raise StepMessageError(
            f"message: {len(datagram)} bytes; at most {MAX_DATAGRAM_BYTES} are allowed"
        )
    try:
        document = json.loads(datagram.decode())
    except (ValueError, RecursionError):  # also text that is not UTF-8, and deep nesting
        raise StepMessageError(f"message: {quoted(datagram)}; must be JSON in UTF-8") from None
    if not isinstance(document, dict):
        raise StepMessageError(f"message: {quoted(datagram)}; must be a JSON object")
    return document


def _count(field: str, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT:
        return value
    raise StepMessageError(f"{field}: {quoted(value)}; must be an integer from 0 to {MAX_COUNT}")


def _seconds(value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MAX_SECONDS:
        return float(value)  # NaN and infinity are not in the range
    raise StepMessageError(
        f"seconds: {quoted(value)}; must be a number from 0 to {MAX_SECONDS:.0f}"
    )
