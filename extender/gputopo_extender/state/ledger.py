"""The ledger: topologies, pods, claims and reservations folded into a book per node.

It is rebuilt from lists and kept by events; books are derived, so both ways give equal ones.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from weakref import WeakValueDictionary

from gputopo_extender.state.claim import Claim
from gputopo_extender.state.decision import Decision
from gputopo_extender.state.ended_pods import is_confirmed, with_history
from gputopo_extender.state.pod_ends import PodEndings
from gputopo_extender.state.reservations import Reservations
from gputopo_extender.state.topologies import PublishedNode, UnreadableTopology
from gputopo_extender.state.usage import NodeState, NodeUsage, node_usage
from gputopo_kube.pods import PodView


class Ledger:
    """Mutable book-keeping of one process; no method waits, so each call is atomic."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Start empty; ``clock`` is in seconds."""
        self._clock = clock
        self._nodes: dict[str, PublishedNode | UnreadableTopology] = {}
        self._pods: dict[str, PodView] = {}
        self._pods_on: defaultdict[str, set[str]] = defaultdict(set)
        self._outdated: set[str] = set()
        self.reservations = Reservations(self._outdated.add)
        """Reservations of this process, and claims of others that no pod shows yet."""
        self._ends = PodEndings(clock, self._outdated.add)
        self._endings = self._ends.endings
        self._books: dict[str, NodeUsage | UnreadableTopology] = {}
        self._states: dict[str, NodeState | UnreadableTopology] = {}
        self._shared_states: WeakValueDictionary[Hashable, NodeState] = WeakValueDictionary()
        self._epoch = 0
        self._changes = 0
        self.pods_version = 0
        """Of the newest change of a pod, or list of pods, that was shown."""
        self.rewinds = 0
        """How often a list was older than what had been shown: a backup of etcd was restored."""
        self.list_again: Callable[[], None] = lambda: None
        """Has everything listed again: called where the API server has lost what was shown."""

    def book(self, node: str) -> NodeUsage | UnreadableTopology | None:
        """Return the node's book; None where no topology is published for it."""
        self._refresh()
        return self._books.get(node)

    def books(self) -> Mapping[str, NodeUsage | UnreadableTopology]:
        """Return the books of all nodes with a topology."""
        self._refresh()
        return self._books

    def states(self) -> Mapping[str, NodeState | UnreadableTopology]:
        """Return what each node with a topology can give away; nodes alike have one NodeState."""
        self._refresh()
        return self._states

    def state_without(
        self, node: str, uids: AbstractSet[str]
    ) -> NodeState | UnreadableTopology | None:
        """Return what the node could give away if these pods were not there."""
        self._refresh()
        known = self._nodes.get(node)
        if not isinstance(known, PublishedNode):
            return known
        return self._shared(self._derive(known, without=uids).state)

    def changes(self) -> int:
        """Return a number that grows when a book may have changed."""
        self._refresh()
        return self._changes

    def ended_pods(self, node: str) -> list[str]:
        """Return the pods that have ended, and whose processes may still use GPUs of the node."""
        known = self._nodes.get(node)
        users = known.users if isinstance(known, PublishedNode) else ()
        listed = {holder.pod for holder in users if holder.deleted}
        return sorted(listed | {str(pod.key) for pod in self._endings.unconfirmed(node)})

    def has_live_pod_below(self, priority: int) -> bool:
        """Return whether a live pod that is bound to a node has a lower priority."""
        return any(
            each.live and each.node is not None and each.priority < priority
            for each in self._pods.values()
        )

    def pod(self, uid: str) -> PodView | None:
        """Return the pod as the watch showed it last, None where it is unknown or gone."""
        return self._pods.get(uid)

    def replace_claims(self, claims: Iterable[Claim]) -> None:
        """Take these as all that others claim, but for what pods show already."""
        self.reservations.replace_foreign(filter(self._is_open, claims), epoch=self._epoch)

    def replace_topologies(self, nodes: Iterable[PublishedNode | UnreadableTopology]) -> None:
        """Take a list of topologies as the whole truth."""
        self._outdated.update(self._nodes)
        self._nodes = {}
        for node in nodes:
            self.put_topology(node)

    def put_topology(self, node: PublishedNode | UnreadableTopology) -> None:
        """Take a topology that was added or modified."""
        self._nodes[node.node] = node
        if isinstance(node, PublishedNode):
            self._endings.see(node)
        self._outdated.add(node.node)

    def drop_topology(self, name: str) -> None:
        """Forget the topology of a node."""
        self._nodes.pop(name, None)
        self._outdated.add(name)

    def begin_pod_list(self) -> int:
        """Note that a list of pods is about to be asked for; return its number."""
        self._epoch += 1
        return self._epoch

    def replace_pods(
        self, pods: Iterable[PodView], *, epoch: int, version: int | None = None
    ) -> None:
        """Take the list of number ``epoch``, of that resource version, as the whole truth.

        A pod that was reserved for, or claimed, before the list was asked for and is not in it
        is gone.
        """
        if version is not None:
            self._begin_at(version)
        before, self._pods = self._pods, {}
        self._pods_on.clear()
        self._outdated.update(self._nodes)
        for pod in pods:
            self._put(pod, before.pop(pod.uid, None))
        lost = self.reservations.end_missing(self._pods.keys(), epoch=epoch)
        self._ends.add_lost(lost, version=self.pods_version)
        for gone in before.values():
            self._ends.add(gone, gone, version=self.pods_version, is_exact=False)
        self._endings.forget_seen(self._pods.keys())

    def _begin_at(self, version: int) -> None:
        """Note the version of a list; all that was remembered of a larger one is void."""
        if version < self.pods_version:
            self.rewinds += 1
            self._endings.lower(version)
            self.reservations.doubt()
            self.list_again()
        self.pods_version = version

    def put_pod(self, pod: PodView) -> None:
        """Take a pod that was added or modified.

        Its reservation ends when the pod shows a node, which the annotations came with, or its end.
        """
        self._put(pod, self._forget(pod.uid))
        self.pods_version = max(self.pods_version, pod.version)

    def drop_pod(self, uid: str, last: PodView | None = None) -> None:
        """Forget a deleted pod; ``last`` is its last record, of the version of the deletion."""
        before = self._forget(uid)
        self.reservations.end(uid)
        last = last or before
        if last is not None:
            self._ends.add(with_history(last, before), before, version=last.version)
            self.pods_version = max(self.pods_version, last.version)

    def end_lost(self, uid: str) -> None:
        """Drop what is promised to a pod that the API server no longer has.

        It may have been bound and started before it was deleted, which the watch shows later.
        """
        self._ends.add_lost(self.reservations.of(uid))
        self.reservations.end(uid)

    def reserve(self, decision: Decision) -> None:
        """Hold the GPUs of a decision whose Binding is about to be sent."""
        self.reservations.reserve(decision, epoch=self._epoch)

    def _put(self, pod: PodView, before: PodView | None) -> None:
        pod = with_history(pod, before)
        self._pods[pod.uid] = pod
        if pod.node is not None or not pod.live:
            self.reservations.end(pod.uid)
        if pod.node is None:
            return
        self._pods_on[pod.node].add(pod.uid)
        self._outdated.add(pod.node)
        if not pod.live:
            self._ends.add(pod, before, version=pod.version)
            return
        self._endings.drop(pod)
        if pod.running and before is not None and not before.running:
            self._ends.started(pod.node)

    def _is_open(self, claim: Claim) -> bool:
        pod = self._pods.get(claim.uid)
        return pod is None or (pod.live and pod.node is None)

    def _forget(self, uid: str) -> PodView | None:
        known = self._pods.pop(uid, None)
        if known is not None and known.node is not None:
            self._pods_on[known.node].discard(uid)
            self._outdated.add(known.node)
        return known

    def _refresh(self) -> None:
        """Bring books and states up to date where something has changed or the time has come."""
        now = self._clock()
        self._ends.expire(now)
        if not self._outdated:
            return
        self._changes += 1
        for name in self._outdated:
            self._update(name, now)
        self._outdated.clear()

    def _update(self, name: str, now: float) -> None:
        node = self._nodes.get(name)
        self._endings.resolve(name, node if isinstance(node, PublishedNode) else None, now)
        if node is None:
            self._books.pop(name, None)
            self._states.pop(name, None)
        elif isinstance(node, UnreadableTopology):
            self._books[name] = self._states[name] = node
        else:
            book = self._derive(node)
            self._books[name] = book
            self._states[name] = self._shared(book.state)

    def _shared(self, state: NodeState) -> NodeState:
        """Return the one object for all nodes in such a state."""
        return self._shared_states.setdefault(state.key, state)

    def _derive(self, node: PublishedNode, without: AbstractSet[str] = frozenset()) -> NodeUsage:
        on_node = self._pods_on.get(node.node, set()) - without
        pods = [self._pods[uid] for uid in sorted(on_node)]
        if node.away is None and (paused := self._ends.paused(node.node)):
            node = replace(node, away=paused)
        stopped = {pod.uid for pod in pods if not pod.live and is_confirmed(pod)}
        return node_usage(
            node,
            [pod for pod in pods if pod.live],
            self.reservations.on_node(node, on_node | without),
            ending=self._endings.unconfirmed(node.node),
            stopped=stopped | without | self._endings.confirmed(node.node),
        )
