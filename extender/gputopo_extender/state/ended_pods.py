"""Remembers ended pods, so that their GPUs stay used until their containers have stopped.

Forced deletion and PodGC can remove a pod object while its processes still run. So the GPUs of an
ended pod stay used until kubelet reports that the containers have stopped, or until the node agent
confirms that the processes ended. The agent confirms this in the status of its GPUTopology: the
status shows that the agent has seen the end of the pod, and no longer lists the pod as a user of
GPUs (docs/adr/0009-free-when-processes-are-gone.md). Only the ledger calls this module.
"""

from collections.abc import Callable, Collection, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import replace
from heapq import heappop, heappush
from typing import Final

from gputopo_cluster.claims import Claim, claimed_pod
from gputopo_cluster.ended import EndedPod, after_status, is_confirmed
from gputopo_cluster.topologies import GpuNode
from gputopo_extender.state.rejections import KubeletRejections, is_admission_error
from gputopo_kube.pods import PodView

LONGEST_WAIT_SECONDS: Final = 120.0
"""How long the GPUs of an ended pod stay used without a confirmation of the end.

The limit is for nodes that never return. It does not apply to a pod that the agent's status lists.
The agent lists a pod about a second after the pod began to use GPUs.
"""

UNKNOWN_VERSION_WAIT_SECONDS: Final = 10.0
"""The same limit for a pod that disappeared between two lists of pods.

Its end has the version of the second list. The agent may never report a version that large.
"""

_LARGEST_VERSION: Final = 2**63 - 1


class EndedPods:
    """Keeps the ended pods that may still use GPUs, and the nodes paused after rejections."""

    def __init__(self, clock: Callable[[], float], outdated: set[str]) -> None:
        """Add each node to ``outdated`` when its usage may change; ``clock`` returns seconds."""
        self._clock = clock
        self._outdated = outdated
        self._on: dict[str, dict[str, EndedPod]] = {}
        self._listed: set[str] = set()
        self._rejections = KubeletRejections()
        self._due: list[tuple[float, str]] = []
        self._last_list = (-1, 0.0)  # version, and the time at which it was received

    def add(
        self, pod: PodView, before: PodView | None, *, version: int, is_exact: bool = True
    ) -> None:
        """Add a pod that has ended or was deleted; ``before`` is the previous view of the pod.

        ``version`` is the resource version at which the pod ended. If ``is_exact`` is false, the
        pod ended at an unknown version that is not above ``version``.
        """
        if pod.node is None:
            return
        self._outdated.add(pod.node)
        if before is not None and not before.live:
            self._confirm(pod)
            return
        now = self._clock()
        until = now + (LONGEST_WAIT_SECONDS if is_exact else UNKNOWN_VERSION_WAIT_SECONDS)
        self._keep(EndedPod(pod, version, is_exact, is_confirmed(pod), until), pod.node)
        if before is not None and is_admission_error(pod):
            paused_until = self._rejections.add(pod, now)
            if paused_until is not None:
                heappush(self._due, (paused_until, pod.node))

    def add_lost(self, claims: Iterable[Claim], *, version: int | None = None) -> None:
        """Add pods that had claims and were deleted: they may have run before their deletion.

        ``version`` is the version of a pod list that lacks these pods. It is None if a GET
        request to the API server showed that the pod does not exist.
        """
        latest = _LARGEST_VERSION if version is None else version
        for claim in claims:
            self.add(claimed_pod(claim), None, version=latest, is_exact=False)

    def note_list(self, version: int) -> None:
        """Record that a list of pods with this version was received now."""
        self._last_list = version, self._clock()

    def add_unlisted(self, claims: Iterable[Claim], *, pods_version: int) -> None:
        """Add deleted pods that had claims and that neither the last list nor the watch shows.

        ``pods_version`` is the version up to which the watch has shown changes. A pod existed at
        the version of its claim. For example, the last list has version 50 and the watch has shown
        version 90. A pod with a claim of version 40 ended before the list was received, so it is
        treated as if its claim had been known then. A pod with a claim of version 60 was shown by
        the watch, and so was its end. The watch will still show a pod with a claim of version 95.
        """
        version, received = self._last_list
        for claim in claims:
            if int(claim.version) > pods_version:
                self.add_lost([claim])
            elif int(claim.version) <= version and claim.uid not in self._on.get(claim.node, {}):
                until = received + UNKNOWN_VERSION_WAIT_SECONDS
                self._keep(EndedPod(claimed_pod(claim), version, False, False, until), claim.node)

    def add_running(self, pod: PodView, before: PodView | None) -> None:
        """Remove a live pod from the ended pods: a restore of etcd can bring an ended pod back."""
        node = str(pod.node)
        self._on.get(node, {}).pop(pod.uid, None)
        if pod.running and before is not None and not before.running:
            self._rejections.started(node, self._clock())

    def note_listed(self, node: GpuNode) -> None:
        """Store the UIDs of the pods that the node's GPUTopology lists as users of GPUs."""
        self._listed.update(user.uid for user in node.users if user.uid)

    def forget_listed(self, pods: AbstractSet[str]) -> None:
        """Of the UIDs from ``note_listed``, keep only those of existing ``pods`` and ended pods."""
        self._listed &= pods | {uid for ended in self._on.values() for uid in ended}

    def lower_versions(self, version: int) -> None:
        """After a restore of etcd, lower the versions of ended pods to at most ``version``."""
        for ended in self._on.values():
            for uid, each in ended.items():
                ended[uid] = replace(each, version=min(each.version, version))

    def mark_due(self) -> None:
        """Mark each node as outdated when its pause, or its wait for an ended pod, is over."""
        while self._due and self._due[0][0] <= self._clock():
            self._outdated.add(heappop(self._due)[1])

    def update(self, name: str, node: GpuNode | None) -> None:
        """Drop ended pods whose end the node's status confirms, or whose waiting time is over."""
        now = self._clock()
        ended = self._on.pop(name, {}).values()
        kept = (
            after_status(each, node, now, listed=each.pod.uid in self._listed) for each in ended
        )
        if remaining := {each.pod.uid: each for each in kept if each is not None}:
            self._on[name] = remaining

    def on_node(self, name: str) -> Collection[EndedPod]:
        """Return the ended pods of a node."""
        return self._on.get(name, {}).values()

    def paused(self, name: str) -> str | None:
        """Return why the extender places no pods on a node now; None if it is not paused."""
        return self._rejections.reason(name, self._clock())

    def _keep(self, ended: EndedPod, node: str) -> None:
        self._outdated.add(node)
        self._on.setdefault(node, {})[ended.pod.uid] = ended
        heappush(self._due, (ended.until, node))

    def _confirm(self, pod: PodView) -> None:
        """Mark an ended pod as confirmed if its new view shows that its containers stopped."""
        ended = self._on.get(str(pod.node), {})
        known = ended.get(pod.uid)
        if known is not None and is_confirmed(pod):
            ended[pod.uid] = replace(known, pod=pod, confirmed=True)


def with_history(pod: PodView, before: PodView | None) -> PodView:
    """Return ``pod``; set ``started`` to true if it was true in ``before``, the previous view.

    ``started`` is derived from the container statuses. A restarted kubelet may reject a pod that
    had started, and then removes these statuses.
    """
    is_lost = before is not None and before.started and not pod.started
    return replace(pod, started=True) if is_lost else pod
