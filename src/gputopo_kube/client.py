"""Asynchronous requests to the API server, for the extender and the agent.

Objects are dicts. Each page of a list is parsed when it arrives, so the JSON of a whole list is
never in memory.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeAlias, TypeVar

import httpx2
from lightkube import AsyncClient
from lightkube.types import PatchType

from gputopo_kube.document import Document
from gputopo_kube.errors import NotFoundError, UnavailableError
from gputopo_kube.listwatch import Listing, WatchEvent
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


def httpx_client(timeout_seconds: float) -> AsyncClient:
    """Return a client that uses the pod's service account or, outside a pod, the kubeconfig.

    If the API server rejects the token of the service account, the client reads the token file
    again.
    """
    return AsyncClient(timeout=httpx2.Timeout(timeout_seconds))


class AsyncApi:
    """Sends requests to the API server. If a request fails, its method raises ``ApiError``."""

    def __init__(
        self,
        client: AsyncClient,
        *,
        timeout_seconds: float | None = None,
        on_response: Callable[[], None] = lambda: None,
    ) -> None:
        """Send requests with ``client``.

        Args:
            client: lightkube client. Its own time limits apply to each connection, each read and
                each page of a list.
            timeout_seconds: time limit of a whole request, except of lists and watches.
            on_response: called after each successful response, each 404 and each watch event.
        """
        self._client = client
        self._timeout_seconds = timeout_seconds
        self.on_response = on_response
        self._in_flight: set[asyncio.Timeout] = set()

    def abandon(self) -> None:
        """Make all unfinished requests fail now. Call this when the connection is lost."""
        in_flight, self._in_flight = self._in_flight, set()
        for scope in in_flight:
            scope.reschedule(asyncio.get_running_loop().time())

    async def find(self, kind: Kind, name: str, namespace: str | None = None) -> Document | None:
        """Return an object, or None if the object does not exist."""
        return await self.found(self._client.get(kind, name, namespace=namespace))

    async def ping(self, kind: Kind, name: str) -> None:
        """Read the metadata of a cluster-scoped object, to check connection and credentials.

        A missing object is no error. The request is cheap, because the API server serves resource
        version 0 from its memory, without etcd.
        """
        # The method get of lightkube accepts neither a resource version nor a media type.
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
        """Create an object and return it. For a subresource, ``name`` is the parent's name."""
        document = kind.from_dict(body)
        request = self._client.create(document, name, namespace=namespace)  # type: ignore[arg-type]
        return await self.send(request)

    async def patch(
        self, kind: Kind, name: str, body: Document, namespace: str | None = None
    ) -> Document:
        """Change an object with a JSON merge patch and return the changed object."""
        request = self._client.patch(
            kind, name, body, namespace=namespace, patch_type=PatchType.MERGE
        )
        return await self.send(request)

    async def patch_fast(
        self, kind: Kind, name: str, body: Document, namespace: str, *, manager: str
    ) -> Document:
        """Change a built-in object by a strategic merge patch, with little work for the API server.

        The server does not check for unknown fields, and returns only the metadata. ``manager`` is
        the field manager of the changed fields.
        """
        # The method patch of lightkube accepts neither a media type nor this parameter.
        request = self._client._client.request(  # noqa: SLF001
            "patch",
            res=kind,
            name=name,
            namespace=namespace,
            obj=body,
            params={"fieldManager": manager, "fieldValidation": "Ignore"},
            headers={"Content-Type": PatchType.STRATEGIC.value, "Accept": _METADATA_ONLY},
        )
        return await self.send(request)

    async def replace(self, kind: Kind, body: Document) -> Document:
        """Replace the object that has the name and the resource version of ``body``."""
        return await self.send(self._client.replace(kind.from_dict(body)))

    def objects(
        self,
        kind: Kind,
        parse: Callable[[Document], Item],
        *,
        namespace: str | None = None,
        fields: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> "ObjectSource[Item]":
        """Return a source that lists and watches objects that match both selectors."""
        return ObjectSource(self, self._client, kind, parse, namespace, fields, labels)

    async def send(self, request: Awaitable[Result], *, limited: bool = True) -> Result:
        """Await a lightkube request; return its response. If ``limited``, the time limit applies.

        Raises:
            ApiError: if the request fails, no response arrives in time or ``abandon`` is called.
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
        """Await a lightkube request; return its result, or None if the object does not exist."""
        try:
            return await self.send(request)
        except NotFoundError:
            return None


@dataclass(frozen=True, slots=True)
class ObjectSource(Generic[Item]):
    """Lists, watches and reads the objects of one kind, and parses them.

    If ``parse`` raises an error for one object, the whole list, watch or read fails.
    """

    api: AsyncApi
    client: AsyncClient
    kind: Kind
    parse: Callable[[Document], Item]
    namespace: str | None
    fields: Mapping[str, str] | None
    labels: Mapping[str, str] | None = None

    async def find(self, name: str, namespace: str | None = None) -> Item | None:
        """Return one object, or None if the object does not exist."""

        async def get() -> Item:
            return self.parse(await self.client.get(self.kind, name, namespace=namespace))

        return await self.api.found(get())

    async def list(self) -> Listing[Item]:
        """Return the most recent state of all objects: the request has no ``resourceVersion``."""

        async def get() -> Listing[Item]:
            pages = self.client.list(
                self.kind, namespace=self.namespace, chunk_size=_PAGE_SIZE, **self._selectors
            )
            items = [self.parse(document) async for document in pages]
            return Listing(items, pages.resourceVersion)

        # The complete list has no time limit, because the client limits the time of each page.
        return await self.api.send(get(), limited=False)

    async def watch(self, resource_version: str) -> AsyncGenerator[WatchEvent[Item], None]:
        """Yield the changes after ``resource_version``; restart a watch that the API server ends.

        Raises:
            RejectedError: with status 410 if the resource version is too old.
            UnavailableError: if the connection was lost.
        """
        with translated():
            # lightkube declares an iterator but returns a generator, which ``aclosing`` can close.
            generator: Any = self.client.watch(
                self.kind,
                namespace=self.namespace,
                resource_version=resource_version,
                **self._selectors,
            )
            async with aclosing(generator) as changes:
                async for change, document in changes:
                    self.api.on_response()
                    item = self.parse(document)
                    yield WatchEvent(item, change == "DELETED", document["metadata"])

    @property
    def _selectors(self) -> dict[str, Any]:
        selectors = {"fields": self.fields, "labels": self.labels}
        return {name: dict(found) for name, found in selectors.items() if found is not None}
