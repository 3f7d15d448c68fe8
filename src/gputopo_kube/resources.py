"""Defines the kinds of objects that gputopo reads and writes with lightkube as dicts.

lightkube's typed models would decode every field of each object and keep all fields in memory.
"""

from lightkube.core.resource import ApiInfo, NamespacedSubResource, ResourceDef
from lightkube.generic_resource import (
    Generic,
    GenericGlobalResource,
    GenericGlobalStatus,
    GenericNamespacedResource,
    create_api_info,
)

from gputopo.api.names import GROUP, VERSION

_POD = ResourceDef("", "v1", "Pod")
_TOPOLOGY = ResourceDef(GROUP, VERSION, "GPUTopology")


class PodDocument(GenericNamespacedResource):
    """A Pod."""

    _api_info = create_api_info(*_POD, "pods")


class PodStatusDocument(NamespacedSubResource, Generic):  # type: ignore[misc]
    """The status subresource of a Pod, which also accepts changes of annotations."""

    _api_info = ApiInfo(resource=_POD, parent=_POD, plural="pods", verbs=["patch"], action="status")


class BindingDocument(NamespacedSubResource, Generic):  # type: ignore[misc]
    """A Binding of a Pod. The API server responds with a Status, not with a Binding."""

    _api_info = ApiInfo(
        resource=ResourceDef("", "v1", "Binding"),
        parent=_POD,
        plural="pods",
        verbs=["post"],
        action="binding",
    )


class NodeDocument(GenericGlobalResource):
    """A Node."""

    _api_info = create_api_info("", "v1", "Node", "nodes")


class EventDocument(GenericNamespacedResource):
    """An Event of the core API."""

    _api_info = create_api_info("", "v1", "Event", "events")


class LeaseDocument(GenericNamespacedResource):
    """A Lease."""

    _api_info = create_api_info("coordination.k8s.io", "v1", "Lease", "leases")


class ResourceSliceDocument(GenericGlobalResource):
    """A ResourceSlice of a DRA driver."""

    _api_info = create_api_info("resource.k8s.io", "v1", "ResourceSlice", "resourceslices")


class TopologyDocument(GenericGlobalResource):
    """A GPUTopology."""

    _api_info = create_api_info(*_TOPOLOGY, "gputopologies")


class TopologyStatusDocument(GenericGlobalStatus):
    """The status subresource of a GPUTopology."""

    _api_info = ApiInfo(
        resource=_TOPOLOGY,
        parent=_TOPOLOGY,
        plural="gputopologies",
        verbs=["patch"],
        action="status",
    )


class ProfileDocument(GenericNamespacedResource):
    """A GPUProfile."""

    _api_info = create_api_info(GROUP, VERSION, "GPUProfile", "gpuprofiles")
