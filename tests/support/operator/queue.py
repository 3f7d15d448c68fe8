"""GPUJobs in gputopo's queue with their Jobs, pods and nodes, for tests of the operator."""

from collections.abc import Mapping
from typing import Any

from gputopo.api.names import RESOURCE
from gputopo.queueing.model import Offer, QueueOrder, QueueRules
from gputopo_cluster.picture import ClusterPicture
from gputopo_cluster.topologies import parse_gpu_node
from gputopo_kube.document import ObjectKey
from gputopo_kube.node_match import node_rules
from gputopo_operator.decision.child_job import child_job
from gputopo_operator.decision.queue import queue_plan
from gputopo_operator.model.jobs import PodDefaults
from gputopo_operator.model.queued import QueueChange, QueueInput, QueuePlan
from gputopo_operator.parse.jobs import parse_gpu_job
from gputopo_operator.parse.queue import cluster_of, parse_gpu_pods, parse_queued_jobs
from support.builders.gpujobs import Document, gpu_job, job_pod
from support.builders.objects import topology_object
from support.builders.topologies import node as small_node

START, NOW = "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"
RULES = QueueRules(QueueOrder.FIFO, max_skip_seconds=600)


def node(name: str, gpus: int, users: Mapping[int, str] | None = None) -> Document:
    """Return the GPUTopology of a node; ``users`` are UIDs of pods by index of their GPU."""
    return topology_object(name, small_node(*range(gpus), name=name), used_by=users)


def plain_node(name: str, **labels: str) -> Document:
    """Return a Node with these labels, which takes any pod."""
    return {"metadata": {"name": name, "labels": labels}, "spec": {}}


class QueuedCluster:
    """The objects that the queue reads; methods add objects.

    ``nodes`` are the GPUTopologies of the nodes, and ``objects`` their Nodes.
    """

    def __init__(self, *nodes: Document) -> None:
        self.nodes = list(nodes)
        self.objects = [plain_node(each["metadata"]["name"]) for each in nodes]
        self.jobs: dict[str, Document] = {}
        self.children: dict[str, Document] = {}
        self.pods: list[Document] = []
        self.classes: list[Document] = []
        self.now = NOW
        self.offers: Mapping[str, Offer] = {}
        self.failed: Mapping[str, float] = {}

    def job(
        self, name: str, gpus: int = 1, *, created: str = START, status: Any = None, **spec: Any
    ) -> Document:
        """Add a GPUJob and its suspended child Job; return the GPUJob."""
        raw = gpu_job(name, gpusPerReplica=gpus, **spec)
        raw["metadata"] |= {"uid": f"uid-{name}", "creationTimestamp": created}
        raw["metadata"] |= {"resourceVersion": "5", "generation": 1}
        if status is not None:
            raw["status"] = {"queue": status}
        parsed = parse_gpu_job(raw)
        assert parsed.spec is not None
        child = child_job(parsed, parsed.spec, None, PodDefaults(shares=True), queued=True)
        child["metadata"] |= {"uid": f"uid-job-{name}", "resourceVersion": "6"}
        self.jobs[name], self.children[name] = raw, child
        return raw

    def start(
        self, name: str, node: str | None = None, started: str = START, **spec: Any
    ) -> Document:
        """Add a GPUJob whose pod runs on ``node``, or is not bound; return the pod."""
        if name not in self.jobs:
            self.job(name, **spec)
        child = self.children[name]
        child["spec"]["suspend"] = False
        child["status"] = {"startTime": started}
        pod = job_pod(child, f"{name}-1", node=node)
        amounts = {RESOURCE: str(self.jobs[name]["spec"]["gpusPerReplica"])}
        pod["spec"]["containers"][0]["resources"] = {"limits": amounts}
        if node is not None:
            pod["status"] |= {"phase": "Running", "startTime": started}
        self.pods.append(pod)
        return pod

    def picture(self) -> ClusterPicture:
        """Return the GPUs and their users."""
        nodes = {each["metadata"]["name"]: parse_gpu_node(each) for each in self.nodes}
        return cluster_of(nodes, parse_gpu_pods(self.pods, RESOURCE))

    def found(self, rejected: Mapping[ObjectKey, str] | None = None) -> QueueInput:
        """Return the input of the decision."""
        return QueueInput(
            jobs=parse_queued_jobs(self.jobs.values(), self.children.values(), self.classes),
            cluster=self.picture(),
            node_rules={each["metadata"]["name"]: node_rules(each) for each in self.objects},
            pods=parse_gpu_pods(self.pods, RESOURCE),
            now=self.now,
            rejected=rejected or {},
            offers=self.offers,
            failed=self.failed,
        )


def plan(cluster: QueuedCluster, rules: QueueRules = RULES) -> QueuePlan:
    """Return the decision of the queue."""
    return queue_plan(cluster.found(), rules)


def started(cluster: QueuedCluster) -> list[str]:
    """Return the names of the jobs that the queue starts now."""
    return [start.key.name for start in plan(cluster).starts]


def change_of(name: str, found: QueuePlan) -> QueueChange | None:
    """Return the change of ``status.queue`` of a job."""
    return next((each for each in found.changes if each.job.job.key.name == name), None)
