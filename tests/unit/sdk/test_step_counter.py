"""Which messages a sequence of steps gives, at which times."""

import json
from typing import Any

import pytest

from gputopo_steps.counter import StepCounter


class Loop:
    """A training loop with a clock; ``agent_listens`` decides whether sending succeeds."""

    def __init__(self) -> None:
        self.now = 100.0
        self.sent: list[dict[str, Any]] = []
        self.agent_listens = True
        self.counter = StepCounter(self.send, lambda: self.now)

    def send(self, message: bytes) -> None:
        if not self.agent_listens:
            raise BlockingIOError
        self.sent.append(json.loads(message))

    def step(self, at: float, samples: Any = None) -> None:
        self.now = at
        self.counter.step(samples)

    def report(self, at: float, steps: Any, samples: Any = None) -> None:
        self.now = at
        self.counter.report(steps, samples)

    def field(self, name: str) -> list[Any]:
        return [message.get(name) for message in self.sent]


@pytest.fixture
def loop() -> Loop:
    return Loop()


def test_first_step_is_sent_at_once(loop: Loop) -> None:
    loop.step(at=100.25)
    assert (loop.field("v"), loop.field("steps"), loop.field("seconds")) == ([1], [1], [100.25])


def test_next_message_is_sent_after_a_second_with_all_steps(loop: Loop) -> None:
    for tenth in range(25):
        loop.step(at=100 + tenth / 10)
    assert loop.field("steps") == [1, 11, 21]
    assert loop.field("seconds") == [100, 101, 102]
    assert len(set(loop.field("run"))) == 1


def test_last_steps_are_sent_with_the_time_when_they_were_counted(loop: Loop) -> None:
    for at in (100, 100.1, 100.2):
        loop.step(at)
    loop.now = 900
    loop.counter.flush()
    assert (loop.field("steps"), loop.field("seconds")) == ([1, 3], [100, 100.2])


def test_nothing_is_sent_twice(loop: Loop) -> None:
    loop.step(at=100)
    loop.now = 900
    loop.counter.flush()
    assert loop.field("steps") == [1]


def test_nothing_is_sent_without_a_step(loop: Loop) -> None:
    loop.report(100, steps=0)
    loop.counter.flush()
    assert loop.sent == []


def test_step_after_a_failed_message_waits_a_second_and_loses_no_count(loop: Loop) -> None:
    loop.agent_listens = False
    with pytest.raises(BlockingIOError):
        loop.step(at=100)
    loop.agent_listens = True
    loop.step(at=100.5)
    assert loop.sent == []
    loop.step(at=101)
    assert loop.field("steps") == [3]


def test_samples_of_all_steps_are_added(loop: Loop) -> None:
    loop.step(at=100, samples=256)
    loop.step(at=101, samples=128)
    assert loop.field("samples") == [256, 384]


@pytest.mark.parametrize("samples", [None, -1, 1.5, float("nan"), "256", [256], 2**53])
def test_samples_are_omitted_after_a_step_without_them(loop: Loop, samples: Any) -> None:
    loop.step(at=100, samples=256)
    loop.step(at=101, samples=samples)
    loop.step(at=102, samples=256)
    assert loop.field("samples") == [256, None, None]
    assert loop.field("steps") == [1, 2, 3]


def test_samples_are_omitted_if_their_sum_is_too_large_for_json(loop: Loop) -> None:
    loop.step(at=100, samples=2**53 - 1)
    loop.step(at=101, samples=1)
    assert loop.field("samples") == [2**53 - 1, None]


def test_reported_counts_are_sent_at_most_once_a_second(loop: Loop) -> None:
    for tenth in range(15):
        loop.report(100 + tenth / 10, steps=5000 + tenth, samples=64 * tenth)
    assert loop.field("steps") == [5000, 5010]
    assert loop.field("samples") == [0, 640]


def test_flushed_count_keeps_the_time_of_its_last_step(loop: Loop) -> None:
    loop.report(100, steps=7)
    loop.report(100.5, steps=8)
    loop.now = 105
    loop.counter.flush()
    loop.counter.flush()
    assert (loop.field("steps"), loop.field("seconds")) == ([7, 8], [100, 100.5])


def test_unsent_count_is_not_sent_after_a_pause_without_steps(loop: Loop) -> None:
    # Lightning reports after each micro-batch, also of the steps that are not complete.
    loop.report(100, steps=7)
    loop.report(100.5, steps=8)
    loop.report(130, steps=8)
    loop.report(130.1, steps=9)
    assert loop.field("steps") == [7, 9]
    assert loop.field("seconds") == [100, 130.1]


def test_smaller_count_begins_a_new_run(loop: Loop) -> None:
    for at, steps in ((100, 900), (101, 3), (102, 4)):
        loop.report(at, steps=steps, samples=steps)
    first, second, third = loop.field("run")
    assert first != second == third
    assert loop.field("steps") == [900, 3, 4]
    assert loop.field("samples") == [900, 3, 4]


@pytest.mark.parametrize("steps", [None, -1, 5.0, float("inf"), "5", 2**53])
def test_invalid_count_is_ignored(loop: Loop, steps: Any) -> None:
    loop.report(100, steps=4)
    loop.report(101, steps=steps)
    loop.report(102, steps=5)
    assert loop.field("steps") == [4, 5]
    assert len(set(loop.field("run"))) == 1


def test_steps_can_follow_a_reported_count(loop: Loop) -> None:
    loop.report(100, steps=5000)
    loop.step(at=101)
    assert loop.field("steps") == [5000, 5001]
