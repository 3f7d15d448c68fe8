"""Computes explanations in a thread, one at a time, so that the page stays responsive."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from gputopo.errors import GputopoError
from gputopo_explain.objects import ClusterObjects
from gputopo_explain.pending.gpujobs import explain_gpu_job
from gputopo_explain.pending.model import GpuJobExplanation, PodExplanation
from gputopo_explain.pending.pods import explain_pod
from gputopo_explain.placed.explanation import PlacedExplanation, explain_placed
from gputopo_kube.document import ObjectKey
from gputopo_scheduling.topologies import GpuNode
from gputopo_web.state.cluster import ClusterState

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Explained:
    """An explanation of a pod or GPUJob; at most one of the first three fields is set.

    Attributes:
        notes: what was missing or assumed.
        error: why there is no explanation; empty if there is one.
    """

    placed: PlacedExplanation | None = None
    pending: PodExplanation | None = None
    gpu_job: GpuJobExplanation | None = None
    notes: tuple[str, ...] = ()
    error: str = ""


class Explainer:
    """Explains pods and GPUJobs of a state."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._turn = asyncio.Lock()

    async def pod(self, key: ObjectKey) -> Explained:
        """Explain why a pod has its GPUs, or why it has none."""
        pod = self._state.pods.items.get(key)
        if pod is None:
            return Explained()
        if pod.node is None:
            objects = self._objects()
            return await self._run(lambda: _pending(pod.document, objects))
        node = self._state.nodes.items.get(ObjectKey("", pod.node))
        gpus = node.gpus if node and isinstance(node.gpus, GpuNode) else None
        resource = self._objects().installation.resource
        return await self._run(
            lambda: Explained(placed=explain_placed(pod.document, gpus, resource=resource))
        )

    async def gpu_job(self, key: ObjectKey) -> Explained:
        """Explain why a GPUJob does not run."""
        document = self._state.gpu_jobs.items.get(key)
        if document is None:
            return Explained()
        objects = self._objects()
        return await self._run(
            lambda: Explained(
                gpu_job=explain_gpu_job(document, objects), notes=tuple(objects.notes)
            )
        )

    def _objects(self) -> ClusterObjects:
        return self._state.objects(datetime.now(UTC))

    async def _run(self, explain: Callable[[], Explained]) -> Explained:
        async with self._turn:
            try:
                return await asyncio.to_thread(explain)
            except GputopoError as error:
                return Explained(error=str(error))


def _pending(document: dict[str, object], objects: ClusterObjects) -> Explained:
    return Explained(pending=explain_pod(document, objects), notes=tuple(objects.notes))
