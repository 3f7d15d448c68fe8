"""The kinds of objects that the agent reads and writes, as dicts and not as lightkube's models."""

from lightkube.core.resource import ApiInfo, ResourceDef
from lightkube.generic_resource import (
    GenericGlobalResource,
    GenericGlobalStatus,
    GenericNamespacedResource,
    create_api_info,
)

from gputopo.api.names import GROUP, VERSION

_TOPOLOGY = ResourceDef(GROUP, VERSION, "GPUTopology")


class PodDocument(GenericNamespacedResource):
    """A pod as a dict."""

    _api_info = create_api_info("", "v1", "Pod", "pods")


class NodeDocument(GenericGlobalResource):
    """A node as a dict."""

    _api_info = create_api_info("", "v1", "Node", "nodes")


class ResourceSliceDocument(GenericGlobalResource):
    """A ResourceSlice of a DRA driver as a dict."""

    _api_info = create_api_info("resource.k8s.io", "v1", "ResourceSlice", "resourceslices")


class EventDocument(GenericNamespacedResource):
    """An event as a dict."""

    _api_info = create_api_info("", "v1", "Event", "events")


class TopologyDocument(GenericGlobalResource):
    """A GPUTopology as a dict."""

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
