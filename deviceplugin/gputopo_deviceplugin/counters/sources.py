"""The sources of each counter of a GPU, in the order of preference.

Which GPU has which source: docs/operate/counters.md.
"""

from collections.abc import Collection

from gputopo.counters.model import ByteCount, LoadReading
from gputopo_deviceplugin.counters.calls import GpuCalls
from gputopo_deviceplugin.counters.choice import CounterSource
from gputopo_deviceplugin.counters.fallbacks import ExporterLoad, ExporterNvlink, Utilization
from gputopo_deviceplugin.counters.fields import NVLINK_FIELDS, NvlinkFields, PcieFields
from gputopo_deviceplugin.counters.gpm import GpmLoad, GpmNvlink, GpmPcie


def nvlink_sources(
    gpu: GpuCalls, links: Collection[int]
) -> list[CounterSource[dict[int | None, ByteCount]]]:
    """Return the sources of the NVLink bytes of a GPU with these active links."""
    return [
        *(NvlinkFields(gpu, links, name) for name in NVLINK_FIELDS),
        GpmNvlink(gpu, links),
        ExporterNvlink(),
    ]


def pcie_sources(gpu: GpuCalls) -> list[CounterSource[ByteCount]]:
    """Return the sources of the PCIe bytes of a GPU.

    ``nvmlDeviceGetPcieThroughput`` is none of them: it blocks for 20 ms, and what it measures in
    this time says little about the rest of the second.
    """
    return [PcieFields(gpu), GpmPcie(gpu)]


def load_sources(gpu: GpuCalls) -> list[CounterSource[LoadReading]]:
    """Return the sources of the load of a GPU."""
    return [GpmLoad(gpu), ExporterLoad(), Utilization(gpu)]
