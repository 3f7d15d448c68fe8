"""This node's Node object and ResourceSlices: who owns the GPUTopology, who else allocates."""

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from gputopo_deviceplugin.admit.competition import competitor_of
from gputopo_deviceplugin.kube import ApiServer, Document, DocumentChange
from gputopo_deviceplugin.listwatch import ListWatch
from gputopo_deviceplugin.settings import AgentSettings

_NOT_SERVED = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN})
"""Clusters before 1.34 do not serve ResourceSlices; an older ClusterRole does not permit them."""


class NodeWatch:
    """The objects as the API server reported them last.

    Attributes:
        document: the Node object, empty before it was read for the first time.
        competitor: what else allocates this node's GPUs, None where nothing does.
    """

    def __init__(
        self, api: ApiServer, settings: AgentSettings, on_change: Callable[[], None]
    ) -> None:
        """Call ``on_change`` where the Node is another one, or the competitor."""
        self._settings = settings
        self._on_change = on_change
        self._slices: dict[str, Document] = {}
        silence_seconds = 2 * settings.resync_seconds
        self.node_follower: ListWatch[Document, DocumentChange] = ListWatch(
            "this node",
            api.nodes,
            api.node_changes,
            silence_seconds=silence_seconds,
            on_list=lambda nodes, _: self._read(nodes[0] if nodes else self.document),
            on_change=lambda change: self._read(change.document),
        )
        self.slice_follower: ListWatch[Document, DocumentChange] = ListWatch(
            "ResourceSlices",
            api.slices,
            api.slice_changes,
            silence_seconds=silence_seconds,
            on_list=lambda slices, _: self._list_slices(slices),
            on_change=self._change_slice,
            unavailable=_NOT_SERVED,
        )
        self.document: Document = {}
        self.competitor: str | None = None

    async def wait_read(self) -> None:
        """Return when both kinds were read, or could not be read, for the first time."""
        await asyncio.gather(self.node_follower.tried.wait(), self.slice_follower.tried.wait())

    def _read(self, document: Document) -> None:
        other = _uid(document) != _uid(self.document)
        self.document = document
        self._compare(other=other)

    def _list_slices(self, slices: list[Document]) -> None:
        self._slices = {each["metadata"]["name"]: each for each in slices}
        self._compare()

    def _change_slice(self, change: DocumentChange) -> None:
        name = change.document["metadata"]["name"]
        if change.deleted:
            self._slices.pop(name, None)
        else:
            self._slices[name] = change.document
        self._compare()

    def _compare(self, *, other: bool = False) -> None:
        found = competitor_of(
            self.document,
            self._slices.values(),
            node=self._settings.node,
            resources=self._settings.competitors,
            own_resource=self._settings.resource,
            drivers=self._settings.drivers,
        )
        if other or found != self.competitor:
            self.competitor = found
            self._on_change()


def _uid(document: Document) -> Any:  # noqa: ANN401
    return (document.get("metadata") or {}).get("uid")
