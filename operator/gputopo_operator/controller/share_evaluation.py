"""Keeps what the queue must know to evaluate whether jobs may share GPUs: the GPUProfiles.

Only operators of installations with a queue and with shared GPUs import this module: the evaluation
needs numpy, which has 30 MB in memory.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

from gputopo.queueing.model import JoinableGpu
from gputopo.sharing.policy import SharingPolicy
from gputopo_cluster.picture import ClusterPicture
from gputopo_kube.document import ObjectKey
from gputopo_kube.podmodel import PodError
from gputopo_kube.pods import PodView, parse_pod
from gputopo_operator.controller.parsed_objects import ParsedObjects
from gputopo_operator.decision.queue import role_of
from gputopo_operator.decision.share_joins import shared_gpus_to_join
from gputopo_operator.model.queued import GpuPod, QueuedJob, QueueRole
from gputopo_scheduling.sharing_knowledge import SharingKnowledge
from gputopo_scheduling.surroundings import InterferenceFacts, KnownWorkload, parse_workload


class ShareEvaluation:
    """What the GPUProfiles show. Any thread may call the methods.

    Attributes:
        profiles: the facts of each GPUProfile.
    """

    def __init__(self, policy: SharingPolicy, resource: str) -> None:
        self.profiles = ParsedObjects[KnownWorkload](parse_workload)
        self._policy = policy
        self._resource = resource
        self._knowledge: tuple[dict[str, KnownWorkload], SharingKnowledge] | None = None

    def joins(
        self, jobs: Iterable[QueuedJob], pods: Iterable[GpuPod], cluster: ClusterPicture
    ) -> Mapping[ObjectKey, frozenset[JoinableGpu]]:
        """Return for each job without a bound pod the shared GPUs that it may join now."""
        bound = {pod.owner_uid for pod in pods if pod.node is not None}
        waiting = dict(_waiting(jobs, bound, self._resource))
        return shared_gpus_to_join(waiting, cluster, self._known())

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
            with suppress(PodError):
                yield key, parse_pod(pod, resource)
