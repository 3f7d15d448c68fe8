"""The requests to the API server with which the operator reads the state of gputopo's queue."""

from collections.abc import Collection, Iterator
from typing import Final

from gputopo.api.names import GROUP, JOB_LABEL, VERSION
from gputopo_kube.document import Document
from gputopo_kube.errors import DeniedError
from gputopo_kube.sync import SyncApi

_NOT_ENDED: Final = "status.phase!=Succeeded,status.phase!=Failed"


class JobQueueApi:
    """Lists GPUJobs, child Jobs, pods and PriorityClasses. Errors are those of ``JobApi``."""

    def __init__(self, api: SyncApi, namespaces: Collection[str], scheduler_name: str) -> None:
        """Read GPUJobs of these namespaces, or of all if ``namespaces`` is empty."""
        self._api = api
        self._namespaces = tuple(namespaces)
        self._pods = f"spec.schedulerName={scheduler_name},{_NOT_ENDED}"

    def gpu_jobs(self) -> Iterator[Document]:
        """Yield the GPUJobs, page by page."""
        return self._each(("apis", GROUP, VERSION), "gpujobs")

    def child_jobs(self) -> Iterator[Document]:
        """Yield the batch/v1 Jobs that the operator has created, page by page."""
        return self._each(("apis", "batch", "v1"), "jobs", JOB_LABEL)

    def pods(self) -> list[Document]:
        """Return the pods of gputopo's scheduler that have not ended, in all namespaces.

        If the operator may not list pods in all namespaces, return those in the namespaces that it
        serves.
        """
        try:
            return self._api.list("api", "v1", "pods", fields=self._pods)
        except DeniedError:
            if not self._namespaces:
                raise
        return [*self._each(("api", "v1"), "pods", fields=self._pods)]

    def priority_classes(self) -> list[Document]:
        """Return the PriorityClasses, or an empty list if the operator may not read them."""
        try:
            return self._api.list("apis", "scheduling.k8s.io", "v1", "priorityclasses")
        except DeniedError:
            return []

    def _each(
        self, api: tuple[str, ...], plural: str, selector: str = "", fields: str = ""
    ) -> Iterator[Document]:
        for namespace in self._namespaces or (None,):
            scope = () if namespace is None else ("namespaces", namespace)
            yield from self._api.each(*api, *scope, plural, selector=selector, fields=fields)
