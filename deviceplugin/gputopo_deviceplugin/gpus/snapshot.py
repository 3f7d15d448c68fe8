"""What NVML reports about a node at one time, as plain values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

RECOVERY_NONE: Final = 0
"""``NVML_GPU_RECOVERY_ACTION_NONE``."""


@dataclass(frozen=True, slots=True)
class NvmlLink:
    """One active NVLink of a GPU.

    Attributes:
        generation: of NVLink, 1 to 5 (NVML numbers them differently).
        peer_bus_id: PCI bus ID of the GPU at the other end; None for an NVSwitch.
    """

    generation: int
    peer_bus_id: str | None


@dataclass(frozen=True, slots=True)
class NvmlGpu:
    """One GPU for which all calls of NVML succeeded.

    Attributes:
        numa_node: nearest NUMA node, None where the platform does not report it.
        pcie_generation: 0 where the platform does not report it; likewise ``pcie_lanes``.
        mig: whether MIG mode is on.
        recovery_action: ``NVML_GPU_RECOVERY_ACTION_*``, None where the driver does not report it.
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
        failures: NVML's error for each GPU that could not be read, by GPU index.
        levels: NVML's number of the common ancestor of each pair ``(a, b)``, ``a < b``; pairs
            that NVML does not know are missing.
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
