"""Distributions of simulated runs as SVG pictures."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any, Final

import matplotlib as mpl
from matplotlib.figure import Figure

from gputopo.placement.model import PolicyName
from gputopo.runtime.messages import quoted
from gputopo_cli.shared.errors import InputError
from gputopo_cli.shared.words import word
from gputopo_simulate.mapa.model import FinishedSimulatedJob, SimulationResult
from gputopo_simulate.mapa.summary import JobGroup, effective_gb_per_s, jobs_in_group

Results = Mapping[PolicyName, Sequence[SimulationResult]]
Values = Callable[[Sequence[FinishedSimulatedJob]], Sequence[float]]

BANDWIDTHS: Final = "effective-bandwidth.svg"
TIMES: Final = "execution-time.svg"

_GROUPS: Final = (JobGroup.SENSITIVE, JobGroup.INSENSITIVE)
_COLOURS: Final = ("#9aa5b1", "#3d8fd1", "#e0a030", "#1b7f3b")
_TITLE_COLUMNS: Final = 110
STYLE: Final = {
    "svg.hashsalt": "gputopo",  # the same picture from the same runs
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def draw(results: Results, title: str, folder: str) -> tuple[Path, ...]:
    """Write one picture of effective bandwidths and one of execution times; return where.

    Boxes reach from the 25th to the 75th percentile, whiskers to the extremes, as in the
    figures 13 and 18 of the paper; runs of several seeds are put together.

    Raises:
        InputError: where the folder cannot be made or written to.
    """
    pictures = (
        (BANDWIDTHS, "effective bandwidth, GB/s", effective_gb_per_s),
        (TIMES, "execution time", _times),
    )
    place = Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
        with mpl.rc_context(STYLE):  # type: ignore[arg-type]
            for name, label, values in pictures:
                figure = _boxes(results, title, label, values)
                figure.savefig(place / name, format="svg", metadata={"Date": None})
    except OSError as error:
        raise InputError(f"plots: {quoted(folder)}: {error.strerror}") from None
    return tuple(place / name for name, _, _ in pictures)


def _boxes(results: Results, title: str, label: str, values: Values) -> Figure:
    figure = Figure(figsize=(8, 3.6), layout="constrained")
    figure.suptitle(fill(title, _TITLE_COLUMNS), fontsize=10)
    panels = figure.subplots(1, len(_GROUPS), sharey=True)
    for panel, group in zip(panels, _GROUPS, strict=True):
        _panel(panel, results, group, values)
    panels[0].set_ylabel(label)
    return figure


def _panel(panel: Any, results: Results, group: JobGroup, values: Values) -> None:  # noqa: ANN401 - matplotlib's axes
    data = [
        values([job for result in runs for job in jobs_in_group(result, group)])
        for runs in results.values()
    ]
    drawn = panel.boxplot(
        data,
        tick_labels=[word(policy) for policy in results],
        whis=(0, 100),
        widths=0.55,
        patch_artist=True,
        medianprops={"color": "black", "linewidth": 1.6},
    )
    for box, colour in zip(drawn["boxes"], _COLOURS, strict=False):
        box.set_facecolor(colour)
    panel.set_title(f"{group} jobs of several GPUs (n = {len(data[0])})", fontsize=9)
    panel.grid(axis="y", color="#e3e7eb")
    panel.set_axisbelow(True)
    panel.set_ylim(bottom=0)


def _times(jobs: Sequence[FinishedSimulatedJob]) -> Sequence[float]:
    return [job.execution_time for job in jobs]
