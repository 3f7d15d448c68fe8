"""The work queue of the nodes with GPUs that several pods share."""

from typing import Final

import kopf

from gputopo_operator.controller.parsed_objects import ObjectChange
from gputopo_operator.controller.parts import Loops, OperatorPart, PartInputs
from gputopo_operator.controller.sharing_api import SharingApi
from gputopo_operator.controller.sharing_judge import SharingJudge
from gputopo_operator.decision.sharing import has_shared_gpus
from gputopo_operator.metrics import OperatorLoop
from gputopo_operator.model.workloads import NodeReport
from gputopo_operator.settings import OperatorSettings

WORKERS: Final = 1


class SharingQueue(OperatorPart):
    """Calls the judge for each node with a shared GPU, after changes and every few seconds."""

    @staticmethod
    def workers(settings: OperatorSettings) -> int:
        """Return 0 if the installation shares no GPUs."""
        return WORKERS if settings.sharing_judge_seconds else 0

    def __init__(self, found: PartInputs) -> None:
        api = SharingApi(found.connection)
        judge = SharingJudge(api, found.objects, found.nodes, found.metrics, found.settings)
        self._queue = found.queue(judge.advance, OperatorLoop.SHARING)
        self._nodes = found.nodes

    def watch(self, _: kopf.OperatorRegistry) -> None:
        """Subscribe to the reports of the nodes."""
        self._nodes.reports.subscribe(self._report_changed)

    def loops(self) -> Loops:
        """Return the worker of the queue."""
        return (self._queue.run(WORKERS),)

    def _report_changed(self, change: ObjectChange[NodeReport]) -> None:
        """Add a node if several pods share one of its GPUs."""
        if change.after and has_shared_gpus(change.after.gpus):
            self._queue.add(change.name)
