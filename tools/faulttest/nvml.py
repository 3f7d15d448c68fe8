"""Changes the data of a node's simulated NVML."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from localcluster.access import NodeAccess
from localcluster.errors import ClusterError

_TOPOLOGY = "/run/nvidia/driver/lib/topology.conf"


@contextmanager
def changed(nodes: NodeAccess, node: str, line: str) -> Iterator[None]:
    """Add a line to the data of a node's NVML for the duration of a block."""
    nodes.run(node, "cp", _TOPOLOGY, f"{_TOPOLOGY}.whole")
    try:
        nodes.run(node, "sh", "-c", f"echo {line} >> {_TOPOLOGY}")
        yield
    finally:
        # A node that was switched off meanwhile gets its first state when it starts.
        with suppress(ClusterError):
            nodes.run(node, "mv", f"{_TOPOLOGY}.whole", _TOPOLOGY)
