"""Sources for GPUs without better ones: DCGM's exporter, and the plain utilization."""

from gputopo.counters.model import ByteCount, LoadReading, LoadSource
from gputopo_deviceplugin.counters.calls import GpuCalls
from gputopo_deviceplugin.counters.choice import ReadTime
from gputopo_deviceplugin.counters.exporter import ExporterRates
from gputopo_deviceplugin.counters.faults import CounterError, FaultKind
from gputopo_deviceplugin.counters.integral import ByteRates, RateIntegral
from gputopo_deviceplugin.counters.shares import checked_share


class ExporterNvlink:
    """Bytes of all NVLinks of a GPU, from the rates of DCGM's exporter."""

    name = "DCGM"

    def __init__(self) -> None:
        self._integral = RateIntegral[int | None]()

    @property
    def interruptions(self) -> int:
        """Number of gaps between the scrapes."""
        return self._integral.interruptions

    def read(self, now: ReadTime) -> dict[int | None, ByteCount]:
        """Return the bytes of all links under None."""
        found = _exported(now)
        if found.sent is None or found.received is None:
            raise CounterError(FaultKind.DENIED, "the exporter has no NVLink metrics of this GPU")
        return self._integral.add(
            {None: ByteRates(found.sent, found.received)}, found.from_us, found.to_us
        )


class ExporterLoad:
    """SM occupancy and DRAM activity of DCGM's exporter."""

    name = LoadSource.DCGM.value
    interruptions = 0

    def read(self, now: ReadTime) -> LoadReading:
        """Return the load between the last two scrapes."""
        found = _exported(now)
        if found.occupancy is None:
            raise CounterError(FaultKind.DENIED, "the exporter has no SM occupancy of this GPU")
        dram = None if found.dram is None else checked_share(found.dram)
        occupancy = checked_share(found.occupancy)
        return LoadReading(LoadSource.DCGM, occupancy, dram, found.from_us, found.to_us)


class Utilization:
    """Share of time in which any kernel ran. It is the last resort."""

    name = LoadSource.UTILIZATION.value
    interruptions = 0

    def __init__(self, gpu: GpuCalls) -> None:
        self._gpu = gpu
        self._until_us: int | None = None

    def read(self, now: ReadTime) -> LoadReading | None:
        """Return the load since the previous read; NVML measures it over at most one second."""
        share = checked_share(self._gpu.utilization())
        from_us, self._until_us = self._until_us, now.at_us
        if from_us is None or from_us >= now.at_us:
            return None
        return LoadReading(LoadSource.UTILIZATION, share, None, from_us, now.at_us)


def _exported(now: ReadTime) -> ExporterRates:
    if isinstance(now.exporter, CounterError):
        raise now.exporter
    return now.exporter
