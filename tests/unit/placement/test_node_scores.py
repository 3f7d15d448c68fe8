"""Scores of nodes."""

from gputopo.bandwidth.preserved import preserved_mb_per_s
from gputopo.catalogue import named
from gputopo.patterns.model import ring
from gputopo.placement.model import Match, PlacementRequest
from gputopo.placement.place import place
from gputopo.placement.score import Candidate, score_nodes
from gputopo.topology.model import GpuIndex, GpuMask, NodeTopology
from support.builders.topologies import gpus

DGX1 = named("dgx1-v100")


def candidate(
    *, effective: int = 0, common: int = 0, lost: int = 0, left: int = 0, model: str = "eq2"
) -> Candidate:
    match = Match(
        gpus=(GpuIndex(0), GpuIndex(1)),
        aggregate_mb_per_s=100,
        effective_mb_per_s=effective,
        model=model,
        common_mb_per_s=common,
        preserved_mb_per_s=left,
        bound_mb_per_s=100,
    )
    return Candidate(match, lost)


def placed(topology: NodeTopology, free: GpuMask, *, size: int, sensitive: bool) -> Candidate:
    request = PlacementRequest(ring(size), sensitive=sensitive)
    match = place(topology, free, request)
    assert isinstance(match, Match)
    before = preserved_mb_per_s(topology, free)
    return Candidate(match, before - match.preserved_mb_per_s)


def test_without_nodes_there_are_no_scores() -> None:
    assert score_nodes({}, sensitive=True) == {}


def test_the_best_node_of_a_sensitive_job_has_the_highest_bandwidth() -> None:
    nodes = {"slow": candidate(effective=10), "fast": candidate(effective=50, lost=99)}
    assert score_nodes(nodes, sensitive=True) == {"fast": 10, "slow": 9}


def test_among_equal_bandwidths_the_best_node_loses_least() -> None:
    nodes = {"dear": candidate(effective=50, lost=9), "cheap": candidate(effective=50, lost=1)}
    assert score_nodes(nodes, sensitive=True) == {"cheap": 10, "dear": 9}


def test_nodes_of_two_models_are_compared_by_the_common_model() -> None:
    nodes = {
        "fitted": candidate(effective=58, common=45, model="eq2"),
        "plain": candidate(effective=99, common=12, model="other"),
        "switch": candidate(effective=20, common=300, model="other"),
    }
    assert score_nodes(nodes, sensitive=True) == {"switch": 10, "fitted": 9, "plain": 8}


def test_nodes_of_one_model_are_compared_by_it() -> None:
    nodes = {
        "most links": candidate(effective=30, common=112),
        "best links": candidate(effective=44, common=100),
    }
    assert score_nodes(nodes, sensitive=True) == {"best links": 10, "most links": 9}


def test_the_best_node_of_an_insensitive_job_loses_least() -> None:
    nodes = {"dear": candidate(effective=50, lost=9), "cheap": candidate(effective=1, lost=1)}
    assert score_nodes(nodes, sensitive=False) == {"cheap": 10, "dear": 9}


def test_among_equal_losses_the_fuller_node_is_best() -> None:
    nodes = {"whole": candidate(lost=5, left=300), "nearly full": candidate(lost=5, left=12)}
    assert score_nodes(nodes, sensitive=False) == {"nearly full": 10, "whole": 9}


def test_idle_nodes_stay_idle() -> None:
    nodes = {
        "idle": placed(DGX1, DGX1.mask, size=2, sensitive=False),
        "half": placed(DGX1, gpus(0, 1, 2, 3), size=2, sensitive=False),
    }
    assert score_nodes(nodes, sensitive=False) == {"half": 10, "idle": 9}


def test_a_sensitive_job_of_one_gpu_keeps_idle_nodes_idle() -> None:
    nodes = {
        "idle": placed(DGX1, DGX1.mask, size=1, sensitive=True),
        "half": placed(DGX1, gpus(0, 1, 2, 3), size=1, sensitive=True),
    }
    assert score_nodes(nodes, sensitive=True) == {"half": 10, "idle": 9}


def test_equal_nodes_have_equal_scores() -> None:
    nodes = {name: candidate(effective=5, lost=1) for name in ("a", "b")}
    assert score_nodes(nodes, sensitive=True) == {"a": 10, "b": 10}


def test_ranks_from_the_eleventh_on_have_score_0() -> None:
    nodes = {str(rank): candidate(lost=10**rank) for rank in range(13)}
    scores = score_nodes(nodes, sensitive=False)
    assert list(scores.values()) == [10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0, 0]


def test_a_node_with_nvswitch_beats_a_v100_server_for_a_sensitive_ring() -> None:
    """One has values of equation 2, the other of the physical model."""
    nvswitch = named("dgx-a100")
    nodes = {
        "dgx1": placed(DGX1, DGX1.mask, size=3, sensitive=True),
        "a100": placed(nvswitch, nvswitch.mask, size=3, sensitive=True),
    }
    assert {it.match.model for it in nodes.values()} == {"eq2", "physical"}
    assert score_nodes(nodes, sensitive=True) == {"a100": 10, "dgx1": 9}
