"""Keeps the pods that gputopo sizes, and finds the nodes that must decide after a change."""

from collections import Counter, defaultdict
from collections.abc import Iterable

from gputopo_kube.document import ObjectKey
from gputopo_operator.model.workloads import WatchedPod


class SizedPods:
    """The pods with the label ``gputopo.io/tuned``, by scope of their watch.

    Only the event loop of the operator uses this object. A scope is a namespace, or ``*``.
    """

    def __init__(self) -> None:
        self._pods: defaultdict[str, dict[str, WatchedPod]] = defaultdict(dict)
        self._profiles: dict[ObjectKey, int] = {}
        self._named = Counter[ObjectKey]()

    def __bool__(self) -> bool:
        return any(self._pods.values())

    def replace(self, scope: str, pods: Iterable[WatchedPod]) -> set[str]:
        """Replace the pods of a watch; return the nodes that must decide again."""
        before, self._pods[scope] = self._pods[scope], {pod.uid: pod for pod in pods}
        self._count_profiles(before.values(), self._pods[scope].values())
        changed = {*before.values()} ^ {*self._pods[scope].values()}
        return {pod.node for pod in changed if pod.node}

    def change(self, scope: str, pod: WatchedPod, *, deleted: bool) -> set[str]:
        """Replace or remove a pod; return the nodes that must decide again."""
        before = self._pods[scope].pop(pod.uid, None)
        if not deleted:
            self._pods[scope][pod.uid] = pod
        self._count_profiles([before] if before else [], [] if deleted else [pod])
        if before == pod and not deleted:
            return set()
        return {each.node for each in (before, pod) if each is not None and each.node}

    def nodes(self) -> set[str]:
        """Return the nodes of all sized pods."""
        return {pod.node for pods in self._pods.values() for pod in pods.values() if pod.node}

    def profile_changed(self, key: ObjectKey, fingerprint: int | None) -> set[str]:
        """Return the nodes with pods of a GPUProfile, if the fingerprint has changed.

        Args:
            key: the GPUProfile.
            fingerprint: see ``profile_fingerprint``; None if the GPUProfile was deleted.
        """
        if key not in self._named:  # a cluster can have any number of GPUProfiles
            self._profiles.pop(key, None)
            return set()
        before = self._profiles.pop(key, None)
        if fingerprint is not None:
            self._profiles[key] = fingerprint
        if before == fingerprint:
            return set()
        pods = (pod for pods in self._pods.values() for pod in pods.values())
        return {pod.node for pod in pods if pod.profile == key and pod.node}

    def _count_profiles(self, before: Iterable[WatchedPod], after: Iterable[WatchedPod]) -> None:
        """Count the pods that name each GPUProfile; forget a GPUProfile that no pod names."""
        self._named.update(pod.profile for pod in after if pod.profile)
        for key in [pod.profile for pod in before if pod.profile]:
            self._named[key] -= 1
            if not self._named[key]:
                del self._named[key]
                self._profiles.pop(key, None)
