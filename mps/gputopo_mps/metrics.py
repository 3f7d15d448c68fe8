"""The component's Prometheus metrics."""

from collections import Counter as Tally
from collections.abc import Iterable
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
        registry = self.registry = CollectorRegistry()
        self._gpus = Gauge(
            "gputopo_mps_gpus", "Shared GPUs of this node", ["state"], registry=registry
        )
        self._clients = Gauge(
            "gputopo_mps_clients", "Processes that use shared GPUs", registry=registry
        )
        self._pods = Gauge(
            "gputopo_mps_sharing_pods",
            "Pods of this node that request a share of a GPU and have not ended",
            registry=registry,
        )
        self._faults = Counter(
            "gputopo_mps_faults",
            "Faults of shared GPUs that ended clients",
            ["kind"],
            registry=registry,
        )
        self._terminated = Counter(
            "gputopo_mps_terminated_clients",
            "Processes whose work on a shared GPU was ended before their pods",
            registry=registry,
        )
        self._failures = Counter(
            "gputopo_mps_failures",
            "Operations that failed and are repeated",
            ["of"],
            registry=registry,
        )
        build = Info("gputopo_build", "Version of gputopo.", registry=registry)
        build.info({"version": version("gputopo"), "component": "mps"})
        for kind in FAULT_KINDS:
            self._faults.labels(kind)
        for operation in OPERATIONS:
            self._failures.labels(operation)
        self.set_gpus([], 0)

    def set_gpus(self, states: Iterable[str], clients: int) -> None:
        """Set the state of each shared GPU, and the number of clients."""
        counts = Tally(states)
        for state in STATES:
            self._gpus.labels(state).set(counts[state])
        self._clients.set(clients)

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
