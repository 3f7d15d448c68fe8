"""A pod is bound with the pattern and policy of its annotations, compared with brute force."""

import json
from collections.abc import Iterable
from typing import Any

import pytest

from exhaustive import Oracle, edges_of
from gputopo.api.names import PLACEMENT_ANNOTATION
from gputopo.api.topology import to_spec
from gputopo.catalogue import named
from gputopo.patterns.model import PatternKind
from support.api.server import ApiServer
from support.api.store import PODS, TOPOLOGIES
from support.builders.objects import pod, topology_object
from support.extender.service import Start, uuids_of

BUSY = {0, 3, 6}
FREE = set(range(8)) - BUSY
DGX1 = named("dgx1-v100", node="n1")
ORACLE = Oracle(to_spec(DGX1).to_json())


async def bound(
    start: Start, api: ApiServer, gpus: int, *, unhealthy: Iterable[int] = (), **said: str
) -> tuple[tuple[int, ...], dict[str, Any]]:
    """Bind a pod that says ``said`` to the DGX-1; return its GPUs in rank order and the figures."""
    annotations = {f"gputopo.io/{name}": value for name, value in said.items()}
    api.put(TOPOLOGIES, topology_object("n1", DGX1, unhealthy=unhealthy))
    api.put(PODS, pod("asks", gpus, annotations=annotations))
    async with start(default_policy="TopoAware") as extender:
        assert await extender.scheduler().bind(pod("asks", gpus), "n1") == ""
    placed = api.pod("asks")
    figures = json.loads(placed["metadata"]["annotations"][PLACEMENT_ANNOTATION])
    return ORACLE.indices(uuids_of(placed)), figures


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("pattern", [kind for kind in PatternKind if kind != "Custom"])
async def test_greedy_binds_the_best_set_in_the_order_of_the_patterns_ranks(
    start: Start, api: ApiServer, pattern: PatternKind, size: int
) -> None:
    chosen, figures = await bound(
        start, api, size, unhealthy=BUSY, pattern=pattern.value, policy="Greedy"
    )
    edges = edges_of(pattern, size)
    assert tuple(sorted(chosen)) == ORACLE.greedy(edges, FREE, size)
    assert figures["aggregateMBps"] == ORACLE.aggregate(edges, chosen) * 1000
    assert ORACLE.aggregate(edges, chosen) == ORACLE.most_aggregate(edges, chosen)
    assert (figures["pattern"], figures["policy"], figures["exact"]) == (pattern, "Greedy", True)
    assert "aggregateBoundMBps" not in figures, "nothing is better than the best"


@pytest.mark.parametrize(("weight", "gpus"), [(1, (1, 4, 5, 7)), (9, (1, 2, 4, 5))])
async def test_weight_of_an_edge_decides_which_gpus_are_bound(
    start: Start, api: ApiServer, weight: int, gpus: tuple[int, ...]
) -> None:
    edges = {(0, 1): 1, (0, 2): weight, (0, 3): 1, (1, 2): 1}
    listed = json.dumps([{"from": a, "to": b, "weight": w} for (a, b), w in edges.items()])
    chosen, figures = await bound(
        start, api, 4, unhealthy=BUSY, pattern="Custom", edges=listed, policy="Greedy"
    )
    assert tuple(sorted(chosen)) == gpus == ORACLE.greedy(edges, FREE, 4)
    assert figures["aggregateMBps"] == ORACLE.most_aggregate(edges, gpus) * 1000


@pytest.mark.parametrize("size", range(1, 6))
@pytest.mark.parametrize("unhealthy", [set(), {0, 3, 6}, {4, 6}, {1, 2, 7}])
async def test_pod_that_names_no_policy_is_bound_by_the_configured_one(
    start: Start, api: ApiServer, unhealthy: set[int], size: int
) -> None:
    chosen, figures = await bound(start, api, size, unhealthy=unhealthy)
    assert tuple(sorted(chosen)) == ORACLE.nearest(set(range(8)) - unhealthy, size)
    assert figures["policy"] == "TopoAware"


@pytest.mark.parametrize(
    ("policy", "sensitivity", "gpus", "effective", "preserved"),
    [
        ("Baseline", "Sensitive", {0, 1}, 27_720, 136_000),
        ("TopoAware", "Sensitive", {5, 7}, 27_720, 225_000),
        ("Greedy", "Sensitive", {0, 3}, 58_925, 161_000),
        ("Preserve", "Sensitive", {1, 5}, 58_925, 174_000),
        ("Preserve", "Insensitive", {5, 7}, 27_720, 225_000),
    ],
)
async def test_each_policy_chooses_as_the_guide_shows_with_gpus_4_and_6_taken(
    start: Start,
    api: ApiServer,
    policy: str,
    sensitivity: str,
    gpus: set[int],
    effective: int,
    preserved: int,
) -> None:
    said = {"policy": policy, "bandwidth-sensitivity": sensitivity}
    chosen, figures = await bound(start, api, 2, unhealthy={4, 6}, **said)
    assert set(chosen) == gpus
    assert figures["effectiveMBps"] == pytest.approx(effective, abs=10)
    assert figures["preservedMBps"] == preserved
