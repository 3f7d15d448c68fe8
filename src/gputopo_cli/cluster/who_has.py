"""What ``gputopo who-has`` says."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import RenderableType
from rich.text import Text

from gputopo.api.names import GROUP, VERSION
from gputopo.runtime.messages import quoted
from gputopo_cli.cluster.nodes import Node, node_of
from gputopo_cli.cluster.pods import PlacedPod, parse_placed_pod
from gputopo_cli.cluster.usage import Row, rows
from gputopo_cli.kube import connected
from gputopo_cli.shared import output
from gputopo_cli.shared.errors import InputError
from gputopo_kube.errors import NotFoundError


@dataclass(frozen=True, slots=True)
class Question:
    """Which GPUs are asked about; what is empty means all.

    Attributes:
        node: its name.
        gpu: a UUID or an index.
        pod: ``namespace/name``.
    """

    node: str = ""
    gpu: str = ""
    pod: str = ""


def who_has(question: Question, context: str | None, form: str) -> None:
    """Write who has which GPU."""
    nodes, pods = _read(context)
    found = answer(question, nodes, pods)
    if form == "json":
        output.write_json([_entry(row) for row in found])
    else:
        output.show(_lines(found))


def answer(question: Question, nodes: Sequence[Node], pods: Sequence[PlacedPod]) -> list[Row]:
    """Return the rows that were asked for.

    Raises:
        InputError: where a node, GPU or pod is asked for that is not there.
    """
    found = rows(nodes, pods)
    if question.node:
        if question.node not in {*(node.name for node in nodes), *(row.node for row in found)}:
            raise InputError(
                f"node: {quoted(question.node)}: the cluster has no GPUTopology of this name"
            )
        found = [row for row in found if row.node == question.node]
    if question.gpu:
        found = [row for row in found if question.gpu in {row.uuid, str(row.index)}]
        if not found:
            raise InputError(
                f"gpu: {quoted(question.gpu)} is neither UUID nor index of a GPU there"
            )
    if question.pod:
        found = [row for row in found if f"{row.namespace}/{row.pod}" == question.pod]
        if not found and question.pod not in {str(pod.view.key) for pod in pods}:
            raise InputError(f"pod: {quoted(question.pod)} is no NAMESPACE/NAME of a pod there")
    return found


def _read(context: str | None) -> tuple[list[Node], list[PlacedPod]]:
    """Read kubelet's books first: a pod that they have is there then."""
    with connected(context) as cluster:
        try:
            topologies = cluster.list("apis", GROUP, VERSION, "gputopologies")
            pods = cluster.list("api", "v1", "pods")
        except NotFoundError as error:
            raise InputError(f"cluster: gputopo is not installed: {error.message}") from None
    return [node_of(each) for each in topologies], [parse_placed_pod(each) for each in pods]


def _entry(row: Row) -> dict[str, object]:
    holder = {
        "namespace": row.namespace,
        "name": row.pod,
        "uid": row.uid,
        "container": row.container,
        "since": row.since,
    }
    return {
        "node": row.node,
        "index": row.index,
        "uuid": row.uuid,
        "unhealthy": row.unhealthy,
        "pod": holder if row.pod else None,
        "intendedRank": row.rank,
        "observed": row.observed,
        "difference": row.difference,
        "podDeleted": row.pod_deleted,
    }


def _lines(found: Sequence[Row]) -> Iterator[RenderableType]:
    if found:
        yield output.table(
            *("NODE", "GPU>", "UUID", "POD", "CONTAINER", "SINCE", "INTENDED", "OBSERVED", "STATE"),
            rows=map(_cells, found),
        )
        yield Text()
    yield Text(summary(found))


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.node or "-",
        "-" if row.index is None else str(row.index),
        row.uuid or "-",
        f"{row.namespace}/{row.pod}" if row.pod else "-",
        row.container or "-",
        row.since or "-",
        "-" if row.rank is None else f"rank {row.rank}",
        "yes" if row.observed else "-",
        _state(row),
    )


def _state(row: Row) -> str:
    if row.difference:
        return output.one_line(f"DIFFERS: {row.difference}")
    if row.pod_deleted:
        return "process of a deleted pod"
    if row.unhealthy:
        return output.one_line(f"unhealthy: {row.unhealthy}")
    if not row.pod:
        return "free"
    return "as intended" if row.observed else "starting"


def summary(found: Sequence[Row]) -> str:
    """Return the rows in one line.

    >>> summary([])
    '0 GPUs, 0 in use; both books agree'
    """
    gpus = {(row.node, row.uuid) for row in found if row.index is not None}
    held = {(row.node, row.uuid) for row in found if row.index is not None and row.pod}
    differ = sum(row.difference is not None for row in found)
    told = f"{differ} DIFFER{'S' * (differ == 1)}" if differ else "both books agree"
    return f"{len(gpus)} GPU{'s' * (len(gpus) != 1)}, {len(held)} in use; {told}"
