"""Decides from a node's status whether an ended pod may still use GPUs.

Kubelet or the node agent confirms that the containers of an ended pod have stopped. The agent
confirms it in the status of its GPUTopology: the status shows that the agent has seen the end of
the pod, and no longer lists the pod as a user of GPUs
(docs/adr/0009-free-when-processes-are-gone.md).
"""

from dataclasses import dataclass, replace

from gputopo_cluster.topologies import GpuNode
from gputopo_kube.pods import PodView


@dataclass(frozen=True, slots=True)
class EndedPod:
    """A pod that was deleted or has ended.

    Attributes:
        pod: last view of the pod.
        version: resource version at which the pod ended, or a later one.
        is_exact: whether the pod ended exactly at ``version``.
        confirmed: whether the pod's containers are known to have stopped.
        until: time at which the extender forgets the pod. The pod stays longer if the status of its
            node still lists it.
    """

    pod: PodView
    version: int
    is_exact: bool
    confirmed: bool
    until: float


def is_confirmed(pod: PodView) -> bool:
    """Return whether kubelet has reported that the containers of an ended pod stopped."""
    # After a restart kubelet may reject a pod whose containers still run.
    return pod.stopped and not (pod.rejected is not None and pod.started)


def after_status(
    ended: EndedPod, node: GpuNode | None, now: float, *, listed: bool
) -> EndedPod | None:
    """Return the ended pod, updated by its node's status, or None if the pod can be forgotten.

    ``listed`` is true if any status of the node's GPUTopology has ever listed the pod.
    """
    is_listed = node is not None and any(user.uid == ended.pod.uid for user in node.users)
    if now >= ended.until and not is_listed:
        return None
    if node is None or not node.reported:
        return ended
    if node.pods_version is None:
        # An old agent does not report this field and confirms no end. So treat the end as
        # confirmed.
        return replace(ended, confirmed=True)
    if is_listed:
        return ended
    needed = ended.version
    if listed and not ended.is_exact:
        # The agent removed the pod from its status, so the agent knew that the pod had ended. The
        # pod ended at an unknown version between its last view and the list.
        needed = min(needed, ended.pod.version + 1)
    return None if node.pods_version >= needed else ended
