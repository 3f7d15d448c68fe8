"""The part of a Kubernetes API that a node agent uses, over HTTP in this process.

Objects of any kind by path, merge patches, generations, the status subresource, and lists and
watches of pods, Nodes and ResourceSlices. Whether the real server does the same is for the
end-to-end tests to say.
"""

import asyncio
import copy
import itertools
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from lightkube import AsyncClient, KubeConfig
from lightkube.config.models import Cluster, User

Document = dict[str, Any]
PODS = "/api/v1/pods"
NODES = "/api/v1/nodes"
BAD_GATEWAY = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
_RESOURCES = "/{prefix:api/v1|apis/gputopo.io/v1alpha1}"


class NodeApi:
    """The server's objects; tests read and change them directly.

    Attributes:
        objects: by path, ``/api/v1/namespaces/default/pods/a``.
        down: answer 503 to all and end the watches.
        silent: answer nothing at all.
        refused_path: answer 503 to this path alone.
        bad_gateway: answer 502 without a Content-Type, as a proxy may.
        mute: watches tell nothing for the time being.
        refuse_watches: answer 503 to watches, while lists are answered.
        slices_failure: answer this status to lists of ResourceSlices.
        lists: how often the pods were listed.
        slice_lists: how often the ResourceSlices were.
        heartbeats: how often the metadata of the Node was read.
        writes: method and path of everything that was written.
    """

    def __init__(self) -> None:
        self.objects: dict[str, Document] = {}
        self.writes: list[tuple[str, str]] = []
        self.down = False
        self.silent = False
        self.refused_path = ""
        self.bad_gateway = False
        self.mute = False
        self.refuse_watches = False
        self.slices_failure: int | None = None
        self.lists = 0
        self.slice_lists = 0
        self.heartbeats = 0
        self.url = ""
        self._log: list[tuple[int, str, Document]] = []
        self._versions = itertools.count(100)
        self._changed = asyncio.Condition()

    def client(self) -> AsyncClient:
        """Return a client of this server."""
        config = KubeConfig.from_one(cluster=Cluster(server=self.url), user=User())
        return AsyncClient(config=config)

    async def put(self, path: str, document: Document) -> Document:
        """Create or replace an object."""
        document = copy.deepcopy(document)
        version = next(self._versions)
        document["metadata"]["resourceVersion"] = str(version)
        kind = "MODIFIED" if path in self.objects else "ADDED"
        self.objects[path] = document
        self._log.append((version, kind, document))
        await self.wake()
        return document

    async def delete(self, path: str) -> None:
        """Delete an object."""
        document = copy.deepcopy(self.objects.pop(path))
        version = next(self._versions)
        document["metadata"]["resourceVersion"] = str(version)
        self._log.append((version, "DELETED", document))
        await self.wake()

    async def wake(self) -> None:
        """Let the watches look again."""
        async with self._changed:
            self._changed.notify_all()

    async def list_pods(self, request: web.Request) -> web.StreamResponse:
        """List or watch the pods of one node."""
        field, _, node = request.query["fieldSelector"].partition("=")
        assert field == "spec.nodeName"
        if request.query.get("watch") == "true" and self.refuse_watches:
            return _failure(503, "the server is going away")
        self.lists += "watch" not in request.query
        return await self._list(request, lambda doc: _is_pod_of(doc, node))

    async def list_nodes(self, request: web.Request) -> web.StreamResponse:
        """List or watch one Node."""
        field, _, node = request.query["fieldSelector"].partition("=")
        assert field == "metadata.name"
        return await self._list(
            request, lambda doc: doc.get("kind") == "Node" and doc["metadata"]["name"] == node
        )

    async def list_slices(self, request: web.Request) -> web.StreamResponse:
        """List or watch the ResourceSlices of one node."""
        field, _, node = request.query["fieldSelector"].partition("=")
        assert field == "spec.nodeName"
        self.slice_lists += "watch" not in request.query
        if self.slices_failure is not None:
            return _failure(self.slices_failure, "no ResourceSlices here")
        return await self._list(
            request,
            lambda doc: doc.get("kind") == "ResourceSlice" and doc["spec"]["nodeName"] == node,
        )

    async def _list(
        self, request: web.Request, selected: Callable[[Document], bool]
    ) -> web.StreamResponse:
        if request.query.get("watch") == "true":
            return await self._watch(request, selected)
        items = [doc for doc in self.objects.values() if selected(doc)]
        version = str(next(self._versions))
        return web.json_response(
            {"kind": "List", "metadata": {"resourceVersion": version}, "items": items}
        )

    async def _watch(
        self, request: web.Request, selected: Callable[[Document], bool]
    ) -> web.StreamResponse:
        seen = int(request.query["resourceVersion"])
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        while not self.down:
            for version, kind, document in [] if self.mute else list(self._log):
                if version > seen and selected(document):
                    line = json.dumps({"type": kind, "object": document}) + "\n"
                    await response.write(line.encode())
                    seen = version
            async with self._changed:
                await self._changed.wait()
        return response

    async def get(self, request: web.Request) -> web.Response:
        """Return one object."""
        document = self.objects.get(request.path)
        self.heartbeats += request.query.get("resourceVersion") == "0"
        return web.json_response(document) if document else _failure(404, "not found")

    async def create(self, request: web.Request) -> web.Response:
        """Create an object."""
        document = await request.json()
        metadata = document["metadata"]
        if "generateName" in metadata:
            metadata["name"] = f"{metadata['generateName']}{next(self._versions)}"
        path = f"{request.path}/{metadata['name']}"
        if path in self.objects:
            return _failure(409, "already exists")
        metadata["generation"] = 1
        self.writes.append(("POST", path))
        return web.json_response(await self.put(path, document), status=201)

    async def patch(self, request: web.Request) -> web.Response:
        """Merge a patch in; the status only through its subresource."""
        assert request.content_type == "application/merge-patch+json"
        path = request.path.removesuffix("/status")
        old = self.objects.get(path)
        if old is None:
            return _failure(404, "not found")
        body = await request.json()
        version = (body.get("metadata") or {}).get("resourceVersion")
        if version not in {None, old["metadata"]["resourceVersion"]}:
            return _failure(409, "the object has been modified")
        part = {"status"} if path != request.path else {"spec", "metadata"}
        new = _merged(old, {key: value for key, value in body.items() if key in part})
        if new.get("spec") != old.get("spec"):
            new["metadata"]["generation"] += 1
        self.writes.append(("PATCH", request.path))
        return web.json_response(await self.put(path, new))

    @web.middleware
    async def refuse_when_down(self, request: web.Request, handler: Any) -> web.StreamResponse:
        """Answer 503 while down, and nothing while silent."""
        while self.silent:  # noqa: ASYNC110 - a test sets it without further ado
            await asyncio.sleep(0.05)
        if self.down or request.path == self.refused_path:
            return _failure(503, "the server is going away")
        if self.bad_gateway and request.transport is not None:
            request.transport.write(BAD_GATEWAY)
            request.transport.close()
        response: web.StreamResponse = await handler(request)
        return response

    def application(self) -> web.Application:
        """Return the HTTP application."""
        app = web.Application(middlewares=[self.refuse_when_down])
        app.router.add_get(PODS, self.list_pods)
        app.router.add_get(NODES, self.list_nodes)
        app.router.add_get(SLICES, self.list_slices)
        for path in ("/{plural}", "/namespaces/{namespace}/{plural}"):
            app.router.add_post(_RESOURCES + path, self.create)
            app.router.add_get(_RESOURCES + path + "/{name}", self.get)
            app.router.add_patch(_RESOURCES + path + "/{name}", self.patch)
            app.router.add_patch(_RESOURCES + path + "/{name}/status", self.patch)
        return app


@asynccontextmanager
async def serving(api: NodeApi) -> AsyncIterator[NodeApi]:
    """Serve ``api`` on a free port."""
    runner = web.AppRunner(api.application(), shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    api.url = f"http://{host}:{port}"
    try:
        yield api
    finally:
        api.down = True
        await api.wake()
        await runner.cleanup()


def _is_pod_of(document: Document, node: str) -> bool:
    return document.get("kind") == "Pod" and document["spec"].get("nodeName") == node


def _merged(old: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    new = copy.deepcopy(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            new.pop(key, None)
        else:
            new[key] = _merged(new.get(key), value)
    return new


def _failure(code: int, message: str) -> web.Response:
    body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "code": code, "message": message}
    return web.json_response({**body, "status": "Failure"}, status=code)
