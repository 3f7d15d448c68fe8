"""The tuner of one operator process, with the clock of a simulated cluster."""

from gputopo_kube.sync import SyncApi
from gputopo_operator.controller.job_api import JobApi
from gputopo_operator.controller.node_store import NodeStore
from gputopo_operator.controller.tuner import Tuner
from gputopo_operator.controller.tuning_api import TuningApi
from gputopo_operator.controller.waiting_pods import WaitingPods
from gputopo_operator.metrics import OperatorMetrics
from gputopo_operator.parse.pending import parse_waiting_pod
from gputopo_operator.settings import OperatorSettings
from support.tuning.api_cluster import NODE, SizedCluster


class OperatorUnderTest:
    """The tuner of one operator process."""

    def __init__(self, connection: SyncApi, cluster: SizedCluster, **settings: str) -> None:
        self.cluster = cluster
        self.waiting = WaitingPods(self._seconds)
        self.metrics = OperatorMetrics()
        self.nodes = NodeStore()
        self.tuner = Tuner(
            TuningApi(connection),
            JobApi(connection),
            self.nodes,
            self.waiting,
            self.metrics.sizing,
            OperatorSettings.model_validate(settings),
            lambda: cluster.now,
        )

    def _seconds(self) -> float:
        return self.cluster.now.timestamp()

    def advance(self) -> float | None:
        """Decide once, with the pending pods that exist now."""
        found = (parse_waiting_pod(raw, "gputopo.io/gpu") for raw in self.cluster.api.all("pods"))
        self.waiting.replace(pod for pod in found if pod is not None)
        return self.tuner.advance(NODE)

    def metric(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(name, labels)

    def run(self, decisions: int = 12) -> None:
        """Decide until nothing changes; kubelet carries out the resizes in between."""
        for _ in range(decisions):
            before = len(self.cluster.api.writes)
            delay = self.advance()
            self.cluster.run_kubelet()
            assert self.cluster.total() <= 8000
            if len(self.cluster.api.writes) == before and (delay is None or delay >= 60):
                return
            self.cluster.wait(min(delay or 60, 60))
        raise AssertionError(f"never at rest: {self.cluster.cpus}, {self.cluster.resizes}")
