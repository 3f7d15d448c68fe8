"""Keeps all pods and nodes of the cluster as kube-scheduler counts them, for the nominator."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from gputopo_extender.state.queue_pod import QueueNode, QueuePod
from gputopo_kube.node_match import is_permitted

_MOST_KINDS = 1_000
"""Lists of permitted nodes that are kept; one for each kind of waiting pod."""

_NOTHING: Final = Counter[str]()


class ClusterQueue:
    """The queue of kube-scheduler, and what is left of each node.

    Attributes:
        pods: all pods that have not ended, by UID, in the order in which they were first seen.
        nodes: the nodes by name.
    """

    def __init__(self) -> None:
        self.pods: dict[str, QueuePod] = {}
        self.nodes: dict[str, QueueNode] = {}
        self._waiting: dict[str, None] = {}
        self._used: dict[str, Counter[str]] = {}
        self._permitted: dict[bytes, list[str]] = {}

    def waiting(self) -> list[QueuePod]:
        """Return the pods in kube-scheduler's queue in its order: by priority, then first seen.

        kube-scheduler too uses the times at which it has first seen the pods.
        """
        queued = (pod for uid in self._waiting if (pod := self.pods[uid]).queued)
        return sorted(queued, key=lambda pod: -pod.priority)

    def unbound(self) -> list[QueuePod]:
        """Return the pods that are not bound, also those that are not in the queue."""
        return [self.pods[uid] for uid in self._waiting]

    def permitted(self, pod: QueuePod) -> list[str]:
        """Return the nodes that selectors and taints permit and that are not to be avoided."""
        found = self._permitted.get(pod.kind)
        if found is None:
            found = [
                name
                for name, node in self.nodes.items()
                if is_permitted(pod.rules, node.rules) and not node.is_avoided
            ]
            if len(self._permitted) >= _MOST_KINDS:
                self._permitted.clear()
            self._permitted[pod.kind] = found
        return found

    def fits(self, pod: QueuePod, node: str, more: Mapping[str, int]) -> bool:
        """Return whether a node has the amounts of a pod left beside bound pods and ``more``.

        A node that was deleted meanwhile has nothing left.
        """
        known, used = self.nodes.get(node), self._used.get(node, _NOTHING)
        return known is not None and all(
            amount + used[name] + more.get(name, 0) <= known.allocatable.get(name, 0)
            for name, amount in pod.amounts.items()
            if amount
        )

    def replace_pods(self, pods: Iterable[QueuePod]) -> None:
        """Replace all pods by those of a list; known pods keep their place in the order."""
        listed = {pod.uid: pod for pod in pods}
        for uid in self.pods.keys() - listed.keys():
            self.drop_pod(uid)
        for pod in listed.values():
            self.put_pod(pod)

    def put_pod(self, pod: QueuePod) -> None:
        """Add or replace a pod."""
        self._release(pod.uid)
        if not pod.amounts:
            self._forget(pod.uid)
            return
        self.pods[pod.uid] = pod
        if pod.node:
            self._waiting.pop(pod.uid, None)
            self._used.setdefault(pod.node, Counter()).update(pod.amounts)
        else:
            self._waiting[pod.uid] = None

    def drop_pod(self, uid: str) -> None:
        """Remove a deleted pod."""
        self._release(uid)
        self._forget(uid)

    def replace_nodes(self, nodes: Iterable[QueueNode]) -> None:
        """Replace all nodes by those of a list."""
        self.nodes = {node.name: node for node in nodes}
        self._permitted.clear()

    def put_node(self, node: QueueNode) -> None:
        """Add or replace a node."""
        before = self.nodes.get(node.name)
        self.nodes[node.name] = node
        if before is None or before.rules != node.rules:
            self._permitted.clear()

    def drop_node(self, name: str) -> None:
        """Remove a deleted node."""
        self.nodes.pop(name, None)
        self._permitted.clear()

    def _release(self, uid: str) -> None:
        """Subtract a bound pod from its node. A node without pods is forgotten."""
        before = self.pods.get(uid)
        if before is None or not before.node:
            return
        used = self._used[before.node]
        used.subtract(before.amounts)
        if not any(used.values()):
            del self._used[before.node]

    def _forget(self, uid: str) -> None:
        self.pods.pop(uid, None)
        self._waiting.pop(uid, None)
