"""Metrics of GPM (NVML, Hopper and later): bytes from rates, and the load."""

import math
from collections.abc import Collection, Hashable, Mapping
from typing import Final, TypeVar

import pynvml

from gputopo.counters.model import ByteCount, LoadReading, LoadSource
from gputopo_deviceplugin.counters.calls import GpmMetrics, GpuCalls
from gputopo_deviceplugin.counters.choice import ReadTime
from gputopo_deviceplugin.counters.faults import CounterError, FaultKind, fault_of_code
from gputopo_deviceplugin.counters.integral import ByteRates, RateIntegral
from gputopo_deviceplugin.counters.shares import checked_share

_MIB: Final = 2**20
_GPM_NVLINK_TOTAL: Final = (
    pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC,
    pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC,
)
_GPM_PCIE: Final = (pynvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC, pynvml.NVML_GPM_METRIC_PCIE_RX_PER_SEC)
_FIRST_LINKS: Final = 18

Key = TypeVar("Key", bound=Hashable)


class GpmNvlink:
    """Bytes of each NVLink, from the rates of GPM; of all links if GPM has only their sum."""

    name = "GPM"

    def __init__(self, gpu: GpuCalls, links: Collection[int]) -> None:
        self._gpu = gpu
        self._metrics: dict[int | None, tuple[int, int]] = {
            link: _gpm_link_metrics(link) for link in links
        }
        self._integral = RateIntegral[int | None]()

    @property
    def interruptions(self) -> int:
        """Number of gaps between the intervals of GPM."""
        return self._integral.interruptions

    def read(self, now: ReadTime) -> dict[int | None, ByteCount] | None:  # noqa: ARG002 - of the protocol
        """Return the bytes by link, or the bytes of all links under None."""
        try:
            return self._read()
        except CounterError as fault:
            if fault.kind is not FaultKind.UNSUPPORTED or None in self._metrics:
                raise
        self._metrics = {None: _GPM_NVLINK_TOTAL}
        return self._read()

    def _read(self) -> dict[int | None, ByteCount] | None:
        found = self._gpu.metrics(metric for pair in self._metrics.values() for metric in pair)
        return None if found is None else _integrate(self._integral, self._metrics, found)


class GpmPcie:
    """Bytes of the PCIe link, from the rates of GPM."""

    name = "GPM"

    def __init__(self, gpu: GpuCalls) -> None:
        self._gpu = gpu
        self._integral = RateIntegral[None]()

    @property
    def interruptions(self) -> int:
        """Number of gaps between the intervals of GPM."""
        return self._integral.interruptions

    def read(self, now: ReadTime) -> ByteCount | None:  # noqa: ARG002 - of the protocol
        """Return the bytes."""
        found = self._gpu.metrics(_GPM_PCIE)
        return found and _integrate(self._integral, {None: _GPM_PCIE}, found)[None]


class GpmLoad:
    """SM occupancy and DRAM activity of GPM."""

    name = LoadSource.GPM.value
    interruptions = 0

    def __init__(self, gpu: GpuCalls) -> None:
        self._gpu = gpu

    def read(self, now: ReadTime) -> LoadReading | None:  # noqa: ARG002 - of the protocol
        """Return the load since the previous read."""
        occupancy, dram = pynvml.NVML_GPM_METRIC_SM_OCCUPANCY, pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL
        found = self._gpu.metrics((occupancy, dram))
        if found is None:
            return None
        return LoadReading(
            LoadSource.GPM,
            checked_share(_metric(found, occupancy) / 100),
            None if dram in found.codes else checked_share(_metric(found, dram) / 100),
            found.from_us,
            found.to_us,
        )


def _gpm_link_metrics(link: int) -> tuple[int, int]:
    """Return the metrics of the sent and the received bytes of a link.

    The metrics of links 0 to 17 follow each other, and so do those of the links from 18 on.
    """
    if link < _FIRST_LINKS:
        received = pynvml.NVML_GPM_METRIC_NVLINK_L0_RX_PER_SEC + 2 * link
    else:
        received = pynvml.NVML_GPM_METRIC_NVLINK_L18_RX_PER_SEC + 2 * (link - _FIRST_LINKS)
    return received + 1, received


def _integrate(
    integral: RateIntegral[Key], wanted: Mapping[Key, tuple[int, int]], found: GpmMetrics
) -> dict[Key, ByteCount]:
    rates = {
        key: ByteRates(_metric(found, sent) * _MIB, _metric(found, received) * _MIB)
        for key, (sent, received) in wanted.items()
    }
    return integral.add(rates, found.from_us, found.to_us)


def _metric(found: GpmMetrics, metric: int) -> float:
    if code := found.codes.get(metric):
        raise fault_of_code(code)
    value = found.values[metric]
    if not math.isfinite(value):
        raise CounterError(FaultKind.FAILED, f"metric {metric} is {value}")
    return value
