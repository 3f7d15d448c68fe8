"""Counts the steps of one process and decides when to send the count."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gputopo_steps.message import as_count, encode, new_run

if TYPE_CHECKING:
    from collections.abc import Callable

SEND_INTERVAL_SECONDS: Final = 1.0


class StepCounter:
    """Counts the steps of one process. The caller must hold a lock and catch all errors.

    A run is a count from 0 that never decreases. The count is sent at the first step, and then at
    most once a second, even if sending fails. A lost message does no harm, because the next message
    contains the whole count.

    Args:
        send: sends one message, and raises if that is not possible now.
        clock: seconds of a clock that never goes back.
    """

    _run: str
    _steps: int
    _sent_steps: int
    _samples: int | None
    _seconds: float  # when the last step was counted

    def __init__(self, send: Callable[[bytes], object], clock: Callable[[], float]) -> None:
        self._send = send
        self._clock = clock
        self._next_attempt = clock()
        self._begin_run()

    def step(self, samples: int | None) -> None:
        """Count one step. Samples are sent only if each step of the run so far has them."""
        self._steps += 1
        self._seconds = now = self._clock()
        if self._samples is not None:
            added = as_count(samples)
            self._samples = None if added is None else self._samples + added
        if now >= self._next_attempt:
            self._attempt(now)

    def report(self, steps: int, samples: int | None) -> None:
        """Set the count to the caller's total; a smaller total than before begins a new run.

        A total that has not changed is not sent: its time is that of the last step, and the agent
        would take the time since then for a change of the clock.
        """
        count = as_count(steps)
        if count is None:
            return
        now = self._clock()
        if count < self._steps:
            self._begin_run()
        if count > self._steps:
            self._steps, self._samples, self._seconds = count, as_count(samples), now
            if now >= self._next_attempt:
                self._attempt(now)

    def flush(self) -> None:
        """Send the count now, unless it was already sent."""
        if self._steps != self._sent_steps:
            self._attempt(self._clock())

    def _begin_run(self) -> None:
        self._run = new_run()
        self._steps = self._sent_steps = self._samples = 0
        self._seconds = 0.0

    def _attempt(self, now: float) -> None:
        self._next_attempt = now + SEND_INTERVAL_SECONDS
        self._send(encode(self._run, self._steps, self._seconds, as_count(self._samples)))
        self._sent_steps = self._steps
