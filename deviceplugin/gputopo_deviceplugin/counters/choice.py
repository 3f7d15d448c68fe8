"""Chooses the best source of a counter that can be read, and remembers it for each GPU."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from gputopo_deviceplugin.counters.exporter import ExporterRates
from gputopo_deviceplugin.counters.faults import CounterError, FaultKind

RETRY_SECONDS: Final = 60.0
"""Time until a source that was denied, or that failed often, is tried again."""

MOST_FAILURES: Final = 10
"""Number of successive failures after which another source is used. One failure is not enough:
each change of the source begins the measurement of the GPU's containers again."""

Value_co = TypeVar("Value_co", covariant=True)
Value = TypeVar("Value")


class ReadTime(NamedTuple):
    """When a GPU is read, and what was read elsewhere.

    Attributes:
        seconds: the agent's monotonic clock.
        at_us: the wall clock in microseconds since 1970.
        exporter: what DCGM's exporter shows of the GPU; a fault if it shows nothing.
    """

    seconds: float
    at_us: int
    exporter: ExporterRates | CounterError


class CounterSource(Protocol[Value_co]):
    """One source of one counter of one GPU."""

    @property
    def name(self) -> str:
        """Name of the source, as in ``CounterStatus.source``."""
        ...

    @property
    def interruptions(self) -> int:
        """Number of times at which the bytes between two successive values were lost."""
        ...

    def read(self, now: ReadTime) -> Value_co | None:
        """Return the value; None if there is no new value yet.

        Raises:
            CounterError: the value could not be read.
        """
        ...


@dataclass(slots=True)
class _Candidate(Generic[Value]):
    source: CounterSource[Value]
    fault: CounterError | None = None
    failures: int = 0
    retry_at: float = field(default=-math.inf)

    def record(self, fault: CounterError, now: float) -> None:
        self.fault = fault
        self.failures += 1
        unsupported = fault.kind is FaultKind.UNSUPPORTED
        self.retry_at = math.inf if unsupported else now + RETRY_SECONDS


class SourceChoice(Generic[Value]):
    """The sources of one counter of one GPU, the best one first.

    Attributes:
        in_use: name of the source in use; None if no source can be read.
    """

    def __init__(self, sources: Sequence[CounterSource[Value]]) -> None:
        self._candidates: Final = [_Candidate(each) for each in sources]
        self._current: _Candidate[Value] | None = None
        self._switches = 0

    @property
    def in_use(self) -> str | None:
        """Name of the source in use; None if no source can be read."""
        return self._current.source.name if self._current else None

    @property
    def interruptions(self) -> int:
        """Number of times at which successive values stopped to belong together."""
        return self._switches + sum(each.source.interruptions for each in self._candidates)

    @property
    def faults(self) -> list[tuple[str, str]]:
        """Name and fault of each source that is better than the one in use."""
        better = []
        for each in self._candidates:
            if each is self._current:
                break
            better.append((each.source.name, str(each.fault)))
        return better

    def read(self, now: ReadTime) -> Value | None:
        """Return the value of the best source that can be read; None if there is none."""
        for each in self._candidates:
            if each is not self._current and now.seconds < each.retry_at:
                continue
            try:
                value = each.source.read(now)
            except CounterError as fault:
                each.record(fault, now.seconds)
                if each is self._current and _is_temporary(each):
                    return None
                continue
            each.failures, each.fault = 0, None
            self._use(each)
            return value
        self._use(None)
        return None

    def _use(self, candidate: _Candidate[Value] | None) -> None:
        if candidate is not self._current:
            self._switches += self._current is not None
            self._current = candidate


def _is_temporary(candidate: _Candidate[Value]) -> bool:
    fault = candidate.fault
    return (
        fault is not None and fault.kind is FaultKind.FAILED and candidate.failures < MOST_FAILURES
    )
