"""Job completion times of simulated runs as SVG pictures."""

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import Final

import matplotlib as mpl
from matplotlib.figure import Figure

from gputopo.runtime.messages import quoted
from gputopo_cli.shared.errors import InputError
from gputopo_cli.simulate.plots import STYLE
from gputopo_cli.synergy.setup import Run

_TITLE_COLUMNS: Final = 90
_COLOURS: Final = ("#9aa5b1", "#3d8fd1", "#e0a030", "#1b7f3b", "#b03a5b", "#7b5ea7", "#4a4a4a")


def draw(runs: Sequence[Run], title: str, folder: str) -> tuple[Path, ...]:
    """Write one picture for each queue order, ``jct-<order>.svg``; return where.

    Each shows which share of the jobs is done within how many hours, as the paper's CDFs
    do; what the authors' program gives is dashed.

    Raises:
        InputError: where the folder cannot be made or written to.
    """
    place = Path(folder)
    orders = list(dict.fromkeys(run.order for run in runs))
    paths = tuple(place / f"jct-{order}.svg" for order in orders)
    try:
        place.mkdir(parents=True, exist_ok=True)
        with mpl.rc_context(STYLE):  # type: ignore[arg-type]
            for order, path in zip(orders, paths, strict=True):
                figure = _shares([run for run in runs if run.order == order], title)
                figure.savefig(path, format="svg", metadata={"Date": None})
    except OSError as error:
        raise InputError(f"plots: {quoted(folder)}: {error.strerror}") from None
    return paths


def _shares(runs: Sequence[Run], title: str) -> Figure:
    figure = Figure(figsize=(7, 3.8), layout="constrained")
    figure.suptitle(fill(f"{title}, {runs[0].order}", _TITLE_COLUMNS), fontsize=10)
    panel = figure.subplots()
    colours = dict(zip(dict.fromkeys(run.allocation for run in runs), _COLOURS, strict=False))
    for run in runs:
        hours = sorted(job.jct for job in run.monitored)
        panel.plot(
            hours,
            [(place + 1) / len(hours) for place in range(len(hours))],
            drawstyle="steps-post",
            color=colours[run.allocation],
            linestyle="--" if run.as_released else "-",
            label=f"{run.allocation}{', as released' if run.as_released else ''}",
        )
    panel.set_xscale("log", base=2)
    panel.set_xlabel("job completion time, hours")
    panel.set_ylabel("share of jobs done")
    panel.set_ylim(0, 1)
    panel.grid(color="#e3e7eb")
    panel.legend(fontsize=8, frameon=False)
    return figure
