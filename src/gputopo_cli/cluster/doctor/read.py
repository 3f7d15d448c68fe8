"""Reading of a cluster what the checks look at."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from importlib.metadata import version
from typing import Final

from gputopo.api.names import GROUP, VERSION
from gputopo_cli.cluster.doctor.installation import DEFINITIONS
from gputopo_cli.cluster.doctor.installed import OURS
from gputopo_cli.cluster.doctor.model import Kind, Snapshot
from gputopo_cli.cluster.doctor.nodes import ready_nodes
from gputopo_kube.document import Document
from gputopo_kube.errors import ApiError, NotFoundError
from gputopo_kube.sync import SyncApi

_CORE: Final = ("api", "v1")
_APPS: Final = ("apis", "apps", "v1")
_ADMISSION: Final = ("apis", "admissionregistration.k8s.io", "v1")
_LISTS: Final = (
    # kubelet's books first: a pod that they have is there then
    (Kind.TOPOLOGIES, ("apis", GROUP, VERSION), ""),
    (Kind.PODS, _CORE, ""),
    (Kind.NODES, _CORE, ""),
    (Kind.CONFIG_MAPS, _CORE, OURS),
    (Kind.DEPLOYMENTS, _APPS, OURS),
    (Kind.DAEMON_SETS, _APPS, ""),
    (Kind.POLICIES, _ADMISSION, OURS),
    (Kind.BINDINGS, _ADMISSION, OURS),
)
_NEEDED: Final = frozenset({Kind.TOPOLOGIES, Kind.PODS, Kind.NODES})
"""Who may not list these cannot be told anything."""

_MOST_SILENT: Final = 3
"""Kubelets that may let us wait in vain; where there are more, there is no way to them."""

_Documents = Mapping[Kind, Sequence[Document]]


def snapshot(cluster: SyncApi) -> Snapshot:
    """Return a cluster as it is.

    Raises:
        ApiError: if the API server does not respond, or does not allow to list topologies, pods
            or nodes.
    """
    documents: dict[Kind, Sequence[Document]] = {}
    unread: dict[Kind, str] = {}
    for kind, read in _readings(cluster, documents):
        try:
            documents[kind] = read()
        except ApiError as error:
            forbidden = error.status == HTTPStatus.FORBIDDEN
            if error.status is None or (forbidden and kind in _NEEDED):
                raise
            reason = "not allowed to look" if forbidden else f"{kind} cannot be read"
            unread[kind] = f"{reason}: {error.message}"
    return Snapshot(documents, unread, datetime.now(UTC), version("gputopo"))


def _readings(
    cluster: SyncApi, documents: _Documents
) -> Iterator[tuple[Kind, Callable[[], Sequence[Document]]]]:
    """Yield how each kind is read; the last reads what ``documents`` has by then."""
    for kind, path, selector in _LISTS:
        yield kind, partial(cluster.list, *path, kind, selector=selector)
    yield Kind.DEFINITIONS, partial(_definitions, cluster)
    yield Kind.SERVER, lambda: [cluster.get("version")]
    yield Kind.KUBELETS, partial(_kubelets, cluster, documents)


def _definitions(cluster: SyncApi) -> list[Document]:
    """Return those of ours that are there; all of a cluster would be many megabytes."""
    found = []
    for name in DEFINITIONS:
        definition = cluster.find("apis", "apiextensions.k8s.io", "v1", Kind.DEFINITIONS, name)
        if definition is not None:
            found.append(definition)
    return found


def _kubelets(cluster: SyncApi, documents: _Documents) -> list[Document]:
    """Return the configurations of the kubelets that have GPUs and report."""
    if not {Kind.TOPOLOGIES, Kind.NODES} <= documents.keys():
        raise NotFoundError("which nodes have GPUs is not known", HTTPStatus.NOT_FOUND)
    names = {each["metadata"]["name"] for each in documents[Kind.TOPOLOGIES]}
    found: list[Document] = []
    silent = 0
    for name in sorted(names & ready_nodes(documents[Kind.NODES])):
        if silent == _MOST_SILENT:
            answer: Document = {"refused": f"not asked, since {silent} others do not answer"}
        else:
            answer = _kubelet(cluster, name)
            silent += "refused" in answer
        found.append({**answer, "name": name})
    return found


def _kubelet(cluster: SyncApi, name: str) -> Document:
    try:
        return cluster.get(*_CORE, Kind.NODES, name, "proxy", "configz")
    except ApiError as error:
        if error.status == HTTPStatus.FORBIDDEN:
            raise
        return {"refused": str(error)}
