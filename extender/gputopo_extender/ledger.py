"""The ledger: topologies, pods, claims and reservations folded into a book per node.

It is rebuilt from lists and kept by events; books are derived, so both ways give equal ones.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from enum import Enum
from weakref import WeakValueDictionary

from gputopo.topology.model import GpuMask
from gputopo_extender.book import Book, State, book_of
from gputopo_extender.claims import Claim
from gputopo_extender.decide import Decision
from gputopo_extender.pods import PodRecord
from gputopo_extender.topologies import NodeRecord, Unreadable, known_mask


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


class Ledger:
    """Mutable book-keeping of one process; no method waits, so each call is atomic."""

    def __init__(self) -> None:
        self._nodes: dict[str, NodeRecord | Unreadable] = {}
        self._pods: dict[str, PodRecord] = {}
        self._pods_on: defaultdict[str, set[str]] = defaultdict(set)
        self._reservations: dict[str, Reservation] = {}
        self._foreign: dict[Claim, int] = {}
        self._books: dict[str, Book | Unreadable] = {}
        self._states: dict[str, State | Unreadable] = {}
        self._shared_states: WeakValueDictionary[Hashable, State] = WeakValueDictionary()
        self._outdated: set[str] = set()
        self._epoch = 0
        self.pods_version = 0
        """Of the newest change of a pod, or list of pods, that was shown."""

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

    def claims(self) -> tuple[Claim, ...]:
        """Return what may yet be bound: reservations without a good end, and others' claims."""
        own = (
            _claim_of(each.decision)
            for each in self._reservations.values()
            if each.progress is not Progress.BOUND
        )
        return (*own, *self._foreign)

    def foreign_claims(self, uid: str | None = None) -> tuple[Claim, ...]:
        """Return the claims of others, for one pod or for all, that no pod shows yet."""
        return tuple(claim for claim in self._foreign if uid in (None, claim.uid))

    def replace_claims(self, claims: Iterable[Claim]) -> None:
        """Take these as all that others claim, but for what pods show already."""
        for claim in list(self._foreign):
            self.drop_claim(claim)
        for claim in claims:
            pod = self._pods.get(claim.uid)
            if pod is None or (pod.live and pod.node is None):
                self._foreign[claim] = self._epoch
                self._outdated.add(claim.node)

    def drop_claim(self, claim: Claim) -> None:
        """Forget a claim by which nobody can be bound any more."""
        if self._foreign.pop(claim, None) is not None:
            self._outdated.add(claim.node)

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

    def replace_pods(self, pods: Iterable[PodRecord], *, epoch: int, version: int = 0) -> None:
        """Take the list of number ``epoch``, of that resource version, as the whole truth.

        A pod that was reserved for, or claimed, before the list was asked for and is not in it
        is gone.
        """
        self._pods.clear()
        self._pods_on.clear()
        self._outdated.update(self._nodes)
        for pod in pods:
            self.put_pod(pod)
        for uid, reservation in list(self._reservations.items()):
            if reservation.epoch < epoch and uid not in self._pods:
                self.release(uid)
        for claim, known_at in list(self._foreign.items()):
            if known_at < epoch and claim.uid not in self._pods:
                self.drop_claim(claim)
        self.pods_version = max(self.pods_version, version)

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
            self._end(pod.uid)
        self.pods_version = max(self.pods_version, int(pod.version))

    def drop_pod(self, uid: str) -> None:
        """Forget a deleted pod; a UID never returns, so whatever was reserved for it is free."""
        self._forget(uid)
        self._end(uid)

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

    def _end(self, uid: str) -> None:
        """Have nothing reserved or claimed for a pod that shows its Binding or its end."""
        self.release(uid)
        for claim in self.foreign_claims(uid):
            self.drop_claim(claim)

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
        # By UUID: the numbers of GPUs change when one leaves the node.
        for uid, reservation in self._reservations.items():
            if reservation.decision.node == name and uid not in counted:
                promised[uid] = known_mask(node.topology, reservation.decision.uuids)
        for claim in self._foreign:
            if claim.node == name and claim.uid not in counted:
                gpus = known_mask(node.topology, claim.gpus)
                promised[claim.uid] = GpuMask(promised[claim.uid] | gpus)
        return promised


def _claim_of(decision: Decision) -> Claim:
    return Claim(
        uid=decision.uid,
        namespace=decision.namespace,
        name=decision.name,
        version=decision.version,
        node=decision.node,
        gpus=decision.uuids,
    )
