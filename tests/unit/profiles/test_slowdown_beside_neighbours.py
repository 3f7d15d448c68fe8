"""The slowdown beside another workload."""

from collections.abc import Sequence
from math import log
from typing import Any

import pytest

from gputopo.api.profile import NeighbourFact, Sample
from gputopo.profiles.terms import MAX_NEIGHBOURS
from support.builders.workload_runs import WORST_MB_PER_S, run_of
from support.facts import neighbour_facts

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
        *(each for run in "abcd" for each in alone(run)),
        *(each for run in "efgh" for each in run_beside(run, socket=[NEIGHBOUR])),
    ]
    assert only_fact(samples).percent == pytest.approx(25, abs=1)


def test_each_pod_of_a_neighbour_slows_down() -> None:
    samples = [
        each
        for run in "abc"
        for each in [*alone(run), *run_beside(run, socket=[NEIGHBOUR] * 2, slower=2 * SLOWER)]
    ]
    assert only_fact(samples).percent == 25


def test_neighbour_on_another_socket_has_the_scope_node() -> None:
    samples = [each for run in "abc" for each in [*alone(run), *run_beside(run, node=[NEIGHBOUR])]]
    fact = only_fact(samples)
    assert fact.scope == "Node"
    assert fact.percent == pytest.approx(25, abs=1)


def test_samples_beside_two_neighbours_show_both_if_each_also_occurs_alone() -> None:
    other = "ml/gpt"
    samples = [
        each
        for run in "abc"
        for each in [
            *alone(run),
            *run_beside(run, socket=[NEIGHBOUR]),
            *run_beside(run, socket=[NEIGHBOUR, other], slower=SLOWER + log(1.1)),
        ]
    ]
    found = {fact.workload: fact.percent for fact in neighbour_facts(samples)}
    assert found == {NEIGHBOUR: pytest.approx(25, abs=1), other: pytest.approx(10, abs=1)}


def test_neighbours_that_always_come_together_show_nothing_about_one() -> None:
    samples = [
        each
        for run in "abc"
        for each in [*alone(run), *run_beside(run, socket=[NEIGHBOUR, "ml/gpt"])]
    ]
    assert neighbour_facts(samples) == []


def test_neighbours_without_a_profile_are_no_workload() -> None:
    samples = [each for run in "abc" for each in [*alone(run), *run_beside(run, socket=["ml/"])]]
    assert neighbour_facts(samples) == []


def test_two_samples_of_one_run_are_not_enough() -> None:
    beside = run_beside("a", socket=[NEIGHBOUR])
    assert neighbour_facts([*alone("a"), *alone("b"), *beside[:2]]) == []
    assert len(neighbour_facts([*alone("a"), *alone("b"), *beside])) == 1


def test_two_runs_without_a_common_surrounding_show_less_than_one_run_in_both() -> None:
    apart = only_fact([*alone("a"), *run_beside("b", socket=[NEIGHBOUR])])
    both = only_fact([*alone("a"), *run_beside("a", socket=[NEIGHBOUR])])
    assert apart.high_percent - apart.low_percent > both.high_percent - both.low_percent
    assert apart.low_percent < 25 < apart.high_percent


def test_bad_links_of_the_runs_beside_a_neighbour_are_not_taken_for_its_effect() -> None:
    bad: dict[str, Any] = {"effective_mb_per_s": WORST_MB_PER_S}
    samples = [
        *(each for run in "ab" for each in alone(run)),
        *(each for run in "cd" for each in run_of(run, [0.5] * 3, **bad)),
        *(
            each
            for run in "ef"
            for each in run_beside(run, socket=[NEIGHBOUR], slower=0.5 + SLOWER, **bad)
        ),
    ]
    assert only_fact(samples).percent == pytest.approx(25, abs=3)


def test_numbers_of_gpus_show_one_slowdown_together() -> None:
    def samples(*counts: int) -> list[Sample]:
        return [
            each
            for gpus in counts
            for run in "abc"
            for each in [
                *alone(f"{run}-{gpus}", gpus=gpus),
                *run_beside(f"{run}-{gpus}", socket=[NEIGHBOUR], gpus=gpus),
            ]
        ]

    one, both = only_fact(samples(2)), only_fact(samples(2, 4))
    assert (both.percent, both.samples) == (25, 18)
    assert both.high_percent - both.low_percent <= one.high_percent - one.low_percent


def test_runs_with_too_few_cpus_do_not_count() -> None:
    samples = [
        each for run in "abc" for each in [*alone(run), *run_beside(run, socket=[NEIGHBOUR])]
    ]
    few = run_beside("few", socket=[NEIGHBOUR], slower=2.0, milli_cpu=1000)
    assert neighbour_facts([*samples, *few]) == neighbour_facts(samples)
    assert neighbour_facts([*samples, *few], {2: 2000}) == neighbour_facts(samples)


def test_neighbours_with_the_most_samples_are_in_the_status() -> None:
    names = [f"ml/{number:02}" for number in range(MAX_NEIGHBOURS + 1)]
    samples = [
        each
        for gpus, beside in ((2, names[:20]), (4, names[20:]))
        for run in "abc"
        for each in [
            *alone(f"{run}-{gpus}", gpus=gpus),
            *(
                run_beside(f"{run}-{gpus}", socket=[name], gpus=gpus)[0]
                for name in beside
                if (run, name) != ("c", "ml/07")
            ),
        ]
    ]
    assert [fact.workload for fact in neighbour_facts(samples)] == [
        name for name in names if name != "ml/07"
    ]


def test_each_neighbour_has_its_own_fact() -> None:
    samples = [
        each
        for run in "abc"
        for each in [
            *alone(run),
            *run_beside(run, socket=["ml/z"], slower=0.0),
            *run_beside(run, socket=["ml/y"]),
        ]
    ]
    assert [(fact.workload, fact.percent) for fact in neighbour_facts(samples)] == [
        ("ml/y", 25),
        ("ml/z", 0),
    ]
