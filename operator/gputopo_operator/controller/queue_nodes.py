"""Keeps what the queue must know of every node: its GPUs, and which pods may run on the node."""

import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from operator import eq
from typing import Generic, TypeVar

from gputopo.runtime.log import fields
from gputopo_cluster.topologies import GpuNode, UnreadableTopology, parse_gpu_node
from gputopo_kube.document import Document
from gputopo_kube.node_match import node_rules
from gputopo_operator.parse.readable import UNREADABLE

Value = TypeVar("Value")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Parsed(Generic[Value]):
    """An object, and the UID and version of what was parsed."""

    uid: str | None
    version: str | None
    value: Value


class ParsedObjects(Generic[Value]):
    """The parsed newest version of each object of one kind. Any thread may call the methods."""

    def __init__(
        self, parse: Callable[[Document], Value], same: Callable[[Value, Value], bool] = eq
    ) -> None:
        """Only an object whose parsed values are not the ``same`` has changed."""
        self._parse = parse
        self._same = same
        self._lock = threading.Lock()
        self._found: dict[str, _Parsed[Value]] = {}
        self._changed: set[str] | None = None

    def values(self) -> dict[str, Value]:
        """Return the parsed objects, by name, or by ``NAMESPACE/NAME``."""
        with self._lock:
            return {name: each.value for name, each in self._found.items()}

    def replace(self, raw: Document) -> bool:
        """Parse and store an object; return whether its parsed value has changed."""
        name, after = _name(raw), self._parsed(raw)
        with self._lock:
            before = self._found.pop(name, None)
            self._found |= after
            self._note(name)
        if before is None or not after:
            return bool(before or after)
        return not self._same(before.value, after[name].value)

    def drop(self, raw: Document) -> None:
        """Forget a deleted object. An object that was created after it with its name stays.

        kopf keeps the order of the events of one object only: this event may come after the
        creation of the next object.
        """
        name = _name(raw)
        with self._lock:
            if name in self._found and self._found[name].uid != _uid(raw):
                return
            self._found.pop(name, None)
            self._note(name)

    def begin_list(self) -> None:
        """Record that the objects for ``replace_all`` are read from now on."""
        with self._lock:
            self._changed = set()

    def replace_all(self, raws: Iterable[Document]) -> None:
        """Parse and store the objects of a list, and forget all other objects.

        Objects that have changed since ``begin_list`` stay as they are. All pages of a list show
        the state before its first page, and a list of thousands of nodes takes seconds.
        """
        after: dict[str, _Parsed[Value]] = {}
        for raw in raws:
            after |= self._parsed(raw)
        with self._lock:
            for name in self._changed or ():
                after.pop(name, None)
                if name in self._found:
                    after[name] = self._found[name]
            self._found, self._changed = after, None

    def _parsed(self, raw: Document) -> dict[str, _Parsed[Value]]:
        """Return the parsed object by its name; empty if it cannot be parsed.

        A list of all nodes has few objects that have changed since the list before.
        """
        name, uid, version = _name(raw), _uid(raw), raw["metadata"].get("resourceVersion")
        known = self._found.get(name)
        if known is not None and version and (known.uid, known.version) == (uid, version):
            return {name: known}
        try:
            return {name: _Parsed(uid, version, self._parse(raw))}
        except UNREADABLE as error:
            found = {"kind": raw.get("kind"), "object": name, "reason": repr(error)}
            _log.warning("object not readable, left out %s", fields(**found))
            return {}

    def _note(self, name: str) -> None:
        if self._changed is not None:
            self._changed.add(name)


def _uid(raw: Document) -> str | None:
    uid: str | None = raw["metadata"].get("uid")
    return uid


def _name(raw: Document) -> str:
    metadata = raw["metadata"]
    parts = (metadata.get("namespace"), metadata["name"])
    return "/".join(part for part in parts if part)


class QueueNodes:
    """The parts of all Nodes and GPUTopologies that the queue needs.

    A GPUTopology has 25 kB, and so has a Node with many images. So the operator does not read these
    objects for each decision.

    Attributes:
        gpus: what the GPUTopology of each node reports of its GPUs.
        rules: name, labels and taints of each Node.
    """

    def __init__(self) -> None:
        self.gpus = ParsedObjects[GpuNode | UnreadableTopology](_parsed_node, _offers_the_same)
        self.rules = ParsedObjects[Document](node_rules)


def _parsed_node(topology: Document) -> GpuNode | UnreadableTopology:
    """Return the GPUs of a node; log it if its GPUTopology is in the format of another version."""
    node = parse_gpu_node(topology)
    if isinstance(node, UnreadableTopology):
        _log.warning(
            "GPUTopology not valid: no GPU of the node is used; upgrade its agent %s",
            fields(node=node.node, reason=node.reason),
        )
    return node


def _offers_the_same(
    before: GpuNode | UnreadableTopology, after: GpuNode | UnreadableTopology
) -> bool:
    """Return whether only the version changed up to which the agent has seen the node's pods."""
    if isinstance(before, GpuNode) and isinstance(after, GpuNode):
        return replace(before, pods_version=after.pods_version) == after
    return before == after
