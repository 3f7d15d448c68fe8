"""What every part of the operator gets, and what it offers: watches, subscriptions and loops."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, TypeAlias

import kopf

from gputopo_kube.sync import SyncApi
from gputopo_operator.controller.job_api import JobApi
from gputopo_operator.controller.node_store import NodeStore
from gputopo_operator.controller.work_queue import KeyType, WorkQueue, queue_in_threads
from gputopo_operator.metrics import OperatorLoop, OperatorMetrics
from gputopo_operator.settings import OperatorSettings

Loops: TypeAlias = Sequence[Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class PartInputs:
    """What the parts have in common.

    Attributes:
        threads: requests to the API server block, so each decision runs in a thread.
    """

    settings: OperatorSettings
    connection: SyncApi
    objects: JobApi
    nodes: NodeStore
    metrics: OperatorMetrics
    threads: Executor

    def queue(
        self,
        work: Callable[[KeyType], float | None],
        loop: OperatorLoop,
        rest_seconds: float = 0.0,
    ) -> WorkQueue[KeyType]:
        """Return a queue that calls ``work`` in a thread, and counts the failures of ``loop``."""
        on_error = self.metrics.error_counter(loop)
        return queue_in_threads(work, self.threads, rest_seconds=rest_seconds, on_error=on_error)


class OperatorPart(ABC):
    """A feature of the operator, for example the queue or the sizes of running pods."""

    @staticmethod
    @abstractmethod
    def workers(settings: OperatorSettings) -> int:
        """Return how many threads the part needs; 0 if the installation does not use it."""

    @abstractmethod
    def __init__(self, found: PartInputs) -> None:
        """Build the part; it does nothing yet."""

    @abstractmethod
    def watch(self, registry: kopf.OperatorRegistry) -> None:
        """Register the part's own watches, and subscribe to the nodes."""

    @abstractmethod
    def loops(self) -> Loops:
        """Return what runs until it is cancelled."""
