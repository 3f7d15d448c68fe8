"""Servers without NVLink; their GPUs communicate over PCIe.

A server has one or two sockets, and its GPUs are at root ports or behind PCIe switches. The name of
a cloud instance is a further name of the server that has the same number of GPUs and the same PCIe
generation; the model of the GPUs can differ. The PCIe tree of an instance may differ from that of
the server. ``nvidia-smi topo -m`` prints the tree of the instance. AWS's instances G5 have A10G
GPUs, G6 have L4 and G6e have L40S.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gputopo.catalogue.server import GIB, GpuModel, ServerModel, two_numa_nodes
from gputopo.topology.model import Ancestor, NumaNode

_A10G: Final = GpuModel("NVIDIA A10G", 24)
_L4: Final = GpuModel("NVIDIA L4", 24)
_L40S: Final = GpuModel("NVIDIA L40S", 48)

PCIE_SERVERS: Final[Mapping[str, ServerModel]] = MappingProxyType(
    {
        "pcie-8gpu": ServerModel(
            description="8 T4 on PCIe 3: 2 sockets, 2 switches of 2 GPUs each",
            model="Tesla T4",
            memory_gib=16,
            bus_ids="1A:00.0 1B:00.0 3D:00.0 3E:00.0 88:00.0 89:00.0 B1:00.0 B2:00.0",
            together={Ancestor.PIX: 2, Ancestor.NODE: 4},
            numa_nodes=two_numa_nodes(32, 192),
            aliases=("g4dn.metal",),
        ),
        "pcie-8gpu-1socket": ServerModel(
            description="8 P40 on PCIe 3, all at one socket behind 2 switches of 4 GPUs",
            model="Tesla P40",
            memory_gib=24,
            bus_ids="04:00.0 05:00.0 06:00.0 07:00.0 0B:00.0 0C:00.0 0D:00.0 0E:00.0",
            together={Ancestor.PIX: 4, Ancestor.PXB: 8},
            numa_nodes=(NumaNode(0, 28, 256 * GIB),),
        ),
        "pcie-4gpu-1socket": ServerModel(
            description="4 A10G on PCIe 4 at the root ports of one socket",
            model="NVIDIA A10G",
            memory_gib=24,
            bus_ids="1B:00.0 1C:00.0 1D:00.0 1E:00.0",
            together={Ancestor.PHB: 4},
            numa_nodes=(NumaNode(0, 48, 192 * GIB),),
            aliases=("g5.12xlarge", "g5.24xlarge", "g6.12xlarge", "g6.24xlarge", "g6e.12xlarge"),
            alias_gpus={"g6.12xlarge": _L4, "g6.24xlarge": _L4, "g6e.12xlarge": _L40S},
        ),
        "pcie-8gpu-l40s": ServerModel(
            description="8 L40S on PCIe 4: 2 sockets, every GPU at a root port of its own",
            model="NVIDIA L40S",
            memory_gib=48,
            bus_ids="16:00.0 27:00.0 38:00.0 5A:00.0 98:00.0 A8:00.0 B8:00.0 D8:00.0",
            together={Ancestor.NODE: 4},
            numa_nodes=two_numa_nodes(96, 768),
            aliases=("g5.48xlarge", "g6.48xlarge", "g6e.48xlarge"),
            alias_gpus={"g5.48xlarge": _A10G, "g6.48xlarge": _L4},
        ),
    }
)
