"""A small Kubernetes API in this process: pods, GPU topologies, Leases, Bindings, and faults.

It keeps what the real server reservations and components lean on: growing resource versions, lists
in pages, watches from a version, 410 for versions that were compacted, and the preconditions of
Bindings and patches. Whether the real server does the same is for the end-to-end tests to say.
"""

import asyncio
import copy
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from aiohttp import web
from lightkube import AsyncClient, KubeConfig
from lightkube.config.models import Cluster, User

from gputopo_kube.aiohttp_transport import connected

Document = dict[str, Any]

PODS = "pods"
TOPOLOGIES = "gputopologies"
LEASES = "leases"
_DELETED = "DELETED"


class Fault(Enum):
    """What goes wrong with one Binding."""

    SILENT_AFTER = auto()
    """Carried out, but the answer never comes."""
    SILENT_BEFORE = auto()
    """Neither carried out nor answered."""
    LATE = auto()
    """Answered by nothing, carried out when the test says so."""
    DROPPED = auto()
    """The connection is closed without an answer, nothing carried out."""
    ERROR = auto()
    """500, nothing carried out."""
    FORBIDDEN = auto()
    """403, nothing carried out."""


@dataclass(slots=True)
class _Change:
    version: int
    kind: str
    type: str
    document: Document


@dataclass(frozen=True, slots=True)
class Backup:
    """The state of the server at one time."""

    version: int
    objects: dict[str, dict[str, Document]]


@dataclass(slots=True)
class SmallApi:
    """The state of the server; tests change it directly.

    Attributes:
        binding_faults: what happens to the next Bindings, in order; none: all is well.
        lease_answers_are_lost: Leases are written, but the answer never comes.
        forbid_leases: answer 403 to all that is asked of Leases.
        before_a_lease_is_written: done once, before the next Lease is written.
        before_a_binding: done once, before the next Binding is carried out.
        bindings: bodies of the Bindings that were carried out, in order.
        late: Bindings of ``Fault.LATE``, to be carried out by ``carry_out_late``.
        untouchable: names of pods that nobody may change.
        refuse_everything: answer 503 to all.
        binding_is_the_last: with the next Binding begins that everything is refused.
        versions_are_too_large: answer 504 to watches: their versions are of the future.
        refuse_watches: answer 503 to watches, while lists are answered.
        lease_reads: how often a Lease was read.
        lists: how often each kind was listed (first pages).
        most_watchers: the most watches ever open at one time.
    """

    objects: dict[str, dict[str, Document]] = field(
        default_factory=lambda: {PODS: {}, TOPOLOGIES: {}, LEASES: {}}
    )
    binding_faults: deque[Fault] = field(default_factory=deque)
    lease_answers_are_lost: bool = False
    forbid_leases: bool = False
    before_a_lease_is_written: Callable[[], Awaitable[None]] | None = None
    before_a_binding: Callable[[], Awaitable[None]] | None = None
    bindings: list[Document] = field(default_factory=list)
    late: list[Document] = field(default_factory=list)
    untouchable: set[str] = field(default_factory=set)
    refuse_everything: bool = False
    binding_is_the_last: bool = False
    refuse_watches: bool = False
    versions_are_too_large: bool = False
    lists: dict[str, int] = field(default_factory=lambda: {PODS: 0, TOPOLOGIES: 0})
    lease_reads: int = 0
    version: int = 100
    oldest: int = 0
    page_size: int = 500
    mute: bool = False
    _log: list[_Change] = field(default_factory=list)
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    _generation: int = 0
    url: str = ""

    async def put(self, kind: str, document: Document) -> None:
        """Create or replace an object."""
        key = _key(document)
        known = key in self.objects[kind]
        await self._note(kind, "MODIFIED" if known else "ADDED", document)

    async def delete(self, kind: str, key: str) -> None:
        """Delete an object; pods by ``namespace/name``."""
        await self._note(kind, _DELETED, self.objects[kind][key])

    async def break_watches(self, *, compact: bool = False) -> None:
        """Close all watches; ``compact``: their versions are gone as well."""
        self._generation += 1
        if compact:
            self.oldest = self.version
        await self._wake()

    def backup(self) -> "Backup":
        """Return all objects as they are now, with the version of the newest change."""
        return Backup(self.version, copy.deepcopy(self.objects))

    async def restore(self, backup: "Backup") -> None:
        """Go back to a backup as a restored etcd does: versions are given out again.

        Watches stay open, as behind a proxy: they began at versions of the future now.
        """
        self.version, self.objects = backup.version, copy.deepcopy(backup.objects)
        self._log = [change for change in self._log if change.version <= backup.version]
        await self._wake()

    async def carry_out_late(self) -> None:
        """Carry out the Bindings that got stuck."""
        for body in self.late:
            await self._carry_out(body)
        self.late.clear()

    def client(self) -> AsyncClient:
        """Return a lightkube client of this server."""
        config = KubeConfig.from_one(cluster=Cluster(server=self.url), user=User())
        return connected(config)

    def pod(self, name: str) -> Document:
        """Return a pod of the namespace ``default``."""
        return self.objects[PODS][f"default/{name}"]

    async def _note(self, kind: str, change: str, document: Document) -> None:
        self.version += 1
        document = copy.deepcopy(document)
        document["metadata"]["resourceVersion"] = str(self.version)
        if change == _DELETED:
            self.objects[kind].pop(_key(document))
        else:
            self.objects[kind][_key(document)] = document
        self._log.append(_Change(self.version, kind, change, document))
        await self._wake()

    async def _wake(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def list(self, request: web.Request) -> web.StreamResponse:
        """List or watch a kind."""
        kind = request.match_info["kind"]
        watch = request.query.get("watch") == "true"
        if self.refuse_everything or (watch and self.refuse_watches):
            return _status(503, "ServiceUnavailable", "the server is going away")
        if watch and self.versions_are_too_large:
            return _status(504, "Timeout", "Too large resource version")
        if watch:
            return await self._watch(request, kind)
        limit = min(int(request.query.get("limit", 500)), self.page_size)
        start = int(request.query.get("continue") or 0)
        if start == 0:
            self.lists[kind] += 1
        items = sorted(self.objects[kind].values(), key=_key)
        metadata = {"resourceVersion": str(self.version)}
        if start + limit < len(items):
            metadata["continue"] = str(start + limit)
        return web.json_response(
            {"kind": "List", "metadata": metadata, "items": items[start : start + limit]}
        )

    async def _watch(self, request: web.Request, kind: str) -> web.StreamResponse:
        seen = int(request.query["resourceVersion"])
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        generation = self._generation
        if seen < self.oldest:
            status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
            await _line(response, "ERROR", status)
            return response
        while generation == self._generation:
            for change in [] if self.mute else self._log:
                if change.kind == kind and change.version > seen:
                    await _line(response, change.type, change.document)
                    seen = change.version
            async with self._changed:
                await self._changed.wait_for(
                    lambda seen=seen: self._news(kind, seen, generation)  # type: ignore[misc]
                )
        return response

    def _news(self, kind: str, seen: int, generation: int) -> bool:
        if generation != self._generation:
            return True
        return not self.mute and any(
            change.kind == kind and change.version > seen for change in reversed(self._log)
        )

    async def get_pod(self, request: web.Request) -> web.Response:
        """Return one pod."""
        if self.refuse_everything:
            return _status(503, "ServiceUnavailable", "the server is going away")
        pod = self.objects[PODS].get(_path_key(request))
        return web.json_response(pod) if pod else _status(404, "NotFound", "pod not found")

    async def invalidate(self, request: web.Request) -> web.Response:
        """Merge metadata into a pod through its status."""
        pod = self.objects[PODS].get(_path_key(request))
        if self.refuse_everything:
            return _status(503, "ServiceUnavailable", "the server is going away")
        if pod is None:
            return _status(404, "NotFound", "pod not found")
        if request.match_info["name"] in self.untouchable:
            return _status(403, "Forbidden", "an admission webhook denied the request")
        changed = copy.deepcopy(pod)
        patch = await request.json()
        changed["metadata"].setdefault("annotations", {}).update(patch["metadata"]["annotations"])
        await self.put(PODS, changed)
        return web.json_response(self.objects[PODS][_path_key(request)])

    async def get_lease(self, request: web.Request) -> web.Response:
        """Return one Lease."""
        self.lease_reads += 1
        if self.forbid_leases:
            return _status(403, "Forbidden", "leases are forbidden")
        if self.refuse_everything:
            return _status(503, "ServiceUnavailable", "the server is going away")
        lease = self.objects[LEASES].get(_path_key(request))
        return web.json_response(lease) if lease else _status(404, "NotFound", "no such Lease")

    async def write_lease(self, request: web.Request) -> web.Response:
        """Create or patch a Lease, or fail as the test wants."""
        before, self.before_a_lease_is_written = self.before_a_lease_is_written, None
        if before is not None:
            await before()
        if self.forbid_leases:
            return _status(403, "Forbidden", "leases are forbidden")
        create = request.method == "POST"
        answer = await (self._create_lease(request) if create else self._patch_lease(request))
        if self.lease_answers_are_lost:
            await asyncio.sleep(60)
        return answer

    async def _create_lease(self, request: web.Request) -> web.Response:
        lease = await request.json()
        if self.refuse_everything:
            return _status(503, "ServiceUnavailable", "the server is going away")
        if _key(lease) in self.objects[LEASES]:
            return _status(409, "AlreadyExists", "the Lease exists")
        await self.put(LEASES, lease)
        return web.json_response(self.objects[LEASES][_key(lease)], status=201)

    async def _patch_lease(self, request: web.Request) -> web.Response:
        lease = self.objects[LEASES].get(_path_key(request))
        if self.refuse_everything:
            return _status(503, "ServiceUnavailable", "the server is going away")
        if lease is None:
            return _status(404, "NotFound", "no such Lease")
        patch = (await request.json())["metadata"]
        if patch["resourceVersion"] != lease["metadata"]["resourceVersion"]:
            return _status(409, "Conflict", "the object has been modified")
        changed = copy.deepcopy(lease)
        changed["metadata"]["annotations"].update(patch["annotations"])
        # What is written as it was keeps its version.
        if changed != lease:
            await self.put(LEASES, changed)
        return web.json_response(self.objects[LEASES][_path_key(request)])

    async def replace_lease(self, request: web.Request) -> web.Response:
        """Replace a Lease of the version that the body names."""
        before, self.before_a_lease_is_written = self.before_a_lease_is_written, None
        if before is not None:
            await before()
        if self.refuse_everything:
            return _status(503, "ServiceUnavailable", "the server is going away")
        lease, known = await request.json(), self.objects[LEASES][_path_key(request)]
        if lease["metadata"]["resourceVersion"] != known["metadata"]["resourceVersion"]:
            return _status(409, "Conflict", "the object has been modified")
        await self.put(LEASES, lease)
        return web.json_response(self.objects[LEASES][_path_key(request)])

    async def bind(self, request: web.Request) -> web.Response:
        """Carry a Binding out, or fail as the test wants."""
        body = await request.json()
        before, self.before_a_binding = self.before_a_binding, None
        if before is not None:
            await before()
        fault = self.binding_faults.popleft() if self.binding_faults else None
        self.refuse_everything = self.refuse_everything or self.binding_is_the_last
        if fault is Fault.ERROR or self.refuse_everything:
            return _status(500, "InternalError", "etcd has no leader")
        if fault is Fault.FORBIDDEN:
            return _status(403, "Forbidden", "pods/binding is forbidden")
        if fault is Fault.LATE:
            self.late.append(body)
        if fault is Fault.SILENT_AFTER:
            await self._carry_out(body)
        if fault in {Fault.LATE, Fault.SILENT_AFTER, Fault.SILENT_BEFORE}:
            await asyncio.sleep(60)
        if fault is Fault.DROPPED:
            assert request.transport is not None
            request.transport.close()
            return web.Response()
        return await self._carry_out(body)

    async def _carry_out(self, body: Document) -> web.Response:
        wanted = body["metadata"]
        pod = self.objects[PODS].get(f"{wanted['namespace']}/{wanted['name']}")
        if pod is None:
            return _status(404, "NotFound", "pod not found")
        if wanted.get("uid") not in {None, pod["metadata"]["uid"]}:
            return _status(409, "Conflict", "the UID in the precondition differs")
        if wanted.get("resourceVersion") not in {None, pod["metadata"]["resourceVersion"]}:
            return _status(409, "Conflict", "the ResourceVersion in the precondition differs")
        if pod["spec"].get("nodeName"):
            return _status(409, "Conflict", f"already assigned to {pod['spec']['nodeName']}")
        if pod["metadata"].get("deletionTimestamp"):
            return _status(409, "Conflict", "the pod is being deleted")
        bound = copy.deepcopy(pod)
        bound["spec"]["nodeName"] = body["target"]["name"]
        bound["metadata"].setdefault("annotations", {}).update(wanted.get("annotations") or {})
        self.bindings.append(body)
        await self.put(PODS, bound)
        return _status(201, "", "")

    async def api(self) -> web.Application:
        """Return the HTTP application."""
        app = web.Application()
        app.router.add_get("/api/v1/{kind:pods}", self.list)
        app.router.add_get("/apis/gputopo.io/v1alpha1/{kind:gputopologies}", self.list)
        app.router.add_get("/api/v1/namespaces/{namespace}/pods/{name}", self.get_pod)
        app.router.add_post("/api/v1/namespaces/{namespace}/pods/{name}/binding", self.bind)
        app.router.add_patch("/api/v1/namespaces/{namespace}/pods/{name}/status", self.invalidate)
        leases = "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        app.router.add_post(leases, self.write_lease)
        app.router.add_get(leases + "/{name}", self.get_lease)
        app.router.add_patch(leases + "/{name}", self.write_lease)
        app.router.add_put(leases + "/{name}", self.replace_lease)
        return app


@asynccontextmanager
async def serving(api: SmallApi) -> AsyncIterator[SmallApi]:
    """Serve ``api`` on a free port; open watches end with the block."""
    runner = web.AppRunner(await api.api(), shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    api.url = f"http://{host}:{port}"
    try:
        yield api
    finally:
        await api.break_watches()
        await runner.cleanup()


def _key(document: Document) -> str:
    metadata = document["metadata"]
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


def _path_key(request: web.Request) -> str:
    return f"{request.match_info['namespace']}/{request.match_info['name']}"


async def _line(response: web.StreamResponse, change: str, document: Document) -> None:
    await response.write(json.dumps({"type": change, "object": document}).encode() + b"\n")


def _status(code: int, reason: str, message: str) -> web.Response:
    word = "Success" if code < 300 else "Failure"
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": word,
        "code": code,
        "reason": reason,
        "message": message,
    }
    return web.json_response(body, status=code)
