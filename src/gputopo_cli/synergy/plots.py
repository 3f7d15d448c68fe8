"""Plot the job completion times of runs of Synergy as SVG files."""

from collections.abc import Sequence
from functools import partial
from textwrap import fill
from typing import Final

from matplotlib.figure import Figure

from gputopo_cli.shared.plots import write_figures
from gputopo_cli.synergy.experiment import CompletedRun

_TITLE_COLUMNS: Final = 90
_COLOURS: Final = ("#9aa5b1", "#3d8fd1", "#e0a030", "#1b7f3b", "#b03a5b", "#7b5ea7", "#4a4a4a")


def plot_completion_times(runs: Sequence[CompletedRun], title: str, folder: str) -> None:
    """Write one plot for each queue order, ``jct-<order>.svg``.

    Each plot shows the cumulative distribution of completion times, as in the paper. Dashed lines
    are simulations of the program of Synergy's authors.
    """
    orders = dict.fromkeys(run.request.order for run in runs)
    write_figures(
        folder,
        {
            f"jct-{order}.svg": partial(
                _distribution, [run for run in runs if run.request.order == order], title
            )
            for order in orders
        },
    )


def _distribution(runs: Sequence[CompletedRun], title: str) -> Figure:
    figure = Figure(figsize=(7, 3.8), layout="constrained")
    figure.suptitle(fill(f"{title}, {runs[0].request.order}", _TITLE_COLUMNS), fontsize=10)
    panel = figure.subplots()
    allocations = dict.fromkeys(run.request.allocation for run in runs)
    colours = dict(zip(allocations, _COLOURS, strict=False))
    for run in runs:
        hours = sorted(job.jct for job in run.monitored)
        panel.plot(
            hours,
            [(place + 1) / len(hours) for place in range(len(hours))],
            drawstyle="steps-post",
            color=colours[run.request.allocation],
            linestyle="--" if run.request.as_released else "-",
            label=run.request.name,
        )
    panel.set_xscale("log", base=2)
    panel.set_xlabel("job completion time, hours")
    panel.set_ylabel("share of jobs done")
    panel.set_ylim(0, 1)
    panel.grid(color="#e3e7eb")
    panel.legend(fontsize=8, frameon=False)
    return figure
