"""The load of the soak: jobs of all workloads that run for a minute or two."""

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass

from learntest.bench import Bench
from learntest.judge import Workload
from learntest.manifests import Run

_LEAST_SECONDS, _MOST_SECONDS = 60.0, 200.0
_JOBS_OF_NODE = 4
_SHARE_WEAKEST = 0.5


@dataclass(frozen=True, slots=True)
class _Item:
    name: str
    node: str
    until: float


class Load:
    """Keeps four jobs of two GPUs on each node, whose workloads are drawn."""

    def __init__(self, bench: Bench, rng: random.Random, workloads: Mapping[str, Workload]) -> None:
        self._bench, self._rng, self._workloads = bench, rng, workloads
        self._items: list[_Item] = []
        self._made = 0

    def step(self) -> None:
        """Delete the jobs whose time is over, and create new ones."""
        now = time.monotonic()
        for item in [each for each in self._items if each.until < now]:
            self._bench.client.delete(f"{self._bench.jobs}/{item.name}")
            self._items.remove(item)
            self._bench.journal.count("jobs ended")
        for node in {workload.node for workload in self._workloads.values()}:
            while sum(item.node == node for item in self._items) < _JOBS_OF_NODE:
                self._create(node)

    def end(self) -> None:
        """Delete all jobs, and wait until their GPUs are free."""
        self._bench.end([item.name for item in self._items])

    def _create(self, node: str) -> None:
        rng, self._made = self._rng, self._made + 1
        own = [each for each in self._workloads.values() if each.node == node]
        workload = rng.choice(own)
        run = Run(
            f"{workload.profile}-{self._made}",
            workload.law(seed=self._made),
            node,
            policy="Weakest" if rng.random() < _SHARE_WEAKEST else None,
            measuring=workload.measuring,
        )
        until = time.monotonic() + rng.uniform(_LEAST_SECONDS, _MOST_SECONDS)
        self._bench.create(run)
        self._items.append(_Item(run.name, node, until))
        self._bench.journal.count("jobs created")
