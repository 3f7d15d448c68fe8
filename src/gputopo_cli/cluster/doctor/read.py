"""Read the objects of a cluster that the checks need."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from importlib.metadata import version
from typing import Final

from gputopo.api.names import GROUP, VERSION
from gputopo_cli.cluster.doctor.installation import DEFINITIONS
from gputopo_cli.cluster.doctor.installed import OURS
from gputopo_cli.cluster.doctor.model import CheckedCluster, ObjectKind
from gputopo_cli.cluster.doctor.nodes import is_ready
from gputopo_kube.document import Document
from gputopo_kube.errors import ApiError, NotFoundError
from gputopo_kube.sync import SyncApi

_CORE: Final = ("api", "v1")
_APPS: Final = ("apis", "apps", "v1")
_ADMISSION: Final = ("apis", "admissionregistration.k8s.io", "v1")
_LISTS: Final = (
    # Topologies are read before pods, so that the pods in their status are in the list of pods.
    (ObjectKind.TOPOLOGIES, ("apis", GROUP, VERSION), ""),
    (ObjectKind.PODS, _CORE, ""),
    (ObjectKind.NODES, _CORE, ""),
    (ObjectKind.CONFIG_MAPS, _CORE, OURS),
    (ObjectKind.DEPLOYMENTS, _APPS, OURS),
    (ObjectKind.DAEMON_SETS, _APPS, ""),
    (ObjectKind.POLICIES, _ADMISSION, OURS),
    (ObjectKind.BINDINGS, _ADMISSION, OURS),
    (ObjectKind.QUOTAS, _CORE, ""),
)
_REQUIRED: Final = frozenset({ObjectKind.TOPOLOGIES, ObjectKind.PODS, ObjectKind.NODES})

_MAX_TIMEOUTS: Final = 3
"""After this many kubelets without a response, skip the other kubelets."""

_Documents = Mapping[ObjectKind, Sequence[Document]]


def read_cluster(cluster: SyncApi) -> CheckedCluster:
    """Read all objects that the checks need.

    Raises:
        ApiError: if the API server does not respond, or does not allow the user to list
            topologies, pods or nodes.
    """
    documents: dict[ObjectKind, Sequence[Document]] = {}
    unread: dict[ObjectKind, str] = {}
    for kind, read in _requests(cluster, documents):
        try:
            documents[kind] = read()
        except ApiError as error:
            forbidden = error.status == HTTPStatus.FORBIDDEN
            if error.status is None or (forbidden and kind in _REQUIRED):
                raise
            reason = "no permission" if forbidden else f"{kind} cannot be read"
            unread[kind] = f"{reason}: {error.message}"
    return CheckedCluster(documents, unread, datetime.now(UTC), version("gputopo"))


def _requests(
    cluster: SyncApi, documents: _Documents
) -> Iterator[tuple[ObjectKind, Callable[[], Sequence[Document]]]]:
    """Yield each kind and the function that requests its objects.

    The caller must add the result of each function to ``documents`` before it calls the next
    function, because the last function reads ``documents``.
    """
    for kind, path, selector in _LISTS:
        yield kind, partial(cluster.list, *path, kind, selector=selector)
    yield ObjectKind.DEFINITIONS, partial(_definitions, cluster)
    yield ObjectKind.SERVER, lambda: [cluster.get("version")]
    yield ObjectKind.KUBELETS, partial(_kubelets, cluster, documents)


def _definitions(cluster: SyncApi) -> list[Document]:
    """Return the CRDs of gputopo that exist. A list of all CRDs would have many megabytes."""
    found = []
    for name in DEFINITIONS:
        path = ("apis", "apiextensions.k8s.io", "v1", ObjectKind.DEFINITIONS, name)
        definition = cluster.find(*path)
        if definition is not None:
            found.append(definition)
    return found


def _kubelets(cluster: SyncApi, documents: _Documents) -> list[Document]:
    """Return the configurations of the kubelets of ready nodes with GPUs."""
    if not {ObjectKind.TOPOLOGIES, ObjectKind.NODES} <= documents.keys():
        raise NotFoundError("the nodes with GPUs are unknown", HTTPStatus.NOT_FOUND)
    names = {each["metadata"]["name"] for each in documents[ObjectKind.TOPOLOGIES]}
    ready = {each["metadata"]["name"] for each in documents[ObjectKind.NODES] if is_ready(each)}
    found: list[Document] = []
    timeouts = 0
    for name in sorted(names & ready):
        if timeouts == _MAX_TIMEOUTS:
            result: Document = {
                "error": f"skipped, because {timeouts} other kubelets do not respond"
            }
        else:
            result = _kubelet(cluster, name)
            timeouts += "error" in result
        found.append({**result, "name": name})
    return found


def _kubelet(cluster: SyncApi, name: str) -> Document:
    try:
        return cluster.get(*_CORE, ObjectKind.NODES, name, "proxy", "configz")
    except ApiError as error:
        if error.status == HTTPStatus.FORBIDDEN:
            raise
        return {"error": str(error)}
