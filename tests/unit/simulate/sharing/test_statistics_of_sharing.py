"""Statistics of runs and their paired changes."""

import pytest

from gputopo_simulate.intervals import ConfidenceInterval
from gputopo_simulate.sharing.model import (
    FinishedSharedJob,
    FirstChoice,
    OneGpuJob,
    SharingResult,
)
from gputopo_simulate.sharing.report import compare, comparison_document, figures


def result(policy: str, *ends: float, choice: FirstChoice = FirstChoice.RIGHT) -> SharingResult:
    return SharingResult(
        policy,
        tuple(
            FinishedSharedJob(OneGpuJob(number, 0, "A", 3600), 0, 3600 * end, 0, number, choice)
            for number, end in enumerate(ends)
        ),
    )


def test_figures_are_in_hours_and_ratios() -> None:
    found = figures(result("p", 1, 3, choice=FirstChoice.WAITED_WRONG))
    assert (found.makespan, found.completion, found.stretch) == (3, 2, 2)
    assert found.p99_slowdown == pytest.approx(2.98)
    assert (found.choices, found.wrong, found.moves) == (1, 1, 1)


def test_wrong_decisions_are_relative_to_the_jobs_without_an_empty_gpu() -> None:
    found = figures(result("p", 1, 3, choice=FirstChoice.NOT_NEEDED))
    assert (found.choices, found.wrong) == (0, 0)


def test_changes_are_paired() -> None:
    runs = [
        [result("a", 2, 4), result("b", 1, 2)],
        [result("a", 20, 40), result("b", 10, 20)],
    ]
    first, second = compare(runs)
    assert (first.policy, first.makespan) == ("a", ConfidenceInterval(0, 0))
    assert second.makespan == ConfidenceInterval(-0.5, 0)
    assert second.completion == ConfidenceInterval(-0.5, 0)
    assert second.mean.makespan == 11


def test_interval_is_that_of_students_distribution() -> None:
    """Changes of -50 % and -25 %: the standard error is 12.5 %, the quantile 12.7."""
    runs = [[result("a", 4), result("b", 2)], [result("a", 4), result("b", 3)]]
    changed = compare(runs)[1].makespan
    assert changed.mean == -0.375
    assert changed.half_width == pytest.approx(12.706 * 0.125, rel=1e-3)


def test_one_list_has_no_interval() -> None:
    [_, second] = compare([[result("a", 2), result("b", 1)]])
    assert second.makespan == ConfidenceInterval(-0.5, None)
    document = comparison_document(second)
    assert document["makespanChange"] == {"mean": -0.5, "halfWidth": None}
    assert document["policy"] == "b"
