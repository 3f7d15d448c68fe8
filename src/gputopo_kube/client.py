"""Asynchronous requests to the API server, for the extender and the agent.

Objects are dicts. A list is parsed page by page and a watch event by event, so neither typed
models nor whole lists stay in memory.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeAlias, TypeVar

import httpx2
from lightkube import AsyncClient
from lightkube.types import PatchType

from gputopo_kube.document import Document
from gputopo_kube.errors import NotFoundError, UnavailableError
from gputopo_kube.translate import translated

__all__ = [
    "ALL_NAMESPACES",
    "AsyncApi",
    "AsyncClient",
    "Kind",
    "Listing",
    "ObjectSource",
    "WatchEvent",
    "httpx_client",
]

ALL_NAMESPACES: Final = "*"
_PAGE_SIZE: Final = 500
_METADATA_ONLY: Final = (
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
)

Kind: TypeAlias = type[Any]
"""A class of ``gputopo_kube.resources``."""

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Listing(Generic[Item]):
    """All objects of a list at one resource version."""

    items: list[Item]
    resource_version: str


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[Item]):
    """One change in a watch, with the object's state after it, or its last state."""

    item: Item
    deleted: bool
    metadata: Document = field(default_factory=dict)


def httpx_client(timeout_seconds: float) -> AsyncClient:
    """Return a client by the service account of the pod, else by the kubeconfig.

    It reads the token file of the service account again when the API server rejects the token.
    """
    return AsyncClient(timeout=httpx2.Timeout(timeout_seconds))


class AsyncApi:
    """Requests to the API server. Every method raises ``ApiError`` if its request fails."""

    def __init__(
        self,
        client: AsyncClient,
        *,
        timeout_seconds: float | None = None,
        on_response: Callable[[], None] = lambda: None,
    ) -> None:
        """Send requests by ``client``.

        Args:
            client: its own time limits apply to connections, reads and pages of lists.
            timeout_seconds: limit for each whole request other than lists and watches.
            on_response: called after each successful response and each watch event.
        """
        self._client = client
        self._timeout_seconds = timeout_seconds
        self.on_response = on_response
        self._in_flight: set[asyncio.Timeout] = set()

    def abandon(self) -> None:
        """Let all requests that wait for a response fail now: the connection is lost."""
        in_flight, self._in_flight = self._in_flight, set()
        for scope in in_flight:
            scope.reschedule(asyncio.get_running_loop().time())

    async def find(self, kind: Kind, name: str, namespace: str | None = None) -> Document | None:
        """Return an object, None if it does not exist."""
        return await self.found(self._client.get(kind, name, namespace=namespace))

    async def ping(self, kind: Kind, name: str) -> None:
        """Read the metadata of a cluster-scoped object, which need not exist.

        This is the cheapest request that needs credentials and access rights. The API server
        serves version 0 from its memory, without etcd.
        """
        # lightkube's own get accepts neither a version nor a media type.
        request = self._client._client.request(  # noqa: SLF001
            "get",
            res=kind,
            name=name,
            params={"resourceVersion": "0"},
            headers={"Accept": _METADATA_ONLY},
        )
        await self.found(request)

    async def create(
        self, kind: Kind, body: Document, *, name: str | None = None, namespace: str | None = None
    ) -> Document:
        """Create an object and return it; ``name`` is that of a subresource's parent."""
        document = kind.from_dict(body)
        request = self._client.create(document, name, namespace=namespace)  # type: ignore[arg-type]
        return await self.send(request)

    async def patch(
        self, kind: Kind, name: str, body: Document, namespace: str | None = None
    ) -> Document:
        """Change an object by a merge patch and return it."""
        request = self._client.patch(
            kind, name, body, namespace=namespace, patch_type=PatchType.MERGE
        )
        return await self.send(request)

    async def replace(self, kind: Kind, body: Document) -> Document:
        """Replace the object that has the name and version of ``body``, and return it."""
        return await self.send(self._client.replace(kind.from_dict(body)))

    def objects(
        self,
        kind: Kind,
        parse: Callable[[Document], Item],
        *,
        namespace: str | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> "ObjectSource[Item]":
        """Return the objects of a kind that match the field selector, parsed."""
        return ObjectSource(self, self._client, kind, parse, namespace, fields)

    async def send(self, request: Awaitable[Result], *, limited: bool = True) -> Result:
        """Return the response of a request of lightkube, within the time limit if ``limited``.

        Raises:
            ApiError: also if there is no response in time, or the request was abandoned.
        """
        timeout_seconds = self._timeout_seconds if limited else None
        try:
            async with asyncio.timeout(timeout_seconds) as scope:
                self._in_flight.add(scope)
                try:
                    with translated():
                        response = await request
                finally:
                    self._in_flight.discard(scope)
        except NotFoundError:
            self.on_response()
            raise
        except TimeoutError:
            lost = timeout_seconds is None
            limit = "before the connection was lost" if lost else f"within {timeout_seconds:g} s"
            raise UnavailableError(f"no response {limit}") from None
        self.on_response()
        return response

    async def found(self, request: Awaitable[Result]) -> Result | None:
        """Return the response of a read of lightkube, None if the object does not exist."""
        try:
            return await self.send(request)
        except NotFoundError:
            return None


@dataclass(frozen=True, slots=True)
class ObjectSource(Generic[Item]):
    """The objects of one kind: listed, watched or read one by one, and parsed.

    An object that lacks what ``parse`` needs makes the whole response unreadable.
    """

    api: AsyncApi
    client: AsyncClient
    kind: Kind
    parse: Callable[[Document], Item]
    namespace: str | None
    fields: Mapping[str, str] | None

    async def find(self, name: str, namespace: str | None = None) -> Item | None:
        """Return one object, None if it does not exist."""

        async def get() -> Item:
            return self.parse(await self.client.get(self.kind, name, namespace=namespace))

        return await self.api.found(get())

    async def list(self) -> Listing[Item]:
        """Return all objects. The list is consistent: it names no resource version."""

        async def get() -> Listing[Item]:
            pages = self.client.list(
                self.kind, namespace=self.namespace, fields=self._selector, chunk_size=_PAGE_SIZE
            )
            items = [self.parse(document) async for document in pages]
            return Listing(items, pages.resourceVersion)

        # A list of many pages has no limit in all; the client limits each page.
        return await self.api.send(get(), limited=False)

    async def watch(self, resource_version: str) -> AsyncGenerator[WatchEvent[Item], None]:
        """Yield the changes after a list. lightkube reconnects when the server ends the watch.

        Raises:
            RejectedError: 410 if the resource version is too old.
            UnavailableError: if the connection was lost.
        """
        with translated():
            # lightkube declares less than it returns; only a generator can be closed in time.
            generator: Any = self.client.watch(
                self.kind,
                namespace=self.namespace,
                fields=self._selector,
                resource_version=resource_version,
            )
            async with aclosing(generator) as changes:
                async for change, document in changes:
                    self.api.on_response()
                    item = self.parse(document)
                    yield WatchEvent(item, change == "DELETED", document["metadata"])

    @property
    def _selector(self) -> dict[str, Any] | None:
        return None if self.fields is None else dict(self.fields)
