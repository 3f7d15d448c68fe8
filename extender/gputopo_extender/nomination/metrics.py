"""The metrics of nominations."""

from prometheus_client import CollectorRegistry, Counter, Gauge

from gputopo_extender.nomination.nominations import NominationResult, Nominations
from gputopo_extender.state.cluster_queue import ClusterQueue


def nominations_of(queue: ClusterQueue, registry: CollectorRegistry) -> Nominations:
    """Return nominations for pods in ``queue`` that are counted in ``registry``."""
    results = Counter(
        "gputopo_nominations",
        "Nominations of nodes: made, used, not used by reason, withdrawn, and failed writes.",
        ["result"],
        registry=registry,
    )
    # Create all series at the start, so that 0 differs from a missing series.
    for result in NominationResult:
        results.labels(result)
    nominations = Nominations(queue, lambda result: results.labels(result).inc())
    Gauge(
        "gputopo_open_nominations",
        "Pods with a node that gputopo has nominated, until they are bound.",
        registry=registry,
    ).set_function(lambda: len(nominations.open()))
    return nominations
