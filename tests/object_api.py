"""A small API server of Kubernetes objects in this process, with faults on demand.

It keeps what the operator leans on: growing resource versions, preconditions of patches, the
status subresource, label selectors, watches, and the deletion of what is owned. It has no
controllers: a test that wants a pod puts it there.
"""

import copy
import io
import itertools
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

Document = dict[str, Any]

_KINDS = {
    ("", "v1", "namespaces"): "Namespace",
    ("", "v1", "pods"): "Pod",
    ("apiextensions.k8s.io", "v1", "customresourcedefinitions"): "CustomResourceDefinition",
    ("batch", "v1", "jobs"): "Job",
    ("events.k8s.io", "v1", "events"): "Event",
    ("gputopo.io", "v1alpha1", "gpujobs"): "GPUJob",
    ("gputopo.io", "v1alpha1", "gpuprofiles"): "GPUProfile",
    ("gputopo.io", "v1alpha1", "gputopologies"): "GPUTopology",
}
_CLUSTER_SCOPED = {"namespaces", "customresourcedefinitions", "gputopologies"}
_PATH = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/(?P<version>[^/]+)(?:/namespaces/(?P<namespace>[^/]+))?"
    r"/(?P<plural>[^/]+)(?:/(?P<name>[^/]+))?(?P<status>/status)?"
)


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to the next request that it matches.

    Attributes:
        code: the answer; 0 closes the connection without one.
        done: the request is carried out nevertheless.
    """

    method: str
    path: str
    code: int
    message: str = "injected"
    done: bool = False


@dataclass(slots=True)
class ObjectApi:
    """The state of the server. Tests read and change it directly.

    Attributes:
        writes: method and object of every request that changed something, in order.
        deaf: watches tell nothing.
    """

    objects: dict[tuple[str, str, str], Document] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    writes: list[tuple[str, str]] = field(default_factory=list)
    deaf: bool = False
    closed: bool = False
    url: str = ""
    _versions: Iterator[int] = field(default_factory=lambda: itertools.count(100))
    _log: list[tuple[int, str, str, Document]] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def get(self, plural: str, name: str, namespace: str = "default") -> Document | None:
        """Return a copy of an object."""
        with self._changed:
            found = self.objects.get((plural, _scope(plural, namespace), name))
            return copy.deepcopy(found)

    def all(self, plural: str) -> list[Document]:
        """Return copies of all objects of a kind, in the order of their creation."""
        with self._changed:
            return [copy.deepcopy(d) for (kind, _, _), d in self.objects.items() if kind == plural]

    def create(self, plural: str, document: Document) -> Document | None:
        """Store a new object, as the server completes it; None where its name is taken."""
        document = copy.deepcopy(document)
        metadata = document["metadata"]
        metadata.setdefault("namespace", "default")
        if plural in _CLUSTER_SCOPED:
            del metadata["namespace"]
        key = (plural, metadata.get("namespace", ""), metadata["name"])
        with self._changed:
            if key in self.objects:
                return None
            number = next(self._versions)
            metadata.setdefault("uid", f"uid-{number}")
            metadata.setdefault("creationTimestamp", f"2026-01-01T00:{number // 60:02}:00Z")
            metadata["generation"] = 1
            return self._store(key, "ADDED", document)

    def change(
        self, plural: str, name: str, change: Callable[[Document], None], namespace: str = "default"
    ) -> Document:
        """Change an object in place; a changed spec is a new generation."""
        key = (plural, _scope(plural, namespace), name)
        with self._changed:
            document = copy.deepcopy(self.objects[key])
            change(document)
            if document.get("spec") != self.objects[key].get("spec"):
                document["metadata"]["generation"] += 1
            return self._store(key, "MODIFIED", document)

    def delete(self, plural: str, name: str, namespace: str = "default") -> None:
        """Delete an object and what it owns."""
        key = (plural, _scope(plural, namespace), name)
        with self._changed:
            document = self.objects[key]
            self._store(key, "DELETED", document)
            del self.objects[key]
            owned = [
                (kind, owned_name, scope)
                for (kind, scope, owned_name), other in self.objects.items()
                for owner in other["metadata"].get("ownerReferences", [])
                if owner["uid"] == document["metadata"]["uid"]
            ]
            for owned_key in owned:
                self.delete(*owned_key)

    def close(self) -> None:
        """End all watches."""
        with self._changed:
            self.closed = True
            self._changed.notify_all()

    def fault(self, method: str, path: str) -> Fault | None:
        """Return the fault for a request, once."""
        with self._changed:
            for fault in self.faults:
                if fault.method == method and re.search(fault.path, path):
                    self.faults.remove(fault)
                    return fault
        return None

    def changes(self, plural: str, namespace: str, since: int) -> Iterator[tuple[str, Document]]:
        """Return the changes of a kind from a version on; waits for more until closed."""
        while True:
            with self._changed:
                news = [] if self.deaf else self._news(plural, namespace, since)
                while not news and not self.closed:
                    self._changed.wait(1)
                    news = [] if self.deaf else self._news(plural, namespace, since)
                if self.closed:
                    return
            for number, change, document in news:
                since = number
                yield change, document

    def latest(self) -> str:
        """Return the newest resource version."""
        return str(self._log[-1][0] if self._log else 1)

    def _news(self, plural: str, namespace: str, since: int) -> list[tuple[int, str, Document]]:
        return [
            (number, change, document)
            for number, kind, change, document in self._log
            if kind == plural
            and number > since
            and (not namespace or document["metadata"].get("namespace") == namespace)
        ]

    def _store(self, key: tuple[str, str, str], change: str, document: Document) -> Document:
        number = next(self._versions)
        document["metadata"]["resourceVersion"] = str(number)
        self.objects[key] = document
        self._log.append((number, key[0], change, copy.deepcopy(document)))
        self._changed.notify_all()
        return copy.deepcopy(document)


@contextmanager
def serving(api: ObjectApi) -> Iterator[ObjectApi]:
    """Serve ``api`` on a free port of this machine."""

    class Handler(_Handler):
        state = api

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            """Say nothing: clients that are killed break their connections."""

    server = Server(("127.0.0.1", 0), Handler)
    host, port = server.server_address[:2]
    api.url = f"http://{host!s}:{port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield api
    finally:
        api.close()
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 5
    state: ObjectApi

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's
        """Say nothing."""

    def do_GET(self) -> None:
        self._serve(self._get)

    def do_POST(self) -> None:
        self._serve(self._post)

    def do_PATCH(self) -> None:
        self._serve(self._patch)

    def _serve(self, work: Callable[[Any, Document], None]) -> None:
        parts = urlsplit(self.path)
        length = int(self.headers.get("Content-Length", 0))
        body = json.loads(self.rfile.read(length)) if length else {}
        fault = self.state.fault(self.command, self.path)
        if fault is not None and fault.done:
            match = _PATH.fullmatch(parts.path)
            assert match is not None
            self.wfile, real = io.BytesIO(), self.wfile
            work(match, body)
            self.wfile = real
        if fault is not None:
            if fault.code == 0:
                self.close_connection = True
            else:
                self._answer(fault.code, {"message": fault.message, "code": fault.code})
            return
        if parts.path in _DISCOVERY:
            self._answer(200, _DISCOVERY[parts.path])
            return
        match = _PATH.fullmatch(parts.path)
        if match is None or (match["group"] or "", match["version"], match["plural"]) not in _KINDS:
            self._answer(404, {"message": f"{parts.path} is not here"})
            return
        work(match, body)

    def _get(self, match: Any, _: Document) -> None:
        plural, namespace = match["plural"], match["namespace"] or ""
        query = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        if match["name"]:
            found = self.state.get(plural, match["name"], namespace)
            self._answer(200 if found else 404, found or {"message": "not found"})
        elif query.get("watch") == "true":
            self._watch(plural, namespace, query)
        else:
            documents = self.state.all(plural)
            items = [
                document
                for document in documents
                if _selected(document, query.get("labelSelector", ""))
                and namespace in {"", document["metadata"].get("namespace", "")}
            ]
            metadata = {"resourceVersion": self.state.latest()}
            self._answer(200, {"kind": "List", "metadata": metadata, "items": items})

    def _watch(self, plural: str, namespace: str, query: dict[str, str]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        since = int(query.get("resourceVersion", "0"))
        for change, document in self.state.changes(plural, namespace, since):
            if _selected(document, query.get("labelSelector", "")):
                line = json.dumps({"type": change, "object": document}) + "\n"
                self.wfile.write(line.encode())
                self.wfile.flush()

    def _post(self, match: Any, body: Document) -> None:
        body["metadata"].setdefault("namespace", match["namespace"])
        if len(body.get("note", "").encode()) > 1024:
            self._answer(422, {"message": "note: can have at most 1024 characters"})
            return
        created = self.state.create(match["plural"], body)
        if created is None:
            self._answer(409, {"message": f"{body['metadata']['name']} already exists"})
            return
        path = f"{urlsplit(self.path).path}/{body['metadata']['name']}"
        self.state.writes.append(("POST", path))
        self._answer(201, created)

    def _patch(self, match: Any, body: Document) -> None:
        plural, namespace, name = match["plural"], match["namespace"], match["name"]
        found = self.state.get(plural, name, namespace)
        if found is None:
            self._answer(404, {"message": "not found"})
            return
        wanted = body.pop("metadata", {})
        if any(found["metadata"][field] != value for field, value in wanted.items()):
            self._answer(409, {"message": "the object has been modified"})
            return
        part = "status" if match["status"] else "spec"
        patch = {part: body[part]}
        changed = self.state.change(
            plural, name, lambda document: _merge(document, patch), namespace
        )
        self.state.writes.append(("PATCH", urlsplit(self.path).path))
        self._answer(200, changed)

    def _answer(self, code: int, document: Document) -> None:
        data = json.dumps(document).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _scope(plural: str, namespace: str) -> str:
    return "" if plural in _CLUSTER_SCOPED else namespace


def _selected(document: Document, selector: str) -> bool:
    labels = document["metadata"].get("labels", {})
    name, _, value = selector.partition("=")
    return not selector or (labels.get(name) == value if value else name in labels)


def _merge(document: Document, patch: Document) -> None:
    for name, value in patch.items():
        if isinstance(value, dict) and isinstance(document.get(name), dict):
            _merge(document[name], value)
        elif value is None:
            document.pop(name, None)
        else:
            document[name] = value


def _discovery() -> dict[str, Document]:
    pages: dict[str, Document] = {"/version": {"major": "1", "minor": "36"}}
    groups: dict[str, Document] = {}
    for (group, version, plural), kind in _KINDS.items():
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        page = pages.setdefault(path, {"groupVersion": version, "resources": []})
        resource: Document = {"name": plural, "singularName": kind.lower(), "kind": kind}
        resource |= {"namespaced": plural not in _CLUSTER_SCOPED, "verbs": ["list", "watch"]}
        page["resources"].append(resource)
        page["resources"].append({**resource, "name": f"{plural}/status"})
        if group:
            entry = {"version": version}
            groups[group] = {"name": group, "versions": [entry], "preferredVersion": entry}
    pages["/api"] = {"versions": ["v1"]}
    pages["/apis"] = {"groups": list(groups.values())}
    return pages


_DISCOVERY = _discovery()
