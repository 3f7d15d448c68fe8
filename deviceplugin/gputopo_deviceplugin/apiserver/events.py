"""Records allocations and health changes in the log, the metrics and Kubernetes events."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final, Protocol

from gputopo.runtime.log import fields
from gputopo.runtime.times import utc_now
from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.metrics import AgentMetrics
from gputopo_kube.changes import ChangeSignal
from gputopo_kube.document import Document
from gputopo_kube.errors import ApiError
from gputopo_kube.events import EventKind, core_event, pod_reference
from gputopo_kube.pods import PodView

COMPONENT: Final = "gputopo-deviceplugin"

_log = logging.getLogger(__name__)


class EventSink(Protocol):
    """Creates events at the API server. ``NodeApi`` implements this protocol."""

    async def create_event(self, event: Document) -> None:
        """Create an Event."""
        ...


class EventRecorder:
    """Records allocations, rejections, containers with unintended GPUs, and health changes.

    A background task writes each event, so callers do not wait for the API server.
    """

    def __init__(
        self, sink: EventSink, node: str, metrics: AgentMetrics, changes: ChangeSignal
    ) -> None:
        """Write events as the agent of ``node``. Notify ``changes`` of each allocation."""
        self._sink = sink
        self._node = node
        self._metrics = metrics
        self._changes = changes
        self._in_flight: set[asyncio.Task[None]] = set()

    def record_allocation(self, pod: PodView, container: str, gpus: Sequence[GpuUuid]) -> None:
        """Record that a container gets these GPUs."""
        _log.info("allocated %s", fields(pod=pod.key, container=container, gpus=",".join(gpus)))
        self._metrics.count_allocation(rejected=False)
        self._changes.notify()

    def record_rejection(self, pod: PodView | None, reason: str) -> None:
        """Record that a container gets no GPUs. Create an event if ``pod`` is not None."""
        _log.warning("rejected %s", fields(reason=reason))
        self._metrics.count_allocation(rejected=True)
        if pod is not None:
            self._write(pod_reference(pod), "GPUsRefused", reason)

    def record_difference(self, pod: PodView, message: str) -> None:
        """Record that a container has other GPUs than the extender has chosen."""
        _log.error("GPUs differ %s", fields(reason=message))
        self._write(pod_reference(pod), "GPUsDiffer", message)

    def record_sharing_fault(self, pod: PodView, cause: PodView | None, message: str) -> None:
        """Record that a fatal fault on a shared GPU ended a client; ``cause`` is its pod."""
        if cause is not None and cause.uid == pod.uid:
            reason = f"the pod caused a fatal fault on its shared GPU: {message}"
        elif cause is not None:
            reason = f"pod {cause.key} caused a fatal fault on the shared GPU: {message}"
        else:
            reason = f"a fatal fault on the shared GPU, of unknown cause: {message}"
        _log.error("fault on a shared GPU %s", fields(pod=pod.key, reason=reason))
        self._write(pod_reference(pod), "SharedGPUFault", reason)

    def record_memory_excess(self, pod: PodView, message: str) -> None:
        """Record that a pod uses more memory of a shared GPU than it may have."""
        _log.warning("GPU memory exceeded %s", fields(pod=pod.key, reason=message))
        self._write(pod_reference(pod), "SharedMemoryExceeded", message)

    def record_invalid_measuring(self, pod: PodView, reason: str) -> None:
        """Record why a pod gives no samples, for example because of an invalid annotation."""
        _log.warning("no samples %s", fields(pod=pod.key, reason=reason))
        self._write(pod_reference(pod), "NotMeasured", reason)

    def record_health(self, node: Document, gpu: GpuUuid, fault: str | None) -> None:
        """Record that a GPU became healthy, or unhealthy because of ``fault``."""
        metadata = node["metadata"]
        about = {"apiVersion": "v1", "kind": "Node"}
        about |= {"name": metadata["name"], "uid": metadata["uid"]}
        if fault is None:
            self._write(about, "GPUHealthy", f"{gpu} is healthy again", kind="Normal")
        else:
            self._write(about, "GPUUnhealthy", f"{gpu}: {fault}")

    def _write(
        self, about: Document, reason: str, message: str, *, kind: EventKind = "Warning"
    ) -> None:
        event = core_event(
            about,
            component=COMPONENT,
            reason=reason,
            message=message,
            kind=kind,
            now=utc_now(),
            host=self._node,
        )
        task = asyncio.create_task(self._create(event))
        self._in_flight.add(task)
        task.add_done_callback(self._in_flight.discard)

    async def _create(self, event: Document) -> None:
        try:
            await self._sink.create_event(event)
        except ApiError as error:
            self._metrics.record_failure("event", error)
