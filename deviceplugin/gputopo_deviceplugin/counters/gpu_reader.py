"""Reads all counters of one GPU. Blocks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from gputopo.counters.model import GpuCounters
from gputopo_deviceplugin.counters.calls import GpuCalls
from gputopo_deviceplugin.counters.choice import ReadTime, SourceChoice
from gputopo_deviceplugin.counters.sources import load_sources, nvlink_sources, pcie_sources

CounterKind: TypeAlias = Literal["NVLink", "PCIe", "Load"]
KINDS: Final[tuple[CounterKind, ...]] = ("NVLink", "PCIe", "Load")


@dataclass(frozen=True, slots=True)
class GpuReading:
    """What was read from one GPU at one time.

    Attributes:
        counters: the values; empty if nothing could be read.
        epoch: values with different epochs must not be compared: another source is in use, or the
            session of NVML is another one.
        sources: the source in use for each kind of counter; None if there is none. A kind that the
            GPU does not have is missing.
        faults: why better sources are not in use, as pairs of source and message.
    """

    counters: GpuCounters
    epoch: tuple[int, int]
    sources: Mapping[CounterKind, str | None] = field(default_factory=dict)
    faults: Mapping[CounterKind, tuple[tuple[str, str], ...]] = field(default_factory=dict)


class GpuReader:
    """Reads one GPU, and remembers which sources work."""

    def __init__(self, calls: GpuCalls, links: tuple[int, ...], serial: int) -> None:
        """Read the NVLinks with the numbers ``links``; ``serial`` is unique for each reader."""
        self._calls: Final = calls
        self._serial: Final = serial
        self._nvlink: Final = SourceChoice(nvlink_sources(calls, links)) if links else None
        self._pcie: Final = SourceChoice(pcie_sources(calls))
        self._load: Final = SourceChoice(load_sources(calls))

    def read(self, now: ReadTime) -> GpuReading:
        """Read the counters."""
        self._calls.begin()
        nvlink = self._nvlink.read(now) if self._nvlink else None
        counts = dict(nvlink or {})
        total = counts.pop(None, None)
        counters = GpuCounters(
            {link: count for link, count in counts.items() if link is not None},
            total,
            self._pcie.read(now),
            self._load.read(now),
        )
        choices: dict[CounterKind, SourceChoice[Any]] = {"PCIe": self._pcie, "Load": self._load}
        if self._nvlink:
            choices["NVLink"] = self._nvlink
        return GpuReading(
            counters,
            (self._serial, sum(each.interruptions for each in choices.values())),
            {kind: each.in_use for kind, each in choices.items()},
            {kind: tuple(each.faults) for kind, each in choices.items()},
        )

    def close(self) -> None:
        """Free what NVML has allocated."""
        self._calls.close()


def unreadable(message: str, serial: int, kinds: tuple[CounterKind, ...]) -> GpuReading:
    """Return the reading of a GPU from which nothing can be read."""
    return GpuReading(
        GpuCounters(),
        (serial, 0),
        dict.fromkeys(kinds),
        dict.fromkeys(kinds, (("NVML", message),)),
    )
