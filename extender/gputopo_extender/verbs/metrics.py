"""The metrics of the extender. The verbs update counters and histograms.

Gauges are computed from the ledger and the reflectors at each scrape.
"""

from collections.abc import Iterable, Sequence
from importlib.metadata import version
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Histogram, Info
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gputopo.topology.tables import TABLES
from gputopo_extender.fencing.binding_writer import BindOutcome, BindResult
from gputopo_extender.state.ledger import Ledger
from gputopo_extender.state.reservations import BindingProgress
from gputopo_kube.reflector import Reflector
from gputopo_scheduling.evaluation import Evaluation, MisfitKind
from gputopo_scheduling.usage import NodeUsage

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
_BYTES_PER_SECOND: Final = tuple(
    gb * 1_000_000_000 for gb in (5, 10, 12, 20, 25, 40, 50, 75, 100, 150, 200, 300, 600, 1200)
)


class Metrics:
    """Counters, histograms and gauges in one registry."""

    def __init__(self, ledger: Ledger, reflectors: Sequence[Reflector[Any]]) -> None:
        """Create a separate registry, so that a process can have two extenders."""
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
        self._effective = Histogram(
            "gputopo_placement_effective_bandwidth_bytes_per_second",
            "Effective bandwidth of the GPUs given to pods of more than one GPU, by its model.",
            ["model"],
            buckets=_BYTES_PER_SECOND,
            registry=self.registry,
        )
        build = Info("gputopo_build", "Version of gputopo.", registry=self.registry)
        build.info({"version": version("gputopo"), "component": "extender"})
        self.registry.register(_LedgerCollector(ledger, reflectors))
        # Create all series at the start, so that 0 differs from a missing series.
        for reason in MisfitKind:
            self._filtered.labels(reason)
        for outcome in BindOutcome:
            self._binds.labels(outcome)

    def filtered(self, evaluation: Evaluation) -> None:
        """Count the nodes that did not fit, by the kind of misfit."""
        for kind, nodes in evaluation.count_misfits().items():
            self._filtered.labels(kind).inc(nodes)

    def bind_ended(self, result: BindResult) -> None:
        """Count a bind by its outcome, and record the bandwidth of a bound pod."""
        self._binds.labels(result.outcome).inc()
        self.resolved(result)

    def resolved(self, result: BindResult) -> None:
        """Record the effective bandwidth of a pod that was bound."""
        match = result.decision.match if result.decision else None
        if match and match.effective_mb_per_s is not None and match.model is not None:
            self._effective.labels(match.model).observe(match.effective_mb_per_s * _BYTES_PER_MB)


class _LedgerCollector(Collector):
    def __init__(self, ledger: Ledger, reflectors: Sequence[Reflector[Any]]) -> None:
        self._ledger = ledger
        self._reflectors = reflectors

    def collect(self) -> Iterable[Metric]:
        yield GaugeMetricFamily(
            "gputopo_placement_tables_bytes",
            "Memory of the tables that are kept; it has a limit.",
            value=TABLES.currsize,
        )
        yield self._reservations()
        yield from self._gpus()
        yield from self._freshness()

    def _reservations(self) -> Metric:
        family = GaugeMetricFamily(
            "gputopo_ledger_reservations",
            "GPU sets reserved for pods that do not show their Binding yet, by its progress.",
            labels=["progress"],
        )
        known = [reservation.progress for reservation in self._ledger.reservations.own()]
        for progress in BindingProgress:
            family.add_metric([progress.value], known.count(progress))
        return family

    def _gpus(self) -> Iterable[Metric]:
        gpus = GaugeMetricFamily(
            "gputopo_ledger_gpus", "GPUs of all nodes, by their state.", labels=["state"]
        )
        nodes = GaugeMetricFamily(
            "gputopo_ledger_nodes", "Nodes with a GPUTopology, by their state.", labels=["state"]
        )
        shared = GaugeMetricFamily(
            "gputopo_ledger_shared_gpus",
            "GPUs annotated on more than one live pod; 0 in normal operation.",
        )
        published = list(self._ledger.usages().values())
        usages = [usage for usage in published if isinstance(usage, NodeUsage)]
        for state, count in _gpu_counts(usages).items():
            gpus.add_metric([state], count)
        blocked = sum(usage.blocked is not None for usage in usages)
        not_ready = sum(usage.not_ready is not None and usage.blocked is None for usage in usages)
        nodes.add_metric(["serving"], len(usages) - blocked - not_ready)
        nodes.add_metric(["blocked"], blocked)
        nodes.add_metric(["away"], not_ready)
        nodes.add_metric(["unreadable"], len(published) - len(usages))
        shared.add_metric([], sum(usage.shared.bit_count() for usage in usages))
        return (gpus, nodes, shared)

    def _freshness(self) -> Iterable[Metric]:
        age = GaugeMetricFamily(
            "gputopo_cache_age_seconds",
            "Time since the last list or event of a kind of object.",
            labels=["kind"],
        )
        synced = GaugeMetricFamily(
            "gputopo_cache_synced", "1 after a kind was listed in full.", labels=["kind"]
        )
        lists = CounterMetricFamily(
            "gputopo_cache_lists", "Full lists of a kind since the start.", labels=["kind"]
        )
        for reflector in self._reflectors:
            seconds = reflector.age_seconds()
            synced.add_metric([reflector.name], seconds is not None)
            lists.add_metric([reflector.name], reflector.lists)
            if seconds is not None:
                age.add_metric([reflector.name], seconds)
        return (age, synced, lists)


def _gpu_counts(usages: Iterable[NodeUsage]) -> dict[str, int]:
    """Return the number of GPUs in each state. A GPU counts in the first state that applies.

    The order is: unhealthy, deleted_pods (only processes of deleted pods use the GPU), used,
    blocked, free.
    """
    counts = {"free": 0, "used": 0, "deleted_pods": 0, "unhealthy": 0, "blocked": 0}
    for usage in usages:
        free = usage.free.bit_count()
        counts["unhealthy"] += len(usage.topology.gpus) - usage.healthy.bit_count()
        counts["used"] += (usage.healthy & usage.used & ~usage.deleted).bit_count()
        counts["deleted_pods"] += (usage.healthy & usage.deleted).bit_count()
        counts["free" if usage.blocked is None else "blocked"] += free
    return counts
