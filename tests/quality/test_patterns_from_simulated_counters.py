"""Patterns from the counters of simulated jobs (docs/studies/counters.md has the complete study).

The traffic is laid without code of the inference, and the truth is a graph isomorphism of networkx.
"""

from functools import cache

import pytest

from benchmarks.counters import LINKED, MESHES, NO_PAIRS, NOT_LINKED, groups
from benchmarks.workloads.collectives import LAYOUTS
from benchmarks.workloads.pattern_score import OTHER, UNKNOWN, PatternScore, scored

SEED = 2026
COUNT = 2
SIZES = {LINKED: range(2, 9), NOT_LINKED: (3, 5, 8), NO_PAIRS: (2, 8), MESHES: (5, 8)}


@cache
def score(group: str) -> PatternScore:
    return scored(groups(COUNT, SEED, SIZES[group])[group])


def test_patterns_are_known_and_right_where_every_pair_has_nvlinks() -> None:
    found = score(LINKED)
    assert sum(found.results.values()) == 5 * len(LAYOUTS) * COUNT
    assert found.percent("wrong") <= 1
    assert found.percent(UNKNOWN) <= 25


def test_patterns_of_more_gpus_are_right() -> None:
    found = score(MESHES)
    assert found.percent("wrong") <= 1
    clear = {key: n for key, n in found.classes.items() if key[0] != OTHER}
    unknown = sum(n for (_, reported), n in clear.items() if reported == UNKNOWN)
    assert unknown <= 0.25 * sum(clear.values())


def test_no_pattern_is_wrong_where_some_pairs_have_no_nvlink() -> None:
    assert score(NOT_LINKED).percent("wrong") <= 1


def test_patterns_behind_switches_and_on_pcie_are_unknown() -> None:
    assert score(NO_PAIRS).percent(UNKNOWN) == 100


@pytest.mark.parametrize("group", [LINKED, MESHES])
def test_bytes_per_step_are_measured(group: str) -> None:
    errors = sorted(map(abs, score(group).errors))
    assert errors[len(errors) // 2] <= 0.05
    assert errors[-1] <= 0.2


@pytest.mark.parametrize("group", [NOT_LINKED, NO_PAIRS])
def test_bytes_per_step_with_pcie_are_hardly_below_the_truth(group: str) -> None:
    assert min(score(group).errors) >= -0.1
