"""How a message shows a value that somebody gave."""

from typing import Final

_LONGEST: Final = 80


def shown(value: object) -> str:
    """Return a value as an error names it: quoted, on one line, and not longer than one.

    >>> shown("ring")
    "'ring'"
    """
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
