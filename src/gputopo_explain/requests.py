"""Completes the requests of pods with what is known of slowdowns, as the extender does."""

from dataclasses import replace

from gputopo.placement.model import PlacementRequest, PolicyName
from gputopo.utility.surroundings import job_surroundings
from gputopo_cluster.usage import NodeUsage
from gputopo_explain.objects import ClusterObjects
from gputopo_kube.pods import PodView


def with_surroundings(
    request: PlacementRequest, view: PodView, objects: ClusterObjects
) -> PlacementRequest:
    """Return the request as the extender makes it, with what is known of slowdowns."""
    if request.policy is not PolicyName.UTILITY:
        return request
    usages = objects.snapshot.usages.values()
    surroundings = job_surroundings(
        objects.interference.kind_of(view),
        objects.interference.slowdowns,
        [usage.topology for usage in usages if isinstance(usage, NodeUsage)],
        objects.installation.utility_weights,
    )
    return replace(request, surroundings=surroundings)
