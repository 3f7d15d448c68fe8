"""The extender's metrics; every name of them stands here.

Gauges are read from ledger and caches when they are scraped, so they cannot drift from them.
"""

from collections.abc import Iterable, Sequence
from importlib.metadata import version
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Histogram, Info
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gputopo.topology.tables import TABLES
from gputopo_extender.fencing.binding_writer import BindOutcome
from gputopo_extender.state.decision import Decision
from gputopo_extender.state.ledger import Ledger
from gputopo_extender.state.reservations import BindingProgress
from gputopo_extender.state.usage import NodeUsage
from gputopo_extender.verbs.evaluation import Evaluation, MisfitKind
from gputopo_kube.reflector import Reflector

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
    """Counters and histograms that the handlers feed."""

    def __init__(self, ledger: Ledger, caches: Sequence[Reflector[Any]]) -> None:
        """Make a registry of its own, so that two of them can live in one process."""
        self.registry = CollectorRegistry()
        self.request_seconds = Histogram(
            "gputopo_extender_request_duration_seconds",
            "Time from a request's arrival to its answer.",
            ["verb", "outcome"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.decision_seconds = Histogram(
            "gputopo_extender_decision_duration_seconds",
            "Time that filter and prioritize take to decide, tables to wait for included.",
            ["verb"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._build_seconds = Histogram(
            "gputopo_placement_build_duration_seconds",
            "Time to work out, beside the verbs, what was not known yet, tables included.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._filtered = Counter(
            "gputopo_extender_filtered_nodes",
            "Nodes that filter found unfit, by class of reason.",
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
        self.registry.register(_State(ledger, caches))
        # A series that is there from the start can be told from one that never counted.
        for reason in MisfitKind:
            self._filtered.labels(reason)
        for outcome in BindOutcome:
            self._binds.labels(outcome)

    def filtered(self, evaluation: Evaluation) -> None:
        """Count the nodes that did not fit."""
        for reason, nodes in evaluation.misfits().items():
            self._filtered.labels(reason).inc(nodes)

    def worked_out(self, seconds: float) -> None:
        """Note how long answers took that were not known."""
        self._build_seconds.observe(seconds)

    def bind_ended(self, outcome: BindOutcome) -> None:
        """Count a bind."""
        self._binds.labels(outcome).inc()

    def bound(self, decision: Decision) -> None:
        """Note what a pod was given."""
        match = decision.match
        if match.effective_mb_per_s is not None and match.model is not None:
            self._effective.labels(match.model).observe(match.effective_mb_per_s * _BYTES_PER_MB)


class _State(Collector):
    def __init__(self, ledger: Ledger, caches: Sequence[Reflector[Any]]) -> None:
        self._ledger = ledger
        self._caches = caches

    def collect(self) -> Iterable[Metric]:
        yield GaugeMetricFamily(
            "gputopo_placement_tables_bytes",
            "Memory of the tables that are kept, which has a limit.",
            value=TABLES.nbytes,
        )
        yield self._reservations()
        yield from self._gpus()
        yield from self._freshness()

    def _reservations(self) -> Metric:
        family = GaugeMetricFamily(
            "gputopo_ledger_reservations",
            "GPU sets held for pods that do not show their Binding yet, by its progress.",
            labels=["progress"],
        )
        known = [reservation.progress for reservation in self._ledger.reservations.reservations()]
        for progress in BindingProgress:
            family.add_metric([progress.value], known.count(progress))
        return family

    def _gpus(self) -> Iterable[Metric]:
        gpus = GaugeMetricFamily(
            "gputopo_ledger_gpus", "GPUs of all nodes, by what they can do now.", labels=["state"]
        )
        nodes = GaugeMetricFamily(
            "gputopo_ledger_nodes", "Nodes with a GPUTopology, by its use.", labels=["state"]
        )
        shared = GaugeMetricFamily(
            "gputopo_ledger_shared_gpus",
            "GPUs annotated on more than one live pod; 0 if all is well.",
        )
        all_books = list(self._ledger.books().values())
        books = [book for book in all_books if isinstance(book, NodeUsage)]
        for state, count in _states(books).items():
            gpus.add_metric([state], count)
        blocked = sum(book.blocked is not None for book in books)
        away = sum(book.away is not None and book.blocked is None for book in books)
        nodes.add_metric(["serving"], len(books) - blocked - away)
        nodes.add_metric(["blocked"], blocked)
        nodes.add_metric(["away"], away)
        nodes.add_metric(["unreadable"], len(all_books) - len(books))
        shared.add_metric([], sum(book.shared.bit_count() for book in books))
        return (gpus, nodes, shared)

    def _freshness(self) -> Iterable[Metric]:
        age = GaugeMetricFamily(
            "gputopo_cache_age_seconds",
            "Time since the API server was last heard about a kind of object.",
            labels=["kind"],
        )
        synced = GaugeMetricFamily(
            "gputopo_cache_synced", "1 once a kind was listed in full.", labels=["kind"]
        )
        lists = CounterMetricFamily(
            "gputopo_cache_lists", "Full lists of a kind since the start.", labels=["kind"]
        )
        for cache in self._caches:
            seconds = cache.age_seconds()
            synced.add_metric([cache.name], seconds is not None)
            lists.add_metric([cache.name], cache.lists)
            if seconds is not None:
                age.add_metric([cache.name], seconds)
        return (age, synced, lists)


def _states(books: Iterable[NodeUsage]) -> dict[str, int]:
    """Count each GPU once: unhealthy before used, used before blocked, the rest free.

    Those used by nothing but processes of deleted pods have a count of their own.
    """
    counts = {"free": 0, "used": 0, "deleted_pods": 0, "unhealthy": 0, "blocked": 0}
    for book in books:
        free = book.free.bit_count()
        counts["unhealthy"] += len(book.topology.gpus) - book.healthy.bit_count()
        counts["used"] += (book.healthy & book.used & ~book.deleted).bit_count()
        counts["deleted_pods"] += (book.healthy & book.deleted).bit_count()
        counts["free" if book.blocked is None else "blocked"] += free
    return counts
