"""GPUs promised to pods that do not show them yet: own reservations and claims of others."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from enum import Enum

from gputopo.topology.model import GpuMask
from gputopo_extender.state.claim import Claim
from gputopo_extender.state.decision import Decision
from gputopo_extender.state.topologies import PublishedNode, known_mask


class BindingProgress(Enum):
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
    progress: BindingProgress
    epoch: int


class Reservations:
    """The reservations of this process and the claims of other extenders, by pod UID."""

    def __init__(self, changed: Callable[[str], None]) -> None:
        """Call ``changed`` with the name of each node whose promised GPUs change."""
        self._changed = changed
        self._reservations: dict[str, Reservation] = {}
        self._foreign: dict[Claim, int] = {}

    def reservation(self, uid: str) -> Reservation | None:
        """Return the reservation of a pod."""
        return self._reservations.get(uid)

    def reservations(self) -> tuple[Reservation, ...]:
        """Return all reservations."""
        return tuple(self._reservations.values())

    def claims(self) -> tuple[Claim, ...]:
        """Return the reservations that are not known to be bound, and the claims of others."""
        own = (
            _claim_of(each.decision)
            for each in self._reservations.values()
            if each.progress is not BindingProgress.BOUND
        )
        return (*own, *self._foreign)

    def foreign(self, uid: str | None = None) -> tuple[Claim, ...]:
        """Return the claims of others, for one pod or for all."""
        return tuple(claim for claim in self._foreign if uid in (None, claim.uid))

    def of(self, uid: str) -> list[Claim]:
        """Return what is promised to a pod."""
        own = self._reservations.get(uid)
        return [*([_claim_of(own.decision)] if own else ()), *self.foreign(uid)]

    def replace_foreign(self, claims: Iterable[Claim], *, epoch: int) -> None:
        """Replace the claims of others."""
        for claim in list(self._foreign):
            self.drop_claim(claim)
        for claim in claims:
            self._foreign[claim] = epoch
            self._changed(claim.node)

    def drop_claim(self, claim: Claim) -> None:
        """Drop one claim of another extender."""
        if self._foreign.pop(claim, None) is not None:
            self._changed(claim.node)

    def reserve(self, decision: Decision, *, epoch: int) -> None:
        """Hold the GPUs of a decision."""
        self._reservations[decision.uid] = Reservation(decision, BindingProgress.WRITING, epoch)
        self._changed(decision.node)

    def mark(self, uid: str, progress: BindingProgress) -> None:
        """Note how far the Binding has come; nothing where the reservation has ended."""
        known = self._reservations.get(uid)
        if known is not None:
            self._reservations[uid] = replace(known, progress=progress)

    def release(self, uid: str) -> None:
        """Drop the reservation of a pod, if there is one."""
        known = self._reservations.pop(uid, None)
        if known is not None:
            self._changed(known.decision.node)

    def end(self, uid: str) -> None:
        """Drop what is promised to a pod that shows its Binding or its end."""
        self.release(uid)
        for claim in self.foreign(uid):
            self.drop_claim(claim)

    def end_missing(self, listed: AbstractSet[str], *, epoch: int) -> list[Claim]:
        """Drop what was promised before list ``epoch`` to pods that it does not contain.

        Return what was dropped. These pods may have been bound before they were deleted.
        """
        own = [
            _claim_of(each.decision)
            for uid, each in self._reservations.items()
            if each.epoch < epoch and uid not in listed
        ]
        foreign = [
            claim
            for claim, known_at in self._foreign.items()
            if known_at < epoch and claim.uid not in listed
        ]
        for claim in own:
            self.release(claim.uid)
        for claim in foreign:
            self.drop_claim(claim)
        return [*own, *foreign]

    def doubt(self) -> None:
        """Treat Bindings that succeeded as unknown: the API server may have lost them."""
        for uid, reservation in self._reservations.items():
            if reservation.progress is BindingProgress.BOUND:
                self._reservations[uid] = replace(reservation, progress=BindingProgress.UNKNOWN)

    def on_node(self, node: PublishedNode, without: AbstractSet[str]) -> list[GpuMask]:
        """Return the GPUs promised on a node, but for pods ``without``."""
        promised: defaultdict[str, GpuMask] = defaultdict(lambda: GpuMask(0))
        # By UUID: the numbers of GPUs change when one leaves the node.
        for uid, reservation in self._reservations.items():
            if reservation.decision.node == node.node and uid not in without:
                promised[uid] = known_mask(node.topology, reservation.decision.uuids)
        for claim in self._foreign:
            if claim.node == node.node and claim.uid not in without:
                gpus = known_mask(node.topology, claim.gpus)
                promised[claim.uid] = GpuMask(promised[claim.uid] | gpus)
        return list(promised.values())


def _claim_of(decision: Decision) -> Claim:
    return Claim(
        uid=decision.uid,
        namespace=decision.namespace,
        name=decision.name,
        version=decision.version,
        node=decision.node,
        gpus=decision.uuids,
    )
