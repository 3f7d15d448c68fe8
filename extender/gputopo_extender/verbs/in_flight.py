"""Counts the GPUs of pods for which filter has returned one node, until bind reserves the GPUs.

kube-scheduler filters the next pod before it has bound the previous pod. At that time,
kube-scheduler counts the GPUs of the previous pod as used, but the ledger does not. So filter uses
this count when it prefers nodes with more GPUs in use. Otherwise each pod of a burst would go to
another empty node.
"""

import random
from collections import Counter
from collections.abc import Callable, Container
from typing import Protocol

from gputopo.placement.model import PlacementRequest
from gputopo_extender.state.ledger import Ledger
from gputopo_kube.pods import PodView
from gputopo_scheduling.best_nodes import best_nodes
from gputopo_scheduling.evaluation import Evaluation


class NominatedPods(Protocol):
    """The pods with nominated nodes. ``Nominations`` implements this protocol."""

    def gpus_beside(self, pod: PodView, is_placed: Callable[[str], bool]) -> Counter[str]:
        """Return the number of GPUs by node of the nominated pods that count against a pod.

        Skip the pods, by UID, for which ``is_placed`` returns True.
        """
        ...

    def blocks_preemption(self, pod: PodView) -> bool:
        """Return whether a pod must not preempt, because pods have nominations."""
        ...


class InFlightPods:
    """Counts GPUs of pods between filter and bind, for the choice among nodes of equal score."""

    def __init__(self, ledger: Ledger, nominated: NominatedPods) -> None:
        """A pod is in flight until ``ledger`` shows it as reserved, bound, ended or deleted."""
        self._ledger = ledger
        self._nominated = nominated
        self._pods: dict[str, tuple[str, int]] = {}

    def choose(self, pod: PodView, request: PlacementRequest, found: Evaluation) -> str:
        """Return one of the best nodes, so that kube-scheduler need not compute scores."""
        best = best_nodes(
            found,
            request.size,
            self.gpus_by_node() + self._nominated.gpus_beside(pod, self._is_placed),
            sensitive=request.sensitive,
            shares=pod.shares,
        ) or best_nodes(found, request.size, {}, sensitive=request.sensitive)
        # Choose at random, as kube-scheduler does. If a bind fails on one node for an unknown
        # reason, the next try may use another node.
        node = random.choice(best)  # noqa: S311 - not a secret
        self.add(pod.uid, node, request.size)
        return node

    def add(self, uid: str, node: str, gpus: int) -> None:
        """Record the node that filter returned for a pod, in place of an earlier node."""
        self._pods[uid] = (node, gpus)

    def gpus_by_node(self, without: Container[str] = ()) -> Counter[str]:
        """Return the number of GPUs that pods in flight will use on each node.

        Pods with a UID in ``without`` do not count.
        """
        self._pods = {
            uid: target for uid, target in self._pods.items() if not self._is_reserved(uid)
        }
        gpus = Counter[str]()
        for uid, (node, count) in self._pods.items():
            if uid not in without:
                gpus[node] += count
        return gpus

    def _is_placed(self, uid: str) -> bool:
        """Whether the GPUs of a pod count already, or count no more."""
        return uid in self._pods or self._is_reserved(uid)

    def _is_reserved(self, uid: str) -> bool:
        """Whether the ledger shows a pod as reserved, bound, ended or deleted."""
        reserved = self._ledger.reservations.get(uid) is not None
        return reserved or not self._ledger.pods.is_waiting(uid)
