"""The picture of a cluster: which GPUs of each node are free, and which pods use the others.

The operator, the command line and the page make it from lists of objects. The usages are those of
an extender that has just started with the same lists. A picture lacks what only a running extender
remembers: pods that were deleted less than two minutes ago and that no agent lists, and nodes that
are paused for up to two minutes after their kubelet rejected a pod.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from typing import Self

from gputopo_cluster.claims import Claim, claimants
from gputopo_cluster.ended import EndedPod, after_status, is_confirmed
from gputopo_cluster.known_pods import KnownPods
from gputopo_cluster.topologies import GpuNode, UnreadableTopology
from gputopo_cluster.usage import NodeUsage, node_usage
from gputopo_kube.document import ObjectKey
from gputopo_kube.pods import PodView

NodeUsages = Mapping[str, NodeUsage | UnreadableTopology]


@dataclass(frozen=True)
class ClusterPicture:
    """The GPUs of a cluster and their users at one moment.

    Attributes:
        nodes: the GPUTopologies by node.
        pods: the pods that request GPUs.
        claims: GPUs that a Binding in flight may give to a pod.
        without: UIDs of pods of which the usages assume that they have ended and left no process.
    """

    nodes: Mapping[str, GpuNode | UnreadableTopology]
    pods: KnownPods
    claims: Sequence[Claim] = ()
    without: frozenset[str] = frozenset()
    _usages: dict[str, NodeUsage | UnreadableTopology] = field(
        default_factory=dict, compare=False, repr=False
    )

    @cached_property
    def usages(self) -> NodeUsages:
        """The usage of each node with a GPUTopology."""
        return {name: self._usage(name) for name in self.nodes}

    def users(self, pod: ObjectKey) -> frozenset[str]:
        """Return the UIDs of the pods of this name: of the pod object and of users of GPUs.

        An agent may report as user a pod whose object was deleted.
        """
        observed = (
            user.uid
            for node in self.nodes.values()
            if isinstance(node, GpuNode)
            for user in node.users
            if user.uid and user.pod == str(pod)
        )
        return frozenset({*observed, *(known.uid for known in self.pods if known.key == pod)})

    def usage_without(self, node: GpuNode, uid: str) -> NodeUsage:
        """Return the usage of one node as if a pod had ended and left no process.

        Its cost does not depend on the size of the cluster.
        """
        return self._derive(node, self.without | {uid})

    def without_pods(self, uids: Iterable[str]) -> Self:
        """Return the picture as if these pods had ended and left no process."""
        ended = frozenset(uids)
        touched = {*self._nodes_of(ended)}
        kept = {name: usage for name, usage in self.usages.items() if name not in touched}
        return replace(self, without=self.without | ended, _usages=kept)

    def without_nodes(self, names: AbstractSet[str]) -> Self:
        """Return the picture as if these nodes did not exist."""
        kept = {name: node for name, node in self.nodes.items() if name not in names}
        return replace(self, nodes=kept, _usages={name: self.usages[name] for name in kept})

    def _nodes_of(self, uids: AbstractSet[str]) -> Iterator[str]:
        yield from (str(pod.node) for uid in uids if (pod := self.pods.get(uid)))
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
        ended = _ended_on(node, self.pods.on_node(node.node))
        return derive_usage(node, self.pods, self.claims, ended, without)


def derive_usage(
    node: GpuNode,
    pods: KnownPods,
    claims: Iterable[Claim],
    ended: Iterable[EndedPod],
    without: AbstractSet[str] = frozenset(),
) -> NodeUsage:
    """Return the usage of a node: the one rule for pictures and for the ledger of the extender.

    Args:
        node: the node's published GPUs, and the users that its agent observed.
        pods: the pods of the cluster.
        claims: claims on this and other nodes. Those of pods that are bound to the node do not
            count, because the annotation of such a pod names its GPUs.
        ended: ended pods of the node that are remembered, also those whose object was deleted.
        without: UIDs of pods of which it is assumed that they have ended and left no process.
    """
    on_node = pods.on_node(node.node)
    bound = {pod.uid for pod in on_node} | without
    past = [each for each in ended if each.pod.uid not in without]
    stopped = {pod.uid for pod in on_node if not pod.live and is_confirmed(pod)}
    stopped |= {each.pod.uid for each in past if each.confirmed} | without
    if without:
        node = replace(node, users=tuple(it for it in node.users if it.uid not in without))
    return node_usage(
        node,
        [pod for pod in on_node if pod.live and pod.uid not in without],
        claimants((claim for claim in claims if claim.uid not in bound), node, pods.by_uid),
        ended=[each.pod for each in past if not each.confirmed],
        stopped=stopped,
    )


def _ended_on(node: GpuNode, pods: Iterable[PodView]) -> Iterator[EndedPod]:
    """Yield those of the pods that have ended and that the extender still remembers."""
    for pod in pods:
        if not pod.live:
            confirmed = is_confirmed(pod)
            ended = EndedPod(pod, pod.version, is_exact=True, confirmed=confirmed, until=inf)
            updated = after_status(ended, node, 0.0, listed=False)
            if updated is not None:
                yield updated
