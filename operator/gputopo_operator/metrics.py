"""The metrics of the operator; the reconciler updates them."""

import threading
import time
from collections.abc import Callable
from enum import StrEnum
from importlib.metadata import version

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info

from gputopo_kube.document import ObjectKey
from gputopo_operator.ensemble_metrics import EnsembleMetrics
from gputopo_operator.model.jobs import FailureKind
from gputopo_operator.sizing_metrics import SizingMetrics

WAIT_BUCKETS = (1, 10, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 86400, 7 * 86400)
"""Waits from seconds on a free cluster to a week."""


class OperatorLoop(StrEnum):
    """The parts of the operator that work independently of each other."""

    GPUJOBS = "gpujobs"
    GPUPROFILES = "gpuprofiles"
    ENSEMBLES = "ensembles"
    MEASURING = "measuring"
    SIZING = "sizing"
    QUEUE = "queue"
    SHARING = "sharing"
    RESYNC = "resync"


PHASES = ("Refused", "Pending", "Queued", "Suspended", "Placed", "Running", "Succeeded", "Failed")


class OperatorMetrics:
    """The metrics of the operator and their registry. Any number of threads may use this object.

    Attributes:
        sizing: the metrics about sizing running pods.
        ensembles: the metrics about GPUEnsembles.
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
        self._errors = Counter(
            "gputopo_operator_errors_total",
            "Calls of a loop of the operator that failed and are repeated.",
            ["loop"],
            registry=self.registry,
        )
        for loop in OperatorLoop:
            self._errors.labels(loop)
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
        self._rejected_profiles = Counter(
            "gputopo_operator_rejected_profiles_total",
            "Attempts to create a GPUProfile that a limit, a quota or a policy rejected.",
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
        self._failed_starts = Counter(
            "gputopo_operator_failed_starts_total",
            "Started GPUJobs that the queue suspended again, because no pod could be created.",
            registry=self.registry,
        )
        self._ended_sharings = Counter(
            "gputopo_operator_ended_sharings_total",
            "GPUs whose sharing did not pay: the last pod was moved, or only reported.",
            ["result"],
            registry=self.registry,
        )
        for result in ("moved", "reported"):
            self._ended_sharings.labels(result)
        self.sizing = SizingMetrics(self.registry)
        self.ensembles = EnsembleMetrics(self.registry)
        build = Info("gputopo_build", "Version of gputopo.", registry=self.registry)
        build.info({"version": version("gputopo"), "component": "operator"})

    def count_failed_start(self) -> None:
        """Count a started job that was suspended again, because its pod could not be created."""
        self._failed_starts.inc()

    def count_ended_sharing(self, *, moved: bool) -> None:
        """Count a sharing that did not pay."""
        self._ended_sharings.labels("moved" if moved else "reported").inc()

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

    def error_counter(self, loop: OperatorLoop) -> Callable[[], None]:
        """Return a function that counts one failure of ``loop``, which the loop repeats."""
        return self._errors.labels(loop).inc

    def count_profile_update(self) -> None:
        """Count one written status of a GPUProfile."""
        self._profile_updates.inc()

    def count_rejected_profile(self) -> None:
        """Count one GPUProfile that could not be created; the operator tries it again."""
        self._rejected_profiles.inc()

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
