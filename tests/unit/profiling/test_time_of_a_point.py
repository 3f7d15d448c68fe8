"""The operator waits for a sample as long as the agent needs, also if steps are slow."""

from itertools import count
from math import ceil

import pytest

from gputopo.profiling.duration import (
    MIN_POINT_SECONDS,
    POINT_SECONDS,
    longest_seconds,
    needed_seconds,
)
from gputopo.throughput.message import StepMessage
from gputopo.throughput.meter import StepMeter
from gputopo.throughput.phases import PhaseTracker

PUBLISH_SECONDS = 30


def seconds_until_sample(step_seconds: float, resized: float, noticed: float) -> float:
    """Return the time from a resize until the agent has published a sample."""
    meter, tracker = StepMeter(), PhaseTracker("before")
    for steps in count():
        at = steps * step_seconds
        if at >= resized + noticed:
            tracker.enter("after", resized + noticed)
        block = meter.add(StepMessage("a", steps, at), float(ceil(at)))
        sample = tracker.add(block) if block else None
        if sample and sample.environment == "after":
            return at + PUBLISH_SECONDS - resized
    raise AssertionError


@pytest.mark.parametrize("step_seconds", [5, 8, 12.5, 20, 25, 33, 60, 400])
@pytest.mark.parametrize("part", [0.01, 0.5, 0.99])
def test_sample_of_slow_steps_comes_in_the_needed_time(step_seconds: float, part: float) -> None:
    for noticed in (0, 10):
        needed = seconds_until_sample(step_seconds, (40 + part) * step_seconds, noticed)
        assert needed <= needed_seconds(step_seconds) <= longest_seconds(step_seconds)


def test_fast_steps_get_five_minutes() -> None:
    for step_seconds in (0, 0.01, 4):
        assert needed_seconds(step_seconds) == MIN_POINT_SECONDS
        assert longest_seconds(step_seconds) == POINT_SECONDS
