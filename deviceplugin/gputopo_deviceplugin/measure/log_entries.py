"""Parses the entries of container logs, and finds counts of steps in them. No I/O.

The container runtime writes one entry per line, in the format of CRI: ``2026-01-01T00:00:00.5Z
stdout F text``. After an entry with the tag ``P``, the text continues in the next entry; with
``F``, it ends.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Final, NamedTuple

from gputopo.throughput.message import MAX_LINE_BYTES, parse_log_line

_MAX_ENTRY_BYTES: Final = 2 * MAX_LINE_BYTES
"""Most bytes of an entry that are parsed. Time, stream and tag have less than 100 bytes."""

_PARTIAL: Final = b"P"


class StepEntry(NamedTuple):
    """A count of steps, and the Unix time at which it was logged."""

    steps: int
    seconds: float


class LogEntryParser:
    """Parses one log in pieces of any size. Its memory is bounded, and its time is linear."""

    def __init__(self) -> None:
        self._entry = b""  # the begin of an entry that is not complete yet
        self._is_torn = False
        self._continues = False

    def skip(self) -> None:
        """Ignore the rest of the current entry, because the next bytes of the log are skipped."""
        self._entry, self._is_torn, self._continues = b"", True, False

    def feed(self, data: bytes) -> Iterator[StepEntry]:
        """Yield the counts of steps in the log entries that ``data`` completes."""
        *lines, rest = data.split(b"\n")
        for line in lines:
            entry, self._entry = (self._entry + line)[:_MAX_ENTRY_BYTES], b""
            torn, self._is_torn = self._is_torn, False
            if not torn and (found := self._parse(entry)) is not None:
                yield found
        self._entry = (self._entry + rest)[:_MAX_ENTRY_BYTES]

    def _parse(self, entry: bytes) -> StepEntry | None:
        time, _, rest = entry.partition(b" ")
        _, _, rest = rest.partition(b" ")
        tag, _, text = rest.partition(b" ")
        continues, self._continues = self._continues, tag == _PARTIAL
        if continues:  # not the begin of a line of the program
            return None
        steps, seconds = parse_log_line(text), _unix_time(time)
        return None if steps is None or seconds is None else StepEntry(steps, seconds)


def _unix_time(text: bytes) -> float | None:
    try:
        return datetime.fromisoformat(text.decode()).timestamp()
    except ValueError:
        return None
