"""Requests to the API server about pods that are resized in place, and their nodes."""

from collections.abc import Mapping
from typing import Final

from gputopo_kube.document import Document, ObjectKey, identity
from gputopo_kube.errors import ConflictError, DeniedError, NotFoundError
from gputopo_kube.sync import SyncApi

_CORE: Final = ("api", "v1")


class ResizingApi:
    """Reads and resizes pods, and reads their nodes. Errors are those of ``JobApi``."""

    def __init__(self, api: SyncApi) -> None:
        self._api = api

    def pod(self, key: ObjectKey) -> Document | None:
        """Return a pod."""
        return self._api.find(*_pod_path(key))

    def node(self, name: str) -> Document | None:
        """Return a Node."""
        return self._api.find(*_CORE, "nodes", name)

    def pods_on(self, node: str) -> list[Document]:
        """Return the pods of all namespaces that are bound to a node."""
        return self._api.list(*_CORE, "pods", fields=f"spec.nodeName={node}")

    def mark(
        self,
        pod: Document,
        annotations: Mapping[str, str],
        labels: Mapping[str, str | None] | None = None,
    ) -> Document:
        """Write annotations and labels of a pod that has not changed; return the pod.

        The operator patches the subresource ``pods/status``, which accepts annotations and labels.
        So it needs no right to patch ``pods``, with which it could also change images.
        """
        metadata = {**identity(pod), "annotations": dict(annotations), "labels": labels or {}}
        path = (*_pod_path(ObjectKey.of(pod)), "status")
        try:
            return self._api.request("PATCH", path, {"metadata": metadata})
        except NotFoundError as error:
            raise ConflictError(error.message, error.status) from None

    def resize(self, pod: Document, container: str, resources: Document) -> Document:
        """Change requests and limits of one container in place; return the pod.

        Raises:
            DeniedError: the API server rejected the resize, the pod was deleted, or the API
                server has no subresource ``resize``.
        """
        patch = {
            "metadata": identity(pod),
            "spec": {"containers": [{"name": container, "resources": resources}]},
        }
        path = (*_pod_path(ObjectKey.of(pod)), "resize")
        try:
            return self._api.request("PATCH", path, patch, patch_type="strategic-merge-patch")
        except NotFoundError as error:
            hint = f"{error.message}; to resize a running pod, use Kubernetes 1.33 or newer"
            raise DeniedError(hint, error.status) from None


def _pod_path(key: ObjectKey) -> tuple[str, ...]:
    return (*_CORE, "namespaces", key.namespace, "pods", key.name)
