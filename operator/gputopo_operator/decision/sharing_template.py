"""What the pod template of a GPUJob has if the job may share its GPU."""

from typing import Final

from gputopo.api.shares import format_sharing
from gputopo.api.v1alpha1 import SharingSpec
from gputopo_kube.document import Document

END_SECONDS: Final = 2
"""Time in which the node ends the pod's work on the GPU, before kubelet sends SIGTERM."""


def sharing_annotations(sharing: SharingSpec) -> dict[str, str]:
    """Return the annotations of the job's pods; none if the job does not share its GPU."""
    return {} if sharing.mode == "Exclusive" else format_sharing(sharing.limits)


def end_clients_first(container: Document, sharing: SharingSpec, grace_seconds: object) -> None:
    """Delay SIGTERM, so that the node can end the container's work on the GPU before.

    A process that dies with work in flight can end the other clients of the GPU too. A hook of the
    user stays.

    Args:
        container: is changed.
        sharing: of the job.
        grace_seconds: the pod's ``terminationGracePeriodSeconds``; None for Kubernetes' default.
            The API server rejects a hook that takes longer.
    """
    lifecycle = container.pop("lifecycle", None) or {}
    ends_here = sharing.termination != "Program" and isinstance(lifecycle, dict)
    has_time = not isinstance(grace_seconds, int) or grace_seconds >= END_SECONDS
    if ends_here and has_time and not lifecycle.get("preStop"):
        lifecycle = {**lifecycle, "preStop": {"sleep": {"seconds": END_SECONDS}}}
    if lifecycle:
        container["lifecycle"] = lifecycle
