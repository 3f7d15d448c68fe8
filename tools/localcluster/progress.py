"""Report progress to the user: the current stage and the duration of each stage."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

_HEARTBEAT_SECONDS = 15.0


@dataclass(slots=True)
class Progress:
    """Writes to standard error, so that standard output stays free for results.

    Attributes:
        seconds: how long each finished stage took, in order.
    """

    seconds: dict[str, float] = field(default_factory=dict)

    def note(self, text: str) -> None:
        """Print one line."""
        print(f"    {text}", file=sys.stderr, flush=True)

    @contextmanager
    def stage(self, what: str, detail: Callable[[], str] = str) -> Iterator[None]:
        """Time the block; while it runs, report every 15 seconds with `detail()` added."""
        print(f"==> {what}", file=sys.stderr, flush=True)
        started = time.monotonic()
        finished = threading.Event()

        def heartbeat() -> None:
            while not finished.wait(_HEARTBEAT_SECONDS):
                elapsed = time.monotonic() - started
                self.note(" ".join(f"... {elapsed:.0f} s {detail()}".split()))

        reporter = threading.Thread(target=heartbeat, daemon=True)
        reporter.start()
        try:
            yield
        finally:
            finished.set()
            reporter.join()
        self.seconds[what] = time.monotonic() - started
        self.note(f"{self.seconds[what]:.1f} s")
