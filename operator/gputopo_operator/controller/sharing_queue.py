"""The work queue of the nodes with GPUs that several pods share."""

from collections.abc import Callable
from concurrent.futures import Executor

import kopf

from gputopo.api.names import GROUP, VERSION
from gputopo_operator.controller.sharing_judge import SharingJudge
from gputopo_operator.controller.work_queue import queue_in_threads

WORKERS = 1


class SharingQueue:
    """Calls the judge for each node with a shared GPU, after changes and every few seconds."""

    def __init__(
        self, judge: SharingJudge, threads: Executor, on_error: Callable[[], None]
    ) -> None:
        """Call ``on_error`` after each failure that is repeated."""
        self._queue = queue_in_threads(judge.advance, threads, on_error=on_error)

    def watch(self, registry: kopf.OperatorRegistry) -> None:
        """Register the watch of GPUTopologies."""

        @kopf.on.event(GROUP, VERSION, "gputopologies", registry=registry)
        async def shares_changed(name: str, status: kopf.Status, **_: object) -> None:
            if any(len(gpu.get("shares") or ()) > 1 for gpu in status.get("gpus") or ()):
                self._queue.add(name)

    async def run(self) -> None:
        """Judge the nodes in the queue, until cancelled."""
        await self._queue.run(WORKERS)
