"""The metrics about GPUEnsembles."""

import threading
from typing import Final, get_args

from prometheus_client import CollectorRegistry, Counter, Gauge

from gputopo.api.ensemble import EnsemblePhase, GPUEnsembleStatus
from gputopo_kube.document import ObjectKey

PHASES: Final[tuple[str, ...]] = get_args(EnsemblePhase)


class EnsembleMetrics:
    """Metrics of the operator about GPUEnsembles. Any number of threads may use this object."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._lock = threading.Lock()
        self._phases: dict[ObjectKey, str] = {}
        self._ensembles = Gauge(
            "gputopo_operator_gpuensembles", "GPUEnsembles by phase.", ["phase"], registry=registry
        )
        for phase in PHASES:
            self._ensembles.labels(phase)
        self._plans = Counter(
            "gputopo_operator_ensemble_plans_total",
            "Plans of GPUEnsembles: which members train together, with how many GPUs.",
            registry=registry,
        )
        names = ["namespace", "name"]
        self._gpus = Gauge(
            "gputopo_ensemble_gpus",
            "GPUs of the members of a GPUEnsemble that run or start.",
            names,
            registry=registry,
        )
        self._spread = Gauge(
            "gputopo_ensemble_spread_ratio",
            "How far the slowest running member of a GPUEnsemble is behind the fastest, 0 to 1.",
            names,
            registry=registry,
        )
        self._spreads: set[ObjectKey] = set()

    def count_plan(self) -> None:
        """Count one new plan."""
        self._plans.inc()

    def show(self, key: ObjectKey, status: GPUEnsembleStatus) -> None:
        """Record the status of a GPUEnsemble."""
        with self._lock:
            self._drop_phase(key)
            phase = status.phase or "Pending"
            self._phases[key] = phase
            self._ensembles.labels(phase).inc()
            self._gpus.labels(*key).set(status.gpus)
            if status.spread_percent is None:
                self._drop_spread(key)
            else:
                self._spreads.add(key)
                self._spread.labels(*key).set(status.spread_percent / 100)

    def drop(self, key: ObjectKey) -> None:
        """Remove the metrics of a deleted GPUEnsemble."""
        with self._lock:
            if self._drop_phase(key):
                self._gpus.remove(*key)
            self._drop_spread(key)

    def _drop_phase(self, key: ObjectKey) -> bool:
        old = self._phases.pop(key, None)
        if old is not None:
            self._ensembles.labels(old).dec()
        return old is not None

    def _drop_spread(self, key: ObjectKey) -> None:
        if key in self._spreads:
            self._spreads.remove(key)
            self._spread.remove(*key)
