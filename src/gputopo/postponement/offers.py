"""Decides to which postponed pod the GPUs of a node are offered: the first in order.

When something ends on a node, the first postponed pod that could now be placed there gets an offer:
kube-scheduler tries this pod again, and later postponed pods may not use the node meanwhile. An
offer is limited in time, because kube-scheduler may be unable to place the pod there: the pod may
exclude the node, or lack CPUs there. Then the next pod gets the offer. If many nodes become free at
once, each pod gets at most three of them, so that the next pods need not wait for the first one.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

OFFER_SECONDS: Final = 5.0
"""Duration of an offer: kube-scheduler needs less than 2 s to try a pod and to bind it."""


MOST_OFFERS: Final = 3
"""Most nodes that are offered to one pod at a time. The pod may also use any other node that is not
offered to an earlier pod."""


@dataclass(frozen=True, slots=True, order=True)
class WaitOrder:
    """Sorts postponed pods as kube-scheduler does: by priority, then by age.

    Attributes:
        rank: the negative priority, so that a pod of higher priority is first.
        created: creation of the pod in Unix seconds.
        uid: UID of the pod. It decides between pods that were created in the same second.
    """

    rank: int
    created: float
    uid: str


@dataclass(frozen=True, slots=True)
class _Offer:
    uid: str
    until: float


class NodeOffers:
    """The offers of all nodes. Times are arguments, in seconds of any clock."""

    def __init__(self, seconds: float = OFFER_SECONDS) -> None:
        """Let each offer last for ``seconds``."""
        self._seconds = seconds
        self._offers: dict[str, _Offer] = {}
        self._unused: dict[str, set[str]] = {}
        self._count = Counter[str]()

    def update(self, node: str, suitors: Iterable[str], now: float) -> str | None:
        """Make the offer of a node; return the UID of the pod if it got the offer just now.

        Args:
            node: the node.
            suitors: UIDs of the postponed pods that could be placed on the node now, in order.
            now: the current time.
        """
        before = self._offers.get(node)
        if before is not None and now >= before.until:
            self._unused.setdefault(node, set()).add(before.uid)
        first = next((uid for uid in suitors if self._may_get(node, uid)), None)
        if before is not None and before.uid == first:
            return None
        self._end(node)
        if first is not None:
            self._offers[node] = _Offer(first, now + self._seconds)
            self._count[first] += 1
        return first

    def is_full(self, uid: str) -> bool:
        """Return whether a pod has the most offers that it may have."""
        return self._count[uid] >= MOST_OFFERS

    def offered_to(self, node: str, now: float) -> str | None:
        """Return the UID of the pod to which the node is offered now, or None."""
        offer = self._offers.get(node)
        return offer.uid if offer is not None and now < offer.until else None

    def pods_of(self, nodes: Iterable[str]) -> set[str]:
        """Return the UIDs of the pods to which these nodes are or were last offered."""
        return {offer.uid for node in nodes if (offer := self._offers.get(node)) is not None}

    def expired(self, now: float) -> list[str]:
        """Return the nodes whose offers were not used in time."""
        return [node for node, offer in self._offers.items() if now >= offer.until]

    def considered(self, uid: str, nodes: Iterable[str]) -> None:
        """Record that kube-scheduler permits these nodes for a pod: they may be offered again."""
        for node in self._unused.keys() & set(nodes):
            self._unused[node].discard(uid)

    def forget(self, uid: str) -> list[str]:
        """Remove a pod that waits no more; return the nodes that were offered to it."""
        for unused in self._unused.values():
            unused.discard(uid)
        freed = [node for node, offer in self._offers.items() if offer.uid == uid]
        for node in freed:
            self._end(node)
        return freed

    def _may_get(self, node: str, uid: str) -> bool:
        offer = self._offers.get(node)
        has_it = offer is not None and offer.uid == uid
        return uid not in self._unused.get(node, set()) and (has_it or not self.is_full(uid))

    def _end(self, node: str) -> None:
        offer = self._offers.pop(node, None)
        if offer is not None:
            self._count[offer.uid] -= 1
            if not self._count[offer.uid]:
                del self._count[offer.uid]
