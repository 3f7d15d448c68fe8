"""Read a pod or GPUJob, explain it, and write the explanation (``gputopo explain``)."""

from dataclasses import dataclass

from gputopo.runtime.messages import quoted
from gputopo_cli.cluster.explain.documents import placed_document
from gputopo_cli.cluster.explain.files import read_node, read_pod
from gputopo_cli.cluster.explain.pending import PendingTarget, write_pending
from gputopo_cli.cluster.explain.placed import placed_lines
from gputopo_cli.cluster.explain.sized import (
    PodSizing,
    read_sizing,
    sizing_document,
    sizing_lines,
)
from gputopo_cli.cluster.explain.target import (
    POD,
    find_object,
    find_topology,
    parse_target,
)
from gputopo_cli.shared import output
from gputopo_cli.shared.connection import connect
from gputopo_cli.shared.errors import InputError
from gputopo_cli.shared.live import read_objects
from gputopo_cluster.topologies import GpuNode
from gputopo_explain.placed.explanation import PlacedExplanation, explain_placed
from gputopo_kube.document import Document, ObjectKey
from gputopo_kube.podmodel import parse_pod_object


@dataclass(frozen=True, slots=True)
class ExplainQuery:
    """What to explain, and where to read it.

    Attributes:
        name: ``NAME``, ``pod/NAME`` or ``gpujob/NAME``; with ``filename`` it may be empty.
        filename: file with the pod; empty to read the cluster.
        topology: topology for the pod of a file; empty to read the cluster.
    """

    name: str
    namespace: str
    filename: str
    topology: str
    context: str | None


def write_explanation(query: ExplainQuery, form: str) -> bool:
    """Write the explanation, and return whether the replay does not differ."""
    found = _explain(query)
    if isinstance(found, PendingTarget):
        write_pending(found, form)
        return True
    placed, sizing = found
    if form == "json":
        output.write_json(placed_document(placed) | {"sizing": sizing_document(sizing)})
    else:
        output.show([*placed_lines(placed), *(sizing_lines(sizing) if sizing else ())])
    return not placed.differs


def _explain(query: ExplainQuery) -> tuple[PlacedExplanation, PodSizing | None] | PendingTarget:
    """Return the explanation of a placed pod, or a pending pod or GPUJob with its cluster."""
    if query.topology and not query.filename:
        raise InputError("topology: is allowed with --filename only")
    if query.filename:
        return _explain_file(query), None
    if not query.name:
        raise InputError("name: is required: NAME, pod/NAME or gpujob/NAME")
    with connect(query.context) as cluster:
        kind, found = find_object(cluster, parse_target(query.name), query.namespace)
        node = (found.get("spec") or {}).get("nodeName")
        if kind == POD and node:
            topology = find_topology(cluster, node)
            return explain_placed(found, topology), read_sizing(cluster, found, node, topology)
    return PendingTarget(kind, found, read_objects(query.context))


def _explain_file(query: ExplainQuery) -> PlacedExplanation:
    """Explain the pod of a file with the topology of a file, or of the cluster."""
    pod = read_pod(query.filename, parse_target(query.name).name if query.name else "")
    node = _require_node(pod)
    if not query.topology:
        try:
            with connect(query.context) as cluster:
                topology = find_topology(cluster, node)
        except InputError as error:
            hint = "or give the node's topology with --topology FILE"
            raise InputError(f"{error}; {hint}") from None
        return explain_placed(pod, topology)
    found = read_node(query.topology, node)
    if not isinstance(found, GpuNode):
        raise InputError(f"topology: {quoted(query.topology)}: {found.reason}")
    return explain_placed(pod, found)


def _require_node(document: Document) -> str:
    """Return the node of the pod.

    Raises:
        InputError: if the pod is not placed yet.
        PodError: if the object is not a valid pod.
    """
    pod = parse_pod_object(document)
    if pod.spec.node_name:
        return pod.spec.node_name
    scheduled = pod.status.condition("PodScheduled")
    why = f": {scheduled.message}" if scheduled and scheduled.message else ""
    name = ObjectKey(pod.metadata.namespace, pod.metadata.name)
    raise InputError(f"pod: {name} is not placed yet{why}")
