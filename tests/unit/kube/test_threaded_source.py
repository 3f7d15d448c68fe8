"""Lists and watches of the official, blocking client in threads."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gputopo_kube.errors import (
    ApiError,
    CredentialsError,
    DeniedError,
    RejectedError,
    UnavailableError,
)
from gputopo_kube.kubeconfig import Connection, connection
from gputopo_kube.threaded import ThreadedSource
from support.api.faults import CLOSED, Fault
from support.api.kubeconfig import write_kubeconfig
from support.api.server import ApiServer, serving_in_thread
from support.builders import objects
from support.builders.objects import Document

if TYPE_CHECKING:
    from gputopo_kube.listwatch import WatchEvent

PODS = ("api", "v1", "pods")


@pytest.fixture
def api() -> Iterator[ApiServer]:
    with serving_in_thread(ApiServer()) as server:
        yield server


@pytest.fixture
def link(api: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connection]:
    monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path / "config", api.url)))
    with connection() as opened:
        yield opened


@pytest.fixture
def pods(link: Connection) -> Iterator[ThreadedSource[str]]:
    with ThreadPoolExecutor(4) as threads:
        yield ThreadedSource(link.api, link.open_stream, threads, PODS, name_of)


def name_of(document: Document) -> str:
    return str(document["metadata"]["name"])


async def test_a_list_has_all_pages_and_its_version(
    api: ApiServer, pods: ThreadedSource[str]
) -> None:
    api.page_size = 2
    for name in ("a", "b", "c"):
        api.create("pods", objects.pod(name))
    listing = await pods.list()
    assert listing.items == ["a", "b", "c"]
    assert listing.resource_version == str(api.version)


async def test_a_watch_reports_changes_after_the_list(
    api: ApiServer, pods: ThreadedSource[str]
) -> None:
    api.create("pods", objects.pod("old"))
    version = (await pods.list()).resource_version
    async with aclosing(pods.watch(version)) as events:
        api.create("pods", objects.pod("new"))
        assert await found(events) == ("new", False)
        api.delete("pods", "old")
        assert await found(events) == ("old", True)


async def test_a_watch_that_the_server_ends_continues_where_it_ended(
    api: ApiServer, pods: ThreadedSource[str]
) -> None:
    async with aclosing(pods.watch(str(api.version))) as events:
        api.create("pods", objects.pod("a"))
        assert await found(events) == ("a", False)
        api.end_watches()
        api.create("pods", objects.pod("b"))
        assert await found(events) == ("b", False)


async def test_a_watch_from_a_version_that_is_too_old_fails_with_410(
    api: ApiServer, pods: ThreadedSource[str]
) -> None:
    api.create("pods", objects.pod("a"))
    api.compact()
    with pytest.raises(RejectedError, match="410: too old"):
        await anext(pods.watch("1"))


async def test_errors_of_a_watch_have_the_status_and_the_message(
    api: ApiServer, pods: ThreadedSource[str]
) -> None:
    api.faults.append(
        Fault("GET", "watch=true", 403, message="no access", content_type="application/json")
    )
    with pytest.raises(DeniedError, match="403: no access"):
        await anext(pods.watch("1"))


async def test_a_cancelled_watch_ends_the_read_that_its_thread_waits_for(
    link: Connection, api: ApiServer
) -> None:
    with ThreadPoolExecutor(1) as threads:
        source = ThreadedSource(link.api, link.open_stream, threads, PODS, name_of)
        version, open_watch = str(api.version), asyncio.Event()
        api.create("pods", objects.pod("a"))

        async def follow() -> None:
            async with aclosing(source.watch(version)) as events:
                async for _ in events:
                    open_watch.set()

        following = asyncio.create_task(follow())
        await open_watch.wait()
        following.cancel()
        with pytest.raises(asyncio.CancelledError):
            await following
    # Leaving the block waits for the thread.


async def test_a_lost_connection_makes_the_watch_unavailable(
    link: Connection, api: ApiServer
) -> None:
    lost = Fault("GET", "watch=true", CLOSED)
    api.faults.append(lost)
    with ThreadPoolExecutor(1) as threads:
        source = ThreadedSource(link.api, link.open_stream, threads, PODS, name_of)
        with pytest.raises(UnavailableError, match=re.escape(api.url)):
            await anext(source.watch("1"))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"<html>\n", "not a watch event"),
        (b"[]\n", "not a watch event"),
        (b'{"type": "ADDED"}\n', "not a watch event"),
        (b'{"type": "ERROR", "object": {}}\n', "500: no reason given"),
    ],
)
async def test_lines_that_are_no_events_are_errors(
    link: Connection, line: bytes, message: str
) -> None:
    with ThreadPoolExecutor(1) as threads:
        source = ThreadedSource(link.api, lambda _: _Body(200, [line]), threads, PODS, name_of)
        with pytest.raises(ApiError, match=message):
            await anext(source.watch("1"))


async def test_an_event_may_arrive_in_parts(link: Connection) -> None:
    event = json.dumps({"type": "ADDED", "object": objects.pod("a")}).encode()
    bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "7"}}}
    body = _Body(200, [json.dumps(bookmark).encode() + b"\n" + event[:9], event[9:] + b"\n"])
    with ThreadPoolExecutor(1) as threads:
        source = ThreadedSource(link.api, lambda _: body, threads, PODS, name_of)
        async with aclosing(source.watch("1")) as events:
            assert await found(events) == ("a", False)
    assert body.closed


async def test_a_watch_that_ends_at_once_and_without_an_event_is_an_error(
    link: Connection,
) -> None:
    with ThreadPoolExecutor(1) as threads:
        source = ThreadedSource(
            link.api, lambda _: _Body(200, []), threads, PODS, name_of, clock=lambda: 7.0
        )
        with pytest.raises(UnavailableError, match="watch: it ended at once"):
            await anext(source.watch("1"))


async def test_a_watch_without_an_event_that_ends_late_is_opened_again(link: Connection) -> None:
    event = json.dumps({"type": "ADDED", "object": objects.pod("a")}).encode()
    bodies = [_Body(200, []), _Body(200, [event + b"\n"])]
    seconds = count(0, 300)
    with ThreadPoolExecutor(1) as threads:
        source = ThreadedSource(
            *(link.api, lambda _: bodies.pop(0), threads, PODS, name_of),
            clock=lambda: float(next(seconds)),
        )
        async with aclosing(source.watch("1")) as events:
            assert await found(events) == ("a", False)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"<html>", "502: Bad"),
        (b"[]", "502: Bad"),
        (b'{"message": "why"}', "502: why"),
    ],
)
async def test_a_watch_that_fails_shows_why(link: Connection, body: bytes, message: str) -> None:
    with ThreadPoolExecutor(1) as threads:
        stream = _Body(502, [body], "Bad")
        source = ThreadedSource(link.api, lambda _: stream, threads, PODS, name_of)
        with pytest.raises(UnavailableError, match=message):
            await anext(source.watch("1"))
    assert stream.closed


def test_a_connection_names_its_context_and_server(link: Connection, api: ApiServer) -> None:
    assert (link.context, link.server) == ("here", api.url)


def test_a_connection_without_a_service_account_shows_what_is_missing() -> None:
    with (
        pytest.raises(
            CredentialsError,
            match="service account: Service host/port is not set; run this in a pod",
        ),
        connection(service_account=True),
    ):
        pass


class _Body:
    """A response with these parts."""

    def __init__(self, status: int, parts: list[bytes], reason: str = "OK") -> None:
        self.status = status
        self.reason = reason
        self.closed = False
        self._parts = parts

    def parts(self) -> Iterator[bytes]:
        yield from self._parts

    def close(self) -> None:
        self.closed = True


async def found(events: "AsyncGenerator[WatchEvent[str], None]") -> tuple[str, bool]:
    event = await anext(events)
    return event.item, event.deleted
