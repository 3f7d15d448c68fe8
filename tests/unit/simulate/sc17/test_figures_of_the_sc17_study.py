"""The tables of ``docs/studies/sc17.md`` have the figures of the program."""

import re
from statistics import fmean

import pytest

from gputopo.catalogue import named
from gputopo_simulate.intervals import confidence_interval
from gputopo_simulate.sc17.generate import CaffeLoad, generate
from gputopo_simulate.sc17.model import CaffeJob, Sc17Result
from gputopo_simulate.sc17.policies import PAPER_POLICIES
from gputopo_simulate.sc17.released.program import run_as_released
from gputopo_simulate.sc17.report import figures
from gputopo_simulate.sc17.run import Sc17Settings, run
from support.sc17 import ROOT, jobs_of, profiles

PAGE = (ROOT / "docs/studies/sc17.md").read_text()


def rows(section: str) -> list[list[str]]:
    """Return the cells of all tables of a section, without headings."""
    text = PAGE.split(f"## {section}\n")[1].split("\n## ")[0]
    found = re.findall(r"^\| (.*) \|$", text, re.MULTILINE)
    return [[cell.strip() for cell in row.split("|")] for row in found if "paper" not in row[:6]]


def simulated(
    jobs: tuple[CaffeJob, ...], name: str, machines: int, max_wait: float = float("inf")
) -> Sc17Result:
    """Run a policy by its name in a table, such as ``topo-aware-p, minimum 0.6``."""
    policy, _, variant = name.partition(", ")
    if variant == "as released":
        return run_as_released(jobs, profiles(), policy, machines)
    minimum = float(variant.removeprefix("minimum ")) if variant else None
    settings = Sc17Settings(policy, machines, max_wait, minimum)
    return run(named("power8-minsky"), jobs, profiles(), settings)


@pytest.mark.parametrize(
    ("label", "jobs"), [("jobs of the paper's table 1", "table1"), ("released jobs", "six")]
)
def test_makespans_of_the_six_jobs(label: str, jobs: str) -> None:
    found = {row[0]: row[1:] for row in rows("The prototype: six jobs on one machine")}
    for suffix in ("", ", as released"):
        assert found[label + suffix] == [
            f"{simulated(jobs_of(jobs), policy + suffix, 1).makespan:.1f}"
            for policy in PAPER_POLICIES
        ]


HUNDRED = [row for row in rows("100 jobs on 5 machines") if row[0] not in {"policy", "---"}]


def test_table_of_the_hundred_jobs_is_complete() -> None:
    assert len(HUNDRED) == 8 + 4 + 1


@pytest.mark.parametrize("row", HUNDRED, ids=lambda row: row[0])
def test_row_of_the_hundred_jobs(row: list[str]) -> None:
    found = figures(simulated(jobs_of("hundred"), row[0], 5).jobs)
    assert row[1:] == [
        f"{found.makespan:.1f}",
        str(found.slow_jobs),
        f"{100 * found.mean_slowdown:.1f}",
        f"{found.mean_wait:.1f}",
        f"{found.max_wait:.1f}",
    ]


def figures_of_20_lists(name: str) -> list[tuple[float, float, float]]:
    """Return slow jobs, mean slowdown in percent, and mean wait of the jobs of each seed."""
    lists = [generate(seed, CaffeLoad(100, 10)) for seed in range(1, 21)]
    found = [figures(simulated(jobs, name, 5, 600.0).jobs) for jobs in lists]
    return [(each.slow_jobs, 100 * each.mean_slowdown, each.mean_wait) for each in found]


TWENTY = [row for row in rows("20 lists of 100 jobs") if row[0] not in {"policy", "---"}]


@pytest.mark.parametrize(
    "row",
    [row for row in TWENTY if row[0] in {"baseline", "topo-aware-p, minimum 0.6"}],
    ids=lambda row: row[0],
)
def test_row_of_the_20_lists(row: list[str]) -> None:
    reference, own = figures_of_20_lists("topo-aware"), figures_of_20_lists(row[0])
    cells = []
    columns = zip(zip(*reference, strict=True), zip(*own, strict=True), (2, 2, 1), strict=True)
    for before, after, digits in columns:
        difference = confidence_interval([b - a for a, b in zip(before, after, strict=True)])
        cells += [
            f"{fmean(after):.{digits}f}",
            f"{difference.mean:+.{digits}f} ± {difference.half_width or 0:.{digits}f}",
        ]
    assert row[1:] == cells


LARGE = [row for row in rows("10,000 jobs on 1,000 machines") if row[0] in {"bf", "topo-aware"}]


@pytest.mark.parametrize("row", LARGE[:2], ids=lambda row: row[0])
def test_rows_of_ten_thousand_jobs_at_the_papers_rate(row: list[str]) -> None:
    jobs = generate(1, CaffeLoad(10_000, 10))
    found = figures(simulated(jobs, row[0], 1_000, 600.0).jobs)
    assert row[1:5] == [
        str(found.slow_jobs),
        f"{100 * found.mean_slowdown:.1f}",
        f"{found.mean_wait:.1f}",
        f"{found.makespan:.1f}",
    ]
