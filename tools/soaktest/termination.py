"""Makes SIGTERM interrupt a tool like Ctrl-C, so that the tool restores what it has changed."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn


@contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """Raise KeyboardInterrupt in the main thread at SIGTERM, inside the block.

    Further SIGTERM signals are ignored, so that they do not interrupt the restoring.
    """

    def interrupt(_: int, __: FrameType | None) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
