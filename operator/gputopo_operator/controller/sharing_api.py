"""The requests to the API server with which the operator ends a sharing of a GPU."""

from gputopo_kube.document import Document, ObjectKey
from gputopo_operator.controller.resizing_api import ResizingApi


class SharingApi(ResizingApi):
    """Reads and evicts pods. Errors are those of ``JobApi``."""

    def evict(self, pod: Document) -> None:
        """Evict a pod if it still has its UID. PodDisruptionBudgets are respected.

        Raises:
            NotFoundError: the pod was deleted.
            RejectedError: a PodDisruptionBudget does not permit it, or the operator may not.
        """
        key = ObjectKey.of(pod)
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": key.name, "namespace": key.namespace},
            "deleteOptions": {"preconditions": {"uid": pod["metadata"]["uid"]}},
        }
        path = ("api", "v1", "namespaces", key.namespace, "pods", key.name, "eviction")
        self._api.request("POST", path, eviction)
