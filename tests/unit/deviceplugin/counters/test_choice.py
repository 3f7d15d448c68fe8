"""The best source that can be read is used, and failures do not change it too often."""

from dataclasses import dataclass, field

from gputopo_deviceplugin.counters.choice import (
    MOST_FAILURES,
    RETRY_SECONDS,
    ReadTime,
    SourceChoice,
)
from gputopo_deviceplugin.counters.faults import CounterError, FaultKind

NO_EXPORTER = CounterError(FaultKind.UNSUPPORTED, "no exporter")
UNSUPPORTED = CounterError(FaultKind.UNSUPPORTED, "unsupported")
DENIED = CounterError(FaultKind.DENIED, "denied")
FAILED = CounterError(FaultKind.FAILED, "failed")


@dataclass
class Scripted:
    """A source that does what the test sets; ``reads`` counts the attempts."""

    name: str
    result: str | CounterError | None = "value"
    reads: int = 0
    interruptions: int = field(default=0)

    def read(self, now: ReadTime) -> str | None:  # noqa: ARG002 - of the protocol
        self.reads += 1
        if isinstance(self.result, CounterError):
            raise self.result
        return self.result


class Choice:
    """A choice of two sources, and the time."""

    def __init__(self) -> None:
        self.best, self.second = Scripted("best", "b"), Scripted("second", "s")
        self.choice = SourceChoice[str]([self.best, self.second])
        self.seconds = 0.0

    def read(self, after: float = 1.0) -> str | None:
        self.seconds += after
        return self.choice.read(ReadTime(self.seconds, 0, NO_EXPORTER))


def test_the_first_source_that_works_is_used() -> None:
    assert Choice().choice.in_use is None
    world = Choice()
    assert world.read() == "b"
    assert world.choice.in_use == "best"
    assert world.choice.faults == []
    assert world.second.reads == 0


def test_an_unsupported_source_is_never_tried_again() -> None:
    world = Choice()
    world.best.result = UNSUPPORTED
    assert world.read() == "s"
    assert world.choice.faults == [("best", "unsupported")]
    world.read(1e9)
    assert world.best.reads == 1
    assert world.choice.interruptions == 0


def test_a_denied_source_is_tried_again_after_a_while() -> None:
    world = Choice()
    world.best.result = DENIED
    assert world.read() == "s"
    world.best.result = "b"
    assert world.read(RETRY_SECONDS - 1) == "s"
    assert world.read(1) == "b"
    assert world.choice.interruptions == 1


def test_a_source_in_use_may_fail_a_few_times() -> None:
    world = Choice()
    world.read()
    world.best.result = FAILED
    assert [world.read() for _ in range(MOST_FAILURES - 1)] == [None] * (MOST_FAILURES - 1)
    assert (world.choice.in_use, world.second.reads) == ("best", 0)
    world.best.result = "b"
    assert world.read() == "b"
    world.best.result = FAILED
    assert [world.read() for _ in range(MOST_FAILURES)] == [None] * (MOST_FAILURES - 1) + ["s"]
    assert world.choice.in_use == "second"


def test_without_any_source_none_is_in_use() -> None:
    world = Choice()
    world.read()
    world.best.result, world.second.result = UNSUPPORTED, DENIED
    assert world.read() is None
    assert world.choice.in_use is None
    assert world.choice.faults == [("best", "unsupported"), ("second", "denied")]
    assert world.choice.interruptions == 1
    assert world.read() is None
    assert world.second.reads == 1


def test_a_source_without_a_new_value_is_in_use() -> None:
    world = Choice()
    world.best.result = None
    assert world.read() is None
    assert world.choice.in_use == "best"


def test_interruptions_of_a_source_count() -> None:
    world = Choice()
    world.best.interruptions = 2
    assert world.choice.interruptions == 2
