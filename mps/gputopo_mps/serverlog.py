"""Reads the log of an MPS server: which clients a fatal fault has ended, and which caused it.

NVIDIA documents the log by examples only, and their text differs between drivers. So this module
accepts several forms, and a fault without a cause is valid.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_MOST_BYTES: Final = 1 << 20
"""Most bytes of new text to read at a time; older text is skipped."""

_LINE: Final = re.compile(r"\[[^\]]*\]\s*(?:Volta MPS:\s*)?(.*)")
_FATAL: Final = re.compile(r"(?i)\bfatal\b.*\b(error|fault|exception)\b")
_CLIENT: Final = r"(?:client|process|pid)\b[^\w]*(?:pid\W+)?(\d+)"
_CAUSES: Final = (
    re.compile(rf"(?i)\b(?:fault|error|exception)\b.*\b(?:by|from|in)\b\s+{_CLIENT}"),
    re.compile(rf"(?i)\b{_CLIENT}.*\b(?:caused|triggered|encountered|faulted)\b"),
)
_INACTIVE: Final = re.compile(r"(?i)status of client \{(?:pid:\s*)?(\d+)\b[^}]*\} is INACTIVE")
_STICKY: Final = re.compile(r"(?i)clients have a sticky error set")


@dataclass(frozen=True, slots=True)
class LoggedFault:
    """A fatal fault in the log, or several that were logged at nearly the same time.

    Attributes:
        cause: PID of the client that caused it; None if the log does not name it.
        clients: PIDs of the clients that it ended.
        message: the first line.
    """

    cause: int | None
    clients: frozenset[int]
    message: str


def parse_fault(lines: Iterable[str]) -> LoggedFault | None:
    """Return the fault in these lines, or None if there is none."""
    message, cause, clients, is_list = "", None, set[int](), False
    for line in lines:
        found = _LINE.match(line)
        text = found[1].strip() if found else line.strip()
        named = next((match for each in _CAUSES if (match := each.search(text))), None)
        if named or _FATAL.search(text):
            message = message or text
            cause = cause or (int(named[1]) if named else None)
        if inactive := _INACTIVE.search(text):
            clients.add(int(inactive[1]))
        is_list = bool(_STICKY.search(text)) or (is_list and text.isdecimal())
        if is_list and text.isdecimal():
            clients.add(int(text))
    if not message:
        return None
    return LoggedFault(cause, frozenset(clients | ({cause} if cause else set())), message)


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
            with self._path.open("rb") as file:
                size = file.seek(0, 2)
                if size < self.offset:
                    self.offset = 0
                self.offset = max(self.offset, size - _MOST_BYTES)
                file.seek(self.offset)
                text = file.read(_MOST_BYTES)
        except OSError:
            return []
        complete = text[: text.rfind(b"\n") + 1]
        self.offset += len(complete)
        return complete.decode(errors="replace").splitlines()
