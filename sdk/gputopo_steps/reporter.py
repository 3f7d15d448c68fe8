"""Connects the step counter of a process with its environment, a lock and the agent's socket."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from gputopo_steps.counter import StepCounter
from gputopo_steps.rank import is_reporting_rank

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SOCKET_VARIABLE: Final = "GPUTOPO_STEPS_SOCKET"


def send_datagram(path: str, message: bytes) -> None:
    """Send one datagram without waiting.

    Each call opens a new socket, because forked processes would share a socket that stays open.

    Raises:
        OSError: if the agent does not listen, or its queue is full.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        sender.sendto(message, path)


class Reporter:
    """Counts and sends the steps of one process. Its methods never raise and never block.

    The first call of ``step`` or ``report`` checks whether this process reports. The import of
    the package is too early for this check, because launchers may set the rank after the import.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        modules: Mapping[str, Any],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._environ = environ
        self._modules = modules
        self._clock = clock
        self.restart()

    def restart(self) -> None:
        """Drop all counts and make a new lock. In a forked child, the old lock may stay locked."""
        self._lock = threading.RLock()  # a signal handler may call step during a step
        self._counter: StepCounter | None = None
        self._off = False

    def step(self, samples: int | None = None) -> None:
        """Count one step, if this process reports."""
        if self._off:
            return
        try:
            with self._lock:
                counter = self._counter or self._start()
                if counter is not None:
                    counter.step(samples)
        except Exception:  # noqa: BLE001, S110 - no error reaches the training; suppress is slow
            pass

    def report(self, steps: int, samples: int | None = None) -> None:
        """Report the total number of steps, if this process reports."""
        if self._off:
            return
        with suppress(Exception), self._lock:
            counter = self._counter or self._start()
            if counter is not None:
                counter.report(steps, samples)

    def flush(self) -> None:
        """Send the last count of this process, if it was not sent yet."""
        with suppress(Exception), self._lock:
            if self._counter is not None:
                self._counter.flush()

    def _start(self) -> StepCounter | None:
        path = self._environ.get(SOCKET_VARIABLE)
        if path and is_reporting_rank(self._environ, self._modules):
            self._counter = StepCounter(partial(send_datagram, path), self._clock)
        self._off = self._counter is None
        return self._counter
