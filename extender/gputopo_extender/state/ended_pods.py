"""Pods that were deleted or have ended, until the status of their node accounts for it.

An API object can go while its processes live: a force delete, PodGC. So the GPUs of such a pod are
free at once only if kubelet has reported that its containers stopped. Otherwise the node agent
must confirm it, by a status that accounts for the end of the pod and does not list the pod.
"""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Final

from gputopo_extender.state.topologies import PublishedNode
from gputopo_kube.pods import PodView

LONGEST_WAIT_SECONDS: Final = 120.0
"""After this time the agent is not waited for any more, unless its status lists the pod.

A pod that has used its GPUs for longer than the agent takes to publish that, about a second, is
listed in the status. The limit forgets nodes that never return.
"""

UNKNOWN_VERSION_WAIT_SECONDS: Final = 10.0
"""The same for a pod that vanished between two lists and that no status has listed.

The agent may never report a version as large as that of the list.
"""


@dataclass(frozen=True, slots=True)
class EndedPod:
    """A pod that was deleted or has ended.

    Attributes:
        pod: its last record.
        version: resource version of its end, or a later one.
        is_exact: whether ``version`` is that of its end.
        confirmed: whether none of its containers runs, by the word of kubelet or the agent.
        until: time at which it is dropped in any case.
    """

    pod: PodView
    version: int
    is_exact: bool
    confirmed: bool
    until: float


class EndedPods:
    """Ended pods by node and UID."""

    def __init__(self) -> None:
        self._on: dict[str, dict[str, EndedPod]] = {}
        self._seen: set[str] = set()

    def see(self, node: PublishedNode) -> None:
        """Note which pods the status of a node lists."""
        self._seen.update(holder.uid for holder in node.users if holder.uid)

    def forget_seen(self, pods: AbstractSet[str]) -> None:
        """Forget which pods were listed in a status, except these and those that have ended."""
        self._seen &= pods | {uid for endings in self._on.values() for uid in endings}

    def add(self, pod: PodView, *, version: int, is_exact: bool, now: float) -> float:
        """Add the end of a pod that was bound to a node; return when it is dropped."""
        until = now + (LONGEST_WAIT_SECONDS if is_exact else UNKNOWN_VERSION_WAIT_SECONDS)
        ending = EndedPod(pod, version, is_exact, is_confirmed(pod), until)
        self._on.setdefault(str(pod.node), {})[pod.uid] = ending
        return until

    def confirm(self, pod: PodView) -> None:
        """Take the word of kubelet in a later record of a pod that has ended."""
        endings = self._on.get(str(pod.node), {})
        known = endings.get(pod.uid)
        if known is not None and is_confirmed(pod):
            endings[pod.uid] = replace(known, pod=pod, confirmed=True)

    def drop(self, pod: PodView) -> None:
        """Drop the end of a pod that lives: a restored etcd brings pods back."""
        self._on.get(str(pod.node), {}).pop(pod.uid, None)

    def lower(self, version: int) -> None:
        """Lower all versions to that of a list that is older than they are."""
        for endings in self._on.values():
            for uid, each in endings.items():
                endings[uid] = replace(each, version=min(each.version, version))

    def resolve(self, name: str, node: PublishedNode | None, now: float) -> None:
        """Drop the ends that the node's status accounts for, and those kept long enough."""
        endings = self._on.pop(name, {}).values()
        kept = (
            _resolved(each, node, now, was_listed=each.pod.uid in self._seen) for each in endings
        )
        remaining = {each.pod.uid: each for each in kept if each is not None}
        if remaining:
            self._on[name] = remaining

    def confirmed(self, name: str) -> set[str]:
        """Return the UIDs of the pods of a node whose containers are known to have stopped."""
        return {uid for uid, each in self._on.get(name, {}).items() if each.confirmed}

    def unconfirmed(self, name: str) -> list[PodView]:
        """Return the pods of a node whose containers may still run."""
        return [each.pod for each in self._on.get(name, {}).values() if not each.confirmed]


def with_history(pod: PodView, before: PodView | None) -> PodView:
    """Return the record; the status of a rejected pod does not show that it was started before."""
    is_lost = before is not None and before.started and not pod.started
    return replace(pod, started=True) if is_lost else pod


def is_confirmed(pod: PodView) -> bool:
    """Return whether kubelet has reported that the containers of an ended pod stopped."""
    # After its restart kubelet rejects pods again, also those whose containers still run.
    return pod.stopped and not (pod.rejected is not None and pod.started)


def _resolved(
    ending: EndedPod, node: PublishedNode | None, now: float, *, was_listed: bool
) -> EndedPod | None:
    """Return what is left of an end; ``was_listed`` says whether any status listed the pod."""
    is_listed = node is not None and any(it.uid == ending.pod.uid for it in node.users)
    if now >= ending.until and not is_listed:
        return None
    if node is None or not node.reported:
        return ending
    if node.pods_version is None:
        # Such an agent never confirms: its nodes are used as if each end were confirmed.
        return replace(ending, confirmed=True)
    if is_listed:
        return ending
    needed = ending.version
    if was_listed and not ending.is_exact:
        # The agent has dropped the pod from its status, so it knew of the end, which has an
        # unknown version between that of the last record and that of the list.
        needed = min(needed, ending.pod.version + 1)
    return None if node.pods_version >= needed else ending
