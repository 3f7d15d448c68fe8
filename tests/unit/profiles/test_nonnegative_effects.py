"""Effects of neighbours that are not negative, and the slowdown on slow links beside them."""

from math import log, sqrt
from random import Random

import numpy as np
import pytest

from gputopo.api.profile import LinkFact
from gputopo.profiles.facts import workload_facts
from gputopo.profiles.linkcurve import LINEAR, CurveMisfit
from gputopo.profiles.nonnegative import NonnegativeLeastSquares
from gputopo.profiles.ratemodel import MAX_NONNEGATIVE
from gputopo.profiles.terms import (
    ON_NODE,
    ON_SOCKET,
    SLOWER_ON_NODE,
    SLOWER_ON_SOCKET,
    Term,
    nested,
)
from support.builders.workload_runs import BEST_MB_PER_S, WORST_MB_PER_S, sample

random = Random(1)  # noqa: S311 - test data


def test_the_worked_example() -> None:
    matrix, target = [[1.0, 0.5], [0.5, 1.0]], [1.0, -0.5]
    assert np.linalg.solve(matrix, target) == pytest.approx([5 / 3, -4 / 3])
    assert NonnegativeLeastSquares(matrix).minimum(target) == pytest.approx([1.0, 0.0])


@pytest.mark.parametrize("size", [1, 2, 5, 16])
@pytest.mark.parametrize("rank", [1, 3, 16])
def test_a_minimum_has_no_slope_inside_and_a_rising_one_at_the_bound(size: int, rank: int) -> None:
    for _ in range(10):
        # Columns of few samples are linearly dependent; only the prior makes M definite.
        columns = np.array([[random.gauss(0, 1) for _ in range(size)] for _ in range(rank)])
        matrix = columns.T @ columns * 1e4 + np.eye(size)
        form = NonnegativeLeastSquares(matrix.tolist())
        for _ in range(3):
            target = columns.T @ np.array([random.gauss(0, 1) for _ in range(rank)]) * 1e4
            found = np.array(form.minimum(target.tolist()))
            slopes = (matrix @ found - target) / max(abs(target))
            assert np.all(found >= 0)
            assert np.all(slopes >= -1e-6)
            assert np.all(np.abs(slopes[found > 0]) <= 1e-6)


def test_without_effects_there_is_nothing_to_find() -> None:
    assert NonnegativeLeastSquares([]).minimum([]) == []


def test_an_effect_explains_longer_times_but_not_shorter_ones() -> None:
    # One level, no curve. Every second sample has the neighbour, and takes 0.1 more or less.
    neighbour = [-0.5, 0.5, -0.5, 0.5]

    def misfit_of(change: float) -> float:
        columns = [[change * each for each in neighbour], [0.0] * 4, neighbour]
        products = [[1e4 * float(np.dot(a, b)) for b in columns] for a in columns]
        return CurveMisfit([0.0], products, [ON_SOCKET]).of(0.0, LINEAR)

    prior = 1e4 * 0.1**2 / (1 + 1e4 * ON_SOCKET**2)
    assert misfit_of(0.1) == pytest.approx(prior)
    assert misfit_of(-0.1) == pytest.approx(1e4 * 0.1**2)


def test_a_neighbour_on_the_socket_has_the_effect_of_one_on_the_node_and_more() -> None:
    terms = [
        Term("Socket", "a", ON_SOCKET, [1.0, 0.0]),
        Term("Socket", "b", ON_SOCKET, [1.0, 1.0]),
        Term("Node", "a", ON_NODE, [0.0, 1.0]),
        Term("Node", "c", ON_NODE, [1.0, 0.0]),
    ]
    more = sqrt(SLOWER_ON_SOCKET**2 - SLOWER_ON_NODE**2)
    assert nested(terms) == [
        Term("Socket", "a", more, [1.0, 0.0]),
        Term("Socket", "b", SLOWER_ON_SOCKET, [1.0, 1.0]),
        Term("Node", "a", SLOWER_ON_NODE, [1.0, 1.0]),
        Term("Node", "c", SLOWER_ON_NODE, [1.0, 0.0]),
    ]


def link_fact(slowdown: float, neighbours: int = 2) -> LinkFact:
    """Return the fact from four runs of two samples each, every second one on the worst links.

    The worst sets span both sockets, so there all neighbours are on the same socket.
    """
    names = [f"ns/neighbour-{number}" for number in range(neighbours)]
    samples = []
    for number in range(8):
        worst = number // 2 % 2 == 1
        samples.append(
            sample(
                f"run-{number // 2}",
                number,
                (log(1 + slowdown) if worst else 0.0) + 0.002 * random.gauss(0, 1),
                effective_mb_per_s=WORST_MB_PER_S if worst else BEST_MB_PER_S,
                socket_neighbours=names if worst else [],
                node_neighbours=names,
            )
        )
    facts = workload_facts(samples)
    assert facts is not None
    return facts.links[0]


@pytest.mark.parametrize(
    ("slowdown", "sensitivity"), [(0.02, "Insensitive"), (0.2, "Unknown"), (0.8, "Sensitive")]
)
def test_the_class_is_known_if_neighbours_cannot_explain_the_difference(
    slowdown: float, sensitivity: str
) -> None:
    fact = link_fact(slowdown)
    assert fact.sensitivity == sensitivity
    assert fact.percent == pytest.approx(100 * slowdown, abs=2)
    assert fact.high_percent < 100 * slowdown + 15


def test_many_neighbours_are_possible() -> None:
    fact = link_fact(0.02, neighbours=MAX_NONNEGATIVE + 8)
    assert fact.percent == pytest.approx(2, abs=2)
