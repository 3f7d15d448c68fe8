"""The requests about pods that the binder, the claim fence and the binding writer send."""

import uuid
from collections.abc import Mapping
from typing import Final

from gputopo.api.names import INVALIDATED_ANNOTATION
from gputopo.runtime.times import utc_now
from gputopo_extender.state.decision import Decision
from gputopo_extender.state.queue_pod import NOMINATOR, QueuePod
from gputopo_kube.client import AsyncApi
from gputopo_kube.document import Document
from gputopo_kube.errors import NotFoundError
from gputopo_kube.events import core_event, pod_reference
from gputopo_kube.pods import PodView, parse_gpu_pod, version_number
from gputopo_kube.resources import (
    BindingDocument,
    EventDocument,
    PodDocument,
    PodStatusDocument,
)

_COMPONENT: Final = "gputopo-extender"


class PodApi:
    """Reads pods, binds them, and invalidates Bindings in flight."""

    def __init__(self, api: AsyncApi, resource: str) -> None:
        """Send requests with ``api``; ``resource`` is the name of the GPU resource."""
        self._api = api
        self._resource = resource

    async def get_pod(self, namespace: str, name: str) -> PodView | None:
        """Return the pod, or None if the pod does not exist or requests no GPU.

        Raises:
            ApiError: if the pod could not be read.
        """
        return self._parse(await self._api.find(PodDocument, name, namespace))

    async def invalidate(self, namespace: str, name: str) -> PodView | None:
        """Change an annotation of the pod, so that Bindings in flight for this pod fail.

        A Binding names the version that the pod had when the extender chose its GPUs. After any
        change the API server rejects the Binding. Return the changed pod, or None if the pod was
        deleted.

        Raises:
            ApiError: the pod may be unchanged, so a Binding in flight may still succeed.
        """
        mark = {"metadata": {"annotations": {INVALIDATED_ANNOTATION: str(uuid.uuid4())}}}
        try:
            return self._parse(await self._api.patch(PodStatusDocument, name, mark, namespace))
        except NotFoundError:
            return None

    async def annotate(self, pod: PodView, annotations: Mapping[str, str]) -> None:
        """Set annotations of a pod that is not bound.

        Raises:
            RejectedError: the pod was deleted, or another pod has its name now.
            UnavailableError: the annotations may have been set.
        """
        body = {"metadata": {"uid": pod.uid, "annotations": dict(annotations)}}
        await self._api.patch(PodStatusDocument, pod.name, body, pod.namespace)

    async def nominate(self, pod: QueuePod, node: str | None) -> int:
        """Set the nominated node of a pod, or remove it; return the new resource version.

        The write has no effect if the pod has changed since the watch showed it. So it replaces no
        nomination of another client.

        Raises:
            RejectedError: the pod is unchanged.
            UnavailableError: the nomination may have been written.
        """
        body = {
            "metadata": {"uid": pod.uid, "resourceVersion": str(pod.version)},
            "status": {"nominatedNodeName": node},
        }
        written = await self._api.patch_fast(
            PodStatusDocument, pod.key.name, body, pod.key.namespace, manager=NOMINATOR
        )
        return version_number(written["metadata"]["resourceVersion"])

    async def create_event(self, pod: PodView, reason: str, message: str) -> None:
        """Create an Event of type Normal on a pod.

        Raises:
            ApiError: the Event may be missing.
        """
        event = core_event(
            pod_reference(pod),
            component=_COMPONENT,
            reason=reason,
            message=message,
            kind="Normal",
            now=utc_now(),
        )
        await self._api.create(EventDocument, event, namespace=pod.namespace)

    async def bind(self, decision: Decision) -> None:
        """Send the Binding that writes the node and the GPUs of a decision to the pod.

        Raises:
            RejectedError: this request did not bind the pod.
            ConflictError: the pod is already bound, or has changed since the extender read it.
            UnavailableError: the pod may have been bound.
        """
        claim = decision.claim
        binding = {
            "metadata": {
                "name": claim.name,
                "namespace": claim.namespace,
                "uid": claim.uid,
                "resourceVersion": claim.version,
                "annotations": dict(decision.annotations),
            },
            "target": {"apiVersion": "v1", "kind": "Node", "name": claim.node},
        }
        await self._api.create(BindingDocument, binding, name=claim.name, namespace=claim.namespace)

    def _parse(self, document: Document | None) -> PodView | None:
        return None if document is None else parse_gpu_pod(document, self._resource)
