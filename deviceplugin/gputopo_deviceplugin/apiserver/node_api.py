"""The agent's requests to the API server. All requests are about the agent's own node."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from gputopo_kube.client import ALL_NAMESPACES, AsyncApi, AsyncClient
from gputopo_kube.document import Document
from gputopo_kube.podmodel import PodError, parse_pod_object, valid_parts
from gputopo_kube.podruntime import runtime_of
from gputopo_kube.pods import NO_RUNTIME, PodView, may_request, view_of
from gputopo_kube.resources import (
    EventDocument,
    NodeDocument,
    PodDocument,
    ResourceSliceDocument,
    TopologyDocument,
    TopologyStatusDocument,
)
from gputopo_kube.tuned_node import to_amounts
from gputopo_kube.tuned_pod import held_beside_sizing, is_tuned

FIRST_DELAY_SECONDS: Final = 1.0
"""Delay of a reflector after its first failure. It is longer than in the extender, because all
agents lose the API server at the same time."""


class NodeApi:
    """Requests about one node. Every method raises ``ApiError`` if its request fails.

    Attributes:
        pods: reads, lists and watches the pods of the node.
        nodes: lists and watches the Node object of the node.
        slices: lists and watches the ResourceSlices of the node.
    """

    def __init__(
        self,
        client: AsyncClient,
        *,
        node: str,
        resource: str,
        on_response: Callable[[], None] = lambda: None,
    ) -> None:
        """Send requests through ``client``; ``resource`` is the extended resource that counts GPUs.

        The class calls ``on_response`` after each successful response and each watch event.
        """
        self._api = api = AsyncApi(client, on_response=on_response)
        self._node = node
        on_node = {"spec.nodeName": node}
        self.pods = api.objects(
            PodDocument,
            lambda pod: parse_node_pod(pod, resource),
            namespace=ALL_NAMESPACES,
            fields=on_node,
        )
        self.nodes = api.objects(NodeDocument, _unparsed, fields={"metadata.name": node})
        self.slices = api.objects(ResourceSliceDocument, _unparsed, fields=on_node)

    def abandon(self) -> None:
        """Abort all requests in flight, because the API server no longer responds."""
        self._api.abandon()

    async def heartbeat(self) -> None:
        """Read the metadata of the Node object from the API server's memory."""
        await self._api.ping(NodeDocument, self._node)

    async def topology(self) -> Document | None:
        """Return the node's GPUTopology, or None if it does not exist."""
        return await self._api.find(TopologyDocument, self._node)

    async def create_topology(self, metadata: Document, spec: Document) -> Document:
        """Create the node's GPUTopology and return it."""
        return await self._api.create(TopologyDocument, {"metadata": metadata, "spec": spec})

    async def patch_topology(self, body: Document) -> Document:
        """Change spec or metadata of the node's GPUTopology and return it."""
        return await self._api.patch(TopologyDocument, self._node, body)

    async def patch_topology_status(self, status: Document, version: str | None = None) -> Document:
        """Change the status of the node's GPUTopology and return it.

        Raises:
            ConflictError: if ``version`` is given and is not the object's resource version.
        """
        body: dict[str, Any] = {"status": status}
        if version is not None:
            body["metadata"] = {"resourceVersion": version}
        return await self._api.patch(TopologyStatusDocument, self._node, body)

    async def create_event(self, event: Document) -> None:
        """Create an Event."""
        await self._api.create(EventDocument, event)


def parse_node_pod(document: Document, resource: str) -> PodView:
    """Parse a pod, and the CPUs and memory of the node that kube-scheduler counts for the pod.

    If the pod requests GPUs, the result also has the limits and images of its containers. Of other
    pods, a field in an unknown format is ignored: a newer Kubernetes may have new formats.

    Raises:
        PodError: the pod requests GPUs, or may request some, and is not valid.
    """
    try:
        pod = parse_pod_object(document)
    except PodError as error:
        pod = valid_parts(document)
        if may_request(document, resource):
            raise PodError(f"{pod.metadata.namespace}/{pod.metadata.name}: {error}") from None
    view = view_of(pod, resource)
    runtime = runtime_of(pod) if view.containers else NO_RUNTIME
    sized = is_tuned(view, document["metadata"].get("labels") or {})
    held = to_amounts(held_beside_sizing(pod, view, sized=sized))
    return replace(view, runtime=replace(runtime, held=held, sized=sized))


def _unparsed(document: Document) -> Document:
    return document
