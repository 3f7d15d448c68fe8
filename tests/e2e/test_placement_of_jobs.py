"""A GPUJob gets the GPUs that MAPA chooses, on a real cluster."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

import pytest

from exhaustive import Oracle, edges_of
from sandbox import Sandbox, sandbox_in
from showcase.install import Installed

pytestmark = pytest.mark.e2e

RING = {"pattern": "Ring", "bandwidthSensitivity": "Sensitive"}


THREE = frozenset({0, 3, 6})
IDLE: frozenset[int] = frozenset()


def used(*gpus: frozenset[int]) -> pytest.MarkDecorator:
    """Run the test with pods on these GPUs of the node; tests of the same pods run in turn."""
    return pytest.mark.parametrize("node", gpus, indirect=True, ids=lambda one: f"used{[*one]}")


@dataclass(frozen=True, slots=True)
class NodeInUse:
    """A node on which pods use some of the GPUs.

    Attributes:
        free: indexes of the other GPUs.
    """

    box: Sandbox
    oracle: Oracle
    free: frozenset[int]


@pytest.fixture(scope="module")
def node(installed: Installed, dgx1: str, request: pytest.FixtureRequest) -> Iterator[NodeInUse]:
    """The node with double NVLinks; the parameter has the indexes of the GPUs in use."""
    wanted: frozenset[int] = getattr(request, "param", IDLE)
    oracle = Oracle(installed.kubectl.get("gputopology", dgx1)["spec"])
    with sandbox_in(installed, "placement") as box:
        _use(box, dgx1, oracle, wanted)
        yield NodeInUse(box, oracle, frozenset(range(8)) - wanted)


def _use(box: Sandbox, node: str, oracle: Oracle, wanted: frozenset[int]) -> None:
    """Use exactly these GPUs of the node, by pods on neighbouring GPUs."""
    pods_in_the_way = []
    for stays, run in groupby(range(max(wanted, default=-1) + 1), key=wanted.__contains__):
        gpus = tuple(run)
        pod = box.run_pod(f"filler-{gpus[0]}", len(gpus), node=node, policy="Baseline")
        held = sorted(oracle.indices(box.gpus_of(pod)))
        assert held == list(gpus), "baseline takes the lowest free GPUs"
        if not stays:
            pods_in_the_way.append(pod)
    box.delete_pods(pods_in_the_way)


@pytest.fixture
def sandbox(node: NodeInUse) -> Iterator[Sandbox]:
    """The namespace of the pods on the node; the jobs of a test end with it."""
    yield node.box
    node.box.end_jobs()


@pytest.fixture
def oracle(node: NodeInUse) -> Oracle:
    return node.oracle


@used(IDLE)
def test_sensitive_ring_of_three_on_an_idle_dgx1_gets_the_ideal_triple(
    sandbox: Sandbox, dgx1: str, oracle: Oracle
) -> None:
    placement = sandbox.run_job("ring", 3, node=dgx1, communication=RING)
    chosen = oracle.indices(placement["intended"])
    assert placement["aggregateMBps"] == 125_000
    assert oracle.aggregate(edges_of("Ring", 3), chosen) == 125
    assert placement["model"] == "eq2"
    assert placement["effectiveMBps"] == pytest.approx(57_858, abs=10)
    assert oracle.effective(chosen) == pytest.approx(oracle.most_effective(set(range(8)), 3))


@used(THREE)
@pytest.mark.parametrize(
    ("policy", "gpus", "aggregate"),
    [
        ("Preserve", {4, 5, 7}, 100_000),
        ("Greedy", {1, 2, 5}, 112_000),
        ("Baseline", {1, 2, 4}, 74_000),
    ],
)
def test_policies_choose_as_the_paper_means_with_gpus_0_3_and_6_taken(
    sandbox: Sandbox,
    node: NodeInUse,
    dgx1: str,
    policy: str,
    gpus: set[int],
    aggregate: int,
) -> None:
    oracle, free = node.oracle, {1, 2, 4, 5, 7}
    assert node.free == free
    placement = sandbox.run_job(
        "ring", 3, node=dgx1, communication=RING, placement={"policy": policy}
    )
    chosen = oracle.indices(placement["intended"])
    assert set(chosen) == gpus
    assert placement["aggregateMBps"] == aggregate
    assert oracle.aggregate(edges_of("Ring", 3), chosen) * 1000 == aggregate, "in rank order"
    if policy == "Preserve":
        assert placement["effectiveMBps"] == pytest.approx(44_130, abs=10)
        assert oracle.effective(chosen) == pytest.approx(oracle.most_effective(free, 3))
    if policy == "Greedy":
        assert gpus == set(oracle.greedy(edges_of("Ring", 3), free, 3))


@used(IDLE, THREE)
def test_insensitive_pair_leaves_the_most_bandwidth_for_others(
    sandbox: Sandbox, node: NodeInUse, dgx1: str
) -> None:
    oracle, free = node.oracle, set(node.free)
    placement = sandbox.run_job(
        "pair", 2, node=dgx1, communication={"bandwidthSensitivity": "Insensitive"}
    )
    left = free - set(oracle.indices(placement["intended"]))
    assert oracle.preserved(left) == oracle.most_preserved(free, 2)
    assert placement["preservedMBps"] == oracle.preserved(left) * 1000


@used(IDLE)
def test_sensitive_job_goes_to_the_node_with_the_best_links(
    sandbox: Sandbox, nvswitch: str
) -> None:
    placement = sandbox.run_job("fast", 4, communication=RING)
    assert placement["node"] == nvswitch


@used(IDLE)
def test_insensitive_job_does_not_use_the_good_links(sandbox: Sandbox, pcie: str) -> None:
    placement = sandbox.run_job("modest", 2, communication={"bandwidthSensitivity": "Insensitive"})
    assert placement["node"] == pcie


@used(frozenset({4, 6}))
def test_topo_aware_fills_the_socket_in_use_whatever_links_there_are(
    sandbox: Sandbox, dgx1: str, oracle: Oracle
) -> None:
    placement = sandbox.run_job(
        "pair", 2, node=dgx1, communication=RING, placement={"policy": "TopoAware"}
    )
    chosen = set(oracle.indices(placement["intended"]))
    free = {0, 1, 2, 3, 5, 7}
    assert chosen == {5, 7} == set(oracle.nearest(free, 2))
    assert chosen != set(oracle.greedy(edges_of("Ring", 2), free, 2)), "a single link only"


@used(IDLE)
@pytest.mark.parametrize("patterns", [{"Tree": 5, "Chain": 3}, {"Star": 4, "RingTree": 4}])
def test_each_pattern_gets_the_best_gpus_that_are_left_in_the_order_of_its_ranks(
    sandbox: Sandbox, dgx1: str, oracle: Oracle, patterns: dict[str, int]
) -> None:
    free = set(range(8))
    for pattern, size in patterns.items():
        placement = sandbox.run_job(
            pattern.lower(),
            size,
            node=dgx1,
            communication={"pattern": pattern},
            placement={"policy": "Greedy"},
        )
        chosen = oracle.indices(placement["intended"])
        edges = edges_of(pattern, size)
        best = oracle.greedy(edges, free, size)
        assert set(chosen) == set(best)
        assert oracle.aggregate(edges, chosen) == oracle.most_aggregate(edges, best)
        assert placement["aggregateMBps"] == oracle.aggregate(edges, chosen) * 1000
        free -= set(chosen)


@used(THREE)
def test_a_heavy_edge_of_a_custom_pattern_draws_it_to_other_gpus(
    sandbox: Sandbox, dgx1: str, oracle: Oracle
) -> None:
    edges = {(0, 1): 1, (0, 2): 9, (0, 3): 1, (1, 2): 1}
    placement = sandbox.run_job(
        "weighted",
        4,
        node=dgx1,
        communication={
            "pattern": "Custom",
            "edges": [{"from": a, "to": b, "weight": weight} for (a, b), weight in edges.items()],
        },
        placement={"policy": "Greedy"},
    )
    chosen = oracle.indices(placement["intended"])
    free = {1, 2, 4, 5, 7}
    assert set(chosen) == {1, 2, 4, 5} == set(oracle.greedy(edges, free, 4))
    assert placement["aggregateMBps"] == oracle.aggregate(edges, chosen) * 1000 == 537_000
    assert oracle.greedy(dict.fromkeys(edges, 1), free, 4) == (1, 4, 5, 7), "were all alike"
