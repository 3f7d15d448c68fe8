"""The tables of ``docs/studies/synergy.md`` have the figures of the program."""

import re

import pytest

from gputopo.sizing.orders import ORDERS
from gputopo_simulate.synergy.mechanisms import GUARANTEE_SHARES, MECHANISMS
from gputopo_simulate.synergy.released import program
from gputopo_simulate.synergy.report import Figures, figures, logged_times, nearest, times
from gputopo_simulate.synergy.run import Settings, run
from support.synergy import FOUR_SERVERS, ROOT, trace

ROW = re.compile(r"^\| (static|dynamic) \| (\w+) \| (\w+) \|(.*)\|$", re.MULTILINE)
NOTHING = ["-", "-", "-"]


def rows() -> list[tuple[str, str, str, list[str]]]:
    page = (ROOT / "docs/studies/synergy.md").read_text()
    found = ROW.findall(page)
    return [(*names, [cell.strip() for cell in cells.split("|")]) for *names, cells in found]


def cells(found: Figures) -> list[str]:
    return [f"{hours:.2f}" for hours in (found.makespan, found.mean_jct, found.p99_jct)]


def test_the_table_has_both_traces_three_orders_and_three_allocations() -> None:
    assert len({row[:3] for row in rows()}) == len(rows()) == 2 * 3 * 3


@pytest.mark.parametrize("row", rows(), ids=lambda row: "-".join(row[:3]))
def test_each_row_is_what_the_program_gives(row: tuple[str, str, str, list[str]]) -> None:
    name, order, allocation, said = row
    settings = Settings(
        ORDERS[order], MECHANISMS[allocation], in_turn=allocation in GUARANTEE_SHARES
    )
    ours = map(times, run(FOUR_SERVERS, trace(name), settings))
    assert said[3:6] == cells(figures([*ours]))
    released = NOTHING
    if allocation in program.MECHANISMS:
        finished = program.run_as_released(FOUR_SERVERS, trace(name), order, allocation)
        released = cells(figures([*map(logged_times, finished)], nearest))
    assert said[:3] == released


@pytest.mark.parametrize("order", ["fifo", "srtf", "las"])
@pytest.mark.parametrize("name", ["static", "dynamic"])
def test_marginal_is_better_than_tune_in_every_figure(name: str, order: str) -> None:
    said = {
        row[2]: [float(cell) for cell in row[3][3:6]] for row in rows() if row[:2] == (name, order)
    }
    assert all(ours < theirs for ours, theirs in zip(said["marginal"], said["tune"], strict=True))
