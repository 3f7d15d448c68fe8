"""The gauges of the extender that are computed from the ledger and the reflectors."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gputopo.topology.tables import TABLES
from gputopo_cluster.usage import NodeUsage
from gputopo_extender.state.ledger import Ledger
from gputopo_extender.state.reservations import BindingProgress
from gputopo_kube.reflector import Reflector

_BYTES_PER_MB: Final = 1_000_000


class LedgerCollector(Collector):
    """Computes its metrics at each scrape, in the event loop."""

    def __init__(
        self, ledger: Ledger, reflectors: Sequence[Reflector[Any]], clock: Callable[[], float]
    ) -> None:
        """Read these parts; ``clock`` returns the Unix time in seconds."""
        self._ledger = ledger
        self._reflectors = reflectors
        self._clock = clock

    def collect(self) -> Iterable[Metric]:
        """Return the metrics of this moment."""
        yield GaugeMetricFamily(
            "gputopo_placement_tables_bytes",
            "Memory of the tables that are kept; it has a limit.",
            value=TABLES.currsize,
        )
        yield GaugeMetricFamily(
            "gputopo_ledger_full_profile_namespaces",
            "Namespaces with so many GPUProfiles that the extender leaves further ones out.",
            value=self._ledger.interference.full_namespaces(),
        )
        yield self._reservations()
        yield from self._gpus()
        yield from self._waiting()
        yield from self._bandwidths()
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
            "GPUs annotated on several live pods that do not all have shares; normally 0.",
        )
        published = list(self._ledger.usages().values())
        usages = [usage for usage in published if isinstance(usage, NodeUsage)]
        for state, count in _gpu_counts(usages).items():
            gpus.add_metric([state], count)
        blocked = sum(usage.blocked is not None for usage in usages)
        not_ready = sum(usage.not_ready is not None and usage.blocked is None for usage in usages)
        nodes.add_metric(["serving"], len(usages) - blocked - not_ready)
        nodes.add_metric(["blocked"], blocked)
        nodes.add_metric(["not_ready"], not_ready)
        nodes.add_metric(["unreadable"], len(published) - len(usages))
        shared.add_metric([], sum(usage.shared.bit_count() for usage in usages))
        return (gpus, nodes, shared)

    def _waiting(self) -> Iterable[Metric]:
        created = self._ledger.pod_totals.waiting()
        now = self._clock()
        waits = [max(0.0, now - each) for each in created if each is not None]
        yield GaugeMetricFamily(
            "gputopo_ledger_waiting_pods",
            "Pods that request GPUs and wait for a node; without gated pods.",
            value=len(created),
        )
        yield GaugeMetricFamily(
            "gputopo_ledger_longest_wait_seconds",
            "Age of the oldest waiting pod; 0 if no pod waits.",
            value=max(waits, default=0.0),
        )

    def _bandwidths(self) -> Iterable[Metric]:
        chosen = GaugeMetricFamily(
            "gputopo_ledger_placed_bandwidth_bytes_per_second",
            "Sum of the bandwidths that the placed pods of several GPUs got, by physical model.",
            labels=["sensitive"],
        )
        best = GaugeMetricFamily(
            "gputopo_ledger_best_bandwidth_bytes_per_second",
            "Sum of the bandwidths that the same pods would get on their nodes without other pods.",
            labels=["sensitive"],
        )
        for sensitive, sums in self._ledger.pod_totals.bandwidths().items():
            label = [str(sensitive).lower()]
            chosen.add_metric(label, sums.chosen * _BYTES_PER_MB)
            best.add_metric(label, sums.best * _BYTES_PER_MB)
        return (chosen, best)

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
