"""Any messages give a valid rate or none, in bounded memory; honest ones give a right rate."""

import json
import math
import pickle
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from random import Random
from typing import Any

import pytest
from hypothesis import given, strategies

from gputopo.throughput.blocks import Block
from gputopo.throughput.exposition import StepMetricError, parse_metric
from gputopo.throughput.message import (
    MAX_COUNT,
    MAX_SECONDS,
    StepMessage,
    StepMessageError,
    parse_log_line,
    parse_message,
)
from gputopo.throughput.meter import MAX_STEPS_PER_SECOND, RateState, StepMeter
from gputopo.throughput.phases import PhaseSample, PhaseTracker
from support.property_settings import fuzzed, tried

MAX_MESSAGE = 1024
MAX_STATE_BYTES = 64 * 1024

Counts = strategies.integers(0, MAX_COUNT) | strategies.integers(0, 100)
Seconds = strategies.floats(0, MAX_SECONDS) | strategies.floats(0, 100)
Messages = strategies.builds(
    StepMessage, strategies.sampled_from("abcd"), Counts, Seconds, strategies.none() | Counts
)
Waits = strategies.sampled_from([0.0, 0.5, 1.0, 3.0, 60.0, 1e9])
"""Seconds from one message to the next."""


def advanced(
    state: tuple[StepMessage, float], step: tuple[int, float, float]
) -> tuple[StepMessage, float]:
    """Return the message and time after some steps, by the clocks of sender and agent."""
    (message, at), (steps, seconds, error) = state, step
    return (
        StepMessage(
            message.run,
            min(MAX_COUNT, message.steps + steps),
            min(MAX_SECONDS, message.seconds + seconds),
        ),
        at + max(0.0, seconds + error),
    )


@strategies.composite
def sequences(draw: strategies.DrawFn) -> list[tuple[StepMessage, float, str]]:
    """Messages with time of receipt and environment: partly training, partly garbage."""
    state = draw(Messages), draw(strategies.floats(0, 1e9))
    found = []
    for _ in range(draw(strategies.integers(0, 12))):
        if draw(strategies.booleans()):
            state = draw(Messages), state[1] + draw(Waits)
        step = (
            draw(strategies.integers(0, 1000) | Counts),
            draw(strategies.floats(0, 50)),
            draw(strategies.sampled_from([0.0, 0.5, -0.5, 4.0, 10.0])),
        )
        environment = draw(strategies.sampled_from(["alone", "beside b"]))
        for _ in range(draw(strategies.integers(1, 30))):
            found.append((*state, environment))
            state = advanced(state, step)
    return found


def assert_valid_block(block: Block) -> None:
    assert block.steps >= 1
    assert 3 <= block.seconds <= MAX_SECONDS
    assert block.steps <= MAX_STEPS_PER_SECOND * block.seconds


def assert_valid_sample(sample: PhaseSample[str] | None) -> None:
    if sample:
        assert 0 < sample.rate.steps_per_second <= MAX_STEPS_PER_SECOND
        assert 1 <= sample.rate.ci_permille <= 100
        assert 0 < sample.rate.seconds < math.inf


@fuzzed
@given(sequence=sequences())
def test_any_messages_give_a_positive_rate_or_none(
    sequence: list[tuple[StepMessage, float, str]],
) -> None:
    tried("sequences of step messages")
    meter, tracker = StepMeter(), PhaseTracker("alone")
    for message, received, environment in sequence:
        assert_valid_sample(tracker.enter(environment, received))
        if block := meter.add(message, received):
            assert_valid_block(block)
            assert_valid_sample(tracker.add(block))
        current = meter.current(received)
        assert (current.ci_permille is not None) == (current.state is RateState.STEADY)
        if current.steps_per_second is not None:
            assert 0 < current.steps_per_second <= MAX_STEPS_PER_SECOND
    assert len(pickle.dumps((meter, tracker))) < MAX_STATE_BYTES


@pytest.mark.parametrize("restart_after", [3, 50, 100_000])
def test_memory_does_not_grow_with_messages(restart_after: int) -> None:
    meter, tracker = StepMeter(), PhaseTracker("alone")
    sizes = []
    for n in range(12_000):
        if block := meter.add(StepMessage(f"run-{n // restart_after}", 10 * n, n), n):
            tracker.add(block)
        if n in {3_000, 11_999}:
            sizes.append(len(pickle.dumps((meter, tracker))))
    assert sizes[1] < min(1.3 * sizes[0], MAX_STATE_BYTES)


def parsed(parse: Callable[..., Any], *arguments: object) -> Any:
    """Return the parsed value, None if it is rejected with a short message."""
    try:
        return parse(*arguments)
    except (StepMessageError, StepMetricError) as error:
        rejection = str(error)
    assert 0 < len(rejection) <= MAX_MESSAGE
    return None


Fields = strategies.sampled_from(["v", "run", "steps", "seconds", "samples", "other"])
Json = strategies.recursive(
    strategies.none()
    | strategies.booleans()
    | strategies.integers()
    | strategies.floats()
    | strategies.sampled_from([1, 10**400, "a", "\ud800"])
    | strategies.text(max_size=5),
    lambda inner: strategies.lists(inner, max_size=3) | strategies.dictionaries(Fields, inner),
    max_leaves=6,
)
Datagrams = (
    strategies.binary(max_size=600)
    | Json.map(lambda value: json.dumps(value).encode())
    | strategies.fixed_dictionaries(
        {
            "v": strategies.just(1) | Json,
            "run": strategies.just("a") | Json,
            "steps": Counts | Json,
            "seconds": Seconds | Json,
        },
        optional={"samples": Counts | Json, "other": Json},
    ).map(lambda value: json.dumps(value).encode())
)


@fuzzed
@given(datagram=Datagrams)
def test_any_datagram_is_parsed_or_rejected(datagram: bytes) -> None:
    tried("datagrams of steps")
    message = parsed(parse_message, datagram)
    if message is not None:
        assert 0 <= message.steps <= MAX_COUNT
        assert 0 <= message.seconds <= MAX_SECONDS
        assert 1 <= len(message.run) <= 32


Fragments = strategies.sampled_from(
    [b"gputopo-steps", b"steps", b" ", b"12", b"{", b"}", b'"', b"\\", b"\n", b"nan", b"-", b"\xff"]
)


@fuzzed
@given(fragments=strategies.lists(Fragments | strategies.binary(max_size=3), max_size=400))
def test_any_log_line_and_any_exposition_give_a_count_or_none(fragments: list[bytes]) -> None:
    tried("log lines and expositions")
    text = b"".join(fragments)
    for steps in (parse_log_line(text), parsed(parse_metric, text, "steps")):
        assert steps is None or 0 <= steps <= MAX_COUNT


@dataclass(frozen=True)
class HonestJob:
    """A job that is twice as fast in every second environment, and loses messages.

    Attributes:
        rate: steps per second in the first environment.
        noise: largest difference of the time of a step from its mean, relative to the mean.
        lost: probability that a message is lost.
        durations: seconds of the environments.
        restarts: times at which the process restarts.
    """

    seed: int
    rate: float
    noise: float
    lost: float
    durations: tuple[float, ...]
    restarts: tuple[float, ...]

    def environment(self, at: float) -> int:
        return bisect_right(list(accumulate(self.durations)), at)

    def speed(self, environment: int) -> float:
        return self.rate * (1 + environment % 2)

    def messages(self) -> Iterator[StepMessage]:
        random = Random(self.seed)  # noqa: S311 - repeatable noise
        unit = max(1, int(self.rate / 4))  # steps that have the same time
        now, sent, steps, run = 0.0, 0.0, 0, 0
        while now < sum(self.durations):
            factor = 1 + random.uniform(-self.noise, self.noise)
            now, steps = now + unit * factor / self.speed(self.environment(now)), steps + unit
            if run < (restarts := sum(at < now for at in self.restarts)):
                now, steps, run = now + 20, 0, restarts
            if now - sent >= 1:
                sent = now
                if random.random() >= self.lost:
                    yield StepMessage(f"run-{run}", steps, now)

    def samples(self) -> Iterator[PhaseSample[int]]:
        """Yield the samples of an agent that looks at the environment each 9 s."""
        meter, tracker = StepMeter(), PhaseTracker(0)
        looked = 0
        for message in self.messages():
            received = float(math.ceil(message.seconds))
            for look in range(looked, int(received) + 1, 9):
                looked = look + 9
                yield from filter(None, [tracker.enter(self.environment(look), look)])
            if block := meter.add(message, received):
                yield from filter(None, [tracker.add(block)])


HonestJobs = strategies.builds(
    HonestJob,
    seed=strategies.integers(0, 2**32),
    rate=strategies.floats(-1.3, 3).map(lambda exponent: 10**exponent),
    noise=strategies.floats(0, 0.2),
    lost=strategies.floats(0, 0.5),
    durations=strategies.lists(strategies.floats(10, 400), min_size=1, max_size=6).map(tuple),
    restarts=strategies.lists(strategies.floats(0, 2000), max_size=3).map(tuple),
)


@fuzzed
@given(job=HonestJobs)
def test_sample_of_an_honest_job_is_that_of_its_environment(job: HonestJob) -> None:
    tried("honest jobs")
    for sample in job.samples():
        speed = job.speed(sample.environment)
        assert speed / (1 + job.noise) < sample.rate.steps_per_second * (1 + 1e-6)
        assert sample.rate.steps_per_second < speed / (1 - job.noise) * (1 + 1e-6)


def test_honest_job_of_400_s_gives_a_sample_in_each_environment() -> None:
    job = HonestJob(1, 10, 0.1, 0.2, (400, 400), ())
    assert {sample.environment for sample in job.samples()} == {0, 1}
