"""A fake API server over HTTP in this process, for tests of every component.

It keeps the promises of the real server on which components rely: growing resource versions, lists
in pages, selectors, watches from a version, 410 for compacted versions, preconditions of patches
and Bindings, generations, the status subresource. The end-to-end tests run on the real one.
"""

import asyncio
import json
import re
import threading
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from aiohttp import web
from lightkube import AsyncClient, KubeConfig
from lightkube.config.models import Cluster, User

from gputopo_kube.aiohttp_transport import aiohttp_client
from support.api import rest
from support.api.discovery import discovery_page
from support.api.faults import CLOSED, SILENT, Fault, Hook
from support.api.store import Document, Store

_SILENT_SECONDS = 60
_FIRST_FAILURE = 300


class Write(NamedTuple):
    """A request that changed something."""

    method: str
    path: str
    body: Document


@dataclass(slots=True)
class ApiServer(Store):
    """The server; tests read and change its state directly, from any thread.

    Attributes:
        faults: happen to matching requests, the first that matches first.
        hooks: called once, before a matching request takes effect.
        down: 503 to all requests.
        silent: no response to any request while set.
        waiting: number of requests that wait for the end of ``silent``; requests whose client
            has gone do not wait.
        mute: watches report nothing.
        versions_are_too_large: 504 to watches: their versions are of the future.
        page_size: most items of one page.
        has_discovery: whether the discovery documents are those of kopf's kinds.
        requests: method, and path with query, of every request that got a response.
        writes: requests that changed something, in order.
        late: requests with the fault ``carried_out="later"``.
    """

    faults: list[Fault] = field(default_factory=list)
    hooks: list[Hook] = field(default_factory=list)
    down: bool = False
    silent: bool = False
    waiting: int = 0
    mute: bool = False
    versions_are_too_large: bool = False
    page_size: int = 500
    has_discovery: bool = True
    requests: list[tuple[str, str]] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)
    late: list[rest.Request] = field(default_factory=list)
    url: str = ""
    _uses: dict[int, int] = field(default_factory=dict)
    _watch_round: int = 0

    def pod(self, name: str) -> Document:
        """Return a pod of the namespace ``default``."""
        found = self.get("pods", name)
        assert found is not None, f"no pod {name}"
        return found

    @property
    def bindings(self) -> list[Document]:
        """The Bindings that were carried out, in order."""
        return [write.body for write in self.writes if write.path.endswith("/binding")]

    def client(self) -> AsyncClient:
        """Return a client of this server as components have it."""
        return aiohttp_client(KubeConfig.from_one(cluster=Cluster(server=self.url), user=User()))

    def lists(self, plural: str) -> int:
        """Return how often the objects of a kind were listed; a list of several pages is one."""
        return self.count("GET", rf"/{plural}(\?(?!.*(watch|continue)=)|$)")

    def count(self, method: str, path: str) -> int:
        """Return how many requests there were; ``path`` is searched in path and query."""
        return sum(method == done and bool(re.search(path, at)) for done, at in self.requests)

    def end_watches(self, *, compact: bool = False) -> None:
        """Close all watches; with ``compact`` their versions are gone as well."""
        self._watch_round += 1
        if compact:
            self.compact()
        self.wake()

    def carry_out_late(self) -> None:
        """Carry out the requests that were delayed by a fault."""
        late, self.late = self.late, []
        for request in late:
            self.respond(request)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Respond to any request."""
        self.waiting += 1
        try:
            while self.silent:  # noqa: ASYNC110 - a test sets it from any thread
                await asyncio.sleep(0.02)
        finally:
            self.waiting -= 1
        self.requests.append((request.method, request.path_qs))
        await self._call_hook(request)
        if self.down:
            return _response(rest.failure(503, "ServiceUnavailable", "the server is going away"))
        body = await request.json() if request.can_read_body else {}
        parsed = rest.Request(request.method, request.path, dict(request.query), body)
        if (fault := self._fault(request)) is not None:
            return await self._fail(fault, request, parsed)
        if self.has_discovery and (page := discovery_page(request.path)):
            return web.json_response(page)
        if request.method == "GET" and request.query.get("watch") == "true":
            return await self._watch(request)
        return _response(self.respond(parsed))

    async def _call_hook(self, request: web.Request) -> None:
        hook = next((it for it in self.hooks if it.concerns(request.method, request.path_qs)), None)
        if hook is None:
            return
        self.hooks.remove(hook)
        action = hook.action()
        if isinstance(action, Awaitable):
            await action

    def _fault(self, request: web.Request) -> Fault | None:
        for fault in self.faults:
            if not fault.concerns(request.method, request.path_qs):
                continue
            self._uses[id(fault)] = used = self._uses.get(id(fault), 0) + 1
            if fault.times == used:
                self.faults.remove(fault)
                del self._uses[id(fault)]
            return fault
        return None

    async def _fail(self, fault: Fault, request: web.Request, parsed: rest.Request) -> web.Response:
        if fault.carried_out == "yes":
            self.respond(parsed)
        elif fault.carried_out == "later":
            self.late.append(parsed)
        if fault.status == SILENT:
            await asyncio.sleep(_SILENT_SECONDS)
        transport = request.transport
        assert transport is not None
        if fault.status not in {SILENT, CLOSED} and not fault.content_type:
            head = f"HTTP/1.1 {fault.status} Injected\r\nContent-Length: 0\r\nConnection: close"
            transport.write(f"{head}\r\n\r\n".encode())
        if fault.status in {SILENT, CLOSED} or not fault.content_type:
            transport.close()
            return web.Response()
        failure = rest.failure(fault.status, "Injected", fault.message)
        return _response(failure, fault.content_type)

    def respond(self, request: rest.Request) -> rest.Reply:
        """Carry a request out that is not a watch."""
        target = rest.target_of(request.path)
        reply = rest.respond(self, request, self.page_size)
        if request.method != "GET" and reply.status < _FIRST_FAILURE:
            path = request.path
            if request.method == "POST" and target is not None and not target.name:
                path += f"/{request.body['metadata'].get('name', '')}"
            self.writes.append(Write(request.method, path, request.body))
        return reply

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        target = rest.target_of(request.path)
        if target is None:
            return _response(rest.failure(404, "NotFound", f"{request.path} is not here"))
        if self.versions_are_too_large:
            return _response(rest.failure(504, "Timeout", "Too large resource version"))
        seen = int(request.query.get("resourceVersion") or 0)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        if seen < self.oldest:
            expired = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
            await _write_event(response, "ERROR", expired)
            return response
        changed, loop, watch_round = asyncio.Event(), asyncio.get_running_loop(), self._watch_round

        def wake() -> None:
            loop.call_soon_threadsafe(changed.set)

        stop = self.listen(wake)
        try:
            while watch_round == self._watch_round:
                changed.clear()
                found = [] if self.mute else self.changes(target.plural, seen)
                for change in found:
                    seen = change.version
                    if rest.is_selected(change.document, target, request.query):
                        await _write_event(response, change.type, change.document)
                    elif (before := self.before(change)) and rest.is_selected(
                        before, target, request.query
                    ):
                        await _write_event(response, "DELETED", change.document)
                await changed.wait()
        finally:
            stop()
        return response


Server = TypeVar("Server", bound=ApiServer)


@asynccontextmanager
async def serving(api: Server) -> AsyncIterator[Server]:
    """Serve ``api`` on a free port of this machine; open watches end with the block."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", api.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    api.url = f"http://{host}:{port}"
    try:
        yield api
    finally:
        api.silent = False
        api.end_watches()
        await runner.cleanup()


@contextmanager
def serving_in_thread(api: Server) -> Iterator[Server]:
    """Serve ``api`` from a thread of its own, for tests without an event loop."""
    ready, loop = threading.Event(), asyncio.new_event_loop()
    stop = asyncio.Event()

    async def serve() -> None:
        async with serving(api):
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), name="fake-api")
    thread.start()
    ready.wait()
    try:
        yield api
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


async def _write_event(response: web.StreamResponse, kind: str, document: Document) -> None:
    await response.write(json.dumps({"type": kind, "object": document}).encode() + b"\n")


def _response(reply: rest.Reply, content_type: str = "application/json") -> web.Response:
    body = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
    return web.Response(body=body, status=reply.status, content_type=content_type)
