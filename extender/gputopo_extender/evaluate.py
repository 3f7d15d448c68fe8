"""Which nodes can take a pod now, and why the others cannot.

Reasons are short and the same for all nodes of one class: kube-scheduler joins them into one
event ("0/9 nodes are available: 7 too few free GPUs, 2 no GPUTopology").
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from gputopo.bandwidth.preserved import preserved_mb_per_s
from gputopo.placement.model import Match, NoFit
from gputopo.placement.place import place
from gputopo.placement.score import Candidate, score_nodes
from gputopo.topology.model import GpuMask
from gputopo_extender.book import Book
from gputopo_extender.ledger import Reservation
from gputopo_extender.request import Ask
from gputopo_extender.topologies import Unreadable

BookOf = Callable[[str], Book | Unreadable | None]


class ReasonClass(StrEnum):
    """Why a node was filtered out, as a label of few values."""

    BUSY = "busy"
    UNOBSERVED = "unobserved"
    TOO_SMALL = "too_small"
    UNHEALTHY = "unhealthy"
    NO_TOPOLOGY = "no_topology"
    UNREADABLE = "unreadable"
    BLOCKED = "blocked"
    RESERVED_ELSEWHERE = "reserved_elsewhere"
    REFUSED = "refused"


_PASSING = frozenset({ReasonClass.BUSY, ReasonClass.UNOBSERVED, ReasonClass.RESERVED_ELSEWHERE})
"""What the end of another pod changes; elsewhere preemption would kill pods for nothing."""


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why a node cannot take the pod."""

    kind: ReasonClass
    reason: str


@dataclass(slots=True)
class Evaluation:
    """The answer for a set of nodes."""

    fits: dict[str, Candidate] = field(default_factory=dict)
    misfits: dict[str, Misfit] = field(default_factory=dict)

    def failed(self) -> dict[str, str]:
        """Return the nodes that may fit after other pods have ended."""
        return {node: m.reason for node, m in self.misfits.items() if m.kind in _PASSING}

    def unresolvable(self) -> dict[str, str]:
        """Return the nodes where ending other pods would not help."""
        return {node: m.reason for node, m in self.misfits.items() if m.kind not in _PASSING}


def evaluate(
    nodes: Iterable[str], book_of: BookOf, ask: Ask, reservation: Reservation | None = None
) -> Evaluation:
    """Return what each node can offer the pod.

    A pod whose Binding is under way fits nowhere but where that Binding sends it.
    """
    evaluation = Evaluation()
    offers: dict[tuple[str, GpuMask], Candidate | NoFit] = {}
    for node in nodes:
        if reservation is not None:
            answer = _reserved(node, reservation)
        else:
            answer = _offer(book_of(node), ask, offers)
        if isinstance(answer, Misfit):
            evaluation.misfits[node] = answer
        else:
            evaluation.fits[node] = answer
    return evaluation


def refuse(nodes: Iterable[str], reason: str) -> Evaluation:
    """Return the evaluation of a pod that no node can take."""
    return Evaluation(misfits={node: Misfit(ReasonClass.REFUSED, reason) for node in nodes})


def scores(nodes: Iterable[str], evaluation: Evaluation, *, sensitive: bool) -> dict[str, int]:
    """Return 0..10 for each node; 0 for a node that has ceased to fit since it was filtered."""
    known = score_nodes(evaluation.fits, sensitive=sensitive) if evaluation.fits else {}
    return {node: known.get(node, 0) for node in nodes}


def match_on(book: Book, ask: Ask) -> Match | Misfit:
    """Return the match that the pod's policy chooses on a usable node now."""
    chosen = place(book.topology, book.free, ask.request, ask.policy)
    return _misfit(chosen) if isinstance(chosen, NoFit) else chosen


def usable_book(book: Book | Unreadable | None, ask: Ask) -> Book | Misfit:
    """Return the book where the counts allow the pod, else why they do not."""
    if book is None:
        return Misfit(ReasonClass.NO_TOPOLOGY, "no GPUTopology")
    if isinstance(book, Unreadable):
        return Misfit(ReasonClass.UNREADABLE, f"unreadable GPUTopology: {book.reason}")
    if book.blocked is not None:
        return Misfit(ReasonClass.BLOCKED, book.blocked)
    return _shortage(book, ask.size) or book


def _shortage(book: Book, size: int) -> Misfit | None:
    free = book.free.bit_count()
    if len(book.topology.gpus) < size:
        return Misfit(ReasonClass.TOO_SMALL, "too few GPUs")
    if book.healthy.bit_count() < size:
        return Misfit(ReasonClass.UNHEALTHY, "too few healthy GPUs")
    if free < size:
        return Misfit(ReasonClass.BUSY, "too few free GPUs")
    if free - book.unknown < size:
        return Misfit(ReasonClass.UNOBSERVED, "GPUs held by pods of other schedulers, unobserved")
    return None


def _offer(
    book: Book | Unreadable | None,
    ask: Ask,
    offers: dict[tuple[str, GpuMask], Candidate | NoFit],
) -> Candidate | Misfit:
    usable = usable_book(book, ask)
    if isinstance(usable, Misfit):
        return usable
    # Nodes of equal structure with equal GPUs free get equal answers.
    key = (usable.topology.fingerprint, usable.free)
    if key not in offers:
        offers[key] = _candidate(usable, ask)
    offer = offers[key]
    return _misfit(offer) if isinstance(offer, NoFit) else offer


def _candidate(book: Book, ask: Ask) -> Candidate | NoFit:
    chosen = place(book.topology, book.free, ask.request, ask.policy)
    if isinstance(chosen, NoFit):
        return chosen
    before = preserved_mb_per_s(book.topology, book.free)
    return Candidate(match=chosen, lost_mb_per_s=before - chosen.preserved_mb_per_s)


def _reserved(node: str, reservation: Reservation) -> Candidate | Misfit:
    decision = reservation.decision
    if decision.node != node:
        return Misfit(ReasonClass.RESERVED_ELSEWHERE, "the pod is being bound to another node")
    return Candidate(match=decision.match, lost_mb_per_s=0)


def _misfit(no_fit: NoFit) -> Misfit:
    kind = ReasonClass.TOO_SMALL if no_fit.permanent else ReasonClass.BUSY
    return Misfit(kind, no_fit.reason)


def by_class(misfits: Mapping[str, Misfit]) -> dict[ReasonClass, int]:
    """Return how many nodes were filtered out per class of reason."""
    counts: dict[ReasonClass, int] = {}
    for misfit in misfits.values():
        counts[misfit.kind] = counts.get(misfit.kind, 0) + 1
    return counts
