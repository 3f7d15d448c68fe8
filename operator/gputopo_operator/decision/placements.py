"""Where the pod of a GPUJob is, and on which GPUs: as chosen and as kubelet gave them."""

from collections.abc import Mapping, Sequence

from gputopo.api.v1alpha1 import JobPlacement
from gputopo_operator.model import Pod


def current_pod(pods: Sequence[Pod], *, over: bool) -> Pod | None:
    """Return the pod that stands for the job now.

    It is the newest; one that failed only when the job is over: else another follows it.
    """
    candidates = [pod for pod in pods if over or pod.phase != "Failed"]
    return max(candidates, key=lambda pod: (pod.created, pod.name), default=None)


def placement(
    pod: Pod, observed: Mapping[str, tuple[str, ...]], previous: Sequence[JobPlacement]
) -> JobPlacement | None:
    """Return the pod's placement, None while the extender has not spoken.

    What was observed of this very pod stays after the pod has given its GPUs back.
    """
    if not pod.gpus:
        return None
    before = next((place.observed for place in previous if place.pod_uid == pod.uid), [])
    figures = pod.placement
    return JobPlacement(
        pod=pod.name,
        pod_uid=pod.uid,
        node=pod.node,
        topology_generation=pod.generation,
        intended=list(pod.gpus),
        observed=_in_rank_order(observed.get(pod.uid, ()), pod.gpus) or before,
        model=figures.model if figures else None,
        effective_mbps=figures.effective_mbps if figures else None,
        aggregate_mbps=figures.aggregate_mbps if figures else None,
        preserved_mbps=figures.preserved_mbps if figures else None,
    )


def differs(place: JobPlacement) -> bool:
    """Return whether kubelet gave a GPU that was not chosen.

    Fewer than chosen is no difference: a pod of several containers gets them one by one.
    """
    return not set(place.observed) <= set(place.intended)


def in_words(place: JobPlacement) -> str:
    """Return the placement for people, bandwidths in GB/s."""
    words = f"pod {place.pod} on node {place.node}: GPUs {', '.join(place.intended)}"
    if len(place.intended) == 1:
        return words  # one GPU talks to none: "0 GB/s" would read like a fault
    if place.effective_mbps is not None:
        words += f"; effective {place.effective_mbps / 1000:g} GB/s ({place.model})"
    if place.aggregate_mbps is not None:
        words += f"; aggregate {place.aggregate_mbps / 1000:g} GB/s"
    return words


def _in_rank_order(observed: Sequence[str], intended: Sequence[str]) -> list[str]:
    """Return kubelet's set, which has no order, in the order of the ranks; strangers last."""
    held = [uuid for uuid in intended if uuid in observed]
    return held + [uuid for uuid in observed if uuid not in intended]
