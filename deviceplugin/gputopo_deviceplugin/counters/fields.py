"""Counts of bytes that NVML has as fields: per NVLink, and of the PCIe link."""

import math
from collections.abc import Collection
from typing import Final

import pynvml

from gputopo.counters.model import ByteCount
from gputopo_deviceplugin.counters.calls import FieldValue, GpuCalls
from gputopo_deviceplugin.counters.choice import ReadTime
from gputopo_deviceplugin.counters.faults import CounterError, FaultKind, fault_of_code

STOPPED_SECONDS: Final = 10.0
"""Counters are stopped if their time stamps do not change for this time."""

WIDE_BYTES: Final = 2**37
"""A PCIe counter is used when it has exceeded this number. NVML states that it can wrap, but not
where. A wider counter wraps at most once in a second, at 128 GB/s, so its value then decreases."""

_KIB: Final = 1024
_WIDTHS: Final = {
    pynvml.NVML_VALUE_TYPE_UNSIGNED_INT: 32,
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG: 64,
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: 64,
}


class NvlinkFields:
    """Bytes of each NVLink since the driver was loaded."""

    def __init__(self, gpu: GpuCalls, links: Collection[int], name: str) -> None:
        self._fields, self._unit = NVLINK_FIELDS[name]
        self._gpu = gpu
        self._links = links
        self._stamps = _Stamps()
        self.name = name
        self.interruptions = 0

    def read(self, now: ReadTime) -> dict[int | None, ByteCount]:
        """Return the bytes by link."""
        wanted = [(field, link) for link in self._links for field in self._fields]
        values = self._gpu.fields(wanted)
        faults = [code for value in values if (code := value.code)]
        if faults and len(faults) < len(values):
            # Without one link, the bytes of the GPU and of its pairs would be wrong.
            link = next(link for (_, link), value in zip(wanted, values, strict=True) if value.code)
            raise CounterError(FaultKind.FAILED, f"link {link}: {fault_of_code(faults[0])}")
        if faults:
            raise fault_of_code(faults[0])
        pairs = zip(values[::2], values[1::2], strict=True)
        found: dict[int | None, ByteCount] = {
            link: _byte_count(sent, received, self._unit)
            for link, (sent, received) in zip(self._links, pairs, strict=True)
        }
        self._stamps.check(max(each.at_us for each in found.values()), now.seconds)
        return found


NVLINK_FIELDS: Final = {
    "NVLinkFields": (
        (
            pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX,
            pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX,
        ),
        _KIB,
    ),
    "NVLink5Fields": (
        (pynvml.NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES, pynvml.NVML_FI_DEV_NVLINK_COUNT_RCV_BYTES),
        1,
    ),
}


class PcieFields:
    """Bytes of the PCIe link since the driver was loaded."""

    name = "PCIeFields"

    def __init__(self, gpu: GpuCalls) -> None:
        self._gpu = gpu
        self._stamps = _Stamps()
        self._most = 0
        self.interruptions = 0

    def read(self, now: ReadTime) -> ByteCount:
        """Return the bytes."""
        sent, received = self._gpu.fields(
            [
                (pynvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES, 0),
                (pynvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES, 0),
            ]
        )
        if code := sent.code or received.code:
            raise fault_of_code(code)
        found = _byte_count(sent, received, 1)
        self._stamps.check(found.at_us, now.seconds)
        self._most = max(self._most, min(found.sent, found.received))
        if self._most < WIDE_BYTES:
            raise CounterError(
                FaultKind.DENIED,
                f"the counter may wrap too often; it is used after {WIDE_BYTES // 10**9} GB",
            )
        return found


class _Stamps:
    """Detects that the driver's time of a counter has stopped."""

    def __init__(self) -> None:
        self._newest_us: int | None = None
        self._since = math.inf

    def check(self, at_us: int, seconds: float) -> None:
        if at_us != self._newest_us:
            self._newest_us, self._since = at_us, seconds
        elif seconds - self._since >= STOPPED_SECONDS:
            raise CounterError(
                FaultKind.FAILED, f"the time stamps have stopped for {STOPPED_SECONDS:g} s"
            )


def _byte_count(sent: FieldValue, received: FieldValue, unit: int) -> ByteCount:
    """Return the count of two values, in bytes. Their time is the mean of both times.

    There is no ``wraps_at``, although an unsigned int wraps: a reset looks the same.
    """
    for value in (sent, received):
        width = _WIDTHS.get(value.value_type)
        if width is None:
            raise CounterError(FaultKind.UNSUPPORTED, f"value type {value.value_type} is no count")
        if 2**width * unit < WIDE_BYTES:
            raise CounterError(FaultKind.UNSUPPORTED, f"{width} bits wrap within a second")
    at_us = (sent.at_us + received.at_us) // 2
    return ByteCount(sent.bits * unit, received.bits * unit, at_us)
