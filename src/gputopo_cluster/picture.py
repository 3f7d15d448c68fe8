"""The picture of a cluster: which GPUs of each node are free, and which pods use the others.

The operator, the command line and the page make it from lists of objects. The usages are those of
an extender that has just started with the same lists. A picture lacks what only a running extender
remembers: pods that were deleted less than two minutes ago and that no agent lists, and nodes that
are paused for up to two minutes after their kubelet rejected a pod.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from typing import Any, NamedTuple, Self

from gputopo_cluster.claims import Claim, claimants
from gputopo_cluster.ended import EndedPod, after_status, is_confirmed
from gputopo_cluster.topologies import GpuNode, ReportedUser, UnreadableTopology
from gputopo_cluster.usage import NodeUsage, node_usage
from gputopo_kube.document import ObjectKey
from gputopo_kube.pods import PodView


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
    pods: Mapping[ObjectKey, PodView]
    claims: Sequence[Claim] = ()
    without: frozenset[str] = frozenset()
    _usages: dict[str, NodeUsage | UnreadableTopology] = field(
        default_factory=dict, compare=False, repr=False
    )

    @cached_property
    def usages(self) -> NodeUsages:
        """The usage of each node with a GPUTopology."""
        return {name: self._usage(name) for name in self.nodes}

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

    def without_pods(self, uids: Iterable[str]) -> Self:
        """Return the picture as if these pods had ended and left no process."""
        ended = frozenset(uids)
        touched = {*self._nodes_of(ended)}
        kept = {name: usage for name, usage in self.usages.items() if name not in touched}
        return self._with(without=self.without | ended, _usages=kept)

    def without_nodes(self, names: AbstractSet[str]) -> Self:
        """Return the picture as if these nodes did not exist."""
        kept = {name: node for name, node in self.nodes.items() if name not in names}
        return self._with(nodes=kept, _usages={name: self.usages[name] for name in kept})

    def _with(self, **changes: Any) -> Self:  # noqa: ANN401 - of any field but ``pods``
        found = replace(self, **changes)
        # These depend on the pods only, and sorting thousands of pods takes most of the time.
        found.__dict__.update({"_bound": self._bound, "_by_uid": self._by_uid})
        return found

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


def _ended_on(node: GpuNode, pods: Iterable[PodView]) -> Iterator[EndedPod]:
    """Yield the ended pods that the extender still remembers."""
    for pod in pods:
        ended = EndedPod(pod, pod.version, is_exact=True, confirmed=is_confirmed(pod), until=inf)
        updated = after_status(ended, node, 0.0, listed=False)
        if updated is not None:
            yield updated
