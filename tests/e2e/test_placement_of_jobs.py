"""A GPUJob gets the GPUs that MAPA chooses, on a real cluster."""

from collections.abc import Callable

import pytest

from exhaustive import Oracle
from sandbox import Sandbox

pytestmark = pytest.mark.e2e

RING = {"pattern": "Ring", "bandwidthSensitivity": "Sensitive"}


@pytest.fixture
def oracle(sandbox: Sandbox, dgx1: str) -> Oracle:
    return Oracle(sandbox.kubectl.get("gputopology", dgx1)["spec"])


@pytest.fixture
def take(sandbox: Sandbox, dgx1: str, oracle: Oracle) -> Callable[[set[int]], None]:
    """Leave exactly these GPUs of the node taken, by pods of one GPU each."""

    def taker(wanted: set[int]) -> None:
        pods = [
            sandbox.run_pod(f"filler-{number}", 1, node=dgx1, policy="Baseline")
            for number in range(8)
        ]
        holds = {pod: oracle.indices(sandbox.gpus_of(pod))[0] for pod in pods}
        assert list(holds.values()) == list(range(8)), "baseline takes the lowest free GPU"
        sandbox.delete_pods(pod for pod, gpu in holds.items() if gpu not in wanted)

    return taker


def test_sensitive_ring_of_three_on_an_idle_dgx1_gets_the_ideal_triple(
    sandbox: Sandbox, dgx1: str, oracle: Oracle
) -> None:
    placement = sandbox.run_job("ring", 3, node=dgx1, communication=RING)
    chosen = oracle.indices(tuple(placement["intended"]))
    assert placement["aggregateMBps"] == 125_000
    assert oracle.ring_aggregate(chosen) == 125
    assert placement["model"] == "eq2"
    assert placement["effectiveMBps"] == pytest.approx(57_858, abs=10)
    assert oracle.effective(chosen) == pytest.approx(oracle.most_effective(set(range(8)), 3))


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
    dgx1: str,
    oracle: Oracle,
    take: Callable[[set[int]], None],
    policy: str,
    gpus: set[int],
    aggregate: int,
) -> None:
    take({0, 3, 6})
    placement = sandbox.run_job(
        "ring", 3, node=dgx1, communication=RING, placement={"policy": policy}
    )
    chosen = oracle.indices(tuple(placement["intended"]))
    free = {1, 2, 4, 5, 7}
    assert set(chosen) == gpus
    assert placement["aggregateMBps"] == aggregate
    assert oracle.ring_aggregate(chosen) * 1000 == aggregate, "in rank order"
    if policy == "Preserve":
        assert placement["effectiveMBps"] == pytest.approx(44_130, abs=10)
        assert oracle.effective(chosen) == pytest.approx(oracle.most_effective(free, 3))
    if policy == "Greedy":
        assert oracle.ring_aggregate(chosen) == oracle.greedy(free, 3)


@pytest.mark.parametrize("taken", [set(), {0, 3, 6}])
def test_insensitive_pair_leaves_the_most_bandwidth_for_others(
    sandbox: Sandbox,
    dgx1: str,
    oracle: Oracle,
    take: Callable[[set[int]], None],
    taken: set[int],
) -> None:
    if taken:
        take(taken)
    placement = sandbox.run_job(
        "pair", 2, node=dgx1, communication={"bandwidthSensitivity": "Insensitive"}
    )
    free = set(range(8)) - taken
    left = free - set(oracle.indices(tuple(placement["intended"])))
    assert oracle.preserved(left) == oracle.most_preserved(free, 2)
    assert placement["preservedMBps"] == oracle.preserved(left) * 1000


def test_sensitive_job_goes_to_the_node_with_the_best_links(
    sandbox: Sandbox, nvswitch: str
) -> None:
    placement = sandbox.run_job("fast", 4, communication=RING)
    assert placement["node"] == nvswitch


def test_insensitive_job_stays_away_from_the_good_links(sandbox: Sandbox, pcie: str) -> None:
    placement = sandbox.run_job("modest", 2, communication={"bandwidthSensitivity": "Insensitive"})
    assert placement["node"] == pcie


def test_custom_edges_put_the_heavy_edge_on_a_double_link(
    sandbox: Sandbox, dgx1: str, oracle: Oracle
) -> None:
    star = [{"from": 0, "to": rank, "weight": 1} for rank in (1, 2, 3)]
    placement = sandbox.run_job(
        "star",
        4,
        node=dgx1,
        communication={"pattern": "Custom", "edges": star, "bandwidthSensitivity": "Sensitive"},
    )
    hub, *leaves = oracle.indices(tuple(placement["intended"]))
    reached = sum(oracle.links[frozenset((hub, leaf))]["bandwidthMBps"] for leaf in leaves)
    assert reached == placement["aggregateMBps"] == 125_000, "two double links and a single one"
