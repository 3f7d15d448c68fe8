"""Keeps the newest view of each pod that requests GPUs, and which pods are bound to each node."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from gputopo_cluster.claims import Claim
from gputopo_kube.pods import PodView


class KnownPods:
    """Pods by UID. A part that watches changes them; others make them from a list."""

    def __init__(self, pods: Iterable[PodView] = ()) -> None:
        """Begin with these pods; of several with one UID the last counts."""
        self._pods: dict[str, PodView] = {}
        self._on_node: defaultdict[str, set[str]] = defaultdict(set)
        for pod in pods:
            self.put(pod)

    def __contains__(self, uid: object) -> bool:
        return uid in self._pods

    def __iter__(self) -> Iterator[PodView]:
        return iter(self._pods.values())

    def __len__(self) -> int:
        return len(self._pods)

    def get(self, uid: str) -> PodView | None:
        """Return the newest view of a pod, or None if the pod is unknown or was deleted."""
        return self._pods.get(uid)

    @property
    def by_uid(self) -> Mapping[str, PodView]:
        """The pods by UID, which changes with them."""
        return self._pods

    def on_node(self, node: str) -> list[PodView]:
        """Return the pods that are bound to a node, ordered by UID."""
        return [self._pods[uid] for uid in sorted(self._on_node.get(node, ()))]

    def is_waiting(self, uid: str) -> bool:
        """Return whether the pod is known, live and not bound to a node."""
        pod = self._pods.get(uid)
        return pod is not None and pod.live and pod.node is None

    def open_claims(self, claims: Iterable[Claim]) -> list[Claim]:
        """Return the claims without those of pods that are known to be bound or to have ended."""
        return [it for it in claims if it.uid not in self._pods or self.is_waiting(it.uid)]

    def has_live_below(self, priority: int) -> bool:
        """Return whether a live pod that is bound to a node has a priority below ``priority``."""
        return any(it.priority < priority for it in self if it.live and it.node is not None)

    def pending_with(self, annotation: str) -> list[PodView]:
        """Return the pods that have an annotation, are not gated and not bound to a node."""
        return [
            pod
            for pod in self
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
