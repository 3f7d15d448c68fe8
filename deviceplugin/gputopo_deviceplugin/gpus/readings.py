"""What NVML said at one time, as plain values."""

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
    """One GPU that answered.

    Attributes:
        numa_node: nearest memory, None where the platform does not say.
        pcie_generation: 0 where the platform does not say; likewise ``pcie_lanes``.
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
    """All of a node.

    Attributes:
        failures: what NVML said of each GPU that did not answer, by its index.
        levels: NVML's number of the common ancestor of each pair ``(a, b)``, ``a < b``; a pair
            that NVML does not know is not there.
    """

    driver_version: str
    gpus: tuple[NvmlGpu, ...]
    failures: Mapping[int, str] = field(default_factory=dict)
    levels: Mapping[tuple[int, int], int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class XidEvent:
    """A critical error that the driver told of one GPU."""

    uuid: str
    code: int
