"""Plot the distributions of a comparison of policies as SVG files."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from textwrap import fill
from typing import Any, Final, TypeAlias

from matplotlib.figure import Figure

from gputopo.placement.model import PolicyName
from gputopo_cli.shared.arguments import to_word
from gputopo_cli.shared.plots import write_figures
from gputopo_simulate.mapa.model import FinishedSimulatedJob, SimulationResult
from gputopo_simulate.mapa.summary import JobGroup, effective_gb_per_s, jobs_in_group

Results: TypeAlias = Mapping[PolicyName, Sequence[SimulationResult]]
Values: TypeAlias = Callable[[Sequence[FinishedSimulatedJob]], Sequence[float]]

_GROUPS: Final = (JobGroup.SENSITIVE, JobGroup.INSENSITIVE)
_COLOURS: Final = ("#9aa5b1", "#3d8fd1", "#e0a030", "#1b7f3b")
_TITLE_COLUMNS: Final = 110


def plot_distributions(results: Results, title: str, folder: str) -> None:
    """Write one plot of effective bandwidths and one of execution times.

    Boxes extend from the 25th to the 75th percentile and whiskers to the extremes, as in
    figures 13 and 18 of the paper. The runs of all seeds are combined.
    """
    bandwidths = partial(_boxes, results, title, "effective bandwidth, GB/s", effective_gb_per_s)
    times = partial(_boxes, results, title, "execution time", _execution_times)
    write_figures(folder, {"effective-bandwidth.svg": bandwidths, "execution-time.svg": times})


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
        tick_labels=[to_word(policy) for policy in results],
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


def _execution_times(jobs: Sequence[FinishedSimulatedJob]) -> Sequence[float]:
    return [job.execution_time for job in jobs]
