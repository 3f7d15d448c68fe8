"""The tables of ``docs/studies/ensemble.md`` have the figures of the program."""

import re
from pathlib import Path

import pytest

from gputopo.ensemble.rates import profiling_range
from gputopo_simulate.ensemble.policies import EnsemblePolicy
from gputopo_simulate.ensemble.report import compare
from gputopo_simulate.ensemble.run import EnsembleExperiment, simulate

PAGE = (Path(__file__).parents[4] / "docs/studies/ensemble.md").read_text()
SEEDS = range(1, 21)


def rows(after: str) -> dict[str, list[str]]:
    """Return the cells of the first table after a text, by policy."""
    table = re.findall(r"(?m)^(?:\|.*\n)+", PAGE.split(after, 1)[1])[0]
    cells = [line.strip("| ").split(" | ") for line in table.splitlines()]
    return {row[0].strip("`"): row[1:] for row in cells[2:]}


def test_worked_example() -> None:
    found = profiling_range([176.0, 21.0], 4)
    assert f"M_a {found.by_rates}, M_b {found.by_nodes}, M_t {found.most}" in PAGE


@pytest.mark.parametrize("policy", [EnsemblePolicy.ONE_GPU, EnsemblePolicy.EQUAL])
def test_flotillas_end_before_simple_ways(policy: EnsemblePolicy) -> None:
    policies = (EnsemblePolicy.FLEET, policy)
    experiment = EnsembleExperiment(100, 12, 8)
    results = [[simulate(experiment, each, seed) for each in policies] for seed in SEEDS]
    table = rows("## 12 nodes of 8 GPUs")
    for found in compare(results):
        half = found.change.half_width
        assert half is not None
        assert table[found.policy.value][:4] == [
            f"{found.makespan:.1f}",
            f"{100 * found.change.mean:+.1f} ± {100 * half:.1f}",
            f"{100 * found.idle:.1f}",
            f"{100 * found.worst_idle:.1f}",
        ]
    assert compare(results)[1].change.mean - (half or 0) > 0
