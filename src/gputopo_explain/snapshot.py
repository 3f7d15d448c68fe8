"""Computes from lists of objects what the extender knows of a cluster: which GPUs are free.

The command line and the web page read the lists. The usages are those of an extender that has just
started with the same lists. A snapshot lacks what only a running extender remembers: pods that were
deleted less than two minutes ago and that no agent lists, and nodes that are paused for up to two
minutes after their kubelet rejected a pod.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from typing import NamedTuple

from gputopo.api.names import RESOURCE
from gputopo.placement.model import PlacementRequest
from gputopo_cluster.claims import CLAIMS_LEASE, Claim, ClaimsError, claimants, parse_claims
from gputopo_cluster.ended import EndedPod, after_status, is_confirmed
from gputopo_cluster.topologies import GpuNode, ReportedUser, UnreadableTopology, parse_gpu_node
from gputopo_cluster.usage import NodeState, NodeUsage, PodNodeState, node_usage
from gputopo_kube.document import Document, ObjectKey
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


class BoundPods(NamedTuple):
    """The pods that are bound to a node.

    Attributes:
        live: pods that have not ended.
        ended: pods that have ended and whose containers may still run.
        stopped: UIDs of pods whose containers have stopped. The agent may still list them.
    """

    live: Sequence[PodView]
    ended: Sequence[PodView]
    stopped: frozenset[str]


NodeUsages = Mapping[str, NodeUsage | UnreadableTopology]
NodeStates = Mapping[str, NodeState | UnreadableTopology]


@dataclass(frozen=True)
class ClusterSnapshot:
    """The GPUs of a cluster and their users at one moment.

    Attributes:
        nodes: the GPUTopologies by node.
        pods: the pods that request GPUs.
        claims: GPUs that a Binding in flight may give to a pod.
        without: UIDs of pods of which the usages assume that they have ended and left no process.
        faults: the objects that cannot be parsed, and why. The usages lack them.
        sharing: the policy, and what is known of workloads that share a GPU.
    """

    nodes: Mapping[str, GpuNode | UnreadableTopology]
    pods: Mapping[ObjectKey, PodView]
    claims: Sequence[Claim] = ()
    without: frozenset[str] = frozenset()
    faults: Sequence[str] = ()
    sharing: SharingKnowledge = field(default_factory=SharingKnowledge)
    _usages: dict[str, NodeUsage | UnreadableTopology] = field(
        default_factory=dict, compare=False, repr=False
    )
    _restricted: dict[Hashable, NodeState] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def usages(self) -> NodeUsages:
        """The usage of each node with a GPUTopology."""
        return {name: self._usage(name) for name in self.nodes}

    @cached_property
    def states(self) -> NodeStates:
        """The state of each node with a GPUTopology; equal states are the same object."""
        shared: dict[Hashable, NodeState] = {}
        return {
            name: shared.setdefault(usage.state.key, usage.state)
            if isinstance(usage, NodeUsage)
            else usage
            for name, usage in self.usages.items()
        }

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

    def state_for(self, node: str, pod: PodView | None) -> PodNodeState:
        """Return the state of a node for one pod; equal states are the same object."""
        usage = self.usages.get(node)
        if pod is None or not isinstance(usage, NodeUsage):
            return self.states.get(node)
        state = state_of(usage, pod, self.sharing)
        if not pod.shares and not state.restrictions and state.obstacle is None:
            return self.states[node]
        return self._restricted.setdefault(state.key, state)

    def pods_on(self, node: str) -> Sequence[PodView]:
        """Return the pods with GPUs that are bound to a node, ordered by UID."""
        return self._bound.get(node, ())

    def pods_of(self, node: GpuNode) -> BoundPods:
        """Return the pods of a node by whether their containers may run."""
        return self._pods_of(node, self.without)

    def _pods_of(self, node: GpuNode, without: frozenset[str]) -> BoundPods:
        pods = [pod for pod in self.pods_on(node.node) if pod.uid not in without]
        past = [pod for pod in pods if not pod.live]
        ended = [*_ended_on(node, past)]
        confirmed = {each.pod.uid for each in ended if each.confirmed}
        return BoundPods(
            [pod for pod in pods if pod.live],
            [each.pod for each in ended if not each.confirmed],
            without | confirmed | {pod.uid for pod in past if is_confirmed(pod)},
        )

    def claims_on(self, node: str) -> Sequence[Claim]:
        """Return the claims on a node, except those of pods that are bound to it."""
        return self._claims_on(node, self.without)

    def _claims_on(self, node: str, without: frozenset[str]) -> Sequence[Claim]:
        gone = {pod.uid for pod in self.pods_on(node)} | without
        return [each for each in self.claims if each.node == node and each.uid not in gone]

    def users_on(self, node: GpuNode) -> tuple[ReportedUser, ...]:
        """Return the users of GPUs that the agent reports, except pods of ``without``."""
        return _users_without(node, self.without)

    def users(self, pod: ObjectKey) -> frozenset[str]:
        """Return the UIDs of the pods of this name: of the pod object and of users of GPUs.

        An agent may report as user a pod whose object was deleted.
        """
        known = self.pods.get(pod)
        observed = (
            user.uid
            for node in self.nodes.values()
            if isinstance(node, GpuNode)
            for user in node.users
            if user.uid and user.pod == str(pod)
        )
        return frozenset({*observed, *([known.uid] if known else ())})

    def usage_without(self, node: GpuNode, uid: str) -> NodeUsage:
        """Return the usage of one node as if a pod had ended and left no process.

        Its cost does not depend on the size of the cluster.
        """
        return self._derive(node, self.without | {uid})

    def without_pods(self, uids: Iterable[str]) -> "ClusterSnapshot":
        """Return the snapshot as if these pods had ended and left no process."""
        ended = frozenset(uids)
        touched = {*self._nodes_of(ended)}
        kept = {name: usage for name, usage in self.usages.items() if name not in touched}
        return replace(self, without=self.without | ended, _usages=kept)

    def with_sharing(self, sharing: SharingKnowledge) -> "ClusterSnapshot":
        """Return the snapshot with other knowledge of workloads that share a GPU."""
        return replace(self, sharing=sharing, _usages={**self.usages})

    def without_nodes(self, names: AbstractSet[str]) -> "ClusterSnapshot":
        """Return the snapshot as if these nodes did not exist."""
        kept = {name: node for name, node in self.nodes.items() if name not in names}
        return replace(self, nodes=kept, _usages={name: self.usages[name] for name in kept})

    @cached_property
    def _bound(self) -> Mapping[str, Sequence[PodView]]:
        bound: defaultdict[str, list[PodView]] = defaultdict(list)
        for pod in sorted(self.pods.values(), key=lambda pod: pod.uid):
            if pod.node is not None:
                bound[pod.node].append(pod)
        return bound

    @cached_property
    def _by_uid(self) -> Mapping[str, PodView]:
        return {pod.uid: pod for pod in self.pods.values()}

    def _nodes_of(self, uids: AbstractSet[str]) -> Iterator[str]:
        yield from (str(pod.node) for pod in self.pods.values() if pod.uid in uids)
        yield from (claim.node for claim in self.claims if claim.uid in uids)
        for name, node in self.nodes.items():
            if isinstance(node, GpuNode) and any(user.uid in uids for user in node.users):
                yield name

    def _usage(self, name: str) -> NodeUsage | UnreadableTopology:
        if (known := self._usages.get(name)) is not None:
            return known
        node = self.nodes[name]
        return node if isinstance(node, UnreadableTopology) else self._derive(node, self.without)

    def _derive(self, node: GpuNode, without: frozenset[str]) -> NodeUsage:
        pods = self._pods_of(node, without)
        return node_usage(
            replace(node, users=_users_without(node, without)),
            pods.live,
            claimants(self._claims_on(node.node, without), node, self._by_uid.get),
            ended=pods.ended,
            stopped=pods.stopped,
        )


def _users_without(node: GpuNode, without: AbstractSet[str]) -> tuple[ReportedUser, ...]:
    return tuple(user for user in node.users if user.uid not in without)


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
    found = [each for each in _parsed_pods(pods, resource, faults) if each is not None]
    by_key = {pod.key: pod for pod in found}
    waiting = {pod.uid: pod.live and pod.node is None for pod in found}
    claims = _parsed_claims(leases, faults)
    return ClusterSnapshot(
        nodes={node.node: node for node in map(parse_gpu_node, topologies)},
        pods=by_key,
        claims=[claim for claim in claims if waiting.get(claim.uid, True)],
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


def _ended_on(node: GpuNode, pods: Iterable[PodView]) -> Iterator[EndedPod]:
    """Yield the ended pods that the extender still remembers."""
    for pod in pods:
        ended = EndedPod(pod, pod.version, is_exact=True, confirmed=is_confirmed(pod), until=inf)
        updated = after_status(ended, node, 0.0, listed=False)
        if updated is not None:
            yield updated
