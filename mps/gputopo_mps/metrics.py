"""The component's Prometheus metrics."""

from collections import Counter as Tally
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Info

STATES: Final = ("Starting", "Ready", "Fault", "Stopping", "Failed")
FAULT_KINDS: Final = ("client", "no-response", "ended")
"""What happened: a client caused a fatal fault, or a daemon or its server hung or ended."""

OPERATIONS: Final = ("check", "terminate")


class MpsMetrics:
    """The metrics, in a separate registry."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._gpus = self._gauge("gpus", "Shared GPUs of this node", ["state"])
        self._clients = self._gauge("clients", "Processes that use shared GPUs")
        self._pods = self._gauge(
            "sharing_pods", "Pods of this node that request a share of a GPU and have not ended"
        )
        self._above_memory = self._gauge(
            "pods_above_memory",
            "Pods whose processes together use more GPU memory than the pod may have",
        )
        self._faults = self._counter("faults", "Faults of shared GPUs that ended clients", ["kind"])
        self._terminated = self._counter(
            "terminated_clients", "Processes whose work on a shared GPU was ended before their pods"
        )
        self._failures = self._counter(
            "failures", "Operations that failed and are repeated", ["of"]
        )
        build = Info("gputopo_build", "Version of gputopo.", registry=self.registry)
        build.info({"version": version("gputopo"), "component": "mps"})
        for kind in FAULT_KINDS:
            self._faults.labels(kind)
        for operation in OPERATIONS:
            self._failures.labels(operation)
        self.set_gpus([], 0)

    def _gauge(self, name: str, text: str, labels: Sequence[str] = ()) -> Gauge:
        return Gauge(f"gputopo_mps_{name}", text, labels, registry=self.registry)

    def _counter(self, name: str, text: str, labels: Sequence[str] = ()) -> Counter:
        return Counter(f"gputopo_mps_{name}", text, labels, registry=self.registry)

    def set_gpus(self, states: Iterable[str], clients: int, pods_above_memory: int = 0) -> None:
        """Set the state of each shared GPU, and the numbers of clients and such pods."""
        counts = Tally(states)
        for state in STATES:
            self._gpus.labels(state).set(counts[state])
        self._clients.set(clients)
        self._above_memory.set(pods_above_memory)

    def set_pods(self, count: int) -> None:
        """Set the number of pods that share GPUs."""
        self._pods.set(count)

    def count_fault(self, kind: str) -> None:
        """Count a fault, with one of ``FAULT_KINDS``."""
        self._faults.labels(kind).inc()

    def count_terminated(self) -> None:
        """Count a client that was terminated."""
        self._terminated.inc()

    def count_failure(self, operation: str) -> None:
        """Count a failure, with one of ``OPERATIONS``."""
        self._failures.labels(operation).inc()
