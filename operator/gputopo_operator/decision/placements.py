"""Builds the placement of a job's pod: its node, its intended GPUs and its observed GPUs."""

from collections.abc import Mapping, Sequence

from gputopo.api.annotations import PlacementAnnotation
from gputopo.api.v1alpha1 import JobPlacement
from gputopo.sensitivity.resolve import Sensitivity
from gputopo_operator.model.jobs import JobPod


def current_pod(pods: Sequence[JobPod], *, finished: bool) -> JobPod | None:
    """Return the newest pod, or None. Return a failed pod only if the job is finished.

    If the job is not finished, the Job controller replaces a failed pod by a new pod.
    """
    candidates = [pod for pod in pods if finished or pod.view.phase != "Failed"]
    return max(candidates, key=lambda pod: (pod.created, pod.view.name), default=None)


def job_placement(
    pod: JobPod, observed: Mapping[str, tuple[str, ...]], previous: Sequence[JobPlacement]
) -> JobPlacement | None:
    """Return the placement of a pod, or None if the extender has not chosen its GPUs yet.

    The placement still lists the observed GPUs after the pod has ended.
    """
    if pod.gpus is None or not pod.gpus.containers:
        return None
    uid, figures = pod.view.uid, pod.placement
    intended = [uuid for uuids in pod.gpus.containers.values() for uuid in uuids]
    before = next((place.observed for place in previous if place.pod_uid == uid), [])
    return JobPlacement(
        pod=pod.view.name,
        pod_uid=uid,
        node=pod.gpus.node,
        topology_generation=pod.gpus.generation,
        intended=intended,
        observed=_in_rank_order(observed.get(uid, ()), intended) or before,
        model=figures.model if figures else None,
        effective_mb_per_s=figures.effective_mb_per_s if figures else None,
        aggregate_mb_per_s=figures.aggregate_mb_per_s if figures else None,
        preserved_mb_per_s=figures.preserved_mb_per_s if figures else None,
        sensitivity=_sensitivity(figures) if figures else None,
        pattern=figures.pattern[:64] if figures else None,
        pattern_fact=figures.pattern_fact if figures else None,
        utility=figures.utility if figures else None,
    )


def _sensitivity(figures: PlacementAnnotation) -> str:
    """Return whether the extender treated the pod as bandwidth-sensitive, and why, as text."""
    treated = Sensitivity.SENSITIVE if figures.sensitive else Sensitivity.INSENSITIVE
    return f"{treated} ({figures.fact or figures.reason})"


def differs(place: JobPlacement) -> bool:
    """Return whether kubelet has given the pod a GPU that the extender did not choose.

    A missing GPU is no difference, because kubelet may not have served all containers yet.
    """
    return not set(place.observed) <= set(place.intended)


def describe(place: JobPlacement) -> str:
    """Return the placement as text for users, bandwidths in GB/s."""
    text = f"pod {place.pod} on node {place.node}: GPUs {', '.join(place.intended)}"
    if place.utility is not None:
        text += f"; utility {place.utility}"
    if len(place.intended) == 1:
        return text  # one GPU uses no links: "0 GB/s" would look like an error
    if place.effective_mb_per_s is not None:
        text += f"; effective {place.effective_mb_per_s / 1000:g} GB/s ({place.model})"
    if place.aggregate_mb_per_s is not None:
        text += f"; aggregate {place.aggregate_mb_per_s / 1000:g} GB/s"
    if place.pattern_fact is not None:
        text += f"; pattern {place.pattern} ({place.pattern_fact})"
    if place.sensitivity is not None:
        text += f"; placed as {place.sensitivity}"
    return text


def _in_rank_order(observed: Sequence[str], intended: Sequence[str]) -> list[str]:
    """Return the observed GPUs in rank order. GPUs that were not intended come last."""
    chosen = [uuid for uuid in intended if uuid in observed]
    return chosen + [uuid for uuid in observed if uuid not in intended]
