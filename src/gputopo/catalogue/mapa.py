"""The servers of MAPA's evaluation.

The NVLinks are those of MAPA's released program (socal-ucr/MAPA, ``src/GpuTopology.hh``), with GPUs
numbered from 0. The PCIe trees are those that such servers usually have. The program has three
errors:

- torus-2d-16 has 31 NVLinks, but a torus of 4 by 4 has 32. The program does not declare the link
  between GPUs 0 and 4, the first GPUs of two rows. The catalogue does not have this link either.
- The program declares 32 NVLinks of cubemesh-16, but at run time it replaces two of them (4-5,
  12-13) by PCIe. The catalogue has all 32.
- The program declares four links of cubemesh-16 (0-11, 1-5, 3-8, 9-13) as double, but with the 25
  GB/s of a single link. In the catalogue they are single.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gputopo.catalogue.server import GIB, GpuModel, ServerModel, two_numa_nodes
from gputopo.topology.model import Ancestor, NumaNode

_DGX1_BUS_IDS: Final = "06:00.0 07:00.0 0A:00.0 0B:00.0 85:00.0 86:00.0 89:00.0 8A:00.0"
_BUS_IDS_OF_16: Final = " ".join(f"{bus:02X}:00.0" for bus in range(0x10, 0x20))

MAPA_SERVERS: Final[Mapping[str, ServerModel]] = MappingProxyType(
    {
        "dgx1-v100": ServerModel(
            description="NVIDIA DGX-1: 8 V100, hybrid cube mesh of 1 or 2 NVLinks a pair",
            model="Tesla V100-SXM2-32GB",
            bus_ids=_DGX1_BUS_IDS,
            together={Ancestor.PIX: 2, Ancestor.PHB: 4},
            numa_nodes=two_numa_nodes(40, 256),
            nvlinks={
                2: "0-3 0-4 1-2 1-5 2-3 4-7 5-6 6-7",
                1: "0-1 0-2 1-3 2-6 3-7 4-5 4-6 5-7",
            },
            aliases=("dgx-v", "p3.16xlarge", "p3dn.24xlarge"),
            alias_gpus={"p3.16xlarge": GpuModel("Tesla V100-SXM2-16GB")},
        ),
        "dgx1-p100": ServerModel(
            description="NVIDIA DGX-1 of 2016: 8 P100, hybrid cube mesh of single NVLinks",
            model="Tesla P100-SXM2-16GB",
            bus_ids=_DGX1_BUS_IDS,
            together={Ancestor.PIX: 2, Ancestor.PHB: 4},
            numa_nodes=two_numa_nodes(40, 256),
            nvlinks={1: "0-1 0-2 0-3 0-4 1-2 1-3 1-5 2-3 2-6 3-7 4-5 4-6 4-7 5-6 5-7 6-7"},
            aliases=("dgx-p",),
        ),
        "summit": ServerModel(
            description="IBM AC922 of Summit: 2 sockets of 3 V100, 2 NVLinks a pair in a socket",
            model="Tesla V100-SXM2-16GB",
            bus_ids=(
                "0004:04:00.0 0004:05:00.0 0004:06:00.0 0035:03:00.0 0035:04:00.0 0035:05:00.0"
            ),
            together={Ancestor.PHB: 3},
            numa_nodes=(NumaNode(0, 88, 256 * GIB), NumaNode(8, 88, 256 * GIB)),
            nvlinks={2: "0-1 0-2 1-2 3-4 3-5 4-5"},
        ),
        "torus-2d-16": ServerModel(
            description="MAPA's 16 V100 in a torus of 4 by 4 (simulated; 31 NVLinked pairs)",
            model="Tesla V100-SXM2-16GB",
            bus_ids=_BUS_IDS_OF_16,
            together={Ancestor.PIX: 4, Ancestor.NODE: 8},
            numa_nodes=two_numa_nodes(48, 768),
            nvlinks={
                2: "0-1 1-2 2-3 4-5 5-6 6-7 8-9 9-10 10-11 12-13 13-14 14-15 0-12 3-15",
                1: "0-3 1-5 1-13 2-6 2-14 3-7 4-7 4-8 5-9 6-10 7-11 8-11 8-12 9-13 10-14 11-15"
                " 12-15",
            },
            aliases=("torus-2d",),
        ),
        "cubemesh-16": ServerModel(
            description="MAPA's 16 V100 in a cube mesh (simulated; 32 NVLinked pairs)",
            model="Tesla V100-SXM2-16GB",
            bus_ids=_BUS_IDS_OF_16,
            together={Ancestor.PIX: 4, Ancestor.NODE: 8},
            numa_nodes=two_numa_nodes(48, 768),
            nvlinks={
                2: "0-3 1-2 4-5 4-15 6-7 7-12 8-10 9-10 12-13 12-15 14-15",
                1: "0-1 0-2 0-11 1-3 1-5 2-6 2-9 3-8 4-6 4-7 5-6 5-7 6-13 8-9 8-11 9-11 9-13"
                " 10-14 12-14 13-14 13-15",
            },
            aliases=("cubeMesh-16",),
        ),
    }
)
