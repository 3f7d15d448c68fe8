"""Plot the slowdowns of simulated jobs that share GPUs as an SVG file."""

from collections.abc import Sequence
from functools import partial
from textwrap import fill
from typing import Final

from matplotlib.figure import Figure

from gputopo_cli.shared.plots import write_figures
from gputopo_simulate.percentiles import interpolated
from gputopo_simulate.sharing.model import SharingResult

_TITLE_COLUMNS: Final = 90
_SHARES: Final = tuple(place / 200 for place in range(201))  # keeps the file small
_COLOURS: Final = ("#9aa5b1", "#b03a5b", "#e0a030", "#7b5ea7", "#1b7f3b", "#3d8fd1", "#4a4a4a")


def plot_completion(runs: Sequence[Sequence[SharingResult]], title: str, folder: str) -> None:
    """Write ``slowdown.svg``: the distribution of the slowdowns of all jobs under each policy."""
    write_figures(folder, {"slowdown.svg": partial(_distribution, runs, title)})


def _distribution(runs: Sequence[Sequence[SharingResult]], title: str) -> Figure:
    figure = Figure(figsize=(7, 3.8), layout="constrained")
    figure.suptitle(fill(title, _TITLE_COLUMNS), fontsize=10)
    panel = figure.subplots()
    for results, colour in zip(zip(*runs, strict=True), _COLOURS, strict=False):
        ordered = sorted(job.slowdown for result in results for job in result.jobs)
        slowdowns = [interpolated(ordered, share) for share in _SHARES]
        panel.plot(slowdowns, _SHARES, color=colour, label=results[0].policy)
    panel.set_xscale("log")
    panel.set_xlabel("time from arrival to end, relative to the time alone")
    panel.set_ylabel("share of jobs")
    panel.set_ylim(0, 1)
    panel.grid(color="#e3e7eb")
    panel.legend(fontsize=8, frameon=False)
    return figure
