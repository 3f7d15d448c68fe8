"""Keeps the GPUs of ended pods used until their containers are known to have stopped.

A pod object can disappear while its processes run: forced deletion, PodGC. So the GPUs of such a
pod are free at once only if kubelet has reported that its containers stopped. Otherwise the node
agent must confirm it, by a status that accounts for the end of the pod and does not list the pod
(docs/adr/0009-free-when-processes-are-gone.md). The ledger is the only caller.
"""

from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import Final, NamedTuple

from gputopo_extender.state.claim import Claim, claimed_pod
from gputopo_extender.state.rejections import KubeletRejections, is_admission_error
from gputopo_extender.state.topologies import GpuNode
from gputopo_kube.pods import PodView

LONGEST_WAIT_SECONDS: Final = 120.0
"""The longest wait for the agent, unless its status lists the pod.

A pod that has used its GPUs for longer than the agent takes to publish that, about a second, is
listed in the status. The limit is for nodes that never return.
"""

UNKNOWN_VERSION_WAIT_SECONDS: Final = 10.0
"""The longest wait for a pod that vanished between two lists and that no status has listed.

The agent may never report a version as large as that of the list.
"""

_LARGEST_VERSION: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class _EndedPod:
    """A pod that was deleted or has ended.

    Attributes:
        pod: its last view.
        version: resource version of its end, or a later one.
        is_exact: whether ``version`` is that of its end.
        confirmed: whether kubelet or the agent has reported that none of its containers runs.
        until: time at which it is dropped, unless the status of its node lists it.
    """

    pod: PodView
    version: int
    is_exact: bool
    confirmed: bool
    until: float


class EndedPodsOfNode(NamedTuple):
    """The effect of ended pods on their node.

    Attributes:
        unconfirmed: pods whose containers may still run.
        confirmed: UIDs of pods whose containers have stopped.
        paused: why the node takes no pods after a rejection by its kubelet, else None.
    """

    unconfirmed: list[PodView]
    confirmed: set[str]
    paused: str | None


class EndedPods:
    """The ended pods of all nodes, by node and UID, and the pauses after rejections."""

    def __init__(self, clock: Callable[[], float], outdated: set[str]) -> None:
        """Add to ``outdated`` each node whose usage may have changed; ``clock`` is in seconds."""
        self._clock = clock
        self._outdated = outdated
        self._on: dict[str, dict[str, _EndedPod]] = {}
        self._listed: set[str] = set()
        self._rejections = KubeletRejections()
        self._due: list[tuple[float, str]] = []

    def add(
        self, pod: PodView, before: PodView | None, *, version: int, is_exact: bool = True
    ) -> None:
        """Add a pod that has ended or is gone; ``before`` is its view before that.

        ``version`` is that of its end; a later one where it is not exact.
        """
        if pod.node is None:
            return
        self._outdated.add(pod.node)
        if before is not None and not before.live:
            self._confirm(pod)
            return
        now = self._clock()
        until = now + (LONGEST_WAIT_SECONDS if is_exact else UNKNOWN_VERSION_WAIT_SECONDS)
        ended = _EndedPod(pod, version, is_exact, is_confirmed(pod), until)
        self._on.setdefault(pod.node, {})[pod.uid] = ended
        heappush(self._due, (until, pod.node))
        if before is not None and is_admission_error(pod):
            paused_until = self._rejections.add(pod, now)
            if paused_until is not None:
                heappush(self._due, (paused_until, pod.node))

    def add_lost(self, claims: Iterable[Claim], *, version: int | None = None) -> None:
        """Add pods that may have been bound and started, and that no watch has shown as bound.

        ``version`` is that of the list that lacks them, None where a read by name found none.
        """
        latest = _LARGEST_VERSION if version is None else version
        for claim in claims:
            self.add(claimed_pod(claim), None, version=latest, is_exact=False)

    def add_running(self, pod: PodView, before: PodView | None) -> None:
        """Note that a bound pod is live: it may return after etcd was restored from a backup."""
        node = str(pod.node)
        self._on.get(node, {}).pop(pod.uid, None)
        if pod.running and before is not None and not before.running:
            self._rejections.started(node, self._clock())

    def note_listed(self, node: GpuNode) -> None:
        """Remember the pods that the status of a node lists."""
        self._listed.update(user.uid for user in node.users if user.uid)

    def forget_listed(self, pods: AbstractSet[str]) -> None:
        """Forget the pods that a status has listed, except these and the ended ones."""
        self._listed &= pods | {uid for ended in self._on.values() for uid in ended}

    def lower_versions(self, version: int) -> None:
        """Lower all versions to that of an older list: etcd was restored from a backup."""
        for ended in self._on.values():
            for uid, each in ended.items():
                ended[uid] = replace(each, version=min(each.version, version))

    def mark_due(self) -> None:
        """Mark the nodes as outdated where a wait or a pause has passed."""
        while self._due and self._due[0][0] <= self._clock():
            self._outdated.add(heappop(self._due)[1])

    def update(self, name: str, node: GpuNode | None) -> None:
        """Drop the pods for which the node's status accounts, and those kept long enough."""
        now = self._clock()
        ended = self._on.pop(name, {}).values()
        kept = (_updated(each, node, now, listed=each.pod.uid in self._listed) for each in ended)
        if remaining := {each.pod.uid: each for each in kept if each is not None}:
            self._on[name] = remaining

    def on_node(self, name: str) -> EndedPodsOfNode:
        """Return the ended pods of a node that still have an effect."""
        ended = self._on.get(name, {}).values()
        return EndedPodsOfNode(
            [each.pod for each in ended if not each.confirmed],
            {each.pod.uid for each in ended if each.confirmed},
            self._rejections.reason(name, self._clock()),
        )

    def _confirm(self, pod: PodView) -> None:
        """Use a later view of an ended pod: kubelet may report there that it has stopped."""
        ended = self._on.get(str(pod.node), {})
        known = ended.get(pod.uid)
        if known is not None and is_confirmed(pod):
            ended[pod.uid] = replace(known, pod=pod, confirmed=True)


def with_history(pod: PodView, before: PodView | None) -> PodView:
    """Return the view; the status of a rejected pod does not show that it was started before."""
    is_lost = before is not None and before.started and not pod.started
    return replace(pod, started=True) if is_lost else pod


def is_confirmed(pod: PodView) -> bool:
    """Return whether kubelet has reported that the containers of an ended pod stopped."""
    # After its restart kubelet rejects pods again, also those whose containers still run.
    return pod.stopped and not (pod.rejected is not None and pod.started)


def _updated(
    ended: _EndedPod, node: GpuNode | None, now: float, *, listed: bool
) -> _EndedPod | None:
    """Return what remains of an ended pod; ``listed`` says whether any status listed the pod."""
    is_listed = node is not None and any(user.uid == ended.pod.uid for user in node.users)
    if now >= ended.until and not is_listed:
        return None
    if node is None or not node.reported:
        return ended
    if node.pods_version is None:
        # Such an agent never confirms: its nodes are used as if each end were confirmed.
        return replace(ended, confirmed=True)
    if is_listed:
        return ended
    needed = ended.version
    if listed and not ended.is_exact:
        # The agent has dropped the pod from its status, so it knew of the end. The end has an
        # unknown version between that of the last view and that of the list.
        needed = min(needed, ended.pod.version + 1)
    return None if node.pods_version >= needed else ended
