"""Keeps what the queue must know to evaluate whether jobs may share GPUs: nodes and GPUProfiles.

Only operators of installations with a queue and with shared GPUs import this module: the evaluation
needs numpy, which has 30 MB in memory.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

from gputopo.queueing.model import JoinableGpu
from gputopo.sharing.policy import SharingPolicy
from gputopo_cluster.topologies import GpuNode, UnreadableTopology, parse_gpu_node
from gputopo_kube.document import Document, ObjectKey
from gputopo_kube.podmodel import PodError, parse_pod_object
from gputopo_kube.pods import PodView, view_of
from gputopo_operator.controller.queue_nodes import ParsedObjects
from gputopo_operator.decision.queue import role_of
from gputopo_operator.decision.share_joins import shared_gpus_to_join
from gputopo_operator.model.queued import QueuedJob, QueueRole
from gputopo_scheduling.sharing_knowledge import SharingKnowledge
from gputopo_scheduling.surroundings import InterferenceFacts, KnownWorkload, parse_workload


class ShareEvaluation:
    """The nodes, and what the GPUProfiles show. Any thread may call the methods.

    Attributes:
        nodes: the GPUs of each node.
        profiles: the facts of each GPUProfile.
    """

    def __init__(self, policy: SharingPolicy, resource: str) -> None:
        self.nodes = ParsedObjects[GpuNode | UnreadableTopology](parse_gpu_node)
        self.profiles = ParsedObjects[KnownWorkload](parse_workload)
        self._policy = policy
        self._resource = resource
        self._knowledge: tuple[dict[str, KnownWorkload], SharingKnowledge] | None = None

    def joins(
        self, jobs: Iterable[QueuedJob], pods: Iterable[Document]
    ) -> Mapping[ObjectKey, frozenset[JoinableGpu]]:
        """Return for each job without a bound pod the shared GPUs that it may join now."""
        views = [*_views(pods, self._resource)]
        bound = {owner for owner, view in views if view.node is not None}
        waiting = dict(_waiting(jobs, bound, self._resource))
        nodes = [each for each in self.nodes.values().values() if isinstance(each, GpuNode)]
        return shared_gpus_to_join(waiting, nodes, [view for _, view in views], self._known())

    def _known(self) -> SharingKnowledge:
        """Return the facts; the same object, with its predictions, while they do not change."""
        profiles = self.profiles.values()
        if self._knowledge is None or self._knowledge[0] != profiles:
            workloads = {known.kind.name: known for known in profiles.values()}
            facts = InterferenceFacts(workloads)
            self._knowledge = profiles, SharingKnowledge.of(facts, self._policy)
        return self._knowledge[1]


def _waiting(
    jobs: Iterable[QueuedJob], bound: set[str], resource: str
) -> Iterator[tuple[ObjectKey, PodView]]:
    """Yield the pod of each sharing job that is not bound to a node."""
    for queued in jobs:
        child, spec = queued.child, queued.job.spec
        shares = spec is not None and spec.sharing.mode == "Allowed"
        if child and shares and child.uid not in bound and role_of(queued) is not QueueRole.OUTSIDE:
            key, template = queued.job.key, queued.pod_template
            identity = {"uid": child.uid, "name": key.name, "namespace": key.namespace}
            pod = {**template, "metadata": {**(template.get("metadata") or {}), **identity}}
            for _, view in _views([pod], resource):
                yield key, view


def _views(pods: Iterable[Document], resource: str) -> Iterator[tuple[str, PodView]]:
    """Yield the valid pods that have not ended, each with the UID of its controller."""
    for raw in pods:
        with suppress(PodError):
            pod = parse_pod_object(raw)
            view = view_of(pod, resource)
            if view.live:
                yield pod.metadata.controller_uid, view
