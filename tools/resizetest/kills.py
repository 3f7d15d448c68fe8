"""Kills the operator a moment after chosen steps of an experiment."""

import random
import threading

from learntest.bench import Bench
from localcluster import access
from showcase.kubectl import wait_for

_PROGRAM = "gputopo-operator"
_LONGEST_DELAY_SECONDS = 3.0
_DOWN_SECONDS = 300.0
"""kubelet restarts a container up to five minutes after repeated failures."""


class Kills:
    """A number of kills, each a few seconds after a call of :meth:`soon`.

    Attributes:
        done: number of kills so far.
    """

    def __init__(self, bench: Bench, number: int, seed: int) -> None:
        self._bench, self._left = bench, number
        self._rng = random.Random(seed)  # noqa: S311 - repeatable on purpose
        self.done = 0

    def soon(self, number: int = 1) -> None:
        """Plan so many kills, if they are left."""
        number = min(number, self._left)
        self._left -= number
        for index in range(number):
            delay = (index + self._rng.random()) * _LONGEST_DELAY_SECONDS
            threading.Timer(delay, self._kill).start()

    def _kill(self) -> None:
        """Kill the operator; wait for it if it is down after an earlier kill."""
        wait_for(
            "the operator is killed",
            lambda: access.kill(self._bench.machines, _PROGRAM),
            timeout_s=_DOWN_SECONDS,
        )
        self.done += 1
        self._bench.journal.write(f"operator killed, {self.done}")
