"""The ledger: topologies, pods, claims and reservations folded into a book per node.

It is rebuilt from lists and kept by events; books are derived, so both ways give equal ones.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from enum import Enum
from weakref import WeakValueDictionary

from gputopo.topology.model import GpuMask, mask_of
from gputopo_extender.book import Book, State, book_of
from gputopo_extender.claims import Claim
from gputopo_extender.decide import Decision
from gputopo_extender.pods import PodRecord
from gputopo_extender.topologies import NodeRecord, Unreadable


class Progress(Enum):
    """How far the Binding of a reservation has come."""

    WRITING = "writing"
    UNKNOWN = "unknown"
    BOUND = "bound"


@dataclass(frozen=True, slots=True)
class Reservation:
    """GPUs held for a pod from before its Binding is written until the pod shows it.

    Attributes:
        epoch: number of pod lists begun before it was made.
    """

    decision: Decision
    progress: Progress
    epoch: int


@dataclass(frozen=True, slots=True)
class _Held:
    """A claim, and the number of pod lists begun before it was known here."""

    claim: Claim
    epoch: int


class Ledger:
    """Mutable book-keeping of one process; no method waits, so each call is atomic."""

    def __init__(self) -> None:
        self._nodes: dict[str, NodeRecord | Unreadable] = {}
        self._pods: dict[str, PodRecord] = {}
        self._pods_on: defaultdict[str, set[str]] = defaultdict(set)
        self._reservations: dict[str, Reservation] = {}
        self._claims: defaultdict[str, dict[str, _Held]] = defaultdict(dict)
        self._claimed_on: defaultdict[str, set[str]] = defaultdict(set)
        self._books: dict[str, Book | Unreadable] = {}
        self._states: dict[str, State | Unreadable] = {}
        self._shared_states: WeakValueDictionary[Hashable, State] = WeakValueDictionary()
        self._outdated: set[str] = set()
        self._epoch = 0

    def book(self, node: str) -> Book | Unreadable | None:
        """Return the node's book; None where no topology is published for it."""
        self._refresh()
        return self._books.get(node)

    def books(self) -> Mapping[str, Book | Unreadable]:
        """Return the books of all nodes with a topology."""
        self._refresh()
        return self._books

    def states(self) -> Mapping[str, State | Unreadable]:
        """Return what each node with a topology can give away; nodes alike have one State."""
        self._refresh()
        return self._states

    def state_without(self, node: str, uids: AbstractSet[str]) -> State | Unreadable | None:
        """Return what the node could give away if these pods were not there."""
        known = self._nodes.get(node)
        if not isinstance(known, NodeRecord):
            return known
        return self._shared(self._derive(node, known, without=uids).state)

    def pod(self, uid: str) -> PodRecord | None:
        """Return the pod as the watch showed it last, None where it is unknown or gone."""
        return self._pods.get(uid)

    def reservation(self, uid: str) -> Reservation | None:
        """Return the reservation of a pod that does not show its Binding yet."""
        return self._reservations.get(uid)

    def reservations(self) -> tuple[Reservation, ...]:
        """Return all reservations."""
        return tuple(self._reservations.values())

    def claims(self, node: str) -> dict[str, Claim]:
        """Return the claims on a node, by UID of pods that have not ended."""
        return {uid: held.claim for uid, held in self._claims[node].items()}

    def unseen_claims(self) -> dict[str, dict[str, Claim]]:
        """Return, by node, the claims for pods that neither show it nor are reserved for."""
        unseen: defaultdict[str, dict[str, Claim]] = defaultdict(dict)
        for uid, nodes in self._claimed_on.items():
            pod = self._pods.get(uid)
            if uid not in self._reservations and (pod is None or pod.node is None):
                for node in nodes:
                    unseen[node][uid] = self._claims[node][uid].claim
        return unseen

    def replace_claims(self, node: str, claims: Mapping[str, Claim]) -> None:
        """Take these claims as the whole truth about a node."""
        for uid in list(self._claims[node]):
            self.drop_claim(node, uid)
        for uid, claim in claims.items():
            self._hold(node, uid, claim)

    def put_claim(self, decision: Decision) -> None:
        """Note that the GPUs of a decision are claimed, or about to be."""
        gpus = decision.uuids
        self._hold(decision.node, decision.uid, Claim(decision.namespace, decision.name, gpus))

    def drop_claim(self, node: str, uid: str) -> None:
        """Forget a claim by which nobody can be bound any more."""
        if self._claims[node].pop(uid, None) is not None:
            self._claimed_on[uid].discard(node)
            self._outdated.add(node)
        if not self._claimed_on[uid]:
            del self._claimed_on[uid]

    def replace_topologies(self, nodes: Iterable[NodeRecord | Unreadable]) -> None:
        """Take a list of topologies as the whole truth."""
        self._outdated.update(self._nodes)
        self._nodes = {node.node: node for node in nodes}
        self._outdated.update(self._nodes)

    def put_topology(self, node: NodeRecord | Unreadable) -> None:
        """Take a topology that was added or modified."""
        self._nodes[node.node] = node
        self._outdated.add(node.node)

    def drop_topology(self, name: str) -> None:
        """Forget the topology of a node."""
        self._nodes.pop(name, None)
        self._outdated.add(name)

    def begin_pod_list(self) -> int:
        """Note that a list of pods is about to be asked for; return its number."""
        self._epoch += 1
        return self._epoch

    def replace_pods(self, pods: Iterable[PodRecord], *, epoch: int) -> None:
        """Take the list of number ``epoch`` as the whole truth about pods.

        A pod that was known, claimed or reserved for before the list was asked for, and is not
        in it, is gone.
        """
        before = set(self._pods)
        self._pods.clear()
        self._pods_on.clear()
        self._outdated.update(self._nodes)
        for pod in pods:
            self.put_pod(pod)
        for uid, reservation in list(self._reservations.items()):
            if reservation.epoch < epoch and uid not in self._pods:
                self.release(uid)
        for uid in list(self._claimed_on.keys() - self._pods.keys()):
            held = [self._claims[node][uid] for node in self._claimed_on[uid]]
            if uid in before or max(each.epoch for each in held) < epoch:
                self._end_claims(uid)

    def put_pod(self, pod: PodRecord) -> None:
        """Take a pod that was added or modified.

        Its reservation ends when the pod shows a node, which the annotations came with, or its end.
        """
        self._forget(pod.uid)
        self._pods[pod.uid] = pod
        if pod.node is not None:
            self._pods_on[pod.node].add(pod.uid)
            self._outdated.add(pod.node)
        if pod.node is not None or not pod.live:
            self.release(pod.uid)
            self._end_claims(pod.uid, except_on=pod.node if pod.live else None)

    def drop_pod(self, uid: str) -> None:
        """Forget a deleted pod; a UID never returns, so whatever was reserved for it is free."""
        self._forget(uid)
        self.release(uid)
        self._end_claims(uid)

    def reserve(self, decision: Decision) -> None:
        """Hold the GPUs of a decision whose Binding is about to be sent."""
        reservation = Reservation(decision, Progress.WRITING, self._epoch)
        self._reservations[decision.uid] = reservation
        self._outdated.add(decision.node)

    def mark(self, uid: str, progress: Progress) -> None:
        """Note how far the Binding has come; nothing where the pod has shown it meanwhile."""
        known = self._reservations.get(uid)
        if known is not None:
            self._reservations[uid] = replace(known, progress=progress)

    def release(self, uid: str) -> None:
        """Give up the reservation of a pod, if there is one."""
        known = self._reservations.pop(uid, None)
        if known is not None:
            self._outdated.add(known.decision.node)

    def _hold(self, node: str, uid: str, claim: Claim) -> None:
        self._claims[node][uid] = _Held(claim, self._epoch)
        self._claimed_on[uid].add(node)
        self._outdated.add(node)

    def _end_claims(self, uid: str, *, except_on: str | None = None) -> None:
        for node in list(self._claimed_on.get(uid, ())):
            if node != except_on:
                self.drop_claim(node, uid)

    def _forget(self, uid: str) -> None:
        known = self._pods.pop(uid, None)
        if known is not None and known.node is not None:
            self._pods_on[known.node].discard(uid)
            self._outdated.add(known.node)

    def _refresh(self) -> None:
        """Bring books and states up to date where something has changed."""
        for name in self._outdated:
            node = self._nodes.get(name)
            if node is None:
                self._books.pop(name, None)
                self._states.pop(name, None)
            elif isinstance(node, Unreadable):
                self._books[name] = self._states[name] = node
            else:
                book = self._derive(name, node)
                self._books[name] = book
                self._states[name] = self._shared(book.state)
        self._outdated.clear()

    def _shared(self, state: State) -> State:
        """Return the one object for all nodes in such a state."""
        key = (
            state.structure.fingerprint,
            *(state.healthy, state.free, state.unknown, state.blocked, state.away),
        )
        return self._shared_states.setdefault(key, state)

    def _derive(self, name: str, node: NodeRecord, without: AbstractSet[str] = frozenset()) -> Book:
        on_node = self._pods_on.get(name, set()) - without
        bound = (self._pods[uid] for uid in sorted(on_node))
        promised = self._promised(name, node, on_node | without)
        return book_of(node, [pod for pod in bound if pod.live], promised.values())

    def _promised(
        self, name: str, node: NodeRecord, counted: AbstractSet[str]
    ) -> dict[str, GpuMask]:
        """Return what is reserved or claimed for pods but those whose own word is counted."""
        promised: defaultdict[str, GpuMask] = defaultdict(lambda: GpuMask(0))
        for uid, reservation in self._reservations.items():
            if reservation.decision.node == name and uid not in counted:
                promised[uid] = reservation.decision.gpus
        known = node.topology.index_of
        for uid, held in self._claims.get(name, {}).items():
            if uid not in counted:
                gpus = mask_of(known[uuid] for uuid in held.claim.gpus if uuid in known)
                promised[uid] = GpuMask(promised[uid] | gpus)
        return promised
