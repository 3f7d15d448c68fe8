"""The metrics of nominations."""

from prometheus_client import CollectorRegistry, Counter, Gauge

from gputopo_extender.nomination.nominations import NominationResult, Nominations


class NominationMetrics:
    """Counts the results of nominations, and shows how many are open."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Create the metrics in ``registry``."""
        self._results = Counter(
            "gputopo_nominations",
            "Nominations of nodes: made, used, not used by reason, withdrawn, and failed writes.",
            ["result"],
            registry=registry,
        )
        # Create all series at the start, so that 0 differs from a missing series.
        for result in NominationResult:
            self._results.labels(result)
        self._open = Gauge(
            "gputopo_open_nominations",
            "Pods with a node that gputopo has nominated, until they are bound.",
            registry=registry,
        )

    def count(self, result: NominationResult) -> None:
        """Count a nomination by its result."""
        self._results.labels(result).inc()

    def show_open(self, nominations: Nominations) -> None:
        """Show the number of open nominations."""
        self._open.set_function(lambda: len(nominations.open()))
