"""What is listed and watched of the API server, trimmed page by page.

Neither typed models nor whole lists stay in memory.
"""

import logging
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from lightkube import AsyncClient
from lightkube.core.generic_client import ListAsyncIterable
from lightkube.generic_resource import GenericGlobalResource, create_api_info

from gputopo.api.names import GROUP, VERSION
from gputopo.runtime.log import fields
from gputopo_extender.cluster import PodDocument, translated
from gputopo_extender.state.topologies import PublishedNode, UnreadableTopology, parse_node
from gputopo_kube.podmodel import PodError
from gputopo_kube.pods import PodView, parse_gpu_pod

_PAGE = 500
_EVERYWHERE = "*"

_log = logging.getLogger(__name__)

Record = TypeVar("Record")


class TopologyDocument(GenericGlobalResource):
    """A GPUTopology as a dict."""

    _api_info = create_api_info(GROUP, VERSION, "GPUTopology", "gputopologies")


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


def watched_pods(client: AsyncClient, resource: str) -> Watched[PodView]:
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


def _record_or_nothing(document: Mapping[str, Any], resource: str) -> PodView | None:
    """Skip what the API server would never store, rather than stop serving for it."""
    try:
        return parse_gpu_pod(document, resource)
    except PodError as error:
        _log.error("skipped an object among the pods %s", fields(reason=error))
        return None


def watched_topologies(client: AsyncClient) -> Watched[PublishedNode | UnreadableTopology]:
    """Return all GPUTopology objects."""
    return Watched(
        "gputopologies",
        pages=lambda: client.list(TopologyDocument, chunk_size=_PAGE),
        changes=lambda version: client.watch(TopologyDocument, resource_version=version),
        key="name",
        trim=parse_node,
    )
