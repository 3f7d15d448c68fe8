"""The metrics about sizing running pods; the tuner updates them."""

import threading
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge

from gputopo.api.tuning import Amounts
from gputopo.tuning.model import TuningEvent
from gputopo_kube.document import ObjectKey


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
