"""Computes explanations in a thread, one at a time, so that the page stays responsive."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final, TypeVar

from gputopo.errors import GputopoError
from gputopo.runtime.messages import quoted
from gputopo_cluster.topologies import GpuNode
from gputopo_explain.objects import ClusterObjects
from gputopo_explain.pending.gpujobs import explain_gpu_job
from gputopo_explain.pending.pods import explain_pod
from gputopo_explain.placed.explanation import explain_placed
from gputopo_explain.whatif import place_live
from gputopo_kube.document import Document, ObjectKey
from gputopo_web.facts.explained import Explained, WhatIfResult
from gputopo_web.facts.whatif_form import FormError, WhatIfForm
from gputopo_web.state.cluster import ClusterState

MOST_WAITING: Final = 20
"""Most explanations that run or wait; more requests are rejected, so they cannot pile up."""

Result = TypeVar("Result")


class Explainer:
    """Explains pods and GPUJobs of a state."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def pod(self, key: ObjectKey) -> Explained:
        """Explain why a pod has its GPUs, or why it has none."""
        pod = self._state.pods.items.get(key)
        if pod is None:
            return Explained()
        document = pod.document
        if pod.node is None:
            return await self._run(lambda objects: _pending(document, objects), _failed)
        node = self._state.nodes.items.get(ObjectKey("", pod.node))
        gpus = node.gpus if node and isinstance(node.gpus, GpuNode) else None
        return await self._run(lambda objects: _placed(document, gpus, objects), _failed)

    async def gpu_job(self, key: ObjectKey) -> Explained:
        """Explain why a GPUJob does not run."""
        document = self._state.gpu_jobs.items.get(key)
        if document is None:
            return Explained()
        return await self._run(lambda objects: _gpu_job(document, objects), _failed)

    async def what_if(self, parameters: Mapping[str, str]) -> WhatIfResult:
        """Answer a what-if form."""
        try:
            form = WhatIfForm.parse(parameters)
        except FormError as error:
            return WhatIfResult(error=str(error))
        return await self._run(
            lambda objects: _place(form, objects), lambda error: WhatIfResult(error=error)
        )

    async def _run(
        self, explain: Callable[[ClusterObjects], Result], failed: Callable[[str], Result]
    ) -> Result:
        """Call ``explain`` in a thread, with the objects at its turn."""
        if self._waiting >= MOST_WAITING:
            return failed(f"explanations: {MOST_WAITING} are being computed; try again")
        self._waiting += 1
        try:
            async with self._turn:
                return await asyncio.to_thread(explain, self._state.objects(datetime.now(UTC)))
        except GputopoError as error:
            return failed(str(error))
        finally:
            self._waiting -= 1


def _failed(error: str) -> Explained:
    return Explained(error=error)


def _place(form: WhatIfForm, objects: ClusterObjects) -> WhatIfResult:
    nodes = objects.snapshot.nodes
    for field, node in (("node", form.node), ("without_node", form.without_node)):
        if node is not None and node not in nodes:
            raise FormError(f"{field}: {quoted(node)}: the cluster has no node of this name")
    ended: frozenset[str] = frozenset()
    if form.after_end is not None:
        ended = objects.snapshot.users(form.after_end)
        if not ended:
            raise FormError(
                f"after_end: {quoted(str(form.after_end))}: no pod of this name has GPUs;"
                " write NAMESPACE/NAME"
            )
    without = [form.without_node] if form.without_node else []
    changed = objects.after(ended, without)
    pod = form.pod(changed.installation)
    return WhatIfResult(place_live(pod, changed, only=form.node), tuple(changed.notes))


def _placed(document: Document, gpus: GpuNode | None, objects: ClusterObjects) -> Explained:
    resource = objects.installation.resource
    return Explained(placed=explain_placed(document, gpus, resource=resource))


def _pending(document: Document, objects: ClusterObjects) -> Explained:
    return Explained(pending=explain_pod(document, objects), notes=tuple(objects.notes))


def _gpu_job(document: Document, objects: ClusterObjects) -> Explained:
    return Explained(gpu_job=explain_gpu_job(document, objects), notes=tuple(objects.notes))
