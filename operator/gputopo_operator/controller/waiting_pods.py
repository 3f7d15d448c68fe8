"""Keeps the pending pods that need CPUs or memory, and the node that frees capacity for each."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from heapq import nsmallest
from typing import Final, NamedTuple

from gputopo_operator.decision.pending import choose_node, importance
from gputopo_operator.model.workloads import NodeOffer, WaitingPod

WAIT_SECONDS: Final = 60.0
"""A node keeps capacity for a pending pod for this time. kube-scheduler tries again in 10 s."""

AVOID_SECONDS: Final = 600.0
"""If kube-scheduler has not bound the pod in ``WAIT_SECONDS``, the node then ignores the pod."""

MOST_CONSIDERED: Final = 100
"""Of more pending pods without a node, the most important ones are considered."""


class _Choice(NamedTuple):
    node: str
    until: float


class WaitingPods:
    """The pending pods and the node that makes capacity available for each of them.

    Any thread may call the methods. After a restart, the operator computes the state again from the
    watch and from the next decisions about the nodes.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._pods: dict[str, WaitingPod] = {}
        self._offers: dict[str, NodeOffer] = {}
        self._choices: dict[str, _Choice] = {}
        self._avoided: dict[tuple[str, str], float] = {}

    def replace(self, pods: Iterable[WaitingPod]) -> set[str]:
        """Replace all pending pods; return the nodes that must decide again."""
        with self._lock:
            after = {pod.uid: pod for pod in pods}
            gone = {uid for uid in self._pods if uid not in after}
            nodes = {node for uid in gone if (node := self._remove(uid))}
            self._pods = after
            free = [pod for uid, pod in after.items() if uid not in self._choices]
            for pod in nsmallest(MOST_CONSIDERED, free, key=importance):
                nodes |= self._choose(pod)
        return nodes

    def change(self, uid: str, pod: WaitingPod | None) -> set[str]:
        """Replace or remove one pending pod; return the nodes that must decide again."""
        with self._lock:
            if pod is None:
                node = self._remove(uid)
                return {node} if node else set()
            self._pods[uid] = pod
            unchosen = len(self._pods) - len(self._choices)
            if uid in self._choices or unchosen > MOST_CONSIDERED:
                return set()
            return self._choose(pod)

    def of_node(self, node: str, offer: NodeOffer) -> list[WaitingPod]:
        """Return the pods for which a node makes capacity available, most important first.

        Args:
            node: name of the node.
            offer: what the node can give to pending pods now.
        """
        with self._lock:
            self._offers[node] = offer
            self._expire(node)
            free = [pod for uid, pod in self._pods.items() if uid not in self._choices]
            for pod in nsmallest(MOST_CONSIDERED, free, key=importance):
                self._choose(pod, node)
            return sorted(self._chosen_for(node), key=importance)

    def drop(self, node: str) -> None:
        """Forget a node that has no sized pods any more."""
        with self._lock:
            self._offers.pop(node, None)
            for pod in self._chosen_for(node):
                del self._choices[pod.uid]

    def _choose(self, pod: WaitingPod, only: str | None = None) -> set[str]:
        now = self._clock()
        offers = self._offers if only is None else {only: self._offers[only]}
        permitted = {
            name: offer
            for name, offer in offers.items()
            if self._avoided.get((pod.uid, name), 0.0) <= now
        }
        chosen = defaultdict[str, list[WaitingPod]](list)
        for uid, choice in self._choices.items():
            chosen[choice.node].append(self._pods[uid])
        node = choose_node(pod, permitted, chosen)
        if node is None:
            return set()
        self._choices[pod.uid] = _Choice(node, now + WAIT_SECONDS)
        return {node}

    def _expire(self, node: str) -> None:
        now = self._clock()
        self._avoided = {key: until for key, until in self._avoided.items() if until > now}
        for uid, choice in [*self._choices.items()]:
            if choice.node == node and choice.until <= now:
                del self._choices[uid]
                self._avoided[uid, node] = now + AVOID_SECONDS

    def _chosen_for(self, node: str) -> list[WaitingPod]:
        return [self._pods[uid] for uid, found in self._choices.items() if found.node == node]

    def _remove(self, uid: str) -> str | None:
        self._pods.pop(uid, None)
        choice = self._choices.pop(uid, None)
        return choice.node if choice else None
