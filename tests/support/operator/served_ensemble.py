"""An ensemble on a fake API server."""

from dataclasses import dataclass

from gputopo_kube.document import ObjectKey
from gputopo_operator.controller.ensemble_reconciler import EnsembleReconciler
from gputopo_operator.metrics import OperatorMetrics
from support.api.server import ApiServer
from support.builders.gpujobs import Document

KEY = ObjectKey("default", "search")


@dataclass
class Served:
    """An ensemble of two members on a node with 4 GPUs."""

    api: ApiServer
    reconciler: EnsembleReconciler
    metrics: OperatorMetrics

    def reconcile(self) -> float | None:
        return self.reconciler.reconcile(KEY)

    @property
    def status(self) -> Document:
        found = self.api.get("gpuensembles", "search")
        assert found is not None
        status: Document = found["status"]
        return status

    def of(self, name: str) -> Document:
        return next(each for each in self.status["members"] if each["name"] == name)

    def reasons(self) -> list[str]:
        return [event["reason"] for event in self.api.all("events")]

    def metric(self, metric: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(metric, labels)
