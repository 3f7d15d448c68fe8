"""A simulated cluster for the page: GPUTopologies and pods of some kinds of nodes."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import count
from typing import Any, Final

from gputopo.api.names import API_VERSION, RESOURCE, SCHEDULER_NAME
from gputopo.api.topology import to_spec
from gputopo.catalogue import named
from gputopo.placement.model import Match, PlacementRequest, PolicyName
from gputopo.topology.model import GpuMask, NodeTopology, mask_of
from gputopo_cluster.topologies import GpuNode
from gputopo_cluster.usage import NodeUsage, node_usage
from gputopo_extender.fencing.decide import decide
from gputopo_kube.pods import parse_gpu_pod
from gputopo_scheduling.node_fits import match_on
from gputopo_scheduling.request import placement_request

Document = dict[str, Any]

KINDS: Final = ("dgx-h100", "dgx1-v100", "dgx-a100", "pcie-8gpu")
_PROJECTS: Final = ("vision", "speech", "ranking", "research")


@cache
def topology_of(node: str, kind: str) -> NodeTopology:
    """Return the topology of a node of the catalogue."""
    return named(kind, node=node)


@dataclass(slots=True)
class SimulatedNode:
    """A node and the pods on its GPUs."""

    name: str
    kind: str
    free: GpuMask
    pods: dict[str, tuple[str, ...]] = field(default_factory=dict)
    unhealthy: frozenset[str] = frozenset()

    @property
    def topology(self) -> NodeTopology:
        """The GPUs and links of the node."""
        return topology_of(self.name, self.kind)

    def document(self) -> Document:
        """Return the GPUTopology, in which each pod has its GPUs."""
        user = {uuid: pod for pod, uuids in self.pods.items() for uuid in uuids}
        gpus: list[Document] = []
        for gpu in self.topology.gpus:
            seen: Document = {"uuid": gpu.uuid, "healthy": gpu.uuid not in self.unhealthy}
            if not seen["healthy"]:
                seen["reason"] = "XID 79: GPU has fallen off the bus"
            if (pod := user.get(gpu.uuid)) is not None:
                namespace, name = pod.split("/")
                owner = {"namespace": namespace, "pod": name, "podUID": f"uid-{name}"}
                seen |= {**owner, "container": "main"}
            gpus.append(seen)
        return {
            "apiVersion": API_VERSION,
            "kind": "GPUTopology",
            "metadata": {"name": self.name, "generation": 1, "uid": f"topology-{self.name}"},
            "spec": to_spec(self.topology).to_json(),
            "status": {"observedGeneration": 1, "gpus": gpus, "conditions": []},
        }


class SimulatedCluster:
    """Nodes with pods that gputopo's own decision has placed."""

    def __init__(self, nodes: int, seed: int) -> None:
        """Make idle nodes; the first kinds are the most frequent ones."""
        self._random = random.Random(seed)  # noqa: S311 - a simulation
        self._numbers = count(1)
        kinds = self._random.choices(KINDS, weights=(8, 4, 2, 1), k=nodes)
        kinds[: len(KINDS)] = KINDS[: min(nodes, len(KINDS))]
        self.nodes = [
            SimulatedNode(f"gpu-{at:04}", kind, topology_of(f"gpu-{at:04}", kind).mask)
            for at, kind in enumerate(kinds[:nodes], 1)
        ]

    def fill(self, fraction: float) -> Iterator[Document]:
        """Yield pods until this fraction of the GPUs is in use."""
        total = sum(len(node.topology.gpus) for node in self.nodes)
        used = 0
        while used < fraction * total:
            size = self._random.choice((1, 1, 2, 2, 3, 4, 4, 8))
            pod = self.place(size)
            if pod is not None:
                used += size
                yield pod
            else:
                used += 1

    def break_gpus(self, number: int) -> None:
        """Make some GPUs unhealthy that no pod uses."""
        for node in self._random.sample(self.nodes, min(number, len(self.nodes))):
            known = node.topology
            index = next((gpu.index for gpu in known.gpus if node.free >> gpu.index & 1), None)
            if index is not None:
                node.unhealthy = frozenset({str(known.uuid_of[index])})
                node.free = GpuMask(node.free & ~(1 << index))

    def place(self, size: int, only: str = "") -> Document | None:
        """Place a pod on a random node on which it fits, or only on one; return it, or None."""
        fitting = [
            node for node in self.nodes if node.free.bit_count() >= size and only in ("", node.name)
        ]
        if not fitting:
            return None
        node = self._random.choice(fitting)
        pod = _object(self._random.choice(_PROJECTS), f"train-{next(self._numbers):05}", size)
        usage = node_usage(GpuNode(node.name, 1, node.topology, node.free, ()), [], [])
        match = _decide(pod, node.name, usage)
        if match is None:
            return None
        name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        node.free = GpuMask(node.free & ~mask_of(match.gpus))
        node.pods[name] = tuple(str(node.topology.uuid_of[gpu]) for gpu in match.gpus)
        return pod

    def remove(self, pod: Document) -> SimulatedNode:
        """Free the GPUs of a pod; return its node."""
        metadata = pod["metadata"]
        node = next(it for it in self.nodes if it.name == pod["spec"]["nodeName"])
        uuids = node.pods.pop(f"{metadata['namespace']}/{metadata['name']}")
        known = {str(uuid): index for uuid, index in node.topology.index_of.items()}
        node.free = GpuMask(node.free | mask_of(known[uuid] for uuid in uuids))
        return node


def waiting_pods(number: int, nodes: int) -> Iterator[Document]:
    """Yield pods that the scheduler could not place on any of so many nodes."""
    for at in range(1, number + 1):
        pod = _object("ranking", f"large-{at:03}", 8)
        pod["metadata"]["creationTimestamp"] = _ago(minutes=at)
        message = f"0/{nodes} nodes are available: {nodes} too few free GPUs: 8 requested"
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        pod["status"] = {"phase": "Pending", "conditions": [{**condition, "message": message}]}
        yield pod


def _decide(pod: Document, node: str, usage: NodeUsage) -> Match | None:
    """Bind a pod to a node with the GPUs that the extender chooses; None if it does not fit."""
    view = parse_gpu_pod(pod, RESOURCE)
    assert view is not None  # noqa: S101 - it requests GPUs
    request = placement_request(view, resource=RESOURCE, default_policy=PolicyName.PRESERVE)
    assert isinstance(request, PlacementRequest), request  # noqa: S101 - and nothing else
    match = match_on(usage.state, request)
    if not isinstance(match, Match):
        return None
    decision = decide(view, request, match, node=node, usage=usage, compared=None)
    pod["metadata"]["annotations"] = dict(decision.annotations)
    pod["spec"]["nodeName"] = node
    pod["status"] = {"phase": "Running", "startTime": _ago(hours=3)}
    return match


def _ago(**time: float) -> str:
    return (datetime.now(UTC) - timedelta(**time)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _object(namespace: str, name: str, gpus: int) -> Document:
    amounts = {RESOURCE: str(gpus)}
    container = {"name": "main", "resources": {"requests": amounts, "limits": amounts}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "creationTimestamp": _ago(hours=3),
            "resourceVersion": "1",
        },
        "spec": {"schedulerName": SCHEDULER_NAME, "containers": [container]},
    }
