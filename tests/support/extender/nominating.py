"""A cluster in memory with a planner of nominations, and the pods of its queue."""

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import Histogram

from gputopo.api.names import RESOURCE, SCHEDULER_NAME
from gputopo.catalogue import named
from gputopo.placement.model import PolicyName
from gputopo.utility.utility import UtilityWeights
from gputopo_cluster.topologies import parse_gpu_node
from gputopo_extender.nomination.nominations import NominationResult, Nominations
from gputopo_extender.nomination.planner import Planner
from gputopo_extender.state.cluster_queue import ClusterQueue
from gputopo_extender.state.ledger import Ledger
from gputopo_extender.state.pod_requests import PodRequests
from gputopo_extender.state.queue_pod import (
    NOMINATOR,
    QueuePod,
    parse_queue_node,
    parse_queue_pod,
)
from gputopo_extender.verbs.evaluation_cache import EvaluationCache
from gputopo_extender.verbs.in_flight import InFlightPods
from gputopo_kube.pods import parse_gpu_pod
from gputopo_scheduling.node_fits import evaluate_states
from support.builders.objects import Document, pod, topology_object

NOT_SCHEDULED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


def node_object(name: str, *, cpu: str = "64", gpus: int = 8, **spec: Any) -> Document:
    """Return a Node with 256 GiB of memory."""
    amounts = {"cpu": cpu, "memory": "256Gi", "pods": "110", RESOURCE: str(gpus)}
    labels = {"kubernetes.io/hostname": name}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {"allocatable": amounts},
    }


def queued(
    name: str,
    gpus: int = 1,
    *,
    cpu: str = "1",
    memory: str = "1Gi",
    tried: bool = False,
    nominated: str = "",
    manager: str = NOMINATOR,
    version: int = 1,
    node: str | None = None,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> Document:
    """Return a pod of gputopo; ``manager`` has written its nominated node."""
    document = pod(name, gpus, node=node, annotations=annotations)
    resources = document["spec"]["containers"][0].setdefault("resources", {"requests": {}})
    resources["requests"] = {**resources["requests"], "cpu": cpu, "memory": memory}
    document["spec"].update(spec)
    document["metadata"]["resourceVersion"] = str(version)
    if tried:
        document["status"]["conditions"] = [NOT_SCHEDULED]
    if nominated:
        document["status"]["nominatedNodeName"] = nominated
        fields: Document = {"f:status": {"f:nominatedNodeName": {}}}
        document["metadata"]["managedFields"] = [
            {"manager": "kubectl", "fieldsV1": {"f:spec": {}}},
            {"manager": manager, "fieldsV1": fields},
        ]
    return document


def queue_pod(document: Document) -> QueuePod:
    """Return a pod as kube-scheduler counts it."""
    return parse_queue_pod(document, parse_gpu_pod(document, RESOURCE), SCHEDULER_NAME)


@dataclass
class Cluster:
    """The state of an extender that nominates nodes."""

    ledger: Ledger = field(default_factory=Ledger)
    queue: ClusterQueue = field(default_factory=ClusterQueue)
    filtered: set[str] = field(default_factory=set)
    results: list[NominationResult] = field(default_factory=list)

    def __post_init__(self) -> None:
        requests = PodRequests(
            self.ledger,
            resource=RESOURCE,
            default_policy=PolicyName.PRESERVE,
            weights=UtilityWeights.of_percents(50, 40, 10),
        )
        seconds = Histogram("seconds", "Time of a call.", registry=None)
        cache = EvaluationCache(evaluate_states, seconds, timeout_seconds=60)
        self.nominations = Nominations(self.queue, self.results.append)
        self.in_flight = InFlightPods(self.ledger, self.nominations)
        self.planner = Planner(
            self.ledger,
            cache,
            requests,
            self.queue,
            self.nominations,
            in_flight=self.in_flight,
            filtered=self.filtered,
        )

    def put_node(self, name: str, topology: str = "dgx1-v100", **node: Any) -> None:
        """Add a node with its topology."""
        self.queue.put_node(parse_queue_node(node_object(name, **node)))
        self.ledger.put_topology(parse_gpu_node(topology_object(name, named(topology, node=name))))

    def put(self, *documents: Document) -> None:
        """Add or replace pods, as the watch shows them."""
        for each in documents:
            view = parse_gpu_pod(each, RESOURCE)
            if view is not None:
                self.ledger.put_pod(view)
            self.queue.put_pod(parse_queue_pod(each, view, SCHEDULER_NAME))

    def drop(self, name: str) -> None:
        """Remove a pod."""
        self.ledger.drop_pod(f"uid-{name}")
        self.queue.drop_pod(f"uid-{name}")

    async def plan(
        self, most: int = 100, now: float = 0.0, first_ones: Container[str] = ()
    ) -> list[tuple[str, str]]:
        """Plan once; return the pods and their nodes in the order of the plan."""
        begun: list[tuple[str, str]] = []

        def begin(pod: QueuePod, node: str) -> None:
            self.nominations.begin(pod, node, now)
            begun.append((pod.key.name, node))

        await self.planner.plan(most, now, begin, first_ones)
        return begun
