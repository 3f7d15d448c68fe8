"""Pauses a node after its kubelet rejected a pod: first for 15 s, then for 30 s, 60 s and 120 s.

During the pause, the ledger treats the node as not ready, so filter and bind do not choose it.
``EndedPods`` reports the rejections to this module.
"""

from dataclasses import dataclass
from typing import Final

from gputopo.api.annotations import AnnotationError
from gputopo_kube.own_gpus import own_gpus
from gputopo_kube.pods import PodView

FIRST_PAUSE_SECONDS: Final = 15.0
LONGEST_PAUSE_SECONDS: Final = 120.0

_FORGOTTEN_AFTER_SECONDS: Final = 600.0


@dataclass(frozen=True, slots=True)
class _Pause:
    seconds: float
    until: float
    reason: str


class KubeletRejections:
    """Keeps, in memory only, which nodes are paused: the extender places no pods on them.

    A restart of the extender ends all pauses. A node whose kubelet rejects every pod is paused
    again after the next rejected pod.
    """

    def __init__(self) -> None:
        self._pauses: dict[str, _Pause] = {}

    def add(self, pod: PodView, now: float) -> float | None:
        """Begin a pause for the node of a rejected pod; return when the pause ends.

        If the node is already paused, do nothing and return None. If kubelet rejects several
        pods that were bound before the pause, only the first rejection begins a pause.
        """
        node = str(pod.node)
        remembered = now - _FORGOTTEN_AFTER_SECONDS
        self._pauses = {
            name: each for name, each in self._pauses.items() if each.until > remembered
        }
        known = self._pauses.get(node)
        if known is not None and now < known.until:
            return None
        seconds = FIRST_PAUSE_SECONDS
        if known is not None:
            seconds = min(2 * known.seconds, LONGEST_PAUSE_SECONDS)
        reason = (
            f"kubelet rejected pod {pod.key} ({pod.rejected}): "
            f"the node is not used for {seconds:.0f} s"
        )
        self._pauses[node] = _Pause(seconds, now + seconds, reason)
        return now + seconds

    def started(self, node: str, now: float) -> None:
        """Record that a pod started on the node. If no pause lasts now, the next pause is 15 s."""
        known = self._pauses.get(node)
        if known is not None and now >= known.until:
            del self._pauses[node]

    def reason(self, node: str, now: float) -> str | None:
        """Return why the node is paused now, or None if the node is not paused."""
        known = self._pauses.get(node)
        return known.reason if known is not None and now < known.until else None


def is_admission_error(pod: PodView) -> bool:
    """Return whether kubelet rejected a new pod because of the GPUs that the extender chose.

    Return False if another scheduler placed the pod, the pod had started, or it is being deleted.
    """
    if not pod.rejected_for_gpus or pod.started or pod.deleting:
        return False
    try:
        return own_gpus(pod) is not None
    except AnnotationError:
        return False
