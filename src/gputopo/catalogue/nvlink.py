"""Servers and workstations with direct NVLinks between GPUs.

power8-minsky is the server of the SC'17 paper (Amaral et al., section 5.1), an IBM Power S822LC.
Each P100 has two NVLinks to the other GPU of its socket and two NVLinks to the CPU. The links to
the CPU are left out, because they carry no traffic between GPUs. The other servers are recordings
of ``nvidia-smi topo -m`` (``tests/data/topo``).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gputopo.catalogue.server import GIB, GpuModel, ServerModel, two_numa_nodes
from gputopo.topology.model import Ancestor, NumaNode

_ALL_PAIRS_OF_4: Final = "0-1 0-2 0-3 1-2 1-3 2-3"
_POWER_NUMA_NODES: Final = (NumaNode(0, 80, 256 * GIB), NumaNode(8, 80, 256 * GIB))

NVLINK_SERVERS: Final[Mapping[str, ServerModel]] = MappingProxyType(
    {
        "power8-minsky": ServerModel(
            description="IBM S822LC (SC'17): 2 sockets of 2 P100, 2 NVLinks a pair in a socket",
            model="Tesla P100-SXM2-16GB",
            bus_ids="0002:01:00.0 0003:01:00.0 000A:01:00.0 000B:01:00.0",
            together={Ancestor.NODE: 2},
            numa_nodes=_POWER_NUMA_NODES,
            nvlinks={2: "0-1 2-3"},
        ),
        "ac922-4gpu": ServerModel(
            description="IBM AC922: 2 sockets of 2 V100, 3 NVLinks a pair in a socket",
            model="Tesla V100-SXM2-32GB",
            bus_ids="0004:04:00.0 0004:05:00.0 0035:03:00.0 0035:04:00.0",
            together={Ancestor.NODE: 2},
            numa_nodes=(NumaNode(0, 64, 256 * GIB), NumaNode(8, 64, 256 * GIB)),
            nvlinks={3: "0-1 2-3"},
        ),
        "hgx-a100-4gpu": ServerModel(
            description="HGX A100 of 4: every pair on 4 NVLinks, no switch, a NUMA node each",
            model="NVIDIA A100-SXM4-40GB",
            bus_ids="07:00.0 46:00.0 85:00.0 C7:00.0",
            together={},
            numa_nodes=tuple(NumaNode(number, 16, 128 * GIB) for number in range(4)),
            nvlinks={4: _ALL_PAIRS_OF_4},
        ),
        "hgx-h100-4gpu": ServerModel(
            description="HGX H100 of 4: every pair on 6 NVLinks, no switch, a NUMA node each",
            model="NVIDIA H100 80GB HBM3",
            bus_ids="18:00.0 2A:00.0 9A:00.0 AB:00.0",
            together={},
            numa_nodes=tuple(NumaNode(number, 24, 192 * GIB) for number in range(4)),
            nvlinks={6: _ALL_PAIRS_OF_4},
        ),
        "a100-pcie-4gpu": ServerModel(
            description="4 A100 PCIe, an NVLink bridge of 12 links over each socket's pair",
            model="NVIDIA A100 80GB PCIe",
            bus_ids="27:00.0 38:00.0 A8:00.0 B8:00.0",
            together={Ancestor.NODE: 2},
            numa_nodes=two_numa_nodes(104, 512),
            nvlinks={12: "0-1 2-3"},
        ),
        "rtx-a6000-2gpu": ServerModel(
            description="Workstation of 2 RTX A6000 with an NVLink bridge of 4 links",
            model="NVIDIA RTX A6000",
            memory_gib=48,
            bus_ids="21:00.0 4B:00.0",
            together={Ancestor.PHB: 2},
            numa_nodes=(NumaNode(0, 64, 256 * GIB),),
            nvlinks={4: "0-1"},
            aliases=("rtx-3090-2gpu",),
            alias_gpus={"rtx-3090-2gpu": GpuModel("NVIDIA GeForce RTX 3090", 24)},
        ),
    }
)
