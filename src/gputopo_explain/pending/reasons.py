"""Groups the nodes of a cluster by the reason why a pod does not fit there now."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gputopo.api.names import RESOURCE
from gputopo.api.shares import share_resource
from gputopo.placement.model import PlacementRequest
from gputopo_cluster.usage import NodeUsage
from gputopo_explain.machines import Machine, Obstacle, rules_against, shortages
from gputopo_explain.pending.model import NodeGroup
from gputopo_explain.snapshot import ClusterSnapshot
from gputopo_kube.document import Document
from gputopo_kube.pods import PodView
from gputopo_scheduling.evaluation import PERMANENT_MISFITS, Misfit

_NO_NODE = Obstacle("the Node object does not exist", permanent=True)


@dataclass(frozen=True, slots=True)
class PodNeeds:
    """What a pod requests of a node.

    Attributes:
        request: the GPUs.
        amounts: all resources as kube-scheduler counts them.
        spec: ``spec`` of the pod, with its rules for nodes.
        resource: extended resource that counts the GPUs.
        pod: the pod, with its labels and the pods that it avoids; None if it is not known.
    """

    request: PlacementRequest
    amounts: Counter[str]
    spec: Document
    resource: str = RESOURCE
    pod: PodView | None = None

    @property
    def beside_gpus(self) -> Counter[str]:
        """All resources but the GPUs and shares of GPUs."""
        counted = {self.resource, share_resource(self.resource)}
        return Counter({name: it for name, it in self.amounts.items() if name not in counted})


@dataclass(frozen=True, slots=True)
class NodeReasons:
    """The nodes on which the pod fits now, and the obstacles on all other nodes."""

    fitting: Sequence[str]
    obstacles: Mapping[str, Sequence[Obstacle]]

    def is_permanent(self, node: str) -> bool:
        """Return whether the pod fits on the node neither now nor when other pods end."""
        return any(each.permanent for each in self.obstacles.get(node, ()))


def node_reasons(
    needs: PodNeeds, snapshot: ClusterSnapshot, machines: Mapping[str, Machine]
) -> NodeReasons:
    """Return for each node why the pod does not fit.

    Args:
        needs: what the pod requests.
        snapshot: the GPUs of the nodes.
        machines: the Nodes; if empty, kube-scheduler's filters are not considered.
    """
    names = sorted({*snapshot.nodes, *machines})
    found = snapshot.evaluate(needs.request, names, pod=needs.pod) if names else None
    results = (
        dict(zip(found.nodes, map(found.results.get, found.keys), strict=True)) if found else {}
    )
    misfits = {name: it for name, it in results.items() if isinstance(it, Misfit)}
    obstacles = {
        name: tuple(_obstacles(needs, misfits.get(name), machines, name)) for name in names
    }
    fitting = [name for name in names if not obstacles[name]]
    return NodeReasons(fitting, {name: it for name, it in obstacles.items() if it})


def grouped(reasons: NodeReasons, snapshot: ClusterSnapshot) -> list[NodeGroup]:
    """Return the nodes by their reason, the largest group first."""
    groups: dict[tuple[str, bool], list[str]] = {}
    for node, obstacles in reasons.obstacles.items():
        text = "; ".join(each.reason for each in obstacles)
        groups.setdefault((text, reasons.is_permanent(node)), []).append(node)
    found = [
        NodeGroup(text, permanent, nodes, _free_range(nodes, snapshot))
        for (text, permanent), nodes in groups.items()
    ]
    return sorted(found, key=lambda group: (group.permanent, -len(group.nodes), group.reason))


def _obstacles(
    needs: PodNeeds, misfit: Misfit | None, machines: Mapping[str, Machine], node: str
) -> Iterator[Obstacle]:
    """Yield the obstacles of a node in the order in which they are found while scheduling.

    A node that labels or taints exclude has no further reasons.
    """
    if machines and node not in machines:
        yield _NO_NODE
        return
    machine = machines.get(node)
    rules = [*rules_against(needs.spec, machine)] if machine else []
    if rules:
        yield from rules
        return
    if misfit is not None:
        yield Obstacle(misfit.reason, permanent=misfit.kind in PERMANENT_MISFITS)
    # Without free GPUs, kube-scheduler's own count of GPUs adds nothing.
    counted = needs.amounts if misfit is None else needs.beside_gpus
    if machine and (misfit is None or misfit.kind not in PERMANENT_MISFITS):
        yield from shortages(counted, machine)


def _free_range(nodes: Sequence[str], snapshot: ClusterSnapshot) -> tuple[int, int] | None:
    free = [
        usage.free.bit_count()
        for node in nodes
        if isinstance(usage := snapshot.usages.get(node), NodeUsage)
    ]
    return (min(free), max(free)) if free else None
