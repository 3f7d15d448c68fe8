"""Makes cumulative counts of bytes from rates."""

import math
from collections.abc import Hashable, Mapping
from typing import Final, Generic, NamedTuple, TypeVar

from gputopo.counters.model import ByteCount
from gputopo_deviceplugin.counters.faults import CounterError, FaultKind

MOST_BYTES_PER_SECOND: Final = 1e13
"""More than any GPU sends: ten times the NVLinks of a B200."""

Key = TypeVar("Key", bound=Hashable)


class ByteRates(NamedTuple):
    """Bytes per second, in both directions."""

    sent: float
    received: float


class RateIntegral(Generic[Key]):
    """Counts the bytes of one GPU, by link or as a whole.

    Attributes:
        interruptions: number of gaps between the intervals. The bytes in a gap are unknown.
    """

    def __init__(self) -> None:
        self.interruptions = 0
        self._until_us: int | None = None
        self._sums: dict[Key, ByteRates] = {}

    def add(self, rates: Mapping[Key, ByteRates], from_us: int, to_us: int) -> dict[Key, ByteCount]:
        """Add the mean rates of an interval; return the counts at its end.

        Raises:
            CounterError: a rate is not plausible. The interval is then a gap.
        """
        for rate in (each for pair in rates.values() for each in pair):
            if not 0 <= rate <= MOST_BYTES_PER_SECOND:  # NaN neither
                raise CounterError(FaultKind.FAILED, f"{rate:g} bytes per second is not plausible")
        same = rates.keys() == self._sums.keys()
        if not same or self._until_us not in {from_us, to_us}:
            self.interruptions += bool(self._sums)
            self._sums = dict.fromkeys(rates, ByteRates(0, 0))
        # The same interval again adds nothing: an exporter is read less often than the GPU.
        seconds = 0.0 if same and self._until_us == to_us else max(0, to_us - from_us) / 1e6
        self._until_us = to_us
        self._sums = {
            key: ByteRates(
                sum_.sent + rates[key].sent * seconds, sum_.received + rates[key].received * seconds
            )
            for key, sum_ in self._sums.items()
        }
        return {
            key: ByteCount(math.floor(each.sent), math.floor(each.received), to_us)
            for key, each in self._sums.items()
        }
