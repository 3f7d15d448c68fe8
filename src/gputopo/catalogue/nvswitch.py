"""Servers with an NVSwitch that connects all GPUs at full rate.

The number of NVLinks of a GPU and their generation are from NVIDIA's user guides (DGX-2: 6 of
generation 2, DGX A100: 12 of 3, DGX H100: 18 of 4, HGX B200: 18 of 5). The PCIe trees of the DGX
A100 and H100 are derived from recordings of ``nvidia-smi topo -m`` (``tests/data/topo``). The DGX
A100 of the recording has four NUMA nodes per socket (NPS4), with two GPUs on each of the NUMA nodes
3, 1, 7 and 5. The catalogue has the same machine with one NUMA node per socket (NPS1). The PCIe
trees of the DGX-2 and the HGX B200 are the usual ones for these boards and were not verified on a
machine.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gputopo.catalogue.server import GpuModel, ServerModel, two_numa_nodes
from gputopo.topology.model import Ancestor

_H200: Final = GpuModel("NVIDIA H200", 141)
_DGX_H100_BUS_IDS: Final = "1B:00.0 43:00.0 52:00.0 61:00.0 9D:00.0 C3:00.0 D1:00.0 DF:00.0"

NVSWITCH_SERVERS: Final[Mapping[str, ServerModel]] = MappingProxyType(
    {
        "dgx-2": ServerModel(
            description="NVIDIA DGX-2: 16 V100 on NVSwitch, 6 NVLinks each",
            model="Tesla V100-SXM3-32GB",
            bus_ids=(
                "34:00.0 36:00.0 39:00.0 3B:00.0 57:00.0 59:00.0 5C:00.0 5E:00.0"
                " B7:00.0 B9:00.0 BC:00.0 BE:00.0 E0:00.0 E2:00.0 E5:00.0 E7:00.0"
            ),
            together={Ancestor.PIX: 2, Ancestor.PXB: 4, Ancestor.NODE: 8},
            numa_nodes=two_numa_nodes(48, 768),
            to_nvswitch=6,
            aliases=("hgx-2",),
        ),
        "dgx-a100": ServerModel(
            description="NVIDIA DGX A100: 8 A100 on NVSwitch, 12 NVLinks each",
            model="NVIDIA A100-SXM4-40GB",
            bus_ids="07:00.0 0F:00.0 47:00.0 4E:00.0 87:00.0 90:00.0 B7:00.0 BD:00.0",
            together={Ancestor.PXB: 2, Ancestor.NODE: 4},
            numa_nodes=two_numa_nodes(128, 512),
            to_nvswitch=12,
            aliases=("hgx-a100-8gpu", "p4d.24xlarge", "p4de.24xlarge", "a2-highgpu-8g"),
            alias_gpus={"p4de.24xlarge": GpuModel("NVIDIA A100-SXM4-80GB")},
        ),
        "dgx-h100": ServerModel(
            description="NVIDIA DGX H100: 8 H100 on NVSwitch, 18 NVLinks each; DGX H200 alike",
            model="NVIDIA H100 80GB HBM3",
            bus_ids=_DGX_H100_BUS_IDS,
            together={Ancestor.NODE: 4},
            numa_nodes=two_numa_nodes(112, 1024),
            to_nvswitch=18,
            aliases=("hgx-h100-8gpu", "dgx-h200", "p5.48xlarge", "p5e.48xlarge", "a3-highgpu-8g"),
            alias_gpus={"dgx-h200": _H200, "p5e.48xlarge": _H200},
        ),
        "hgx-b200": ServerModel(
            description="NVIDIA HGX B200: 8 B200 on NVSwitch, 18 NVLinks of generation 5 each",
            model="NVIDIA B200",
            memory_gib=180,
            bus_ids=_DGX_H100_BUS_IDS,
            together={Ancestor.PIX: 2, Ancestor.NODE: 4},
            numa_nodes=two_numa_nodes(112, 1024),
            to_nvswitch=18,
            aliases=("dgx-b200", "p6-b200.48xlarge"),
        ),
    }
)
