"""Write a node topology as the ``topology.conf`` of the simulated NVML.

``PYTHONPATH=tools python -m fakenvml.render dgx1-v100 --node n1 > topology.conf``
"""

import argparse
import sys
from collections.abc import Iterator
from itertools import count
from typing import Final

from gputopo.catalogue import named, names
from gputopo.topology.model import Ancestor, Gpu, GpuIndex, LinkKind, NodeTopology, TopologyError
from gputopo.topology.rates import pcie_version_beside

DRIVER_VERSION: Final = "550.54.15"
_LANES: Final = 16

_LEVELS: Final = {
    Ancestor.INTERNAL: "INTERNAL",
    Ancestor.PIX: "SINGLE",
    Ancestor.PXB: "MULTIPLE",
    Ancestor.PHB: "HOSTBRIDGE",
    Ancestor.NODE: "NODE",
    Ancestor.SYS: "SYSTEM",
}


def render(topology: NodeTopology) -> str:
    """Return the text of ``topology.conf``.

    Raises:
        TopologyError: the GPUs are not 0, 1, 2, ...; NVML numbers them without gaps.
    """
    gpus = sorted(topology.gpus, key=lambda gpu: gpu.index)
    if [gpu.index for gpu in gpus] != list(range(len(gpus))):
        raise TopologyError(f"gpus[].index: {[gpu.index for gpu in gpus]} has gaps")
    lines = [
        f"driver {DRIVER_VERSION}",
        *(_gpu(topology, gpu) for gpu in gpus),
        *_nvlinks(topology),
        *(f"common {link.a} {link.b} {_LEVELS[link.ancestor]}" for link in topology.links),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Print the ``topology.conf`` of a server of the catalogue."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("name", choices=names())
    parser.add_argument("--node", default="", help="node name; makes the UUIDs its own")
    arguments = parser.parse_args()
    sys.stdout.write(render(named(arguments.name, node=arguments.node)))


def _gpu(topology: NodeTopology, gpu: Gpu) -> str:
    nvlink, generation, lanes = 0, 0, 0
    for link in topology.links:
        if gpu.index not in (link.a, link.b):
            continue
        if link.kind is LinkKind.PCIE:
            generation, lanes = max(generation, link.version), max(lanes, link.count)
        else:
            nvlink = max(nvlink, link.version)
    numa_node = -1 if gpu.numa_node is None else gpu.numa_node
    return (
        f"gpu {gpu.index} {gpu.uuid} {gpu.minor} {gpu.pci_bus_id} {gpu.memory_bytes} {numa_node}"
        f" {generation or pcie_version_beside(nvlink)} {lanes or _LANES}"
        f" {nvlink} {gpu.model}"
    )


def _nvlinks(topology: NodeTopology) -> Iterator[str]:
    """Assign each GPU's link numbers; all links of an NVSwitch node go to the switch."""
    numbers = {gpu.index: count() for gpu in topology.gpus}
    switched: set[GpuIndex] = set()
    for link in topology.links:
        for end, peer in ((link.a, link.b), (link.b, link.a)):
            if link.kind is LinkKind.NVLINK:
                for _ in range(link.count):
                    yield f"nvlink {end} {next(numbers[end])} gpu {peer}"
            elif link.kind is LinkKind.NVSWITCH and end not in switched:
                switched.add(end)
                for _ in range(link.count):
                    yield f"nvlink {end} {next(numbers[end])} switch"


if __name__ == "__main__":
    main()
