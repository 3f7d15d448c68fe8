"""Kills the operator a moment after chosen steps of an experiment."""

import random
import threading

from learntest.bench import Bench
from localcluster import containers

_PROGRAM = "gputopo-operator"
_LONGEST_DELAY_SECONDS = 3.0


class Kills:
    """A number of kills, each 0 to 3 s after a call of :meth:`soon`.

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
        killed = containers.kill(_PROGRAM)
        self._bench.journal.write(f"operator killed: {killed} processes")
        self.done += bool(killed)
