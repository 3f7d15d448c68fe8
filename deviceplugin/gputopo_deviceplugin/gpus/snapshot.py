"""Plain values for the data that NVML reports about a node at one time."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gputopo.counters.link_peers import OtherEnd

RECOVERY_NONE: Final = 0
"""``NVML_GPU_RECOVERY_ACTION_NONE``."""


@dataclass(frozen=True, slots=True)
class NvmlLink:
    """One active NVLink of a GPU.

    Attributes:
        number: the driver's number of the link, which counters of the link have too. Inactive
            links leave gaps.
        generation: generation of NVLink, 1 to 5. For example, NVLink 2.2 has generation 2.
        peer: PCI bus ID of the GPU at the other end, or what else is there.
    """

    number: int
    generation: int
    peer: str | OtherEnd


@dataclass(frozen=True, slots=True)
class NvmlGpu:
    """One GPU for which all calls of NVML succeeded.

    Attributes:
        numa_node: nearest NUMA node; None if the platform does not report it.
        pcie_generation: 0 if the platform does not report it.
        pcie_lanes: 0 if the platform does not report them.
        mig: whether MIG mode is on.
        recovery_action: ``NVML_GPU_RECOVERY_ACTION_*``; None if the driver does not report it.
    """

    index: int
    uuid: str
    minor: int
    pci_bus_id: str
    model: str
    memory_bytes: int
    numa_node: int | None
    pcie_generation: int
    pcie_lanes: int
    nvlinks: tuple[NvmlLink, ...]
    mig: bool = False
    recovery_action: int | None = None


@dataclass(frozen=True, slots=True)
class NvmlSnapshot:
    """All GPUs of a node.

    Attributes:
        failures: maps the index of each GPU that could not be read to the error of NVML.
        levels: maps each pair of GPU indices ``(a, b)`` with ``a < b`` to the ``NVML_TOPOLOGY_*``
            level of their nearest common ancestor. A pair is missing if NVML reports none.
    """

    driver_version: str
    gpus: tuple[NvmlGpu, ...]
    failures: Mapping[int, str] = field(default_factory=dict)
    levels: Mapping[tuple[int, int], int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class XidEvent:
    """A critical error of one GPU, reported by the driver."""

    uuid: str
    code: int
