"""Which samples can be compared."""

from math import inf

import pytest

from gputopo.profiles.comparable import (
    ALONE,
    alone_on_socket,
    bandwidth_classes,
    by_gpus,
    cpu_limit,
    enough,
    first_enough,
    neighbour_on_node,
    neighbour_on_socket,
    with_enough_cpus,
    with_known_bandwidth,
)
from support.builders.workload_runs import run_of, sample


def test_samples_of_each_number_of_gpus_ascend_by_time() -> None:
    late, early, other = sample(minute=2), sample(minute=1), sample(gpus=1)
    assert by_gpus([late, other, early]) == {1: [other], 2: [early, late]}


def test_first_list_with_enough_samples_is_chosen() -> None:
    one, two = [sample()], [sample(), sample()]
    assert first_enough([one, two], lambda chosen: len(chosen) > 1) is two
    assert first_enough([two, one], lambda chosen: len(chosen) > 1) is two
    assert first_enough([two, one], lambda chosen: len(chosen) > 2) is one
    assert first_enough([], bool) == []


def test_one_run_needs_three_samples_and_two_runs_need_one_each() -> None:
    one, two, three = run_of("a", [0.0] * 3)
    assert not enough([])
    assert not enough([one, two])
    assert enough([one, two, three])
    assert enough([one, sample("b")])


def test_bandwidths_of_an_older_model_are_not_compared() -> None:
    old, new = sample(model="physical"), sample(minute=1)
    assert with_known_bandwidth([old, sample(effective_mb_per_s=0), new]) == [new]
    assert with_known_bandwidth([]) == []


def test_neighbours_on_the_socket_are_recognised() -> None:
    alone, beside = sample(node_neighbours=["a/b"]), sample(socket_neighbours=["a/b"])
    assert alone_on_socket([beside, alone]) == [alone]


def test_samples_with_the_demand_have_enough_cpus() -> None:
    few, enough, unlimited = sample(milli_cpu=3999), sample(milli_cpu=4000), sample(milli_cpu=None)
    assert with_enough_cpus([few, enough, unlimited], 4000) == [enough, unlimited]


def test_samples_with_the_usual_limit_count_if_the_demand_is_unknown() -> None:
    few, usual, unlimited = sample(milli_cpu=1), sample(milli_cpu=8), sample(milli_cpu=None)
    assert with_enough_cpus([few, usual, usual], None) == [usual, usual]
    assert with_enough_cpus([few, usual, usual, unlimited], None) == [usual, usual, unlimited]
    assert with_enough_cpus([few, usual, unlimited], None) == [unlimited]
    assert with_enough_cpus([], None) == []
    assert cpu_limit(unlimited) == inf


def test_similar_bandwidths_of_one_model_are_one_class() -> None:
    fields = [("a", 0), ("a", 100), ("a", 124), ("a", 125), ("a", 156), ("b", 156)]
    samples = [sample(model=model, effective_mb_per_s=mb or None) for model, mb in fields]
    assert bandwidth_classes(samples) == {
        ("a", 0): ("a", 0),
        ("a", 100): ("a", 100),
        ("a", 124): ("a", 100),
        ("a", 125): ("a", 125),
        ("a", 156): ("a", 125),
        ("b", 156): ("b", 156),
    }


@pytest.mark.parametrize(
    ("workloads", "expected"),
    [
        ([], ALONE),
        (["a/b", "a/b"], "a/b"),
        (["a/b", "a/c"], None),
        (["a/"], None),
    ],
)
def test_single_workload_beside_a_sample_is_known(
    workloads: list[str], expected: str | None
) -> None:
    assert neighbour_on_socket(sample(socket_neighbours=workloads)) == expected
    assert neighbour_on_node(sample(node_neighbours=workloads)) == expected


def test_sample_beside_a_neighbour_on_the_socket_shows_nothing_about_the_node() -> None:
    assert neighbour_on_node(sample(socket_neighbours=["a/b"], node_neighbours=["a/b"])) is None
