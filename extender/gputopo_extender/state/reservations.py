"""Keeps the reservations of this extender and the claims of other extenders.

The ledger treats the GPUs of reservations and claims as used, because Bindings in flight may give
these GPUs to pods. Bind adds reservations. The claim fence reads and replaces claims.
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from enum import Enum

from gputopo_cluster.claims import Claim
from gputopo_extender.state.decision import Decision


class BindingProgress(Enum):
    """Whether a reservation's Binding is being written, has an unknown result, or succeeded."""

    WRITING = "writing"
    UNKNOWN = "unknown"
    BOUND = "bound"


@dataclass(frozen=True, slots=True)
class Reservation:
    """GPUs that the ledger keeps for a pod until the watch shows the pod as bound.

    Attributes:
        epoch: number of pod lists that were requested before the reservation was made.
    """

    decision: Decision
    progress: BindingProgress
    epoch: int


class Reservations:
    """The reservations of this process by pod UID, and the claims of other extenders."""

    def __init__(self, outdated: set[str]) -> None:
        """Add each node to ``outdated`` when the GPUs reserved on the node change."""
        self._outdated = outdated
        self._epoch = 0
        self._own: dict[str, Reservation] = {}
        self._others: dict[Claim, int] = {}

    def begin_list(self) -> int:
        """Record that the reflector will request a list of pods; return the list's number."""
        self._epoch += 1
        return self._epoch

    def get(self, uid: str) -> Reservation | None:
        """Return the reservation of a pod, or None if there is none."""
        return self._own.get(uid)

    def own(self) -> tuple[Reservation, ...]:
        """Return all reservations of this process."""
        return tuple(self._own.values())

    def of_others(self, uid: str | None = None) -> tuple[Claim, ...]:
        """Return the claims of other extenders, for one pod or for all."""
        return tuple(claim for claim in self._others if uid in (None, claim.uid))

    def claims(self) -> tuple[Claim, ...]:
        """Return the claims of all reservations, and the claims of other extenders."""
        return (*(each.decision.claim for each in self._own.values()), *self._others)

    def unbound(self) -> tuple[Claim, ...]:
        """Return the claims to write to the Lease: those whose Binding has not succeeded yet."""
        own = (
            each.decision.claim
            for each in self._own.values()
            if each.progress is not BindingProgress.BOUND
        )
        return (*own, *self._others)

    def of_pod(self, uid: str) -> list[Claim]:
        """Return the claims for a pod: those of this extender and of other extenders."""
        own = self._own.get(uid)
        return [*([own.decision.claim] if own else ()), *self.of_others(uid)]

    def replace_others(self, claims: Iterable[Claim]) -> None:
        """Replace the claims of other extenders."""
        for claim in list(self._others):
            self.drop_claim(claim)
        for claim in claims:
            self._others[claim] = self._epoch
            self._outdated.add(claim.node)

    def drop_claim(self, claim: Claim) -> None:
        """Drop one claim of another extender."""
        if self._others.pop(claim, None) is not None:
            self._outdated.add(claim.node)

    def reserve(self, decision: Decision) -> None:
        """Reserve the GPUs of a decision before its Binding is sent."""
        claim = decision.claim
        self._own[claim.uid] = Reservation(decision, BindingProgress.WRITING, self._epoch)
        self._outdated.add(claim.node)

    def mark(self, uid: str, progress: BindingProgress) -> None:
        """Record the progress of a Binding; do nothing if the reservation has ended."""
        known = self._own.get(uid)
        if known is not None:
            self._own[uid] = replace(known, progress=progress)

    def release(self, uid: str) -> None:
        """Drop the reservation of a pod, if there is one."""
        known = self._own.pop(uid, None)
        if known is not None:
            self._outdated.add(known.decision.claim.node)

    def end(self, uid: str) -> None:
        """Drop the reservation and the claims of a pod that is bound, has ended or was deleted."""
        self.release(uid)
        for claim in self.of_others(uid):
            self.drop_claim(claim)

    def end_missing(self, listed: AbstractSet[str], *, epoch: int) -> list[Claim]:
        """Drop the reservations and claims of pods that a list of pods does not contain.

        Reservations and claims that are newer than list request ``epoch`` stay. Return the dropped
        claims, because their pods may have been bound before they were deleted.
        """
        own = [
            each.decision.claim
            for uid, each in self._own.items()
            if each.epoch < epoch and uid not in listed
        ]
        others = [
            claim
            for claim, known_at in self._others.items()
            if known_at < epoch and claim.uid not in listed
        ]
        for claim in own:
            self.release(claim.uid)
        for claim in others:
            self.drop_claim(claim)
        return [*own, *others]

    def doubt_bound(self) -> None:
        """Mark successful Bindings as unknown, because a restore of etcd may have lost them."""
        for uid, reservation in self._own.items():
            if reservation.progress is BindingProgress.BOUND:
                self._own[uid] = replace(reservation, progress=BindingProgress.UNKNOWN)
