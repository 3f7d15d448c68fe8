"""The requests to the API server with which the operator measures a pod at several CPU limits."""

from typing import Final

from gputopo.api.names import PROFILING_LABEL, PROFILING_STATE_ANNOTATION
from gputopo.api.profiling import CpuAmounts, ProfilingState
from gputopo_kube.document import Document, ObjectKey
from gputopo_kube.errors import ConflictError, NotFoundError
from gputopo_kube.sync import SyncApi

_CORE: Final = ("api", "v1")
_MOST_PENDING: Final = "500"


class ProfilingApi:
    """Reads and resizes measured pods, and reads their nodes. Errors are those of ``JobApi``."""

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

    def first_pending_pods(self) -> Document:
        """Return the first page of a list of all pods that are bound to no node."""
        pending = "spec.nodeName=,status.phase=Pending"
        return self._api.get(*_CORE, "pods", limit=_MOST_PENDING, fieldSelector=pending)

    def active_pods(self, namespace: str | None) -> list[ObjectKey]:
        """Return the pods whose original CPUs the operator has not yet restored."""
        scope = () if namespace is None else ("namespaces", namespace)
        found = self._api.list(*_CORE, *scope, "pods", selector=PROFILING_LABEL)
        return [ObjectKey(pod["metadata"]["namespace"], pod["metadata"]["name"]) for pod in found]

    def write_state(self, key: ObjectKey, pod: Document, state: ProfilingState) -> Document:
        """Write the state of a measurement into an annotation and a label; return the pod.

        The operator patches the subresource ``pods/status``, which accepts annotations and labels.
        So it needs no right to patch ``pods``, with which it could also change images.
        """
        active = None if state.restored else "true"
        metadata = {
            **_identity(pod),
            "annotations": {PROFILING_STATE_ANNOTATION: state.dump()},
            "labels": {PROFILING_LABEL: active},
        }
        try:
            return self._api.request("PATCH", (*_pod_path(key), "status"), {"metadata": metadata})
        except NotFoundError as error:
            raise ConflictError(error.message, error.status) from None

    def resize(self, key: ObjectKey, pod: Document, container: str, cpu: CpuAmounts) -> None:
        """Change the CPUs of one container in place.

        Raises:
            NotFoundError: the pod was deleted, or the API server has no subresource ``resize``.
        """
        resources = {
            "requests": {"cpu": f"{cpu.request}m"},
            "limits": {"cpu": f"{cpu.limit}m"},
        }
        patch = {
            "metadata": _identity(pod),
            "spec": {"containers": [{"name": container, "resources": resources}]},
        }
        path = (*_pod_path(key), "resize")
        self._api.request("PATCH", path, patch, patch_type="strategic-merge-patch")


def _identity(pod: Document) -> Document:
    """Return UID and resource version: with them, a patch fails if the pod has changed."""
    metadata = pod["metadata"]
    return {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}


def _pod_path(key: ObjectKey) -> tuple[str, ...]:
    return (*_CORE, "namespaces", key.namespace, "pods", key.name)
