"""The requests to the API server with which the operator measures a pod at several CPU limits."""

from typing import Final

from gputopo.api.names import PROFILING_LABEL, PROFILING_STATE_ANNOTATION
from gputopo.api.profiling import CpuAmounts, ProfilingState
from gputopo_kube.document import Document, ObjectKey
from gputopo_operator.controller.resizing_api import ResizingApi

_PODS: Final = ("api", "v1", "pods")
_MOST_PENDING: Final = "500"


class ProfilingApi(ResizingApi):
    """Reads, marks and resizes measured pods. Errors are those of ``JobApi``."""

    def first_pending_pods(self) -> Document:
        """Return the first page of a list of all pods that are bound to no node."""
        pending = "spec.nodeName=,status.phase=Pending"
        return self._api.get(*_PODS, limit=_MOST_PENDING, fieldSelector=pending)

    def active_pods(self, namespace: str | None) -> list[ObjectKey]:
        """Return the pods whose original CPUs the operator has not yet restored."""
        scope = () if namespace is None else ("namespaces", namespace)
        found = self._api.list("api", "v1", *scope, "pods", selector=PROFILING_LABEL)
        return [ObjectKey.of(pod) for pod in found]

    def write_state(self, pod: Document, state: ProfilingState) -> Document:
        """Write the state of a measurement into an annotation and a label; return the pod."""
        active = None if state.restored else "true"
        annotations = {PROFILING_STATE_ANNOTATION: state.dump()}
        return self.mark(pod, annotations, {PROFILING_LABEL: active})

    def resize_cpus(self, pod: Document, container: str, cpu: CpuAmounts) -> None:
        """Change the CPUs of one container in place.

        Raises:
            DeniedError: the API server rejected the resize, or the pod was deleted.
        """
        resources = {"requests": {"cpu": f"{cpu.request}m"}, "limits": {"cpu": f"{cpu.limit}m"}}
        self.resize(pod, container, resources)
