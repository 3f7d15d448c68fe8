"""Stores of nodes as the operator's parts use them, without watches."""

from collections.abc import Callable, Iterable

from gputopo_kube.document import Document
from gputopo_kube.node_match import node_rules
from gputopo_operator.controller.job_api import JobApi
from gputopo_operator.controller.node_store import NodeStore
from gputopo_operator.controller.parsed_objects import ParsedObjects, Value
from gputopo_operator.parse.reports import parse_report


class _Listed(ParsedObjects[Value]):
    """Objects that are read before each use, as if each event had already arrived."""

    def __init__(
        self, parse: Callable[[Document], Value], objects: Callable[[], Iterable[Document]]
    ) -> None:
        super().__init__(parse)
        self._objects = objects
        self.is_read = True

    def values(self) -> dict[str, Value]:
        self.replace_all(self._objects())
        return super().values()

    def get(self, name: str) -> Value | None:
        return self.values().get(name)


def listed_nodes(api: JobApi) -> NodeStore:
    """Return a store that shows the objects of the API server at each moment."""
    nodes = NodeStore()
    nodes.reports = _Listed(parse_report, api.topologies)
    nodes.rules = _Listed(node_rules, api.nodes)
    return nodes


def stored_nodes(topologies: Iterable[Document], objects: Iterable[Document] = ()) -> NodeStore:
    """Return a store of these GPUTopologies and Nodes."""
    nodes = NodeStore()
    nodes.reports.replace_all(topologies)
    nodes.rules.replace_all(objects)
    return nodes
