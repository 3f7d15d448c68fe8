"""Decision times as a picture: a panel for each topology, time on a logarithmic axis."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from matplotlib.figure import Figure

_COLOURS: Final = {
    "MAPA's program": "#b2182b",
    "cold": "#2166ac",
    "unseen": "#67a9cf",
    "seen": "#7f7f7f",
}


@dataclass(frozen=True, slots=True)
class Line:
    """Times of one kind on one topology: GPUs of the job, and seconds."""

    topology: str
    kind: str
    points: Sequence[tuple[int, float]]


def draw(lines: Sequence[Line], path: Path) -> None:
    """Write the picture, in the format that the file's name ends with."""
    topologies = list(dict.fromkeys(line.topology for line in lines))
    figure = Figure(figsize=(2.6 * len(topologies), 3.4), layout="constrained")
    panels = figure.subplots(1, len(topologies), sharey=True, squeeze=False)[0]
    for panel, topology in zip(panels, topologies, strict=True):
        for line in lines:
            if line.topology == topology:
                sizes = [size for size, _ in line.points]
                panel.plot(
                    sizes,
                    [1000 * seconds for _, seconds in line.points],
                    marker=".",
                    color=_COLOURS[line.kind],
                    label=line.kind,
                )
        panel.set(yscale="log", title=topology, xlabel="GPUs of the job")
        panel.grid(visible=True, which="major", color="#e5e5e5")
    panels[0].set_ylabel("one decision, ms")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    figure.savefig(path)
