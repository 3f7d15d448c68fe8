"""Counts the GPUs of pods for which filter has returned one node, until bind reserves the GPUs.

kube-scheduler filters the next pod before it has bound the previous pod. At that time,
kube-scheduler counts the GPUs of the previous pod as used, but the ledger does not. So filter uses
this count when it prefers nodes with more GPUs in use. Otherwise each pod of a burst would go to
another empty node.
"""

from collections import Counter

from gputopo_extender.state.ledger import Ledger


class InFlightPods:
    """Counts GPUs of pods between filter and bind, for the choice among nodes of equal score."""

    def __init__(self, ledger: Ledger) -> None:
        """A pod is in flight until ``ledger`` shows it as reserved, bound, ended or deleted."""
        self._ledger = ledger
        self._pods: dict[str, tuple[str, int]] = {}

    def add(self, uid: str, node: str, gpus: int) -> None:
        """Record the node that filter returned for a pod, in place of an earlier node."""
        self._pods[uid] = (node, gpus)

    def gpus_by_node(self) -> Counter[str]:
        """Return the number of GPUs that pods in flight will use on each node."""
        self._pods = {uid: target for uid, target in self._pods.items() if self._is_in_flight(uid)}
        gpus = Counter[str]()
        for node, count in self._pods.values():
            gpus[node] += count
        return gpus

    def _is_in_flight(self, uid: str) -> bool:
        return self._ledger.is_waiting(uid) and self._ledger.reservations.get(uid) is None
