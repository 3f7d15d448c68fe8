"""The API server, through lightkube: the only module that knows how it is asked."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import httpx2
from lightkube import AsyncClient
from lightkube.generic_resource import GenericGlobalResource
from lightkube.types import PatchType

from gputopo_deviceplugin.documents import (
    EventDocument,
    NodeDocument,
    PodDocument,
    ResourceSliceDocument,
    TopologyDocument,
    TopologyStatusDocument,
)
from gputopo_deviceplugin.requests import ApiServerError, Requests, translated
from gputopo_kube.pods import PodKey, PodView, parse_pod

__all__ = ["ApiServer", "ApiServerError", "Document", "DocumentChange", "PodChange"]

_EVERYWHERE = "*"
_METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PodChange:
    """One change of a pod of this node."""

    pod: PodView
    deleted: bool


@dataclass(frozen=True, slots=True)
class DocumentChange:
    """One change of another object."""

    document: Document
    deleted: bool


class ApiServer:
    """What the agent asks of the API server, about its own node only."""

    def __init__(
        self,
        client: AsyncClient,
        *,
        node: str,
        resource: str,
        on_answer: Callable[[], None] = lambda: None,
    ) -> None:
        """Use ``client``; ``resource`` is the extended resource that counts GPUs.

        ``on_answer`` is called at every successful answer and at every watch event.
        """
        self._client = client
        self._node = node
        self._resource = resource
        self._on_answer = on_answer
        self._requests = Requests(on_answer)

    def abandon(self) -> None:
        """Fail all requests that wait for an answer: the API server is lost."""
        self._requests.abandon()

    async def pods(self) -> tuple[list[PodView], str]:
        """Return the pods of this node and the resource version of the list."""
        async with self._requests.one():
            pages = self._client.list(
                PodDocument, namespace=_EVERYWHERE, fields={"spec.nodeName": self._node}
            )
            records = [parse_pod(document, self._resource) async for document in pages]
            return records, pages.resourceVersion

    async def changes(self, resource_version: str) -> AsyncGenerator[PodChange, None]:
        """Yield the changes of this node's pods since a list."""
        with translated():
            watch = self._client.watch(
                PodDocument,
                namespace=_EVERYWHERE,
                fields={"spec.nodeName": self._node},
                resource_version=resource_version,
            )
            async with aclosing(watch) as changes:  # type: ignore[type-var]  # it is a generator
                async for kind, document in changes:
                    self._on_answer()
                    yield PodChange(parse_pod(document, self._resource), kind == "DELETED")

    async def pod(self, key: PodKey) -> PodView | None:
        """Return a pod as it is now, None where there is none of that name."""
        async with self._requests.one():
            document = await _absent(
                self._client.get(PodDocument, key.name, namespace=key.namespace)
            )
            return None if document is None else parse_pod(document, self._resource)

    async def heartbeat(self) -> None:
        """Read the metadata of this node's Node, as cheaply as possible.

        Version 0 is answered from the API server's memory, without etcd. It needs the agent's
        credentials and rights, as its other requests do.

        Raises:
            ApiServerError: where there was no answer, or an error.
        """
        async with self._requests.one():
            # lightkube's own get takes neither a version nor a media type.
            get = self._client._client.request(  # noqa: SLF001
                "get",
                res=NodeDocument,
                name=self._node,
                params={"resourceVersion": "0"},
                headers={"Accept": _METADATA_ONLY},
            )
            await _absent(get)

    async def nodes(self) -> tuple[list[Document], str]:
        """Return this node's Node object, where there is one, and the version of the list."""
        return await self._list(NodeDocument, {"metadata.name": self._node})

    def node_changes(self, resource_version: str) -> AsyncGenerator[DocumentChange, None]:
        """Yield the changes of this node's Node object since a list."""
        return self._watch(NodeDocument, {"metadata.name": self._node}, resource_version)

    async def slices(self) -> tuple[list[Document], str]:
        """Return this node's ResourceSlices and the version of the list."""
        return await self._list(ResourceSliceDocument, {"spec.nodeName": self._node})

    def slice_changes(self, resource_version: str) -> AsyncGenerator[DocumentChange, None]:
        """Yield the changes of this node's ResourceSlices since a list."""
        return self._watch(ResourceSliceDocument, {"spec.nodeName": self._node}, resource_version)

    async def topology(self) -> Document | None:
        """Return this node's GPUTopology, None where there is none."""
        async with self._requests.one():
            document: Document | None = await _absent(
                self._client.get(TopologyDocument, self._node)
            )
            return document

    async def create_topology(self, metadata: Document, spec: Document) -> Document:
        """Create this node's GPUTopology and return it."""
        async with self._requests.one():
            created: Document = await self._client.create(
                TopologyDocument.from_dict({"metadata": metadata, "spec": spec})
            )
            return created

    async def patch_topology(self, body: Document) -> Document:
        """Change spec or metadata of this node's GPUTopology and return it."""
        async with self._requests.one():
            return await self._client.patch(
                TopologyDocument, self._node, dict(body), patch_type=PatchType.MERGE
            )

    async def patch_topology_status(self, status: Document, version: str | None = None) -> Document:
        """Change the status of this node's GPUTopology and return it.

        With ``version`` only while that is the version of the object: else status 409.
        """
        body: dict[str, Any] = {"status": status}
        if version is not None:
            body["metadata"] = {"resourceVersion": version}
        async with self._requests.one():
            return await self._client.patch(
                TopologyStatusDocument, self._node, body, patch_type=PatchType.MERGE
            )

    async def create_event(self, event: Document) -> None:
        """Create an Event."""
        async with self._requests.one():
            await self._client.create(EventDocument(**event))

    async def _list(
        self, kind: type[GenericGlobalResource], selected: Mapping[str, str]
    ) -> tuple[list[Document], str]:
        async with self._requests.one():
            pages = self._client.list(kind, fields=dict(selected))
            return [document async for document in pages], pages.resourceVersion

    async def _watch(
        self, kind: type[GenericGlobalResource], selected: Mapping[str, str], version: str
    ) -> AsyncGenerator[DocumentChange, None]:
        with translated():
            watch = self._client.watch(kind, fields=dict(selected), resource_version=version)
            async with aclosing(watch) as changes:  # type: ignore[type-var]  # it is a generator
                async for event, document in changes:
                    self._on_answer()
                    yield DocumentChange(document, event == "DELETED")


async def _absent(get: Any) -> Any:  # noqa: ANN401 - lightkube's generic documents
    try:
        return await get
    except httpx2.HTTPStatusError as error:
        if error.response is not None and error.response.status_code == httpx2.codes.NOT_FOUND:
            return None
        raise
