"""The API server, through lightkube: the only module that knows how it is asked."""

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
import msgspec
from lightkube import AsyncClient
from lightkube.core.resource import ApiInfo, ResourceDef
from lightkube.generic_resource import (
    GenericGlobalResource,
    GenericGlobalStatus,
    GenericNamespacedResource,
    create_api_info,
)
from lightkube.types import PatchType

from gputopo.api.names import GROUP, VERSION
from gputopo_deviceplugin.pods import PodKey, PodRecord, record_of

_TOPOLOGY = ResourceDef(GROUP, VERSION, "GPUTopology")
_EVERYWHERE = "*"

Document = Mapping[str, Any]


class PodDocument(GenericNamespacedResource):
    """A pod as a dict."""

    _api_info = create_api_info("", "v1", "Pod", "pods")


class NodeDocument(GenericGlobalResource):
    """A node as a dict."""

    _api_info = create_api_info("", "v1", "Node", "nodes")


class EventDocument(GenericNamespacedResource):
    """An event as a dict."""

    _api_info = create_api_info("", "v1", "Event", "events")


class TopologyDocument(GenericGlobalResource):
    """A GPUTopology as a dict."""

    _api_info = create_api_info(*_TOPOLOGY, "gputopologies")


class TopologyStatusDocument(GenericGlobalStatus):
    """The status subresource of a GPUTopology."""

    _api_info = ApiInfo(
        resource=_TOPOLOGY,
        parent=_TOPOLOGY,
        plural="gputopologies",
        verbs=["patch"],
        action="status",
    )


class ApiServerError(Exception):
    """The API server refused (``status`` says how) or did not answer (None)."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(f"API server: {message}")
        self.status = status


@dataclass(frozen=True, slots=True)
class PodChange:
    """One change of a pod of this node."""

    pod: PodRecord
    deleted: bool


class ApiServer:
    """What the agent asks of the API server, about its own node only."""

    def __init__(self, client: AsyncClient, *, node: str, resource: str) -> None:
        """Use ``client``; ``resource`` is the extended resource that counts GPUs."""
        self._client = client
        self._node = node
        self._resource = resource

    async def pods(self) -> tuple[list[PodRecord], str]:
        """Return the pods of this node and the resource version of the list."""
        with _translated():
            pages = self._client.list(
                PodDocument, namespace=_EVERYWHERE, fields={"spec.nodeName": self._node}
            )
            records = [record_of(document, self._resource) async for document in pages]
            return records, pages.resourceVersion

    async def changes(self, resource_version: str) -> AsyncGenerator[PodChange, None]:
        """Yield the changes of this node's pods since a list."""
        with _translated():
            watch = self._client.watch(
                PodDocument,
                namespace=_EVERYWHERE,
                fields={"spec.nodeName": self._node},
                resource_version=resource_version,
            )
            async with aclosing(watch) as changes:  # type: ignore[type-var]  # it is a generator
                async for kind, document in changes:
                    yield PodChange(record_of(document, self._resource), kind == "DELETED")

    async def pod(self, key: PodKey) -> PodRecord | None:
        """Return a pod as it is now, None where there is none of that name."""
        with _translated():
            document = await _absent(
                self._client.get(PodDocument, key.name, namespace=key.namespace)
            )
        return None if document is None else record_of(document, self._resource)

    async def node(self) -> Document:
        """Return this node's Node object."""
        with _translated():
            return await self._client.get(NodeDocument, self._node)

    async def topology(self) -> Document | None:
        """Return this node's GPUTopology, None where there is none."""
        with _translated():
            document: Document | None = await _absent(
                self._client.get(TopologyDocument, self._node)
            )
            return document

    async def create_topology(self, metadata: Document, spec: Document) -> Document:
        """Create this node's GPUTopology and return it."""
        with _translated():
            created: Document = await self._client.create(
                TopologyDocument.from_dict({"metadata": metadata, "spec": spec})
            )
            return created

    async def patch_topology(self, body: Document) -> Document:
        """Change spec or metadata of this node's GPUTopology and return it."""
        with _translated():
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
        with _translated():
            return await self._client.patch(
                TopologyStatusDocument, self._node, body, patch_type=PatchType.MERGE
            )

    async def create_event(self, event: Document) -> None:
        """Create an Event."""
        with _translated():
            await self._client.create(EventDocument(**event))


async def _absent(get: Any) -> Any:  # noqa: ANN401 - lightkube's generic documents
    try:
        return await get
    except httpx2.HTTPStatusError as error:
        if error.response is not None and error.response.status_code == httpx2.codes.NOT_FOUND:
            return None
        raise


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except httpx2.HTTPStatusError as error:
        # An error inside a watch stream has no response of its own, only a Status.
        code = getattr(getattr(error, "status", None), "code", None)
        if error.response is not None:
            code = error.response.status_code
        raise ApiServerError(f"{code}: {error}", code) from error
    except httpx2.HTTPError as error:
        raise ApiServerError(f"{type(error).__name__}: {error}") from error
    except msgspec.MsgspecError as error:
        raise ApiServerError(f"unreadable answer: {error}") from error
