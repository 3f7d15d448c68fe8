"""Draw who uses which GPUs over time as SVG files."""

from collections.abc import Mapping, Sequence
from functools import partial
from math import inf
from textwrap import fill
from typing import Any, Final, NamedTuple

from matplotlib.figure import Figure

from gputopo.ensemble.model import NodeGpuCount
from gputopo.ensemble.timeline import MemberRun
from gputopo_cli.shared.plots import write_figures

_SECONDS_PER_HOUR: Final = 3600
_TITLE_COLUMNS: Final = 90
_COLOURS: Final = (
    *("#3d8fd1", "#e0a030", "#1b7f3b", "#b03a5b", "#7b5ea7", "#4a9c93"),
    *("#c0653a", "#8aa33c", "#5a6b9a", "#a86f9e", "#9aa5b1", "#4a4a4a"),
)
_MAX_LABELS: Final = 24
"""With more members, their names would cover each other."""

_LEAST_LABELLED: Final = 0.08
"""Part of the time that a bar must last to have a name."""


class GpuBar(NamedTuple):
    """GPUs of one node that a member uses: the first row, the number of rows, and hours."""

    member: str
    row: int
    rows: int
    start: float
    end: float


def plot_runs(
    runs: Mapping[str, Sequence[MemberRun]], nodes: Sequence[NodeGpuCount], title: str, folder: str
) -> None:
    """Write one file for each of the named plans, with one row for each GPU."""
    hours = max((each.end or each.start for own in runs.values() for each in own), default=0)
    figures = {
        f"{name}.svg": partial(_figure, f"{name}: {title}", own, nodes, hours)
        for name, own in runs.items()
    }
    write_figures(folder, figures)


def bars(runs: Sequence[MemberRun], nodes: Sequence[NodeGpuCount], until: float) -> list[GpuBar]:
    """Return the bars of all runs. Rows of a node are numbered like its GPUs, from the top.

    Args:
        runs: runs without GPUs in use twice.
        nodes: all nodes, in the order of the rows.
        until: seconds at which bars without a known end are cut off.
    """
    first: dict[str, int] = {}
    free: list[float] = []
    for node in nodes:
        first[node.name] = len(free)
        free += [-inf] * node.gpus
    sizes = {node.name: node.gpus for node in nodes}
    found = []
    for run in sorted(runs, key=lambda each: (each.start, each.placement.member)):
        end = until if run.end is None else run.end
        for node in run.placement.nodes:
            rows = range(first[node.name], first[node.name] + sizes[node.name])
            for row in sorted(rows, key=lambda each: (free[each] > run.start, each))[: node.gpus]:
                free[row] = end
                found.append(GpuBar(run.placement.member, row, 1, run.start, end))
    return _joined(found)


def _joined(found: Sequence[GpuBar]) -> list[GpuBar]:
    """Join neighbouring rows of one run."""
    joined: list[GpuBar] = []
    for bar in found:
        last = joined[-1] if joined else None
        if last and (last.member, last.start, last.row + last.rows) == (
            bar.member,
            bar.start,
            bar.row,
        ):
            joined[-1] = last._replace(rows=last.rows + 1)
        else:
            joined.append(bar)
    return joined


def _figure(
    title: str, runs: Sequence[MemberRun], nodes: Sequence[NodeGpuCount], until: float
) -> Figure:
    gpus = sum(node.gpus for node in nodes)
    figure = Figure(figsize=(8, min(8.0, 1.6 + 0.16 * gpus)), layout="constrained")
    figure.suptitle(fill(title, _TITLE_COLUMNS), fontsize=10)
    panel = figure.subplots()
    members = list(dict.fromkeys(run.placement.member for run in runs))
    for bar in bars(runs, nodes, until):
        start, length = bar.start / _SECONDS_PER_HOUR, (bar.end - bar.start) / _SECONDS_PER_HOUR
        colour = _COLOURS[members.index(bar.member) % len(_COLOURS)]
        panel.broken_barh(
            [(start, length)], (bar.row, bar.rows), color=colour, edgecolor="white", linewidth=0.3
        )
        if len(members) <= _MAX_LABELS and bar.end - bar.start > _LEAST_LABELLED * until:
            middle = start + length / 2, bar.row + bar.rows / 2
            panel.text(*middle, bar.member, ha="center", va="center", fontsize=6, color="white")
    _axes(panel, nodes, gpus, until)
    return figure


def _axes(panel: Any, nodes: Sequence[NodeGpuCount], gpus: int, until: float) -> None:  # noqa: ANN401 - matplotlib's axes
    border = 0
    for node in nodes[:-1]:
        border += node.gpus
        panel.axhline(border, color="#c8ced4", linewidth=0.3, zorder=0)
    panel.set_xlim(0, until / _SECONDS_PER_HOUR or 1)
    panel.set_ylim(gpus, 0)
    panel.set_xlabel("hours")
    panel.set_ylabel("GPUs, by node")
