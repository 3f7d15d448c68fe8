"""Counts the GPUs of pods that filter has sent to a node and that the ledger does not show there.

kube-scheduler filters the next pod before it has bound this one, and it counts this one at once.
The ledger knows the pod when its GPUs are reserved. Where filter chooses between nodes that differ
only in the GPUs in use, it must count as kube-scheduler does. Otherwise each pod of a burst
would break up another whole node.
"""

from collections import Counter

from gputopo_extender.state.ledger import Ledger


class InFlightPods:
    """Breaks ties between nodes only: a wrong count cannot make a placement wrong."""

    def __init__(self, ledger: Ledger) -> None:
        """Forget a pod as soon as ``ledger`` shows its node, or that it is gone."""
        self._ledger = ledger
        self._pods: dict[str, tuple[str, int]] = {}

    def add(self, uid: str, node: str, gpus: int) -> None:
        """Note the node to which a pod was sent last."""
        self._pods[uid] = (node, gpus)

    def gpus_by_node(self) -> Counter[str]:
        """Return the number of GPUs that the pods in flight to each node request."""
        self._pods = {uid: target for uid, target in self._pods.items() if self._is_in_flight(uid)}
        gpus = Counter[str]()
        for node, count in self._pods.values():
            gpus[node] += count
        return gpus

    def _is_in_flight(self, uid: str) -> bool:
        return self._ledger.is_waiting(uid) and self._ledger.reservations.get(uid) is None
