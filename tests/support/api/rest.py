"""What the fake API server does with one request, by the rules of the real one."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from support.api.store import Document, Store

NOMINATED = "nominatedNodeName"
_MAX_NOTE_BYTES = 1024
SERVICE_IP = "10.96.3.7"
_CUSTOM = {"gpuensembles", "gpujobs", "gpuprofiles", "gputopologies"}
_PATH = re.compile(
    r"/(?:api|apis/[^/]+)/[^/]+(?:/namespaces/(?P<namespace>[^/]+)(?=/))?"
    r"/(?P<plural>[^/]+)(?:/(?P<name>[^/]+))?(?:/(?P<subresource>status|binding|resize|eviction))?"
)


class Reply(NamedTuple):
    """Status and body of a response; bytes are sent unchanged."""

    status: int
    body: Document | bytes


class Target(NamedTuple):
    """The object or kind that a path names; empty where it names none."""

    plural: str
    namespace: str
    name: str
    subresource: str


@dataclass(frozen=True, slots=True)
class Request:
    """A request that is not a watch."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Document = field(default_factory=dict)


def target_of(path: str) -> Target | None:
    """Return what a path names, None for one that no API has."""
    match = _PATH.fullmatch(path)
    if match is None:
        return None
    return Target(**{name: value or "" for name, value in match.groupdict().items()})


def respond(store: Store, request: Request, page_size: int) -> Reply:
    """Carry a request out."""
    target = target_of(request.path)
    if target is None:
        return failure(404, "NotFound", f"{request.path} is not here")
    if not target.name:
        collection = {"GET": _list, "POST": _create}[request.method]
        return collection(store, request, target, page_size)
    found = store.get(target.plural, target.name, target.namespace)
    if found is None:
        return failure(404, "NotFound", f'{target.plural} "{target.name}" not found')
    if request.method == "GET":
        return Reply(200, found)
    return _write(store, request, target, found)


def _write(store: Store, request: Request, target: Target, found: Document) -> Reply:
    part = "preconditions" if request.method == "DELETE" else "metadata"
    if conflict := _conflict(found, request.body.get(part) or {}):
        return failure(409, "Conflict", conflict)
    if request.method == "DELETE":
        store.delete(target.plural, target.name, target.namespace)
        return Reply(200, found)
    if target.subresource == "eviction":
        options = request.body.get("deleteOptions") or {}
        if conflict := _conflict(found, options.get("preconditions") or {}):
            return failure(409, "Conflict", conflict)
        store.delete(target.plural, target.name, target.namespace)
        return Reply(201, {"kind": "Status", "apiVersion": "v1", "status": "Success"})
    if target.subresource == "binding":
        return _bind(store, target, found, request.body)
    return Reply(200, _change(store, request, target))


def failure(code: int, reason: str, message: str) -> Reply:
    """Return a response with a Status object."""
    body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return Reply(code, {**body, "code": code, "reason": reason, "message": message})


def is_selected(document: Document, target: Target, query: Mapping[str, str]) -> bool:
    """Whether a list or watch of ``target`` with these selectors contains the object."""
    metadata = document["metadata"]
    if metadata.get("namespace", "") != target.namespace and target.namespace:
        return False
    if not has_labels(document, query):
        return False
    for selector in filter(None, query.get("fieldSelector", "").split(",")):
        path, _, value = selector.partition("=")
        found: object = document
        for part in path.removesuffix("!").split("."):
            found = found.get(part, "") if isinstance(found, dict) else ""
        if (found != value) != path.endswith("!"):
            return False
    return True


def has_labels(document: Document, query: Mapping[str, str]) -> bool:
    """Whether the label selector of a query selects the object."""
    labels = document["metadata"].get("labels") or {}
    for selector in filter(None, query.get("labelSelector", "").split(",")):
        name, equals, value = selector.partition("=")
        if name not in labels or (equals and labels[name] != value):
            return False
    return True


def page(items: list[Document], query: Mapping[str, str], page_size: int, version: str) -> Document:
    """Return the page of a list that a query requests."""
    start = int(query.get("continue") or 0)
    end = start + min(int(query.get("limit") or page_size), page_size)
    metadata: Document = {"resourceVersion": version}
    if end < len(items):
        metadata["continue"] = str(end)
        if not query.keys() & {"labelSelector", "fieldSelector"}:
            metadata["remainingItemCount"] = len(items) - end
    return {"kind": "List", "metadata": metadata, "items": items[start:end]}


def merge(document: Document, patch: Document) -> None:
    """Merge a JSON merge patch into a document (RFC 7386)."""
    for name, value in patch.items():
        if value is None:
            document.pop(name, None)
        elif isinstance(value, dict):
            if not isinstance(document.get(name), dict):
                document[name] = {}
            merge(document[name], value)
        else:
            document[name] = value


def _list(store: Store, request: Request, target: Target, page_size: int) -> Reply:
    items = [it for it in store.all(target.plural) if is_selected(it, target, request.query)]
    if target.plural not in _CUSTOM:  # only custom objects have a kind in lists
        items = [{key: it[key] for key in it.keys() - {"apiVersion", "kind"}} for it in items]
    return Reply(200, page(items, request.query, page_size, str(store.version)))


def _create(store: Store, request: Request, target: Target, _: int) -> Reply:
    if target.namespace:
        request.body["metadata"].setdefault("namespace", target.namespace)
    if len(request.body.get("note", "").encode()) > _MAX_NOTE_BYTES:
        return failure(422, "Invalid", "note: can have at most 1024 characters")
    if target.plural == "services":
        request.body["spec"].setdefault("clusterIP", SERVICE_IP)
    created = store.create(target.plural, request.body)
    if created is None:
        name = request.body["metadata"]["name"]
        return failure(409, "AlreadyExists", f'{target.plural} "{name}" already exists')
    return Reply(201, created)


def _bind(store: Store, target: Target, pod: Document, binding: Document) -> Reply:
    if pod["spec"].get("nodeName"):
        return failure(409, "Conflict", f"already assigned to {pod['spec']['nodeName']}")
    if pod["metadata"].get("deletionTimestamp"):
        return failure(409, "Conflict", "the pod is being deleted")

    def bind(pod: Document) -> None:
        pod["spec"]["nodeName"] = binding["target"]["name"]
        added = binding["metadata"].get("annotations") or {}
        pod["metadata"].setdefault("annotations", {}).update(added)

    store.change(target.plural, target.name, bind, target.namespace)
    return Reply(201, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"})


def _change(store: Store, request: Request, target: Target) -> Document:
    """Replace (PUT) or patch an object; the status only through its subresource."""
    body = request.body
    if target.subresource == "resize":
        return _resize(store, target, body)
    allowed = {"status", "metadata"} if target.subresource else body.keys() - {"status"}

    def change(document: Document) -> None:
        if request.method == "PUT":
            document.update(body)
        else:
            merge(document, {part: body[part] for part in allowed if part in body})
        if target.subresource == "status" and NOMINATED in (body.get("status") or {}):
            _record_manager(document, request.query.get("fieldManager", "unknown"))

    return store.change(target.plural, target.name, change, target.namespace)


def _record_manager(document: Document, manager: str) -> None:
    """Record which client has written the nominated node of a pod."""
    managed: list[Document] = []
    if document["status"].get(NOMINATED):
        fields: Document = {"f:status": {f"f:{NOMINATED}": {}}}
        managed = [{"manager": manager, "subresource": "status", "fieldsV1": fields}]
    document["metadata"]["managedFields"] = managed


def _resize(store: Store, target: Target, patch: Document) -> Document:
    """Change the resources of containers, as a strategic merge patch names them."""

    def change(pod: Document) -> None:
        for named in patch["spec"]["containers"]:
            for container in pod["spec"]["containers"]:
                if container["name"] == named["name"]:
                    merge(container.setdefault("resources", {}), named["resources"])

    return store.change(target.plural, target.name, change, target.namespace)


def _conflict(found: Document, preconditions: Document) -> str | None:
    """Return why a write whose metadata names another UID or version is rejected."""
    for name in ("uid", "resourceVersion"):
        if preconditions.get(name) not in {None, found["metadata"].get(name)}:
            return f"the {name} in the precondition differs: the object has been modified"
    return None
