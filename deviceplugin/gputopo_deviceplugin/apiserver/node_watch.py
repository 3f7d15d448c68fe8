"""Watches the Node object and the ResourceSlices of this node.

The Node owns the GPUTopology. The resources of the Node and the ResourceSlices show whether another
device plugin or DRA driver allocates the same GPUs.
"""

import asyncio
from http import HTTPStatus
from typing import Any

from gputopo_deviceplugin.apiserver.competition import find_competitor
from gputopo_deviceplugin.apiserver.node_api import FIRST_DELAY_SECONDS, NodeApi
from gputopo_deviceplugin.settings import AgentSettings
from gputopo_kube.changes import ChangeSignal
from gputopo_kube.client import Listing, WatchEvent
from gputopo_kube.document import Document
from gputopo_kube.reflector import ListWatchTiming, Reflector

_NOT_SERVED = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN})
"""Clusters before 1.34 do not serve ResourceSlices; an older ClusterRole does not permit them."""


class NodeWatch:
    """Keeps the Node object and the ResourceSlices of this node.

    Attributes:
        document: the Node object, empty before it was read for the first time.
        loops: list and watch the Node, and the ResourceSlices, until cancelled.
        competitor: message about another allocator of this node's GPUs; None if there is none.
    """

    def __init__(self, api: NodeApi, settings: AgentSettings, changes: ChangeSignal) -> None:
        self._settings = settings
        self._changes = changes
        self._slices: dict[str, Document] = {}
        timing = ListWatchTiming(
            2 * settings.resync_seconds, first_delay_seconds=FIRST_DELAY_SECONDS
        )
        nodes = Reflector(
            "nodes",
            api.nodes,
            timing=timing,
            on_list=self._list_nodes,
            on_event=lambda event: self._set_node(event.item),
        )
        slices = Reflector(
            "resourceslices",
            api.slices,
            timing=timing,
            on_list=self._list_slices,
            on_event=self._change_slice,
            unsupported=_NOT_SERVED,
        )
        self._reflectors = nodes, slices
        self.loops = nodes.run, slices.run
        self.document: Document = {}
        self.competitor: str | None = None

    def annotation(self, name: str) -> str | None:
        """Return the value of an annotation of the Node, or None if the annotation is missing."""
        annotations = (self.document.get("metadata") or {}).get("annotations") or {}
        return annotations.get(name)

    async def wait_read(self) -> None:
        """Wait until the first lists of the Node and the ResourceSlices succeeded or failed."""
        await asyncio.gather(*(each.tried.wait() for each in self._reflectors))

    def _list_nodes(self, listing: Listing[Document]) -> None:
        self._set_node(listing.items[0] if listing.items else self.document)

    def _set_node(self, document: Document) -> None:
        replaced = _uid(document) != _uid(self.document)
        self.document = document
        self._update(replaced=replaced)

    def _list_slices(self, listing: Listing[Document]) -> None:
        self._slices = {each["metadata"]["name"]: each for each in listing.items}
        self._update()

    def _change_slice(self, event: WatchEvent[Document]) -> None:
        name = event.item["metadata"]["name"]
        if event.deleted:
            self._slices.pop(name, None)
        else:
            self._slices[name] = event.item
        self._update()

    def _update(self, *, replaced: bool = False) -> None:
        found = find_competitor(
            self.document,
            self._slices.values(),
            node=self._settings.node,
            resources=self._settings.competitors,
            own_resource=self._settings.resource,
            drivers=self._settings.drivers,
        )
        if replaced or found != self.competitor:
            self.competitor = found
            self._changes.notify()


def _uid(document: Document) -> Any:  # noqa: ANN401
    return (document.get("metadata") or {}).get("uid")
