"""The requests to the API server with which the operator sizes running pods."""

from gputopo.api.names import RESOURCES_ANNOTATION
from gputopo.api.tuning import TunedRecord
from gputopo.tuning.model import ContainerAmounts
from gputopo_kube.document import Document
from gputopo_operator.controller.resizing_api import ResizingApi


class TuningApi(ResizingApi):
    """Reads, marks and resizes the pods of a node. Errors are those of ``JobApi``."""

    def write_record(self, pod: Document, record: TunedRecord) -> Document:
        """Write the record of a resize into the pod's annotation; return the pod."""
        return self.mark(pod, {RESOURCES_ANNOTATION: record.dump()})

    def resize_to(self, pod: Document, container: str, amounts: ContainerAmounts) -> None:
        """Set requests and limits of one container. An amount of 0 or None stays unchanged.

        Raises:
            DeniedError: the API server rejected the resize, or the pod was deleted.
        """
        limits: Document = {"cpu": _cpu(amounts.limit_milli_cpu)}
        limits["memory"] = _memory(amounts.limit_memory)
        request = amounts.request
        requests = {"cpu": _cpu(request.milli_cpu), "memory": _memory(request.memory)}
        resources = {"requests": _set(requests), "limits": _set(limits)}
        self.resize(pod, container, resources)


def _cpu(milli_cpu: int | None) -> str | None:
    return f"{milli_cpu}m" if milli_cpu else None


def _memory(size: int | None) -> str | None:
    return str(size) if size else None


def _set(amounts: Document) -> Document:
    return {name: amount for name, amount in amounts.items() if amount is not None}
