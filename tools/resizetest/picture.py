"""Draws the amounts of a node's pods over time as an SVG file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from matplotlib.figure import Figure

from gputopo_cli.shared.plots import write_figures
from resizetest.timeline import Timeline

_COLOURS: Final = ("#3d8fd1", "#e0a030", "#1b7f3b", "#9a5bb0", "#c0504d", "#5bb0a5", "#7f6b1b")
_PALE: Final = "#c9d1d9"
_LIMIT: Final = "#c0504d"


def draw(
    timeline: Timeline,
    namespace: str,
    allocatable_milli_cpu: int,
    marks: Mapping[str, float],
    file: Path,
) -> None:
    """Write the CPUs that kubelet has allocated to each pod, stacked, against time.

    Args:
        timeline: what to draw.
        namespace: whose pods have colours; all other pods are one pale area below them.
        allocatable_milli_cpu: what the node offers, a horizontal line.
        marks: seconds of events by name.
        file: name ends with ``.svg``.
    """
    write_figures(
        str(file.parent),
        {file.name: lambda: _figure(timeline, namespace, allocatable_milli_cpu, marks)},
    )


def areas(timeline: Timeline, namespace: str) -> tuple[list[float], dict[str, list[int]]]:
    """Return the seconds, and the thousandths of a CPU of each pod from each of them on.

    The pods of other namespaces are together under the name ``other pods``, which is the first.
    """
    seconds = [moment.seconds for moment in timeline.moments]
    own = {name: [0] * len(seconds) for name in ("other pods", *_names(timeline, namespace))}
    for index, moment in enumerate(timeline.moments):
        mine = moment.of(namespace)
        for uid, pod in moment.pods.items():
            name = pod.name.partition("/")[2] if uid in mine else "other pods"
            own[name][index] += pod.allocated.milli_cpu
    return seconds, own


def _names(timeline: Timeline, namespace: str) -> list[str]:
    found = {
        pod.name.partition("/")[2]: None
        for moment in timeline.moments
        for pod in moment.of(namespace).values()
    }
    return list(found)


def _figure(
    timeline: Timeline, namespace: str, allocatable: int, marks: Mapping[str, float]
) -> Figure:
    seconds, stacked = areas(timeline, namespace)
    figure = Figure(figsize=(8, 4.4), layout="constrained")
    panel = figure.subplots()
    panel.stackplot(
        seconds,
        [[amount / 1000 for amount in amounts] for amounts in stacked.values()],
        labels=list(stacked),
        colors=[_PALE, *_COLOURS],
        step="post",
    )
    panel.axhline(allocatable / 1000, color=_LIMIT, label="allocatable")
    for text, at in marks.items():
        panel.axvline(at, color="black", linewidth=0.6, linestyle=":")
        panel.text(at, allocatable / 1000 * 1.01, text, fontsize=7, rotation=30)
    panel.set_xlabel("seconds")
    panel.set_ylabel("CPUs allocated by kubelet")
    panel.set_ylim(0, allocatable / 1000 * 1.2)
    panel.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure
