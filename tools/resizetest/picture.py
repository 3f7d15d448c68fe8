"""Draws the amounts of a node's pods over time as an SVG file."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from matplotlib.figure import Figure

from gputopo_cli.shared.plots import write_figures
from resizetest.timeline import Timeline

_COLOURS: Final = ("#3d8fd1", "#e0a030", "#1b7f3b", "#9a5bb0", "#c0504d", "#5bb0a5", "#7f6b1b")
_PALE: Final = "#c9d1d9"
_LIMIT: Final = "#c0504d"
_OTHERS: Final = "other pods"
_GENERATED: Final = re.compile("-[bcdfghjklmnpqrstvwxz2456789]{5}$")
"""End of a name that Kubernetes has generated."""


class Areas(NamedTuple):
    """What is drawn: the times, and the thousandths of a CPU by name of the area."""

    seconds: list[float]
    milli_cpu: dict[str, list[int]]


def draw(
    timeline: Timeline,
    namespace: str,
    allocatable_milli_cpu: int,
    marks: Mapping[str, float],
    file: Path,
    filler: str = "filler",
) -> None:
    """Write the CPUs that kubelet has allocated to each pod, stacked, against time.

    Args:
        timeline: what to draw.
        namespace: whose pods have colours; all other pods are one pale area below them.
        allocatable_milli_cpu: what the node offers, a horizontal line.
        marks: seconds of events by name.
        file: name ends with ``.svg``.
        filler: a pod of the namespace that belongs to the other pods.
    """
    limit = allocatable_milli_cpu / 1000
    write_figures(
        str(file.parent),
        {file.name: lambda: _figure(areas(timeline, namespace, filler), limit, marks)},
    )


def areas(timeline: Timeline, namespace: str, filler: str) -> Areas:
    """Return the seconds, and the thousandths of a CPU of each pod from each of them on.

    The pods of other namespaces and the filler are together under the name ``other pods``, which is
    the first. Names of jobs' pods are those of the jobs.
    """
    found: dict[str, list[int]] = {_OTHERS: [0] * len(timeline.moments)}
    for index, moment in enumerate(timeline.moments):
        mine = moment.of(namespace)
        for uid, pod in moment.pods.items():
            name = _GENERATED.sub("", pod.name.partition("/")[2])
            if uid not in mine or name == filler:
                name = _OTHERS
            amounts = found.setdefault(name, [0] * len(timeline.moments))
            amounts[index] += pod.allocated.milli_cpu
    return Areas([moment.seconds for moment in timeline.moments], found)


def _figure(drawn: Areas, allocatable: float, marks: Mapping[str, float]) -> Figure:
    figure = Figure(figsize=(8, 4.4), layout="constrained")
    panel = figure.subplots()
    panel.stackplot(
        drawn.seconds,
        [[amount / 1000 for amount in amounts] for amounts in drawn.milli_cpu.values()],
        labels=list(drawn.milli_cpu),
        colors=[_PALE, *_COLOURS],
        step="post",
    )
    panel.axhline(allocatable, color=_LIMIT, label="allocatable")
    for text, at in marks.items():
        panel.axvline(at, color="black", linewidth=0.6, linestyle=":")
        panel.text(at, allocatable * 1.01, text, fontsize=7, rotation=30)
    panel.set_xlabel("seconds")
    panel.set_ylabel("CPUs allocated by kubelet")
    panel.set_ylim(0, allocatable * 1.3)
    panel.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure
