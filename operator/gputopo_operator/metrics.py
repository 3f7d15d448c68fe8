"""The metrics of the operator; the reconciler updates them."""

import threading
from collections.abc import Callable
from importlib.metadata import version

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info

from gputopo_kube.document import ObjectKey
from gputopo_operator.model import FailureKind

PHASES = ("Refused", "Pending", "Suspended", "Placed", "Running", "Succeeded", "Failed")


class OperatorMetrics:
    """The metrics of the operator and their registry. Any number of threads may use this object."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._lock = threading.Lock()
        self._phase_of: dict[ObjectKey, str] = {}
        self.reconcile_seconds = Histogram(
            "gputopo_operator_reconcile_duration_seconds",
            "Duration of one reconciliation of one GPUJob.",
            ["outcome"],
            registry=self.registry,
        )
        self._pod_failures = Counter(
            "gputopo_operator_pod_failures_total",
            "Failed pods of GPUJobs, by cause: the application, or admission by kubelet.",
            ["kind"],
            registry=self.registry,
        )
        for kind in FailureKind:
            self._pod_failures.labels(kind)
        self._jobs = Gauge(
            "gputopo_operator_gpujobs", "GPUJobs by phase.", ["phase"], registry=self.registry
        )
        for phase in PHASES:
            self._jobs.labels(phase)
        build = Info("gputopo_build", "Version of gputopo.", registry=self.registry)
        build.info({"version": version("gputopo"), "component": "operator"})

    def watch_queue(self, length: Callable[[], int]) -> None:
        """Serve the number of waiting GPUJobs as a metric; ``length`` returns this number."""
        name, text = "gputopo_operator_queue_length", "GPUJobs that wait for a worker."
        Gauge(name, text, registry=self.registry).set_function(length)

    def count_failure(self, kind: FailureKind) -> None:
        """Count one failed pod."""
        self._pod_failures.labels(kind).inc()

    def known(self) -> tuple[ObjectKey, ...]:
        """Return the GPUJobs with a recorded phase."""
        with self._lock:
            return tuple(self._phase_of)

    def set_phase(self, key: ObjectKey, phase: str | None) -> None:
        """Record the phase of a GPUJob, or None for a deleted GPUJob."""
        with self._lock:
            old = self._phase_of.pop(key, None)
            if old is not None:
                self._jobs.labels(old).dec()
            if phase is not None:
                self._phase_of[key] = phase
                self._jobs.labels(phase).inc()
