"""What the metrics show of the counters. Pure functions."""

from collections.abc import Mapping
from itertools import chain
from typing import Final, NamedTuple

from gputopo.counters.model import ByteCount, GpuCounters
from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.counters.gpu_reader import GpuReading
from gputopo_deviceplugin.counters.integral import MOST_BYTES_PER_SECOND


class NvlinkBytes(NamedTuple):
    """Bytes over all NVLinks of a GPU."""

    sent: int
    received: int


class NvlinkIncrease:
    """Computes how many bytes each GPU has sent and received since the previous reading."""

    def __init__(self) -> None:
        self._before: Mapping[GpuUuid, GpuReading] = {}

    def add(self, readings: Mapping[GpuUuid, GpuReading]) -> dict[GpuUuid, NvlinkBytes]:
        """Return the bytes since the previous reading of each GPU, where they are known."""
        before, self._before = self._before, readings
        found = {
            uuid: _increase(before[uuid], after)
            for uuid, after in readings.items()
            if uuid in before
        }
        return {uuid: increase for uuid, increase in found.items() if increase is not None}

    def forget(self) -> None:
        """Begin again, because the next reading is not connected with the previous one."""
        self._before = {}


_NO_LINKS: Final = NvlinkBytes(0, 0)


def _increase(before: GpuReading, after: GpuReading) -> NvlinkBytes | None:
    old, new = _counts(before.counters), _counts(after.counters)
    if not new or before.epoch != after.epoch or old.keys() != new.keys():
        return None
    total = _NO_LINKS
    for link, count in new.items():
        sent, received = count.sent - old[link].sent, count.received - old[link].received
        most = MOST_BYTES_PER_SECOND * (count.at_us - old[link].at_us) / 1e6
        if min(sent, received) < 0 or max(sent, received) > most:
            return None  # the counter was reset or has wrapped
        total = NvlinkBytes(total.sent + sent, total.received + received)
    return total


def _counts(counters: GpuCounters) -> dict[int | None, ByteCount]:
    total = [] if counters.nvlink is None else [(None, counters.nvlink)]
    return dict(chain[tuple[int | None, ByteCount]](counters.links.items(), total))
