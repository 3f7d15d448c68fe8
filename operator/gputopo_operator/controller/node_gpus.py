"""Keeps what the GPUTopology of every node reports of its GPUs, for the queue."""

import threading
from collections.abc import Iterable

from gputopo_kube.document import Document
from gputopo_operator.parse_queue import parse_node_gpus
from gputopo_operator.queued import NodeGpus


class NodeGpuReports:
    """The GPUs of each node. A GPUTopology has 25 kB, so it is not read for each decision."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._nodes: dict[str, NodeGpus] = {}

    def nodes(self) -> dict[str, NodeGpus]:
        """Return the GPUs of all nodes, by name of the node."""
        with self._lock:
            return dict(self._nodes)

    def replace(self, topology: Document) -> bool:
        """Replace what a node reports; return whether it has changed."""
        name, after = topology["metadata"]["name"], parse_node_gpus(topology)
        with self._lock:
            changed = self._nodes.get(name) != after
            self._nodes[name] = after
        return changed

    def drop(self, node: str) -> None:
        """Forget a deleted node."""
        with self._lock:
            self._nodes.pop(node, None)

    def replace_all(self, topologies: Iterable[Document]) -> None:
        """Replace what all nodes report."""
        after = {each["metadata"]["name"]: parse_node_gpus(each) for each in topologies}
        with self._lock:
            self._nodes = after
