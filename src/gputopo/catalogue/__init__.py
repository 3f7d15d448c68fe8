"""Catalogue of well-known servers as node topologies.

Each module contains one family of servers and its sources. Some servers have further names, such
as names of cloud instances and names that MAPA uses.
"""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from itertools import combinations
from types import MappingProxyType
from typing import Final
from uuid import NAMESPACE_DNS, uuid5

from gputopo.catalogue.boards import rated_link
from gputopo.catalogue.mapa import MAPA_SERVERS
from gputopo.catalogue.nvlink import NVLINK_SERVERS
from gputopo.catalogue.nvswitch import NVSWITCH_SERVERS
from gputopo.catalogue.pcie import PCIE_SERVERS
from gputopo.catalogue.server import ServerModel
from gputopo.topology.model import Gpu, GpuIndex, GpuUuid, Link, NodeTopology, TopologyError

_NAMESPACE: Final = uuid5(NAMESPACE_DNS, "catalogue.gputopo.io")

SERVERS: Final[Mapping[str, ServerModel]] = MappingProxyType(
    {**MAPA_SERVERS, **NVLINK_SERVERS, **NVSWITCH_SERVERS, **PCIE_SERVERS}
)
_NAME_OF: Final[Mapping[str, str]] = MappingProxyType(
    {known: name for name, one in SERVERS.items() for known in (name, *one.aliases)}
)


def names() -> tuple[str, ...]:
    """Return the main name of each server."""
    return tuple(SERVERS)


def all_names() -> tuple[str, ...]:
    """Return all names of the servers: each main name, followed by its further names."""
    return tuple(_NAME_OF)


def named(name: str, *, node: str = "") -> NodeTopology:
    """Return the topology of the server with this main or further name.

    With a further name, the GPUs can have another model and another amount of memory.

    The UUID of a GPU is derived from the server, ``node`` and the GPU index. So UUIDs are the same
    in every run and differ between nodes.

    Raises:
        TopologyError: on an unknown name; the message lists the known names.
    """
    known = _known(name)
    server = SERVERS[known].of_name(name)
    return NodeTopology(
        gpus=tuple(_gpus(known, node, server)),
        links=tuple(_links(server)),
        numa_nodes=server.numa_nodes,
    )


def _known(name: str) -> str:
    if name in _NAME_OF:
        return _NAME_OF[name]
    near = get_close_matches(name, _NAME_OF, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise TopologyError(f"topology: {name!r} is not one of {', '.join(SERVERS)}{hint}")


def _gpus(name: str, node: str, server: ServerModel) -> Iterator[Gpu]:
    for index, bus_id in enumerate(server.bus_ids.split()):
        domain = "" if bus_id.count(":") > 1 else "0000:"
        yield Gpu(
            index=GpuIndex(index),
            uuid=GpuUuid(f"GPU-{uuid5(_NAMESPACE, f'{name}/{node}/{index}')}"),
            minor=index,
            pci_bus_id=f"0000{domain}{bus_id}",
            model=server.model,
            memory_bytes=server.memory_bytes,
            numa_node=server.numa_node(index),
        )


def _links(server: ServerModel) -> Iterator[Link]:
    for pair in combinations(range(server.gpus), 2):
        yield rated_link(pair, server.best_link(*pair), server.ancestor(*pair), server.model)
