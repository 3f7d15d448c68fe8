"""Reading of a cluster what the checks look at."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from typing import Final

from gputopo.api.names import GROUP, VERSION
from gputopo_cli.cluster.doctor.installation import DEFINITIONS
from gputopo_cli.cluster.doctor.installed import OURS
from gputopo_cli.cluster.doctor.model import Kind, Snapshot
from gputopo_cli.cluster.doctor.nodes import ready_nodes
from gputopo_cli.kube import FORBIDDEN, NOT_FOUND, Document, Reader, RefusedError
from gputopo_cli.shared.errors import InputError

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


def snapshot(cluster: Reader) -> Snapshot:
    """Return a cluster as it is.

    Raises:
        InputError: where the cluster does not answer, or topologies, pods or nodes may not be
            listed.
    """
    documents: dict[Kind, Sequence[Document]] = {}
    unread: dict[Kind, str] = {}
    for kind, read in _readings(cluster, documents):
        try:
            documents[kind] = read()
        except RefusedError as error:
            if error.status != FORBIDDEN:
                unread[kind] = f"{kind} cannot be read: {error}"
            elif kind in _NEEDED:
                raise InputError(f"cluster: {error}") from None
            else:
                unread[kind] = f"not allowed to look: {error}"
    return Snapshot(documents, unread, datetime.now(UTC), version("gputopo"))


def _readings(
    cluster: Reader, documents: _Documents
) -> Iterator[tuple[Kind, Callable[[], Sequence[Document]]]]:
    """Yield how each kind is read; the last reads what ``documents`` has by then."""
    for kind, path, selector in _LISTS:
        yield kind, partial(cluster.list, *path, kind, selector=selector)
    yield Kind.DEFINITIONS, partial(_definitions, cluster)
    yield Kind.SERVER, lambda: [cluster.get("version")]
    yield Kind.KUBELETS, partial(_kubelets, cluster, documents)


def _definitions(cluster: Reader) -> list[Document]:
    """Return those of ours that are there; all of a cluster would be many megabytes."""
    found = []
    for name in DEFINITIONS:
        try:
            found.append(cluster.get("apis", "apiextensions.k8s.io", "v1", Kind.DEFINITIONS, name))
        except RefusedError as error:
            if error.status != NOT_FOUND:
                raise
    return found


def _kubelets(cluster: Reader, documents: _Documents) -> list[Document]:
    """Return the configurations of the kubelets that have GPUs and report."""
    if not {Kind.TOPOLOGIES, Kind.NODES} <= documents.keys():
        raise RefusedError(NOT_FOUND, "which nodes have GPUs is not known")
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


def _kubelet(cluster: Reader, name: str) -> Document:
    try:
        return cluster.get(*_CORE, Kind.NODES, name, "proxy", "configz")
    except InputError as error:
        if isinstance(error, RefusedError) and error.status == FORBIDDEN:
            raise
        return {"refused": str(error)}
