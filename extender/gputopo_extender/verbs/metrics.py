"""The metrics of the extender. The verbs update counters and histograms.

Gauges are computed at each scrape, most of them by the module ``ledger_metrics``.
"""

import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info

from gputopo_extender.fencing.binding_writer import BindOutcome, BindResult
from gputopo_extender.state.ledger import Ledger
from gputopo_extender.verbs.ledger_metrics import LedgerCollector
from gputopo_kube.reflector import Reflector
from gputopo_scheduling.evaluation import Evaluation, MisfitKind
from gputopo_scheduling.share_options import ShareKind

_BYTES_PER_MB: Final = 1_000_000
_SECONDS: Final = (
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
)
_WAIT_SECONDS: Final = (0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 86400)
_BYTES_PER_SECOND: Final = tuple(
    gb * 1_000_000_000 for gb in (5, 10, 12, 20, 25, 40, 50, 75, 100, 150, 200, 300, 600, 1200)
)


class Metrics:
    """Counters, histograms and gauges in one registry."""

    def __init__(
        self,
        ledger: Ledger,
        reflectors: Sequence[Reflector[Any]],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Create a separate registry, so that a process can have two extenders.

        ``clock`` returns the Unix time in seconds.
        """
        self._ledger = ledger
        self._clock = clock
        self.registry = CollectorRegistry()
        self.request_seconds = Histogram(
            "gputopo_extender_request_duration_seconds",
            "Time from the arrival of a request to its response.",
            ["verb", "outcome"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.decision_seconds = Histogram(
            "gputopo_extender_decision_duration_seconds",
            "Time that a verb takes to decide, including the wait for tables.",
            ["verb"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.build_seconds = Histogram(
            "gputopo_placement_build_duration_seconds",
            "Time to evaluate in a thread, including the building of tables.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._filtered = Counter(
            "gputopo_extender_filtered_nodes",
            "Nodes that filter found unfit, by kind of reason.",
            ["reason"],
            registry=self.registry,
        )
        self._binds = Counter(
            "gputopo_extender_binds",
            "Binds by outcome.",
            ["outcome"],
            registry=self.registry,
        )
        self._shares = Counter(
            "gputopo_extender_placed_shares",
            "Pods that got a share: of an idle GPU, by a prediction, or to measure unknown speeds.",
            ["kind"],
            registry=self.registry,
        )
        self._effective = Histogram(
            "gputopo_placement_effective_bandwidth_bytes_per_second",
            "Effective bandwidth of the GPUs given to pods of more than one GPU, by its model.",
            ["model"],
            buckets=_BYTES_PER_SECOND,
            registry=self.registry,
        )
        self._waits = Histogram(
            "gputopo_pod_wait_seconds",
            "Time from the creation of a pod to its Binding.",
            buckets=_WAIT_SECONDS,
            registry=self.registry,
        )
        build = Info("gputopo_build", "Version of gputopo.", registry=self.registry)
        build.info({"version": version("gputopo"), "component": "extender"})
        self.registry.register(LedgerCollector(ledger, reflectors, clock))
        # Create all series at the start, so that 0 differs from a missing series.
        for reason in MisfitKind:
            self._filtered.labels(reason)
        for outcome in BindOutcome:
            self._binds.labels(outcome)
        for kind in ShareKind:
            self._shares.labels(kind)

    def watch_leader(self, leads: Callable[[], bool | None]) -> None:
        """Show whether the kube-scheduler of this pod leads; ``leads()`` is None if none does."""
        name, text = "gputopo_scheduler_leader", "1 while the kube-scheduler of this pod leads."
        Gauge(name, text, registry=self.registry).set_function(lambda: leads() is True)
        Gauge(
            "gputopo_scheduler_leader_known",
            "1 while this extender reads that a kube-scheduler of any pod holds the Lease.",
            registry=self.registry,
        ).set_function(lambda: leads() is not None)

    def filtered(self, evaluation: Evaluation) -> None:
        """Count the nodes that did not fit, by the kind of misfit."""
        for kind, nodes in evaluation.misfit_counts.items():
            self._filtered.labels(kind).inc(nodes)

    def bind_ended(self, result: BindResult) -> None:
        """Count a bind by its outcome, and record the bandwidth of a bound pod."""
        self._binds.labels(result.outcome).inc()
        self.resolved(result)

    def resolved(self, result: BindResult) -> None:
        """Record the wait, the share and the effective bandwidth of a pod that was bound."""
        if result.decision is None:
            return
        pod, match = self._ledger.pods.get(result.decision.claim.uid), result.decision.match
        if pod is not None and pod.created is not None:
            self._waits.observe(max(0.0, self._clock() - pod.created))
        if result.decision.shared is not None:
            self._shares.labels(result.decision.shared.kind).inc()
        if match.effective_mb_per_s is not None and match.model is not None:
            self._effective.labels(match.model).observe(match.effective_mb_per_s * _BYTES_PER_MB)
