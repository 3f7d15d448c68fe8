"""Plot the measured speeds of a workload with 95 % intervals as SVG files."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from matplotlib.figure import Figure

from gputopo.api.profile import GPUProfileStatus, NeighbourFact, Sample, WorkloadFacts
from gputopo_cli.shared.plots import write_figures

_COLOURS: Final = ("#3d8fd1", "#e0a030", "#1b7f3b", "#9a5bb0", "#c0504d")
_PALE: Final = "#9aa5b1"


def plot_facts(name: str, status: GPUProfileStatus, folder: str) -> None:
    """Plot speed by bandwidth, CPUs and number of GPUs, and slowdown beside other workloads."""
    facts = status.facts or WorkloadFacts(gpu_model="")
    figures: dict[str, Callable[[], Figure]] = {}
    linked = [each for each in status.samples if each.effective_mb_per_s]
    if linked:
        figures["links.svg"] = partial(_links, name, linked, facts)
    if facts.cpus:
        figures["cpus.svg"] = partial(_cpus, name, facts)
    if facts.neighbours:
        figures["neighbours.svg"] = partial(_neighbours, name, facts.neighbours)
    if facts.scaling:
        figures["scaling.svg"] = partial(_scaling, name, facts)
    write_figures(folder, figures)


def _panel(title: str, x: str, y: str) -> tuple[Figure, Any]:
    figure = Figure(figsize=(6, 3.8), layout="constrained")
    figure.suptitle(title, fontsize=10)
    panel = figure.subplots()
    panel.set_xlabel(x)
    panel.set_ylabel(y)
    panel.grid(color="#e3e7eb")
    panel.set_axisbelow(True)
    return figure, panel


def _links(name: str, samples: Sequence[Sample], facts: WorkloadFacts) -> Figure:
    figure, panel = _panel(f"{name}: links", "effective bandwidth, GB/s", "steps/s")
    slower = {fact.gpus: fact for fact in facts.links}
    for colour, gpus in zip(_COLOURS, sorted({each.gpus for each in samples}), strict=False):
        same = [each for each in samples if each.gpus == gpus]
        fact = slower.get(gpus)
        known = (
            f", {fact.percent} % ({fact.low_percent}..{fact.high_percent}) longer on the worst"
            if fact
            else ""
        )
        panel.errorbar(
            [(each.effective_mb_per_s or 0) / 1000 for each in same],
            [each.steps_per_second for each in same],
            yerr=[each.steps_per_second * each.ci_permille / 1000 for each in same],
            fmt="o",
            color=colour,
            label=f"{gpus} GPUs{known}",
        )
    _finish(panel)
    return figure


def _cpus(name: str, facts: WorkloadFacts) -> Figure:
    figure, panel = _panel(f"{name}: CPUs", "CPUs", "steps/s")
    for colour, fact in zip(_COLOURS, facts.cpus, strict=False):
        points = sorted(fact.points, key=lambda point: point.milli_cpu)
        rates = [point.micro_steps_per_second / 1e6 for point in points]
        panel.errorbar(
            [point.milli_cpu / 1000 for point in points],
            rates,
            yerr=[rate * p.ci_permille / 1000 for rate, p in zip(rates, points, strict=True)],
            fmt="o-",
            color=colour,
            label=f"{fact.gpus} GPUs",
        )
        if fact.demand_milli_cpu is not None:
            panel.axvline(fact.demand_milli_cpu / 1000, color=colour, linestyle=":")
    panel.set_xlim(left=0)
    _finish(panel)
    return figure


def _neighbours(name: str, facts: Sequence[NeighbourFact]) -> Figure:
    figure, panel = _panel(f"{name}: neighbours", "longer run time, %", "")
    rows = range(len(facts))
    panel.errorbar(
        [fact.percent for fact in facts],
        rows,
        xerr=[
            [fact.percent - fact.low_percent for fact in facts],
            [fact.high_percent - fact.percent for fact in facts],
        ],
        fmt="o",
        color=_COLOURS[0],
    )
    panel.set_yticks(rows, [f"{fact.workload} (same {fact.scope.lower()})" for fact in facts])
    panel.axvline(0, color=_PALE)
    return figure


def _scaling(name: str, facts: WorkloadFacts) -> Figure:
    figure, panel = _panel(f"{name}: number of GPUs", "GPUs", "steps/s")
    for extrapolated, style in ((False, "o-"), (True, "o--")):
        same = [fact for fact in facts.scaling if fact.extrapolated is extrapolated]
        rates = [fact.micro_steps_per_second / 1e6 for fact in same]
        panel.errorbar(
            [fact.gpus for fact in same],
            rates,
            yerr=[rate * fact.ci_permille / 1000 for rate, fact in zip(rates, same, strict=True)],
            fmt=style,
            color=_PALE if extrapolated else _COLOURS[0],
            label="extrapolated (FLEET)" if extrapolated else "measured",
        )
    panel.set_xlim(left=0)
    _finish(panel)
    return figure


def _finish(panel: Any) -> None:  # noqa: ANN401 - matplotlib's axes
    panel.set_ylim(bottom=0)
    panel.legend(fontsize=8)
