"""The prediction of the topology manager, against the code of kubelet, on random machines.

The program ``tools/numaoracle`` contains the topology manager of the pinned Kubernetes release.
"""

import os
import random
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from gputopo.alignment.hints import amount_hints
from gputopo.alignment.merge import merge_hints
from gputopo.alignment.model import Hints, ManagerPolicy, NodeAmounts, NumaHint, numa_mask
from localcluster import releases
from localcluster.settings import paths_from_environment
from numaoracle.build import ensure, merge_all
from support.property_settings import LONG, tried

CASES = 100_000 if LONG else 3_000
VERSIONS = ["1.36", "1.37"] if LONG else [releases.DEFAULT_MINOR]
"""Another version than the default must first be compiled on a fresh machine."""

Request = dict[str, Any]


@pytest.fixture(scope="module", params=VERSIONS)
def oracle(request: pytest.FixtureRequest) -> Path:
    release = releases.find(request.param, releases.supported())
    return ensure(release, paths_from_environment(os.environ))


class Machines:
    """Random machines and requests, equal in each run."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - repeatable

    def nodes(self) -> list[int]:
        """Return the NUMA nodes: 1 to 5, some with gaps between their numbers."""
        count = self.random.randint(1, 5)
        return sorted(self.random.sample(range(count + self.random.choice([0, 0, 3])), count))

    def amounts(self, nodes: Sequence[int], most: int) -> NodeAmounts:
        """Return amounts of up to ``most`` on each node, some of them in use."""
        total = {node: self.random.randint(0, most) for node in nodes}
        free = {node: self.random.randint(0, amount) for node, amount in total.items()}
        return NodeAmounts(total, total if self.random.random() < 0.3 else free)

    def requested(self, amounts: NodeAmounts) -> int:
        """Return a request, which may be larger than what is free."""
        return self.random.randint(1, max(1, sum(amounts.total.values())))

    def devices(self, nodes: Sequence[int]) -> Hints:
        """Return the hints for a request of devices, which only some nodes have."""
        with_devices = self.random.sample(nodes, self.random.randint(1, len(nodes)))
        amounts = self.amounts(sorted(with_devices), 4)
        return amount_hints(self.requested(amounts), amounts)

    def cpus(self, nodes: Sequence[int]) -> Hints:
        """Return the hints for a request of exclusive CPUs."""
        amounts = self.amounts(nodes, 16)
        return amount_hints(self.requested(amounts), amounts)

    def any_hints(self, nodes: Sequence[int]) -> Hints:
        """Return any hints of any resource, also such that no manager gives."""
        if (kind := self.random.random()) < 0.25:
            return None if kind < 0.15 else []
        sets = [each for size in range(1, len(nodes) + 1) for each in combinations(nodes, size)]
        chosen = self.random.sample(sets, self.random.randint(1, min(6, len(sets))))
        return [NumaHint(numa_mask(each), self.random.random() < 0.5) for each in chosen]


def resources_of_managers(machines: Machines, nodes: Sequence[int]) -> list[Hints]:
    resources = [machines.devices(nodes)]
    resources.append(machines.cpus(nodes) if machines.random.random() < 0.7 else None)
    return resources


def any_resources(machines: Machines, nodes: Sequence[int]) -> list[Hints]:
    return [machines.any_hints(nodes) for _ in range(machines.random.randint(0, 3))]


def compare(oracle: Path, cases: Iterator[Request]) -> None:
    requests = list(cases)
    assert len(requests) == CASES
    for request, kubelet in zip(requests, merge_all(oracle, requests), strict=True):
        predicted = merge_hints(
            ManagerPolicy(request["policy"]),
            [
                None
                if hints is None
                else [NumaHint(each["mask"], each["preferred"]) for each in hints]
                for hints in request["hints"]
            ],
            numa_mask(request["nodes"]),
        )
        assert (predicted.mask, predicted.admitted) == (
            kubelet["mask"],
            kubelet["admitted"],
        ), request
        tried(f"numa {request['policy']}")


def request_of(policy: ManagerPolicy, nodes: list[int], resources: Sequence[Hints]) -> Request:
    return {
        "policy": policy.value,
        "nodes": nodes,
        "hints": [
            None
            if hints is None
            else [{"mask": each.mask, "preferred": each.preferred} for each in hints]
            for hints in resources
        ],
    }


@pytest.mark.parametrize("source", [resources_of_managers, any_resources])
def test_the_numa_nodes_are_those_that_kubelet_takes(oracle: Path, source: Any) -> None:
    machines = Machines(seed=1)

    def cases() -> Iterator[Request]:
        for number in range(CASES):
            nodes = machines.nodes()
            policy = [*ManagerPolicy][number % 4]
            yield request_of(policy, nodes, source(machines, nodes))

    compare(oracle, cases())
