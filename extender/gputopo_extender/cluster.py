"""The API server, through lightkube: the only module that knows how it is asked.

Pods and topologies travel as plain dicts (lightkube's generic resources) and are trimmed page
by page, so that neither typed models nor whole lists stay in memory.
"""

import asyncio
import logging
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Iterator,
    Mapping,
)
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

import httpx2
import msgspec
from lightkube import AsyncClient
from lightkube.core.generic_client import ListAsyncIterable
from lightkube.core.resource import ApiInfo, NamespacedSubResource, ResourceDef
from lightkube.generic_resource import Generic as Document
from lightkube.generic_resource import (
    GenericGlobalResource,
    GenericNamespacedResource,
    create_api_info,
)

from gputopo.api.names import GROUP, VERSION
from gputopo.runtime.log import fields
from gputopo_extender.decide import Decision
from gputopo_extender.pods import PodError, PodRecord, record_of
from gputopo_extender.topologies import NodeRecord, Unreadable, node_of

_PAGE = 500
_EVERYWHERE = "*"

_log = logging.getLogger(__name__)

Record = TypeVar("Record")


class PodDocument(GenericNamespacedResource):
    """A pod as a dict; the registry's own class would decode all of it into models."""

    _api_info = create_api_info("", "v1", "Pod", "pods")


class TopologyDocument(GenericGlobalResource):
    """A GPUTopology as a dict."""

    _api_info = create_api_info(GROUP, VERSION, "GPUTopology", "gputopologies")


class BindingDocument(NamespacedSubResource, Document):  # type: ignore[misc]
    """A Binding as a dict; the API server answers it with a Status, not with a Binding."""

    _api_info = ApiInfo(
        resource=ResourceDef("", "v1", "Binding"),
        parent=ResourceDef("", "v1", "Pod"),
        plural="pods",
        verbs=["post"],
        action="binding",
    )


class RefusedError(Exception):
    """The API server said no: nothing was changed."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"API server: {status}: {message}")
        self.status = status


class UnansweredError(Exception):
    """No answer, or one that does not tell whether the request was carried out."""


@dataclass(frozen=True, slots=True)
class Listing(Generic[Record]):
    """All objects of a kind at one resource version."""

    records: list[Record]
    resource_version: str


@dataclass(frozen=True, slots=True)
class Event(Generic[Record]):
    """One change of a watch; ``record`` is None for an object that is of no interest."""

    deleted: bool
    key: str
    record: Record | None


class Watched(Generic[Record]):
    """One kind of object: how it is listed, watched, named and trimmed.

    Attributes:
        name: plural of the resource.
    """

    def __init__(
        self,
        name: str,
        *,
        pages: Callable[[], ListAsyncIterable[Any]],
        changes: Callable[[str], AsyncIterable[tuple[str, Any]]],
        key: str,
        trim: Callable[[Mapping[str, Any]], Record | None],
    ) -> None:
        """Read objects through lightkube; ``key`` is the field of ``metadata`` that names one."""
        self.name = name
        self._pages = pages
        self._changes = changes
        self._key = key
        self._trim = trim

    async def list(self) -> Listing[Record]:
        """Return all objects; consistent, since no resource version is asked for.

        Raises:
            RefusedError, UnansweredError: where the list could not be had.
        """
        records: list[Record] = []
        with translated():
            pages = self._pages()
            async for document in pages:
                record = self._trim(document)
                if record is not None:
                    records.append(record)
            return Listing(records, pages.resourceVersion)

    async def watch(self, resource_version: str) -> AsyncGenerator[Event[Record], None]:
        """Yield the changes since a listing; lightkube reconnects where the server just ends.

        Raises:
            RefusedError: 410 where the resource version is too old, by status or by event.
            UnansweredError: where the connection was lost.
        """
        with translated():
            # lightkube says less than it returns; only a generator can be closed in time.
            generator = cast(
                "AsyncGenerator[tuple[str, Any], None]", self._changes(resource_version)
            )
            async with aclosing(generator) as changes:
                async for change, document in changes:
                    key = str(document["metadata"][self._key])
                    yield Event(change == "DELETED", key, self._trim(document))


def watched_pods(client: AsyncClient, resource: str) -> Watched[PodRecord]:
    """Return all pods of the cluster that ask for ``resource``."""
    return Watched(
        "pods",
        pages=lambda: client.list(PodDocument, namespace=_EVERYWHERE, chunk_size=_PAGE),
        changes=lambda version: client.watch(
            PodDocument, namespace=_EVERYWHERE, resource_version=version
        ),
        key="uid",
        trim=lambda document: _record_or_nothing(document, resource),
    )


def _record_or_nothing(document: Mapping[str, Any], resource: str) -> PodRecord | None:
    """Skip what the API server would never store, rather than stop serving for it."""
    try:
        return record_of(document, resource)
    except PodError as error:
        _log.error("skipped an object among the pods %s", fields(reason=error))
        return None


def watched_topologies(client: AsyncClient) -> Watched[NodeRecord | Unreadable]:
    """Return all GPUTopology objects."""
    return Watched(
        "gputopologies",
        pages=lambda: client.list(TopologyDocument, chunk_size=_PAGE),
        changes=lambda version: client.watch(TopologyDocument, resource_version=version),
        key="name",
        trim=node_of,
    )


class Cluster:
    """What bind asks of the API server."""

    def __init__(self, client: AsyncClient, resource: str, timeout_seconds: float) -> None:
        """Use ``client``; ``resource`` counts GPUs; no call takes longer than the time-out."""
        self._client = client
        self._resource = resource
        self._timeout_seconds = timeout_seconds

    async def pod(self, namespace: str, name: str) -> PodRecord | None:
        """Return the pod as it is now; None where there is none or it asks for no GPU.

        Raises:
            RefusedError, UnansweredError: where that could not be found out.
        """
        try:
            async with self._in_time():
                document = await self._client.get(PodDocument, name, namespace=namespace)
        except RefusedError as error:
            if error.status == httpx2.codes.NOT_FOUND:
                return None
            raise
        return record_of(document, self._resource)

    async def bind(self, decision: Decision) -> None:
        """Write node and GPUs of a decision in one Binding.

        Raises:
            RefusedError: it was not carried out (409: or it had been before).
            UnansweredError: it may have been carried out.
        """
        binding = BindingDocument.from_dict(
            {
                "metadata": {
                    "name": decision.name,
                    "namespace": decision.namespace,
                    "uid": decision.uid,
                    "annotations": dict(decision.annotations),
                },
                "target": {"apiVersion": "v1", "kind": "Node", "name": decision.node},
            }
        )
        async with self._in_time():
            await self._client.create(binding, decision.name, namespace=decision.namespace)

    @asynccontextmanager
    async def _in_time(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._timeout_seconds):
                with translated():
                    yield
        except TimeoutError:
            raise UnansweredError(
                f"API server: no answer within {self._timeout_seconds} s"
            ) from None


@contextmanager
def translated() -> Iterator[None]:
    """Turn what lightkube raises into refused or unanswered."""
    try:
        yield
    except httpx2.HTTPStatusError as error:
        raise _of_status(error) from error
    except httpx2.HTTPError as error:
        raise UnansweredError(f"API server: {type(error).__name__}: {error}") from error
    except msgspec.MsgspecError as error:
        raise UnansweredError(f"API server: unreadable answer: {error}") from error


def _of_status(error: httpx2.HTTPStatusError) -> RefusedError | UnansweredError:
    # An error inside a watch stream has no response of its own, only a Status.
    code = getattr(getattr(error, "status", None), "code", None)
    if error.response is not None:
        code = error.response.status_code
    if code is not None and httpx2.codes.is_client_error(code):
        return RefusedError(code, str(error))
    return UnansweredError(f"API server: {code}: {error}")
