"""Reads the log of an MPS server: which clients a fatal fault has ended, and which caused it.

NVIDIA documents the log by examples only, and their text differs between drivers. So this module
accepts several forms, and a fault without a cause is valid. The form of driver 580 was seen on an
H100 (``tests/unit/mps/server-580.log``).
"""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from gputopo_mps.files import open_regular

_MOST_BYTES: Final = 1 << 20
"""Most bytes of new text to read at a time; older text is skipped. A longer log is emptied."""

_LINE: Final = re.compile(r"\[([\d-]+ [\d:.]+)?[^\]]*\]\s*(?:Volta MPS:\s*)?(.*)")
_FATAL: Final = re.compile(r"(?i)\bfatal\b.*\b(error|fault|exception)\b")
_CLIENT: Final = r"(?:client|process|pid)\b[^\w]*(?:pid\W+)?(\d+)"
_CAUSES: Final = (
    re.compile(rf"(?i)\b(?:fault|error|exception)\b.*\b(?:by|from|in)\b\s+{_CLIENT}"),
    re.compile(rf"(?i)\b{_CLIENT}.*\b(?:caused|triggered|encountered|faulted)\b"),
)
_HIT: Final = (
    re.compile(r"(?i)status of client \{(?:pid:\s*)?(\d+)\b[^}]*\} is INACTIVE"),
    re.compile(r"(?i)client \{pid: (\d+)\b[^}]*\}.* to be torn down"),
)
_STICKY: Final = re.compile(r"(?i)have a sticky error set")
_EXIT: Final = re.compile(r"(?i)client \{pid: \d+\b[^}]*\} exiting")
_EXIT_SECONDS: Final = 1.0
"""The fault of a killed client follows its exit in 0.14 s (H100, driver 580)."""


@dataclass(frozen=True, slots=True)
class LoggedFault:
    """A fatal fault in the log, or several that were logged at nearly the same time.

    Attributes:
        cause: PID of the client that caused it; None if the log does not name it, or if another
            client has ended just before. A client that is killed while it works on the GPU can
            cause a fault in another client, and the log names that one.
        clients: PIDs of the clients that it ended.
        message: the first line.
    """

    cause: int | None
    clients: frozenset[int]
    message: str


def parse_fault(lines: Iterable[str]) -> LoggedFault | None:
    """Return the fault in these lines, or None if there is none."""
    entries = [_entry(line) for line in lines]
    first = next((i for i, entry in enumerate(entries) if _is_fault(entry.text)), None)
    if first is None:
        return None
    causes = [cause for entry in entries[first:] if (cause := _cause(entry.text)) is not None]
    clients = {*_clients(entry.text for entry in entries), *causes[:1]}
    certain = causes and not _ended_before(entries[first], entries[:first])
    return LoggedFault(causes[0] if certain else None, frozenset(clients), entries[first].text)


class _Entry(NamedTuple):
    """One line: its time in seconds since 1970, None if it has none, and its text."""

    at: float | None
    text: str


def _entry(line: str) -> _Entry:
    found = _LINE.match(line)
    if not found:
        return _Entry(None, line.strip())
    try:
        at = datetime.fromisoformat(found[1] or "").replace(tzinfo=UTC).timestamp()
    except ValueError:
        at = None
    return _Entry(at, found[2].strip())


def _cause(text: str) -> int | None:
    named = next((match for each in _CAUSES if (match := each.search(text))), None)
    return int(named[1]) if named else None


def _is_fault(text: str) -> bool:
    return bool(_FATAL.search(text)) or _cause(text) is not None


def _clients(texts: Iterable[str]) -> Iterator[int]:
    """Yield the clients that a fault has ended: named in a line, or one in each line of a list."""
    in_list = False
    for text in texts:
        yield from (int(found[1]) for each in _HIT if (found := each.search(text)))
        in_list = bool(_STICKY.search(text)) or (in_list and text.isdecimal())
        if in_list and text.isdecimal():
            yield int(text)


def _ended_before(fault: _Entry, former: Iterable[_Entry]) -> bool:
    """Return whether a client ended in the second before the fault."""
    ends = [entry.at for entry in former if entry.at is not None and _EXIT.search(entry.text)]
    return fault.at is not None and any(0 <= fault.at - at <= _EXIT_SECONDS for at in ends)


class ServerLog:
    """Reads what was added to a log file.

    Attributes:
        offset: bytes that were read so far.
    """

    def __init__(self, path: Path, offset: int = 0) -> None:
        self._path = path
        self.offset = offset

    def read(self) -> list[str]:
        """Return the complete lines that were added since the last call."""
        try:
            with open_regular(self._path) as descriptor:
                size = os.fstat(descriptor).st_size
                if size < self.offset:
                    self.offset = 0
                self.offset = max(self.offset, size - _MOST_BYTES)
                text = os.pread(descriptor, _MOST_BYTES, self.offset)
        except OSError:
            return []
        complete = text[: text.rfind(b"\n") + 1]
        self.offset += len(complete)
        if limit_size(self._path):
            self.offset = 0
        return complete.decode(errors="replace").splitlines()


def limit_size(log: Path) -> bool:
    """Empty a log that has become too long; return whether it was.

    MPS never does. The daemon logs several lines for each command: 40 MB a day.
    """
    try:
        with open_regular(log, os.O_WRONLY) as descriptor:
            if os.fstat(descriptor).st_size <= _MOST_BYTES:
                return False
            os.ftruncate(descriptor, 0)
    except OSError:
        return False
    return True
