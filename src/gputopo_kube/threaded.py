"""Lists and watches with a blocking client, in threads, for programs that use asyncio.

The page of ``gputopo web`` must use the caller's kubeconfig, which only the official, blocking
client supports completely (see ``kubeconfig``).
"""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Any, Final, Generic, TypeVar
from urllib.parse import quote

from gputopo_kube.blocking_http import HttpRequest, OpenStream, ResponseStream
from gputopo_kube.document import Document
from gputopo_kube.errors import UnavailableError, error_of_status
from gputopo_kube.listwatch import Listing, WatchEvent
from gputopo_kube.sync import SyncApi

_WATCH_SECONDS: Final = 290
"""The API server ends a watch after this time. The next watch continues where it ended."""

_SHORTEST_SECONDS: Final = 1.0
"""A watch that ends earlier, and without an event, has failed. Some proxies end all watches."""

_LARGEST_ERROR: Final = 4096

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class ThreadedSource(Generic[Item]):
    """Lists and watches the objects of one kind; each blocking call runs in ``threads``.

    A watch needs one thread while it waits for events.

    Attributes:
        path: parts of the URL path of the list, for example ``("api", "v1", "pods")``.
        parse: converts an object; those of a list in one of the threads.
        query: field or label selectors.
        clock: returns monotonic seconds.
    """

    api: SyncApi
    open_stream: OpenStream
    threads: Executor
    path: tuple[str, ...]
    parse: Callable[[Document], Item]
    query: Mapping[str, str] = field(default_factory=dict)
    clock: Callable[[], float] = time.monotonic

    async def list(self) -> Listing[Item]:
        """Return all objects.

        Raises:
            ApiError: if the request fails.
        """
        return await self._run(self._list)

    async def watch(self, resource_version: str) -> AsyncGenerator[WatchEvent[Item], None]:
        """Yield the changes after ``resource_version``; restart a watch that the API server ends.

        Raises:
            RejectedError: with status 410 if the resource version is too old.
            UnavailableError: if the connection was lost, or a watch ends at once.
        """
        version = resource_version
        while True:
            earliest_end, reported = self.clock() + _SHORTEST_SECONDS, False
            stream = await self._run(partial(self._open, version))
            try:
                parts = stream.parts()
                lines = _Lines()
                while (part := await self._run(partial(next, parts, None))) is not None:
                    for change in map(_parse_change, lines.split(part)):
                        version, reported = _version(change.document) or version, True
                        if change.type != "BOOKMARK":
                            yield self._event(change)
            finally:
                stream.close()
            if not reported and self.clock() < earliest_end:
                raise UnavailableError("watch: it ended at once and without an event")

    async def _run(self, call: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self.threads, call)

    def _list(self) -> Listing[Item]:
        items: list[Item] = []
        version = ""
        selector = self.query.get("labelSelector", "")
        fields = self.query.get("fieldSelector", "")
        for page in self.api.pages(*self.path, selector=selector, fields=fields):
            items += map(self.parse, page.get("items") or ())
            version = _version(page)
        return Listing(items, version)

    def _open(self, version: str) -> ResponseStream:
        query = {
            **self.query,
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(_WATCH_SECONDS),
        }
        path = "/" + "/".join(quote(part, safe="") for part in self.path)
        stream = self.open_stream(HttpRequest("GET", path, query, None))
        if stream.status != HTTPStatus.OK:
            reason = _reason(stream)
            stream.close()
            raise error_of_status(stream.status, reason)
        return stream

    def _event(self, change: "_Change") -> WatchEvent[Item]:
        item = self.parse(change.document)
        return WatchEvent(item, change.type == "DELETED", change.document.get("metadata") or {})


@dataclass(slots=True)
class _Lines:
    """Splits parts of a body into lines; keeps the begin of a line until its end arrives."""

    _begin: bytes = b""

    def split(self, part: bytes) -> Iterator[bytes]:
        *complete, self._begin = (self._begin + part).split(b"\n")
        return filter(None, complete)


@dataclass(frozen=True, slots=True)
class _Change:
    type: str
    document: Document


def _parse_change(line: bytes) -> _Change:
    """Parse one line of a watch; raise the error that the API server reports in it."""
    try:
        found: Any = json.loads(line)
        change = _Change(str(found["type"]), dict(found["object"]))
    except (ValueError, KeyError, TypeError):
        raise UnavailableError("watch: the response is not a watch event") from None
    if change.type == "ERROR":
        status = change.document.get("code") or HTTPStatus.INTERNAL_SERVER_ERROR
        raise error_of_status(int(status), str(change.document.get("message") or "no reason given"))
    return change


def _version(document: Document) -> str:
    return str((document.get("metadata") or {}).get("resourceVersion") or "")


def _reason(stream: ResponseStream) -> str:
    """Return the message of a failed request to watch."""
    body = b"".join(stream.parts())[:_LARGEST_ERROR]
    try:
        found: Any = json.loads(body)
    except ValueError:
        return stream.reason or "no reason given"
    message = found.get("message") if isinstance(found, dict) else None
    return str(message or stream.reason or "no reason given")
