"""The slowdown beside another workload."""

from collections.abc import Sequence
from math import log
from typing import Any

from gputopo.api.profile import NeighbourFact, Sample
from gputopo.profiles.neighbours import neighbour_facts
from support.builders.workload_runs import run_of

NEIGHBOUR = "ml/bert"
SLOWER = log(1.25)


def run_beside(
    run: str,
    *,
    socket: Sequence[str] = (),
    node: Sequence[str] = (),
    slower: float = SLOWER,
    **fields: Any,
) -> list[Sample]:
    """Return three samples beside neighbours."""
    return run_of(
        run,
        [slower] * 3,
        start=100,
        socket_neighbours=list(socket),
        node_neighbours=[*socket, *node],
        **fields,
    )


def alone(run: str, **fields: Any) -> list[Sample]:
    """Return three samples without neighbours."""
    return run_of(run, [0.0] * 3, **fields)


def only_fact(samples: list[Sample]) -> NeighbourFact:
    (fact,) = neighbour_facts(samples)
    return fact


def test_runs_that_got_a_neighbour_show_the_slowdown() -> None:
    fact = only_fact(
        [
            each
            for run in ("a", "b", "c")
            for each in [*alone(run), *run_beside(run, socket=[NEIGHBOUR])]
        ]
    )
    assert (fact.workload, fact.scope, fact.percent) == (NEIGHBOUR, "Socket", 25)
    assert 15 < fact.low_percent < 25 < fact.high_percent < 35
    assert fact.samples == 9


def test_speed_of_the_runs_does_not_change_the_slowdown() -> None:
    samples = [
        each
        for run, level in (("a", 0.0), ("b", 0.7), ("c", -0.9))
        for each in [
            *run_of(run, [level] * 3),
            *run_beside(run, socket=[NEIGHBOUR], slower=level + SLOWER),
        ]
    ]
    assert only_fact(samples).percent == 25


def test_different_runs_show_the_slowdown() -> None:
    samples = [
        *alone("a"),
        *alone("b"),
        *run_beside("c", socket=[NEIGHBOUR]),
        *run_beside("d", socket=[NEIGHBOUR, NEIGHBOUR]),
    ]
    assert only_fact(samples).percent == 25


def test_neighbour_on_another_socket_has_the_scope_node() -> None:
    samples = [*alone("a"), *alone("b"), *run_beside("c", node=[NEIGHBOUR])]
    assert (only_fact(samples).scope, only_fact(samples).percent) == ("Node", 25)


def test_neighbours_on_other_sockets_are_ignored_beside_one_on_the_socket() -> None:
    samples = [
        *alone("a"),
        *alone("b"),
        *run_beside("c", socket=[NEIGHBOUR], node=["ml/x", "ml/y"]),
    ]
    assert only_fact(samples).scope == "Socket"


def test_several_neighbours_at_once_show_nothing_about_one() -> None:
    samples = [*alone("a"), *alone("b"), *run_beside("c", socket=[NEIGHBOUR, "ml/gpt"])]
    assert neighbour_facts(samples) == []


def test_neighbours_without_a_profile_are_no_workload() -> None:
    samples = [*alone("a"), *alone("b"), *run_beside("c", socket=["ml/"])]
    assert neighbour_facts(samples) == []


def test_one_run_does_not_show_the_scatter() -> None:
    assert neighbour_facts([*alone("a"), *run_beside("a", socket=[NEIGHBOUR])]) == []


def test_two_samples_of_one_run_are_not_enough() -> None:
    beside = run_beside("c", socket=[NEIGHBOUR])
    assert neighbour_facts([*alone("a"), *alone("b"), *beside[:2]]) == []
    assert neighbour_facts([*alone("a")[:2], *beside]) == []


def test_runs_with_other_links_cpus_or_gpus_are_not_compared() -> None:
    beside = run_beside("c", socket=[NEIGHBOUR])
    for other in ({"effective_mb_per_s": 10_000}, {"milli_cpu": 4000}, {"gpus": 4}):
        assert neighbour_facts([*alone("a", **other), *alone("b", **other), *beside]) == []


def test_runs_whose_cpus_are_enough_are_compared() -> None:
    samples = [
        *alone("a", milli_cpu=16_000),
        *alone("b", milli_cpu=None),
        *run_beside("c", socket=[NEIGHBOUR]),
    ]
    assert neighbour_facts(samples) == []
    (fact,) = neighbour_facts(samples, {2: 8000})
    assert fact.percent == 25


def test_each_neighbour_has_its_own_fact() -> None:
    samples = [
        *alone("a"),
        *alone("b"),
        *run_beside("c", socket=["ml/z"], slower=0.0),
        *run_beside("d", socket=["ml/y"]),
    ]
    assert [(fact.workload, fact.percent) for fact in neighbour_facts(samples)] == [
        ("ml/y", 25),
        ("ml/z", 0),
    ]
