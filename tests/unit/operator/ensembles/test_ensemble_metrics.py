"""The metrics about GPUEnsembles."""

from gputopo.api.ensemble import GPUEnsembleStatus
from gputopo_kube.document import ObjectKey
from gputopo_operator.metrics import OperatorMetrics

KEY = ObjectKey("default", "search")


def test_spread_is_served_while_it_is_known() -> None:
    metrics = OperatorMetrics()

    def served() -> float | None:
        labels = {"namespace": "default", "name": "search"}
        return metrics.registry.get_sample_value("gputopo_ensemble_spread_ratio", labels)

    for percent in (25, None, 10):
        metrics.ensembles.show(KEY, GPUEnsembleStatus(phase="Running", spread_percent=percent))
        assert served() == (None if percent is None else percent / 100)
    metrics.ensembles.drop(KEY)
    assert served() is None
