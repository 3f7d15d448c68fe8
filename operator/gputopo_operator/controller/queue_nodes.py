"""Keeps what the queue needs to know of every node: its GPUs, and which pods may use it."""

import threading
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from gputopo_kube.document import Document
from gputopo_kube.node_match import node_rules
from gputopo_operator.parse_queue import parse_node_gpus
from gputopo_operator.queued import NodeGpus

Value = TypeVar("Value")


class ParsedObjects(Generic[Value]):
    """The newest value of each object of one kind, by name. Any thread may call the methods."""

    def __init__(self, parse: Callable[[Document], Value]) -> None:
        self._parse = parse
        self._lock = threading.Lock()
        self._values: dict[str, Value] = {}

    def values(self) -> dict[str, Value]:
        """Return the values of all objects, by name."""
        with self._lock:
            return dict(self._values)

    def replace(self, raw: Document) -> bool:
        """Replace the value of an object; return whether it has changed."""
        name, after = raw["metadata"]["name"], self._parse(raw)
        with self._lock:
            changed = self._values.get(name) != after
            self._values[name] = after
        return changed

    def drop(self, name: str) -> None:
        """Forget a deleted object."""
        with self._lock:
            self._values.pop(name, None)

    def replace_all(self, raws: Iterable[Document]) -> None:
        """Replace the values of all objects."""
        after = {raw["metadata"]["name"]: self._parse(raw) for raw in raws}
        with self._lock:
            self._values = after


class QueueNodes:
    """The nodes as the queue needs them.

    A GPUTopology has 25 kB, and so has a Node with many images. So they are not read for each
    decision.

    Attributes:
        gpus: what the GPUTopology of each node reports of its GPUs.
        rules: name, labels and taints of each Node.
    """

    def __init__(self) -> None:
        self.gpus = ParsedObjects[NodeGpus](parse_node_gpus)
        self.rules = ParsedObjects[Document](node_rules)
