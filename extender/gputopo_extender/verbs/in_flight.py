"""Pods that were sent to a node, and whose GPUs there the ledger does not know yet.

kube-scheduler filters the next pod before it has this one bound, and counts this one at once. The
ledger knows it when its GPUs are reserved. Where filter chooses between nodes that are equal but
for what is in use, it counts as kube-scheduler does; else a burst would break up one whole node
for each pod that is on its way.
"""

from collections import Counter

from gputopo_extender.state.ledger import Ledger


class InFlightPods:
    """Settles ties and nothing else: what it does not know makes no placement wrong."""

    def __init__(self, ledger: Ledger) -> None:
        """Forget pods as soon as ``ledger`` knows where they are, or that they are gone."""
        self._ledger = ledger
        self._to: dict[str, tuple[str, int]] = {}

    def add(self, uid: str, node: str, gpus: int) -> None:
        """Note where a pod was sent last."""
        self._to[uid] = (node, gpus)

    def gpus(self) -> Counter[str]:
        """Return how many GPUs the pods on their way to each node ask for."""
        self._to = {uid: to for uid, to in self._to.items() if self._is_on_its_way(uid)}
        on_the_way = Counter[str]()
        for node, gpus in self._to.values():
            on_the_way[node] += gpus
        return on_the_way

    def _is_on_its_way(self, uid: str) -> bool:
        pod = self._ledger.pod(uid)
        waits = pod is not None and pod.live and pod.node is None
        return waits and self._ledger.reservations.reservation(uid) is None
