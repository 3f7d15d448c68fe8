"""Simulated training: the messages of a process whose steps have a known time."""

import math
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile

from gputopo.throughput.blocks import Block
from gputopo.throughput.message import StepMessage
from gputopo.throughput.meter import StepMeter

POLL_SECONDS = 1.0


@dataclass(frozen=True)
class Training:
    """A training loop.

    Attributes:
        rate: steps per second, without pauses.
        noise: standard deviation of the time of a step, relative to its mean.
        correlation: of the times of two consecutive steps.
        pause_every: seconds from one pause to the next.
        warm_up: how much slower the first steps are; the difference halves every 10 s.
        unit: steps that are simulated as one, for fast loops.
    """

    rate: float
    noise: float = 0.0
    correlation: float = 0.0
    pause_every: float = math.inf
    pause_seconds: float = 3.0
    warm_up: float = 0.0
    unit: int = 1

    def steps(self, rng: random.Random) -> Iterator[tuple[int, float]]:
        """Yield number and time of the steps."""
        time, state = 0.0, rng.gauss(0, 1)
        pause = rng.random() * self.pause_every
        innovation = math.sqrt(1 - self.correlation**2)
        number = 0
        while True:
            number += self.unit
            state = self.correlation * state + innovation * rng.gauss(0, 1)
            factor = max(0.05, 1 + self.noise * state / math.sqrt(self.unit))
            factor += self.warm_up * 0.5 ** (time / 10)
            time += self.unit * factor / self.rate
            if time > pause:
                time += self.pause_seconds
                pause += self.pause_every
            yield number, time

    def messages(self, seed: int, run: str = "run") -> Iterator[StepMessage]:
        """Yield the messages, at most one a second, without end."""
        sent = -math.inf
        for number, time in self.steps(random.Random(seed)):  # noqa: S311 - repeatable noise
            if time - sent >= 1:
                sent = time
                yield StepMessage(run, number, time)


def until(seconds: float, messages: Iterable[StepMessage]) -> list[StepMessage]:
    """Return the messages before a time of the sender's clock."""
    return list(takewhile(lambda message: message.seconds < seconds, messages))


def received(message: StepMessage, start: float = 1000.0) -> float:
    """Return the time of the agent's poll that receives a message."""
    return start + math.ceil(message.seconds / POLL_SECONDS) * POLL_SECONDS


def blocks(messages: Iterable[StepMessage], start: float = 1000.0) -> Iterator[Block]:
    """Yield the blocks of a meter that gets all messages in time."""
    meter = StepMeter()
    for message in messages:
        if block := meter.add(message, received(message, start)):
            yield block
