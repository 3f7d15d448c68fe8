"""The metrics of postponed pods."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from gputopo.api.waiting import PostponedAnnotation, WaitEnd
from gputopo_extender.verbs.postponement.pods import PostponedPods

_WAIT_SECONDS: Final = (1, 2, 5, 15, 30, 60, 120, 300, 600, 1800, 3600, 4 * 3600, 86400)
_GAINS: Final = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
_PERMILLE: Final = 1000

PLACED: Final = "placed"
BOUND: Final = "bound"
DELETED: Final = "deleted"
"""How a wait ended: the value was reached, the longest wait was over, the pod was deleted."""


class PostponementMetrics:
    """Counts the waits, and records how long they took and what they gained."""

    def __init__(self, registry: CollectorRegistry, pods: PostponedPods) -> None:
        """Register the metrics; ``pods`` are the postponed pods."""
        Gauge(
            "gputopo_postponed_pods",
            "Pods that wait for a better placement now.",
            registry=registry,
        ).set_function(pods.waiting)
        self._ended = Counter(
            "gputopo_postponements_ended",
            "Ended waits: placed with the value, placed at the bound of the wait, or deleted.",
            ["reason"],
            registry=registry,
        )
        self._seconds = Histogram(
            "gputopo_postponement_seconds",
            "Time that a placed pod waited for a better placement.",
            buckets=_WAIT_SECONDS,
            registry=registry,
        )
        self._gain = Histogram(
            "gputopo_postponement_gain_ratio",
            "Value of the placement minus the value when the wait began, as a part of the ideal.",
            buckets=_GAINS,
            registry=registry,
        )
        # Create all series at the start, so that 0 differs from a missing series.
        for reason in (PLACED, BOUND, DELETED):
            self._ended.labels(reason)

    def placed(self, record: PostponedAnnotation, end: WaitEnd) -> None:
        """Record the end of the wait of a pod that was bound."""
        self._ended.labels(BOUND if end.expired else PLACED).inc()
        self._seconds.observe(end.seconds)
        self._gain.observe((end.permille - record.now_permille) / _PERMILLE)

    def deleted(self) -> None:
        """Record the end of the wait of a pod that was deleted."""
        self._ended.labels(DELETED).inc()
