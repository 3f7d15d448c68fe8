"""The work queue of the GPUEnsembles."""

import asyncio
import logging
from typing import Final

import kopf

from gputopo.api.names import ENSEMBLE_LABEL, GROUP, VERSION
from gputopo.runtime.log import fields
from gputopo_kube.document import ObjectKey
from gputopo_kube.errors import ApiError
from gputopo_operator.controller.ensemble_api import EnsembleApi
from gputopo_operator.controller.ensemble_reconciler import EnsembleReconciler
from gputopo_operator.controller.ensemble_snapshot import SHARED_SECONDS
from gputopo_operator.controller.parts import Loops, OperatorPart, PartInputs
from gputopo_operator.metrics import OperatorLoop
from gputopo_operator.settings import OperatorSettings

WORKERS: Final = 1
"""One worker, so that no two ensembles plan with the same free GPUs."""

GATHER_SECONDS: Final = 0.5
"""Time between an event and the decision. The pods of a flotilla start at the same time."""

_log = logging.getLogger(__name__)


class EnsembleQueue(OperatorPart):
    """Calls the reconciler for GPUEnsembles whose objects have changed, and periodically."""

    @staticmethod
    def workers(_: OperatorSettings) -> int:
        """Return the worker of the queue."""
        return WORKERS

    def __init__(self, found: PartInputs) -> None:
        settings, loop = found.settings, OperatorLoop.ENSEMBLES
        self._api = EnsembleApi(found.connection, settings.namespace_names, settings.scheduler_name)
        reconciler = EnsembleReconciler(
            self._api,
            found.objects,
            found.nodes,
            found.metrics.ensembles,
            settings.resource,
            shared_seconds=SHARED_SECONDS,
        )
        self._queue = found.queue(reconciler.reconcile, loop)
        self._expire = reconciler.expire
        self._on_error = found.metrics.error_counter(loop)
        self._resync_seconds = settings.resync_seconds
        self._generations: dict[ObjectKey, object] = {}

    def watch(self, registry: kopf.OperatorRegistry) -> None:
        """Register the watches of GPUEnsembles and of the GPUJobs of their members."""

        @kopf.on.event(GROUP, VERSION, "gpuensembles", registry=registry)
        async def ensemble_changed(
            event: kopf.RawEvent, namespace: str | None, name: str, **_: object
        ) -> None:
            key = ObjectKey(namespace or "", name)
            if self._is_new(key, event):
                self._expire()
                self._queue.add(key)

        @kopf.on.event(
            GROUP, VERSION, "gpujobs", labels={ENSEMBLE_LABEL: kopf.PRESENT}, registry=registry
        )
        async def member_changed(namespace: str | None, labels: kopf.Labels, **_: object) -> None:
            self._expire()
            self._queue.add_later(
                ObjectKey(namespace or "", labels[ENSEMBLE_LABEL]), GATHER_SECONDS
            )

    def _is_new(self, key: ObjectKey, event: kopf.RawEvent) -> bool:
        """Return whether an event is not one of a status, which only the operator writes.

        A change of the spec and a deletion change the generation.
        """
        if event["type"] == "DELETED":
            self._generations.pop(key, None)
            return True
        generation = event["object"]["metadata"].get("generation", 0)
        before = self._generations.get(key)
        self._generations[key] = generation
        return event["type"] != "MODIFIED" or generation != before

    def loops(self) -> Loops:
        """Return the worker of the queue, and the resync."""
        return self._queue.run(WORKERS), self._resync()

    async def _resync(self) -> None:
        """Add all GPUEnsembles, periodically until cancelled."""
        while True:
            await asyncio.sleep(self._resync_seconds)
            try:
                keys = await asyncio.to_thread(self._api.ensemble_uids)
            except ApiError as error:
                _log.warning("ensembles not listed %s", fields(reason=error))
                self._on_error()
                continue
            for key in keys:
                self._queue.add(key)
