"""Text from files and standard input, and into files."""

import sys
from pathlib import Path
from typing import Final

from gputopo.runtime.messages import quoted
from gputopo_cli.shared.errors import InputError

STANDARD_INPUT: Final = "-"
_MOST_BYTES: Final = 64 * 2**20


def read_text(path: str, field: str) -> str:
    """Return the text of a file, or of standard input where ``path`` is ``-``.

    Raises:
        InputError: on what cannot be read, is longer than 64 MiB or is no UTF-8 text.
    """
    try:
        content = _read(path)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise InputError(_cannot(path, field, "read", error)) from None
    if len(content) > _MOST_BYTES:
        raise InputError(f"{field}: {quoted(path)} is longer than {_MOST_BYTES >> 20} MiB")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{field}: {quoted(path)} is no text: byte {error.start} is"
            f" 0x{content[error.start]:02x}, not UTF-8"
        ) from None


def _read(path: str) -> bytes:
    if path == STANDARD_INPUT:
        return sys.stdin.buffer.read(_MOST_BYTES + 1)
    with Path(path).open("rb") as file:
        return file.read(_MOST_BYTES + 1)


def write_text(path: str, text: str) -> None:
    """Write a file.

    Raises:
        InputError: where it cannot be written.
    """
    try:
        Path(path).write_text(text, encoding="utf-8")
    except (OSError, ValueError) as error:
        raise InputError(_cannot(path, "output-file", "written", error)) from None


def _cannot(path: str, field: str, done: str, error: OSError | ValueError) -> str:
    reason = error.strerror if isinstance(error, OSError) else error
    return f"{field}: {quoted(path)} cannot be {done}: {reason}"
