"""Where a pod would fit in the picture of a cluster that was made from lists of objects."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gputopo.api.names import RESOURCE
from gputopo.placement.model import PlacementRequest
from gputopo_cluster.claims import CLAIMS_LEASE, Claim, ClaimsError, parse_claims
from gputopo_cluster.known_pods import KnownPods
from gputopo_cluster.picture import ClusterPicture
from gputopo_cluster.topologies import parse_gpu_node
from gputopo_cluster.usage import NodeState, NodeUsage, PodNodeState
from gputopo_kube.document import Document
from gputopo_kube.podmodel import PodError
from gputopo_kube.pods import PodView, parse_gpu_pod
from gputopo_scheduling.evaluation import (
    AnyNodeState,
    Evaluation,
    SurroundedState,
    evaluation,
)
from gputopo_scheduling.node_fits import evaluate_states
from gputopo_scheduling.sharing_knowledge import SharingKnowledge
from gputopo_scheduling.sharing_state import state_of
from gputopo_scheduling.surroundings import NOTHING_RUNS, NodeSurroundings


@dataclass(frozen=True)
class ClusterSnapshot(ClusterPicture):
    """The picture of a cluster, with what decides where a pod fits.

    Attributes:
        faults: the objects that cannot be parsed, and why. The usages lack them.
        sharing: the policy, and what is known of workloads that share a GPU.
    """

    faults: Sequence[str] = ()
    sharing: SharingKnowledge = field(default_factory=SharingKnowledge)
    _states: dict[Hashable, NodeState] = field(default_factory=dict, compare=False, repr=False)

    def evaluate(
        self,
        request: PlacementRequest,
        nodes: Sequence[str] = (),
        surroundings: Mapping[str, NodeSurroundings] | None = None,
        pod: PodView | None = None,
    ) -> Evaluation:
        """Return fit or misfit of the request on these nodes; by default, on all nodes.

        Args:
            request: what a pod requests.
            nodes: names of nodes; empty for all nodes.
            surroundings: the jobs that run on each node. Only policy Utility uses them.
            pod: the pod; without it, the pods that it must avoid are not considered.
        """
        names = [*(nodes or self.nodes)]
        states: list[AnyNodeState] = [self.state_for(name, pod) for name in names]
        if request.surroundings is not None and surroundings is not None:
            running = [surroundings.get(name, NOTHING_RUNS) for name in names]
            states = list(map(SurroundedState.of, states, running))
        return evaluation(names, states, evaluate_states({*states}, request))

    def state_for(self, node: str, pod: PodView | None = None) -> PodNodeState:
        """Return the state of a node, for one pod if set; equal states are the same object."""
        usage = self.usages.get(node)
        if not isinstance(usage, NodeUsage):
            return usage
        state = usage.state if pod is None else state_of(usage, pod, self.sharing)
        return self._states.setdefault(state.key, state)

    def with_sharing(self, sharing: SharingKnowledge) -> "ClusterSnapshot":
        """Return the snapshot with other knowledge of workloads that share a GPU."""
        return replace(self, sharing=sharing, _usages={**self.usages})


def snapshot_of(
    topologies: Iterable[Document],
    pods: Iterable[Document],
    leases: Iterable[Document] = (),
    *,
    resource: str = RESOURCE,
    sharing: SharingKnowledge | None = None,
) -> ClusterSnapshot:
    """Return the snapshot of these lists.

    Args:
        topologies: all GPUTopology objects. Read them before the pods, so that the pods in their
            status are in ``pods``.
        pods: all pods of the cluster; pods that do not request ``resource`` are skipped.
        leases: Leases of the namespace of the extenders; only the one with claims is used.
        resource: extended resource that counts the GPUs.
        sharing: what is known of workloads that share a GPU; None for nothing.
    """
    faults: list[str] = []
    known = KnownPods(pod for pod in _parsed_pods(pods, resource, faults) if pod is not None)
    return ClusterSnapshot(
        nodes={node.node: node for node in map(parse_gpu_node, topologies)},
        pods=known,
        claims=known.open_claims(_parsed_claims(leases, faults)),
        faults=faults,
        sharing=sharing or SharingKnowledge(),
    )


def _parsed_pods(
    documents: Iterable[Document], resource: str, faults: list[str]
) -> Iterator[PodView | None]:
    for document in documents:
        try:
            yield parse_gpu_pod(document, resource)
        except PodError as error:
            metadata = document.get("metadata") or {}
            name = f"{metadata.get('namespace')}/{metadata.get('name')}"
            faults.append(f"pod {name}: ignored, as the extender does: {error}")


def _parsed_claims(leases: Iterable[Document], faults: list[str]) -> Iterator[Claim]:
    for lease in leases:
        metadata = lease["metadata"]
        if metadata["name"] != CLAIMS_LEASE:
            continue
        try:
            yield from parse_claims(metadata.get("annotations") or {})
        except ClaimsError as error:
            faults.append(
                f"Lease {metadata.get('namespace')}/{CLAIMS_LEASE}: {error}: "
                "no pod can be bound; delete the Lease while no pod is being bound"
            )
