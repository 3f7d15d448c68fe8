"""Derives the usage of each node from topologies, pods, claims and reservations.

The reflectors of pods and topologies write lists and changes into the ledger. The verbs read node
usages and node states from the ledger, and bind adds reservations. A usage is always computed from
all current objects. So it is the same whether the objects came from a list or from a watch.
"""

import asyncio
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from gputopo.api.v1alpha1 import SizedCapacity
from gputopo.placement.model import Match
from gputopo.topology.model import GpuMask
from gputopo_cluster.claims import Claim
from gputopo_cluster.known_pods import KnownPods
from gputopo_cluster.picture import derive_usage
from gputopo_cluster.topologies import GpuNode, UnreadableTopology
from gputopo_cluster.usage import NodeState, NodeUsage, PodNodeState
from gputopo_extender.state.ended_pods import EndedPods, with_history
from gputopo_extender.state.interference import NodeInterference
from gputopo_extender.state.pod_totals import PodTotals
from gputopo_extender.state.reservations import Reservations
from gputopo_extender.state.sharing_states import SharingStates
from gputopo_extender.state.usages import DerivedUsage, UsageCache
from gputopo_kube.pods import PodView
from gputopo_scheduling.evaluation import AnyNodeState, SurroundedState
from gputopo_scheduling.restrictions import AvoidingPod, restricted_state
from gputopo_scheduling.share_options import ChosenShare, shared_gpu
from gputopo_scheduling.sharing_state import state_of
from gputopo_scheduling.surroundings import NOTHING_RUNS, NodeSurroundings
from gputopo_scheduling.waiting import idle_key


class Ledger:
    """The state of one extender process. No method awaits, so each call is atomic.

    Attributes:
        pods: the pods that the watch has shown.
        reservations: reservations of this process, and claims of other extenders for pods that the
            watch does not yet show as bound.
        pod_totals: waiting pods, and the bandwidths of placed pods.
        interference: slowdowns that GPUProfiles show.
        pods_version: resource version of the newest change or list of pods that was received.
        rewinds: how often a list had a lower version than an earlier change. This happens when etcd
            is restored from a backup.
        relist: an event, set when the API server has lost changes that it had reported. The
            reflectors must then list everything again.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Create an empty ledger; ``clock`` returns seconds."""
        self._nodes: dict[str, GpuNode | UnreadableTopology] = {}
        self.pods = KnownPods()
        # Nodes whose usage must be derived again.
        self._outdated: set[str] = set()
        self.reservations = Reservations(self._outdated)
        self.pod_totals = PodTotals()
        self.interference = NodeInterference(clock)
        self._ended = EndedPods(clock, self._outdated)
        self._derived = UsageCache()
        self._shares = SharingStates()
        self.pods_version = 0
        self.rewinds = 0
        self.relist = asyncio.Event()

    def usage(self, node: str) -> NodeUsage | UnreadableTopology | None:
        """Return the usage of a node, or None if the node has no GPUTopology."""
        return self.usages().get(node)

    def sized_capacity(self, node: str) -> SizedCapacity | None:
        """Return a node's CPUs, memory and GPUs for pods that gputopo sizes; None if unknown."""
        known = self._nodes.get(node)
        return known.sized_capacity if isinstance(known, GpuNode) else None

    def usages(self) -> Mapping[str, NodeUsage | UnreadableTopology]:
        """Return the usage of all nodes with a topology."""
        return self._refreshed().usages

    def states(self) -> Mapping[str, NodeState | UnreadableTopology]:
        """Return the states of all nodes with a topology; equal states are the same object."""
        return self._refreshed().states

    def states_for(self, pod: PodView, nodes: Sequence[str]) -> list[PodNodeState]:
        """Return the states of nodes for one pod; None for a node without a GPUTopology."""
        reserved = bool(self.reservations.of_pod(pod.uid))
        if pod.shares:
            known, knowledge = self.pods.get(pod.uid), self.interference.sharing
            keep = not reserved and (known is None or known.node is None)
            return self._shares.states(self._refreshed(), pod, nodes, knowledge, keep=keep)
        return self._refreshed().states_for(pod, nodes, reserved=reserved)

    def states_beside(
        self, pod: PodView, nodes: Sequence[str], taken: Mapping[str, GpuMask]
    ) -> list[PodNodeState]:
        """Return the states of nodes for a pod of whole GPUs as if ``taken`` were used too."""
        return self._refreshed().states_for(pod, nodes, reserved=False, taken=taken)

    def state_for(self, usage: NodeUsage, pod: PodView) -> NodeState:
        """Return the state of a node for a pod, with all that restricts the pod on this node."""
        return state_of(usage, pod, self.interference.sharing)

    def shared_gpu(self, usage: NodeUsage, pod: PodView, match: Match) -> ChosenShare | None:
        """Return the share that a pod gets of the GPU of ``match``; None for a whole GPU."""
        if not pod.shares:
            return None
        return shared_gpu(usage, pod, match.gpus[0], self.interference.sharing)

    def state_without(
        self, node: str, uids: AbstractSet[str], pod: PodView | None = None
    ) -> PodNodeState:
        """Return the state that the node would have without these pods, for ``pod`` if set."""
        derived, usage = self._refreshed(), self._usage_without(node, uids)
        if not isinstance(usage, NodeUsage):
            return usage
        if pod is None:
            return derived.share(usage.state)
        if pod.shares:
            return derived.share(self.state_for(usage, pod))
        return derived.share(restricted_state(usage, AvoidingPod.of(pod)))

    def surroundings(self, node: str) -> NodeSurroundings:
        """Return the workloads that run on a node; equal surroundings are the same object."""
        return self.interference.on_nodes([node], self.usages())[0]

    def surroundings_without(self, node: str, uids: AbstractSet[str]) -> NodeSurroundings:
        """Return the surroundings that the node would have without these pods."""
        usage = self._usage_without(node, uids)
        return self.interference.assumed(usage) if isinstance(usage, NodeUsage) else NOTHING_RUNS

    def idle_key(self, key: Hashable) -> AnyNodeState:
        """Return the key for the evaluation of a node as if all pods on it had ended."""
        idle = idle_key(key)
        if isinstance(idle, SurroundedState):
            return SurroundedState(self._refreshed().share(idle.state), idle.running)
        return self._refreshed().share(idle) if isinstance(idle, NodeState) else idle

    def changes(self) -> int:
        """Return a number that grows when the usage of a node may have changed."""
        return self._refreshed().refreshes

    def ended_pods(self, node: str) -> list[str]:
        """Return the names of the ended pods whose processes may still use GPUs of the node."""
        known = self._nodes.get(node)
        users = known.users if isinstance(known, GpuNode) else ()
        listed = {user.pod for user in users if user.deleted}
        awaited = {str(it.pod.key) for it in self._ended.on_node(node) if not it.confirmed}
        return sorted(listed | awaited)

    def replace_claims(self, claims: Iterable[Claim]) -> None:
        """Replace the claims of other extenders; skip claims of bound and ended pods."""
        self.reservations.replace_others(self.pods.open_claims(claims))

    def replace_topologies(self, nodes: Iterable[GpuNode | UnreadableTopology]) -> None:
        """Replace all topologies by those of a list."""
        before, self._nodes = self._nodes, {}
        self._outdated.update(before)
        for node in nodes:
            self.put_topology(node)
        for name in before.keys() - self._nodes.keys():
            self.interference.forget(name)

    def put_topology(self, node: GpuNode | UnreadableTopology) -> None:
        """Add or replace a topology.

        The node usage does not depend on measurements and on the capacity for sized pods.
        """
        before, self._nodes[node.node] = self._nodes.get(node.node), node
        if before == node:
            return
        if isinstance(node, GpuNode):
            self._ended.note_listed(node)
        self._outdated.add(node.node)

    def drop_topology(self, name: str) -> None:
        """Remove the topology of a node."""
        self._nodes.pop(name, None)
        self._outdated.add(name)
        self.interference.forget(name)

    def begin_pod_list(self) -> int:
        """Record that the reflector will request a list of pods; return the list's number."""
        return self.reservations.begin_list()

    def replace_pods(
        self, pods: Iterable[PodView], *, epoch: int, version: int | None = None
    ) -> None:
        """Replace all pods by a list of pods.

        ``epoch`` is the result of ``begin_pod_list``. A reservation or claim ends if it was made
        before the list was requested and the list does not contain its pod.
        """
        if version is not None:
            self._begin_at(version)
        before = self.pods.take_all()
        self._outdated.update(self._nodes)
        for pod in pods:
            self._put(pod, before.pop(pod.uid, None))
        self.pod_totals.keep_only(self.pods)
        lost = self.reservations.end_missing(self.pods.by_uid.keys(), epoch=epoch)
        self._ended.add_lost(lost, version=self.pods_version)
        for gone in before.values():
            self._ended.add(gone, gone, version=self.pods_version, is_exact=False)
        self._ended.forget_listed(self.pods.by_uid.keys())

    def put_pod(self, pod: PodView) -> None:
        """Add or replace a pod.

        If the pod is bound or has ended, its reservation ends. The annotations of a bound pod
        already name its GPUs, because a Binding writes node and annotations together.
        """
        self._put(pod, self._forget(pod.uid))
        self.pods_version = max(self.pods_version, pod.version)

    def drop_pod(self, uid: str, last: PodView | None = None) -> None:
        """Remove a deleted pod; ``last`` is its last view, with the version of the deletion."""
        before = self._forget(uid)
        self.pod_totals.drop(uid)
        self.reservations.end(uid)
        last = last or before
        if last is not None:
            self._ended.add(with_history(last, before), before, version=last.version)
            self.pods_version = max(self.pods_version, last.version)

    def end_lost(self, uid: str) -> None:
        """Drop the reservation and the claims of a pod that the API server no longer has.

        The pod may have been bound and started before its deletion, so it is added as an ended pod.
        """
        claims = self.reservations.of_pod(uid)
        if uid in self.pods:
            self._ended.add_lost(claims)
        else:
            self._ended.add_unlisted(claims, pods_version=self.pods_version)
        self.reservations.end(uid)

    def _begin_at(self, version: int) -> None:
        """Record the version of a list; a lower version than before shows a restore of etcd."""
        if version < self.pods_version:
            self.rewinds += 1
            self._ended.lower_versions(version)
            self.reservations.doubt_bound()
            self.relist.set()
        self.pods_version = version
        self._ended.note_list(version)

    def _put(self, pod: PodView, before: PodView | None) -> None:
        pod = with_history(pod, before)
        self.pods.put(pod)
        self.pod_totals.put(pod, before)
        if pod.node is not None or not pod.live:
            self.reservations.end(pod.uid)
        if pod.node is None:
            return
        self._outdated.add(pod.node)
        if pod.live:
            self._ended.add_running(pod, before)
        else:
            self._ended.add(pod, before, version=pod.version)

    def _forget(self, uid: str) -> PodView | None:
        known = self.pods.drop(uid)
        if known is not None and known.node is not None:
            self._outdated.add(known.node)
        return known

    def _refreshed(self) -> UsageCache:
        self._ended.mark_due()
        if self._outdated:
            self._derived.replace({name: self._usage_of(name) for name in self._outdated})
            self._outdated.clear()
        return self._derived

    def _usage_of(self, name: str) -> DerivedUsage:
        node = self._nodes.get(name)
        self._ended.update(name, node if isinstance(node, GpuNode) else None)
        return self._usage_without(name)

    def _usage_without(self, name: str, uids: AbstractSet[str] = frozenset()) -> DerivedUsage:
        node = self._nodes.get(name)
        if not isinstance(node, GpuNode):
            return node
        if node.not_ready is None and (reason := self._ended.paused(name)):
            node = replace(node, not_ready=reason)
        claims, ended = self.reservations.claims(), self._ended.on_node(name)
        # The processes of a pod whose end is not confirmed may run on after its preemption too.
        uids = uids - {each.pod.uid for each in ended if not each.confirmed}
        return derive_usage(node, self.pods, claims, ended, uids)
