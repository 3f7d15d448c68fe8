"""Of nodes on which the GPUs are equally good, those with a clearly smaller share come later."""

import pytest

from gputopo.placement.offers import ranked_by_shares, share_of_pod


@pytest.mark.parametrize(
    ("milli_cpu", "node_gpus", "pod_gpus", "most", "share"),
    [
        (32_000, 8, 2, None, 8000),
        (32_000, 8, 2, 6000, 6000),
        (32_000, 8, 8, None, 32_000),
        (0, 8, 2, None, 0),
        (32_000, 1, 2, None, None),
        (32_000, 0, 1, None, None),
    ],
)
def test_share_is_the_part_of_the_gpus_up_to_the_maximum(
    milli_cpu: int, node_gpus: int, pod_gpus: int, most: int | None, share: int | None
) -> None:
    assert share_of_pod(milli_cpu, node_gpus, pod_gpus, most) == share


def test_nodes_of_one_rank_are_divided_by_their_share() -> None:
    ranks = {"large": 0, "small": 0, "worse links": 1}
    shares = {"large": 8000, "small": 6399, "worse links": 9000}
    assert ranked_by_shares(ranks, shares) == {"large": 0, "small": 1, "worse links": 2}


def test_small_differences_do_not_matter() -> None:
    ranks = {"a": 0, "b": 0, "c": 3}
    assert ranked_by_shares(ranks, {"a": 8000, "b": 6400}) == {"a": 0, "b": 0, "c": 1}


def test_node_of_an_unknown_share_is_not_worse() -> None:
    ranks = {"large": 0, "small": 0, "unknown": 0}
    shares = {"large": 8000, "small": 1000}
    assert ranked_by_shares(ranks, shares) == {"large": 0, "unknown": 0, "small": 1}


def test_nodes_without_cpus_for_the_pod_are_equal() -> None:
    assert ranked_by_shares({"a": 0, "b": 0}, {"a": 0, "b": 0}) == {"a": 0, "b": 0}
