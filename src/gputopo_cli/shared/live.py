"""Read the objects of a cluster for explanations and for questions with ``--live``.

A kind that cannot be read is left out, and the result has the reason. So a user without some
permissions still gets an answer, and sees what is missing in it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Final

from rich.text import Text

from gputopo.api.names import GROUP, VERSION
from gputopo_cli.shared import output
from gputopo_cli.shared.connection import connect
from gputopo_cli.shared.errors import InputError
from gputopo_cluster.claims import CLAIMS_LEASE
from gputopo_explain.objects import OURS, ClusterObjects, LiveKind, parse_installation
from gputopo_kube.document import Document
from gputopo_kube.errors import ApiError
from gputopo_kube.sync import SyncApi

_OWN: Final = ("apis", GROUP, VERSION)
_CORE: Final = ("api", "v1")
_PATHS: Final = {
    # Topologies are read before pods, so that the pods in their status are in the list of pods.
    LiveKind.TOPOLOGIES: _OWN,
    LiveKind.PODS: _CORE,
    LiveKind.NODES: _CORE,
    LiveKind.GPU_JOBS: _OWN,
    LiveKind.PROFILES: _OWN,
    LiveKind.JOBS: ("apis", "batch", "v1"),
    LiveKind.PRIORITY_CLASSES: ("apis", "scheduling.k8s.io", "v1"),
}


def read_objects(context: str | None = None) -> ClusterObjects:
    """Read all objects of the cluster of a kubeconfig context. None selects the current context.

    Raises:
        InputError: if the kubeconfig cannot be used, or the API server does not respond or rejects
            the credentials.
    """
    documents: dict[LiveKind, Sequence[Document]] = {}
    unread: dict[LiveKind, str] = {}
    with connect(context) as cluster:
        for kind, read in _requests(cluster, documents):
            try:
                documents[kind] = read()
            except ApiError as error:
                if error.status in {None, HTTPStatus.UNAUTHORIZED}:
                    raise
                unread[kind] = _reason(error)
    return ClusterObjects(documents, datetime.now(UTC), unread)


def note_lines(objects: ClusterObjects) -> Iterator[Text]:
    """Yield a line for each kind of object that could not be read."""
    for note in objects.notes:
        yield Text(f"note: {output.one_line(note)}")


def reject_with_live(given: Mapping[str, bool]) -> None:
    """Reject the options that contradict ``--live``.

    Args:
        given: whether the user set the option, by its name without ``--``.

    Raises:
        InputError: if an option is set.
    """
    for name, is_given in given.items():
        if is_given:
            raise InputError(f"{name}: --{name} is not possible with --live")


def _reason(error: ApiError) -> str:
    if error.status == HTTPStatus.FORBIDDEN:
        return f"no permission: {error.message}"
    if error.status == HTTPStatus.NOT_FOUND:
        return "the cluster does not have this kind of object"
    return str(error)


def _requests(
    cluster: SyncApi, documents: dict[LiveKind, Sequence[Document]]
) -> Iterator[tuple[LiveKind, Callable[[], Sequence[Document]]]]:
    """Yield each kind with its request. The Leases are in the namespace of the Deployments."""
    label = "=".join(OURS)
    yield (
        LiveKind.DEPLOYMENTS,
        lambda: cluster.list("apis", "apps", "v1", "deployments", selector=label),
    )
    for kind, path in _PATHS.items():
        yield kind, lambda path=path, kind=kind: cluster.list(*path, kind)  # type: ignore[misc]
    namespace = parse_installation(documents.get(LiveKind.DEPLOYMENTS, ())).namespace
    lease = ("apis", "coordination.k8s.io", "v1", "namespaces", namespace, "leases", CLAIMS_LEASE)
    yield LiveKind.LEASES, lambda: [found] if (found := cluster.find(*lease)) else []
