"""Keeps the newest view of each GPU pod, and which pods are bound to each node."""

from collections import defaultdict
from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from gputopo_kube.pods import PodView


class KnownPods:
    """The pods that the watch has shown, by UID."""

    def __init__(self) -> None:
        self._pods: dict[str, PodView] = {}
        self._on_node: defaultdict[str, set[str]] = defaultdict(set)

    def __contains__(self, uid: object) -> bool:
        return uid in self._pods

    def get(self, uid: str) -> PodView | None:
        """Return the newest view of a pod, or None if the pod is unknown or was deleted."""
        return self._pods.get(uid)

    def uids(self) -> AbstractSet[str]:
        """Return the UIDs of all pods."""
        return self._pods.keys()

    def on_node(self, node: str) -> AbstractSet[str]:
        """Return the UIDs of the pods that are bound to a node."""
        return self._on_node.get(node, set())

    def is_waiting(self, uid: str) -> bool:
        """Return whether the pod is known, live and not bound to a node."""
        pod = self._pods.get(uid)
        return pod is not None and pod.live and pod.node is None

    def bound(self) -> Iterator[PodView]:
        """Yield the live pods that are bound to a node."""
        return (pod for pod in self._pods.values() if pod.live and pod.node is not None)

    def pending_with(self, annotation: str) -> list[PodView]:
        """Return the pods that have an annotation, are not gated and not bound to a node."""
        return [
            pod
            for pod in self._pods.values()
            if pod.node is None and annotation in pod.annotations and pod.live and not pod.gated
        ]

    def put(self, pod: PodView) -> None:
        """Add or replace a pod."""
        self.drop(pod.uid)
        self._pods[pod.uid] = pod
        if pod.node is not None:
            self._on_node[pod.node].add(pod.uid)

    def drop(self, uid: str) -> PodView | None:
        """Remove a pod and return its last view; None if it is unknown."""
        known = self._pods.pop(uid, None)
        if known is not None and known.node is not None:
            self._on_node[known.node].discard(uid)
        return known

    def take_all(self) -> dict[str, PodView]:
        """Remove all pods, and return their last views by UID."""
        before, self._pods = self._pods, {}
        self._on_node.clear()
        return before
