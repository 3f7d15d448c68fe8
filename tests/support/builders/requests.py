"""Pods as the extender parses them, and their placement requests."""

from gputopo.api.names import RESOURCE
from gputopo.placement.model import PlacementRequest, PolicyName
from gputopo_kube.pods import PodView, parse_gpu_pod
from gputopo_scheduling.request import placement_request
from support.builders.objects import Document, pod


def pod_view(document: Document) -> PodView:
    """Return the view of a pod that requests GPUs."""
    found = parse_gpu_pod(document, RESOURCE)
    assert found is not None
    return found


def request_in(view: PodView, policy: PolicyName = PolicyName.PRESERVE) -> PlacementRequest:
    """Return the valid request of a pod; ``policy`` is the default of the installation."""
    request = placement_request(view, resource=RESOURCE, default_policy=policy)
    assert isinstance(request, PlacementRequest), request
    return request


def request_of(gpus: int) -> PlacementRequest:
    """Return the request of a pod that states only its number of GPUs."""
    return request_in(pod_view(pod("one", gpus)))
