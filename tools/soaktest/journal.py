"""Counts and findings of a run, written to a log."""

import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from traceback import format_exception

from soaktest.reasons import kind_of
from soaktest.world import PodView


class Journal:
    """Counts, findings and the log of one run; for any number of threads."""

    def __init__(self, log: Path, *, append: bool = False) -> None:
        self.log = log
        self.counts: Counter[str] = Counter()
        self.findings: dict[str, list[str]] = {}
        self.began = time.monotonic()
        self._lock = threading.Lock()
        self._file = log.open("a" if append else "w", buffering=1)

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.began

    def note(self, text: str) -> None:
        """Write a line to the log alone."""
        stamp = datetime.now(UTC).strftime("%H:%M:%S.%f")[:-3]
        with self._lock:
            self._file.write(f"{stamp} {self.seconds:8.2f} {text}\n")

    def write(self, text: str) -> None:
        """Write a line to the log and to the terminal."""
        self.note(text)
        print(f"{self.seconds:7.1f} s  {text}", file=sys.stderr, flush=True)

    def count(self, what: str, number: int = 1) -> None:
        """Add to a count."""
        with self._lock:
            self.counts[what] += number

    def highest(self, what: str, number: int) -> None:
        """Keep the highest number as a count."""
        with self._lock:
            self.counts[what] = max(self.counts[what], number)

    def finding(self, kind: str, text: str) -> None:
        """Record an error; equal texts once."""
        with self._lock:
            known = self.findings.setdefault(kind, [])
            if text in known:
                return
            known.append(text)
        self.write(f"FINDING {kind}: {text}")

    def expect_none(self, kind: str) -> None:
        """Show a kind of errors in the table, also without errors."""
        with self._lock:
            self.findings.setdefault(kind, [])

    def count_rejection(self, pod: PodView) -> None:
        """Count a pod that kubelet rejected; without a reason it is a finding."""
        self.count("pods rejected by kubelet")
        leaving = " (being deleted already)" if pod.leaving else ""
        self.count(f"pods rejected by kubelet: {kind_of(pod.why)}{leaving}")
        if not pod.why:
            self.finding("pods failed without a reason", pod.name)

    def close(self) -> None:
        """Close the log."""
        self._file.close()


@contextmanager
def failures_of_threads(journal: Journal) -> Iterator[None]:
    """Record failures of checking threads as findings; otherwise they would look like success."""
    before = threading.excepthook
    threading.excepthook = lambda args: journal.finding(
        "the soak's own failures", "".join(format_exception(args.exc_value))
    )
    try:
        yield
    finally:
        threading.excepthook = before
