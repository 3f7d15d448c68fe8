"""A pod with the GPUs that the scheduler has chosen for it, for ``who-has`` and ``doctor``."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gputopo.api.annotations import AnnotationError
from gputopo.api.names import RESOURCE
from gputopo_kube.document import Document
from gputopo_kube.own_gpus import own_gpus
from gputopo_kube.podmodel import parse_pod_object
from gputopo_kube.pods import PodView, view_of
from gputopo_kube.podstatus import PodStatus


@dataclass(frozen=True, slots=True)
class PlacedPod:
    """A pod and its GPUs.

    Attributes:
        since: RFC 3339 time at which kubelet accepted the pod. If kubelet has not accepted the
            pod, the time at which the pod was bound.
        gpus: UUIDs of the GPUs that the scheduler chose for each container, in rank order.
        fault: why the pod's annotation is invalid; None if it is valid or absent.
    """

    view: PodView
    since: str | None
    gpus: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    fault: str | None = None


def parse_placed_pod(document: Document, resource: str = RESOURCE) -> PlacedPod:
    """Parse a pod object. If its annotation is invalid, return a pod with a ``fault``.

    ``resource`` is the extended resource that counts GPUs.

    Raises:
        PodError: if the object is not a pod; the message names the field.
    """
    pod = parse_pod_object(document)
    view, since = view_of(pod, resource), pod.status.start_time or _bound_at(pod.status)
    try:
        annotation = own_gpus(view)
    except AnnotationError as error:
        return PlacedPod(view, since, fault=str(error))
    containers = {} if annotation is None else annotation.containers
    return PlacedPod(view, since, {name: tuple(uuids) for name, uuids in containers.items()})


def _bound_at(status: PodStatus) -> str | None:
    scheduled = status.condition("PodScheduled")
    bound = scheduled is not None and scheduled.status == "True"
    return scheduled.last_transition_time if scheduled and bound else None
