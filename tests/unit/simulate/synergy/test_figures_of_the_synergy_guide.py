"""The tables of ``docs/studies/synergy.md`` have the figures of the program."""

import re

import pytest

from gputopo.sizing.orders import ORDERS
from gputopo_simulate.percentiles import nearest
from gputopo_simulate.synergy.mechanisms import GUARANTEE_SHARES, MECHANISMS
from gputopo_simulate.synergy.released import program
from gputopo_simulate.synergy.report import RunFigures, job_hours, logged_hours, run_figures
from gputopo_simulate.synergy.run import SynergySettings, run
from support.synergy import FOUR_SERVERS, ROOT, trace

ROW = re.compile(r"^\| (static|dynamic) \| (\w+) \| (\w+) \|(.*)\|$", re.MULTILINE)
NOTHING = ["-", "-", "-"]


def rows() -> list[tuple[str, str, str, list[str]]]:
    page = (ROOT / "docs/studies/synergy.md").read_text()
    found = ROW.findall(page)
    return [(*names, [cell.strip() for cell in cells.split("|")]) for *names, cells in found]


def cells(found: RunFigures) -> list[str]:
    return [f"{hours:.2f}" for hours in (found.makespan, found.mean_jct, found.p99_jct)]


def test_table_has_both_traces_three_orders_and_three_mechanisms() -> None:
    assert len({row[:3] for row in rows()}) == len(rows()) == 2 * 3 * 3


@pytest.mark.parametrize("row", rows(), ids=lambda row: "-".join(row[:3]))
def test_each_row_has_the_figures_of_the_program(row: tuple[str, str, str, list[str]]) -> None:
    name, order, mechanism, documented = row
    settings = SynergySettings(
        ORDERS[order], MECHANISMS[mechanism], runnable_only=mechanism in GUARANTEE_SHARES
    )
    ours = map(job_hours, run(FOUR_SERVERS, trace(name), settings))
    assert documented[3:6] == cells(run_figures([*ours]))
    released = NOTHING
    if mechanism in program.MECHANISMS:
        finished = program.run_as_released(FOUR_SERVERS, trace(name), order, mechanism)
        released = cells(run_figures([*map(logged_hours, finished)], nearest))
    assert documented[:3] == released


@pytest.mark.parametrize("order", ["fifo", "srtf", "las"])
@pytest.mark.parametrize("name", ["static", "dynamic"])
def test_marginal_is_better_than_tune_in_every_figure(name: str, order: str) -> None:
    documented = {
        row[2]: [float(cell) for cell in row[3][3:6]] for row in rows() if row[:2] == (name, order)
    }
    assert all(
        ours < theirs
        for ours, theirs in zip(documented["marginal"], documented["tune"], strict=True)
    )
