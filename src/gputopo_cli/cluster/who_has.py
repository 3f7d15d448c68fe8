"""Read the users of GPUs from a cluster and write them as text or JSON (``gputopo who-has``)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import RenderableType
from rich.text import Text

from gputopo.api.names import GROUP, VERSION
from gputopo.runtime.messages import quoted
from gputopo_cli.shared import output
from gputopo_cli.shared.connection import connect
from gputopo_cli.shared.errors import InputError
from gputopo_cluster.topologies import PublishedNode, parse_published_node
from gputopo_explain.placed_pods import PlacedPod, parse_placed_pod
from gputopo_explain.text import counted
from gputopo_explain.uses import GpuUse, list_uses
from gputopo_kube.errors import NotFoundError


@dataclass(frozen=True, slots=True)
class UserQuery:
    """A filter for the GPUs to show. An empty field selects all GPUs.

    Attributes:
        gpu: a UUID or an index.
        pod: ``namespace/name``.
    """

    node: str = ""
    gpu: str = ""
    pod: str = ""


def write_users(query: UserQuery, context: str | None, form: str) -> None:
    """Write the users of the selected GPUs."""
    nodes, pods = _read_cluster(context)
    found = select_uses(query, nodes, pods)
    if form == "json":
        output.write_json([_document(use) for use in found])
    else:
        output.show(_lines(found))


def _read_cluster(context: str | None) -> tuple[list[PublishedNode], list[PlacedPod]]:
    """Read all topologies and pods.

    Topologies are read before pods. In the opposite order, a pod created between the two requests
    could be in the status of a topology, but not in the list of pods.
    """
    with connect(context) as cluster:
        try:
            topologies = cluster.list("apis", GROUP, VERSION, "gputopologies")
            pods = cluster.list("api", "v1", "pods")
        except NotFoundError as error:
            raise InputError(f"cluster: gputopo is not installed: {error.message}") from None
    return [parse_published_node(each) for each in topologies], [
        parse_placed_pod(each) for each in pods
    ]


def select_uses(
    query: UserQuery, nodes: Sequence[PublishedNode], pods: Sequence[PlacedPod]
) -> list[GpuUse]:
    """Return the selected users of GPUs.

    Raises:
        InputError: if the node, GPU or pod of the query does not exist.
    """
    found = list_uses(nodes, pods)
    if query.node:
        if query.node not in {*(node.name for node in nodes), *(use.node for use in found)}:
            raise InputError(
                f"node: {quoted(query.node)}: the cluster has no GPUTopology of this name"
            )
        found = [use for use in found if use.node == query.node]
    if query.gpu:
        found = [use for use in found if query.gpu in {use.uuid, use.share, str(use.index)}]
        if not found:
            raise InputError(
                f"gpu: {quoted(query.gpu)} is not the UUID or index of a GPU of the selected nodes"
            )
    if query.pod:
        found = [use for use in found if use.pod_name == query.pod]
        if not found and query.pod not in {str(pod.view.key) for pod in pods}:
            raise InputError(
                f"pod: {quoted(query.pod)} is not the NAMESPACE/NAME of a pod of the cluster"
            )
    return found


def _document(use: GpuUse) -> dict[str, object]:
    user = {
        "namespace": use.namespace,
        "name": use.pod,
        "uid": use.uid,
        "container": use.container,
        "since": use.since,
    }
    return {
        "node": use.node,
        "index": use.index,
        "uuid": use.uuid,
        "unhealthy": use.unhealthy,
        "pod": user if use.pod else None,
        "share": use.share,
        "intendedRank": use.rank,
        "observed": use.observed,
        "difference": use.difference,
        "podDeleted": use.pod_deleted,
    }


def _lines(found: Sequence[GpuUse]) -> Iterator[RenderableType]:
    if found:
        shared = any(use.share for use in found)
        yield output.table(
            *("NODE", "GPU>", *(["SHARE>"] if shared else []), "UUID", "POD", "CONTAINER", "SINCE"),
            *("INTENDED", "OBSERVED", "STATE"),
            rows=(_row(use, shared=shared) for use in found),
        )
        yield Text()
    yield Text(summarize_uses(found))


def _row(use: GpuUse, *, shared: bool) -> tuple[str, ...]:
    share = use.share.rpartition("::")[2] if use.share else "-"
    return (
        use.node or "-",
        "-" if use.index is None else str(use.index),
        *([share] if shared else []),
        use.uuid or "-",
        use.pod_name or "-",
        use.container or "-",
        use.since or "-",
        "-" if use.rank is None else f"rank {use.rank}",
        "yes" if use.observed else "-",
        _state(use),
    )


def _state(use: GpuUse) -> str:
    if use.difference:
        return output.one_line(f"DIFFERS: {use.difference}")
    if use.pod_deleted:
        return "process of a deleted pod"
    if use.unhealthy:
        return output.one_line(f"unhealthy: {use.unhealthy}")
    if not use.pod:
        return "free"
    return "as intended" if use.observed else "starting"


def summarize_uses(found: Sequence[GpuUse]) -> str:
    """Return the numbers of GPUs, of used GPUs, and of uses that differ from the intended ones.

    >>> summarize_uses([])
    '0 GPUs, 0 in use; no differences'
    """
    gpus = {(use.node, use.uuid) for use in found if use.index is not None}
    used = {(use.node, use.uuid) for use in found if use.index is not None and use.pod}
    differ = sum(use.difference is not None for use in found)
    shared = {(use.node, use.uuid) for use in found if use.index is not None and use.share}
    in_shares = f" ({len(shared)} shared)" if shared else ""
    result = f"{differ} DIFFER{'S' * (differ == 1)}" if differ else "no differences"
    return f"{counted(len(gpus), 'GPU')}, {len(used)} in use{in_shares}; {result}"
