"""Read text from files and standard input, and write text to files."""

import sys
from pathlib import Path
from typing import Final

from gputopo.runtime.messages import quoted
from gputopo_cli.shared.errors import InputError

STANDARD_INPUT: Final = "-"
_MAX_BYTES: Final = 64 * 2**20


def read_text(path: str, field: str) -> str:
    """Return the UTF-8 text of a file of at most 64 MiB; ``-`` is standard input.

    Raises:
        InputError: if the file cannot be read, is too long or is not UTF-8.
    """
    try:
        content = _read(path)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise InputError(_describe(path, field, "read", error)) from None
    if len(content) > _MAX_BYTES:
        raise InputError(f"{field}: {quoted(path)} is longer than {_MAX_BYTES >> 20} MiB")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{field}: {quoted(path)} is not UTF-8 text: byte {error.start} is"
            f" 0x{content[error.start]:02x}"
        ) from None


def _read(path: str) -> bytes:
    if path == STANDARD_INPUT:
        return sys.stdin.buffer.read(_MAX_BYTES + 1)
    with Path(path).open("rb") as file:
        return file.read(_MAX_BYTES + 1)


def write_text(path: str, text: str) -> None:
    """Write a file, or raise ``InputError``."""
    try:
        Path(path).write_text(text, encoding="utf-8")
    except (OSError, ValueError) as error:
        raise InputError(_describe(path, "output-file", "written", error)) from None


def _describe(path: str, field: str, done: str, error: OSError | ValueError) -> str:
    reason = error.strerror if isinstance(error, OSError) else error
    return f"{field}: {quoted(path)} cannot be {done}: {reason}"
