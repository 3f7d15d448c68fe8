"""The metrics of the operator; the reconciler updates them."""

import threading
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info

from gputopo.api.tuning import Amounts
from gputopo.tuning.model import TuningEvent
from gputopo_kube.document import ObjectKey
from gputopo_operator.model import FailureKind

WAIT_BUCKETS = (1, 10, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 86400, 7 * 86400)
"""Waits from seconds on a free cluster to a week."""

PHASES = ("Refused", "Pending", "Queued", "Suspended", "Placed", "Running", "Succeeded", "Failed")


class PodFigures(NamedTuple):
    """The figures of one sized pod; None if there is no such figure.

    Attributes:
        cpus: CPU limit of the container that is resized.
        memory: its memory limit in bytes.
        gain: how much faster the pod is than before its last resize; 0.31 is 31 % faster.
    """

    cpus: float | None = None
    memory: int | None = None
    gain: float | None = None


_OF_POD: Final = (
    ("cpus", "cpus", "CPU limit of a pod that gputopo sizes."),
    ("memory", "memory_bytes", "Memory limit of a pod that gputopo sizes."),
    ("gain", "gain_ratio", "Gain in speed of a sized pod by its last resize; 0.31 is 31 %."),
)


class SizingMetrics:
    """The metrics about sizing running pods. Any number of threads may use this object."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._lock = threading.Lock()
        self._nodes: set[str] = set()
        self._node_of: dict[ObjectKey, str] = {}
        self._resizes = Counter(
            "gputopo_operator_resizes_total",
            "Resizes of running pods that have ended, by result.",
            ["result"],
            registry=registry,
        )
        for result in TuningEvent:
            self._resizes.labels(result)
        self._cpus = Gauge(
            "gputopo_operator_sized_pods_cpus",
            "CPU requests of the pods of a node that gputopo sizes.",
            ["node"],
            registry=registry,
        )
        self._memory = Gauge(
            "gputopo_operator_sized_pods_memory_bytes",
            "Memory requests of the pods of a node that gputopo sizes.",
            ["node"],
            registry=registry,
        )

        self._of_pod = {
            field: Gauge(
                f"gputopo_operator_sized_pod_{name}",
                text,
                ["namespace", "pod"],
                registry=registry,
            )
            for field, name, text in _OF_POD
        }

    def watch_queue(self, nodes: Callable[[], int]) -> None:
        """Serve the length of the work queue of nodes; ``nodes()`` returns it."""
        name, text = "gputopo_operator_node_queue_length", "Nodes that wait for a worker."
        Gauge(name, text, registry=self._registry).set_function(nodes)

    def count_resize(self, result: TuningEvent) -> None:
        """Count one ended resize of a pod."""
        self._resizes.labels(result).inc()

    def set_requests(self, node: str, requests: Amounts) -> None:
        """Record what the sized pods of a node request together."""
        with self._lock:
            self._nodes.add(node)
            self._cpus.labels(node).set(requests.milli_cpu / 1000)
            self._memory.labels(node).set(requests.memory)

    def set_pods(self, node: str, pods: Mapping[ObjectKey, PodFigures]) -> None:
        """Replace the metrics of all sized pods of a node."""
        with self._lock:
            self._set_pods(node, pods)

    def drop(self, node: str) -> None:
        """Remove the metrics of a node without sized pods."""
        with self._lock:
            self._set_pods(node, {})
            if node in self._nodes:
                self._nodes.remove(node)
                self._cpus.remove(node)
                self._memory.remove(node)

    def _set_pods(self, node: str, pods: Mapping[ObjectKey, PodFigures]) -> None:
        # A new pod with the name of a former one may be on another node, which then has the name.
        for key in [key for key, where in self._node_of.items() if where == node]:
            if key not in pods:
                del self._node_of[key]
                self._set_figures(key, PodFigures())
        for key, figures in pods.items():
            self._node_of[key] = node
            self._set_figures(key, figures)

    def _set_figures(self, key: ObjectKey, figures: PodFigures) -> None:
        for field, gauge in self._of_pod.items():
            value = getattr(figures, field)
            if value is not None:
                gauge.labels(*key).set(value)
            else:
                gauge.remove(*key)


class OperatorMetrics:
    """The metrics of the operator and their registry. Any number of threads may use this object.

    Attributes:
        sizing: the metrics about sizing running pods.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        """``clock`` returns the Unix time in seconds."""
        self._clock = clock
        self._waiting_since: float | None = None
        self.registry = CollectorRegistry()
        self._lock = threading.Lock()
        self._phase_of: dict[ObjectKey, str] = {}
        self.reconcile_seconds = Histogram(
            "gputopo_operator_reconcile_duration_seconds",
            "Duration of one reconciliation of one GPUJob.",
            ["outcome"],
            registry=self.registry,
        )
        for outcome in ("success", "error"):
            self.reconcile_seconds.labels(outcome)
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
        self._steps = Gauge(
            "gputopo_job_steps_per_second",
            "Measured training steps per second of a running GPUJob, while the rate is known.",
            ["namespace", "name"],
            registry=self.registry,
        )
        self._rated: set[ObjectKey] = set()
        self._profile_updates = Counter(
            "gputopo_operator_profile_updates_total",
            "Updates of the status of a GPUProfile.",
            registry=self.registry,
        )
        self._waiting = Gauge(
            "gputopo_operator_waiting_gpujobs",
            "GPUJobs that wait in gputopo's queue.",
            registry=self.registry,
        )
        Gauge(
            "gputopo_operator_longest_wait_seconds",
            "Time that the job which waits longest has waited in the queue; 0 if no job waits.",
            registry=self.registry,
        ).set_function(self._longest_wait)
        self._wait_seconds = Histogram(
            "gputopo_operator_wait_seconds",
            "Time that a GPUJob waited in gputopo's queue until it was started.",
            buckets=WAIT_BUCKETS,
            registry=self.registry,
        )
        self.sizing = SizingMetrics(self.registry)
        build = Info("gputopo_build", "Version of gputopo.", registry=self.registry)
        build.info({"version": version("gputopo"), "component": "operator"})

    def watch_queues(self, jobs: Callable[[], int], profiles: Callable[[], int]) -> None:
        """Serve the lengths of the work queues; ``jobs()`` and ``profiles()`` return them."""
        name, text = "gputopo_operator_queue_length", "GPUJobs that wait for a worker."
        Gauge(name, text, registry=self.registry).set_function(jobs)
        name, text = "gputopo_operator_profile_queue_length", "GPUProfiles that wait for a worker."
        Gauge(name, text, registry=self.registry).set_function(profiles)

    def set_waiting_jobs(self, number: int, since: float | None) -> None:
        """Set the number of GPUJobs that wait in gputopo's queue.

        ``since`` is the Unix time at which the first of them has begun to wait; None if unknown.
        """
        self._waiting.set(number)
        self._waiting_since = since

    def _longest_wait(self) -> float:
        since = self._waiting_since
        return 0.0 if since is None else max(0.0, self._clock() - since)

    def observe_wait(self, seconds: float) -> None:
        """Record how long a GPUJob waited in gputopo's queue."""
        self._wait_seconds.observe(seconds)

    def count_failure(self, kind: FailureKind) -> None:
        """Count one failed pod."""
        self._pod_failures.labels(kind).inc()

    def count_profile_update(self) -> None:
        """Count one written status of a GPUProfile."""
        self._profile_updates.inc()

    def known(self) -> tuple[ObjectKey, ...]:
        """Return the GPUJobs with metrics, also deleted GPUJobs until ``drop_job`` is called."""
        with self._lock:
            return tuple(self._phase_of)

    def set_job(self, key: ObjectKey, phase: str, steps_per_second: float | None = None) -> None:
        """Record the phase and the throughput of a GPUJob. None removes the throughput."""
        with self._lock:
            self._drop_phase(key)
            self._phase_of[key] = phase
            self._jobs.labels(phase).inc()
            if steps_per_second is None:
                self._drop_rate(key)
            else:
                self._rated.add(key)
                self._steps.labels(*key).set(steps_per_second)

    def drop_job(self, key: ObjectKey) -> None:
        """Remove the metrics of a deleted GPUJob."""
        with self._lock:
            self._drop_phase(key)
            self._drop_rate(key)

    def _drop_phase(self, key: ObjectKey) -> None:
        old = self._phase_of.pop(key, None)
        if old is not None:
            self._jobs.labels(old).dec()

    def _drop_rate(self, key: ObjectKey) -> None:
        if key in self._rated:
            self._rated.remove(key)
            self._steps.remove(*key)
