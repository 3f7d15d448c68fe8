"""Check of both books: annotations that are worth nothing, and GPUs that are not as placed."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Final

from gputopo_cli.cluster.doctor.model import Finding, Kind, Snapshot, error, named, warning
from gputopo_cli.cluster.nodes import Node, node_of
from gputopo_cli.cluster.pods import parse_placed_pod
from gputopo_cli.cluster.usage import NO_GPUS, NO_POD, Row, rows

_PATIENCE: Final = timedelta(minutes=1)
"""How long a node may take to let a pod in; its images are loaded only afterwards."""


def placements(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield what of the scheduler's books and kubelet's does not agree."""
    nodes = [node_of(document) for document in snapshot[Kind.TOPOLOGIES]]
    found = rows(nodes, map(parse_placed_pod, snapshot[Kind.PODS]))
    alike: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in found:
        if row.pod and row.difference:
            alike[f"{row.namespace}/{row.pod}", row.node, row.difference].append(row)
    for (pod, node, difference), together in alike.items():
        yield error(f"Pod {pod}", f"{_gpus(together)}{difference}", _todo(pod, node, difference))
    yield from _told_by_agents(nodes, {node for _, node, _ in alike})
    yield from _deleted(found)
    yield from _late(found, snapshot.now)


def _gpus(together: Iterable[Row]) -> str:
    """Return which GPUs differ in the same way; none where it is the annotation as a whole."""
    told = [f"GPU {row.uuid if row.index is None else row.index}" for row in together if row.uuid]
    return f"{named(told)} of its node: " if told else ""


def _todo(pod: str, node: str, difference: str) -> str:
    if difference == NO_POD:
        return f"restart kubelet on {node}, so that it forgets the pod"
    if difference == NO_GPUS:
        return f"kubectl get gputopology {node}: its agent has to publish it first"
    namespace, _, name = pod.partition("/")
    return f"kubectl -n {namespace} delete pod {name} (its controller makes another)"


def _told_by_agents(nodes: Iterable[Node], known: set[str]) -> Iterator[Finding]:
    """Yield what the agents say of containers, where the books themselves show nothing."""
    for node in nodes:
        told = node.conditions.get("AllocationsAsPlaced")
        if told is not None and told.status != "True" and node.name not in known:
            todo = "delete the pods that it names: their controllers make others"
            yield error(f"GPUTopology {node.name}", told.message, todo)


def _deleted(found: Iterable[Row]) -> Iterator[Finding]:
    """Yield deleted pods whose processes still use GPUs."""
    users: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in found:
        if row.pod_deleted:
            users[f"{row.namespace}/{row.pod}", row.node].append(row)
    for (pod, node), together in users.items():
        yield warning(
            f"Pod {pod}",
            f"{_gpus(together)}in use by a process, although the pod was deleted or has ended",
            f"wait until the process ends, or end it on {node}: its GPUs are offered to no pod",
        )


def _late(found: Iterable[Row], now: datetime) -> Iterator[Finding]:
    """Yield pods that their node does not let in."""
    waiting = {
        (f"{row.namespace}/{row.pod}", row.node, row.since)
        for row in found
        if row.pod and row.since and not row.observed and not row.difference
    }
    for pod, node, since in sorted(waiting):
        if now - datetime.fromisoformat(since) > _PATIENCE:
            namespace, _, name = pod.partition("/")
            todo = f"kubectl -n {namespace} describe pod {name}; is kubelet of {node} up?"
            yield warning(f"Pod {pod}", f"{node} has not let it in since {since}", todo)
