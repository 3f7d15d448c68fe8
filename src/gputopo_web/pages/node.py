"""The picture of one node, with the pods on its GPUs."""

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

from gputopo.topology.model import GpuIndex, GpuMask, NodeTopology, indices_of
from gputopo_explain.drawing.links import link_types
from gputopo_explain.drawing.svg import Marks, UserMark, draw_topology
from gputopo_explain.text import format_gb_per_s
from gputopo_explain.whatif import ChosenNode
from gputopo_web.facts.cards import CellState, GpuCell, NodeCard
from gputopo_web.facts.pods import PodGpus
from gputopo_web.pages.environment import clean, path
from gputopo_web.pages.tiles import Tile

# Fill and text of the colours c0 to c7 of the style sheet: Okabe and Ito's palette, and a brown.
_POD_COLOURS: Final = (
    *(("#e69f00", "#000"), ("#56b4e9", "#000"), ("#009e73", "#000"), ("#f0e442", "#000")),
    *(("#0072b2", "#fff"), ("#d55e00", "#000"), ("#cc79a7", "#000"), ("#7a4b2b", "#fff")),
)
_STATE_COLOURS: Final = {
    CellState.FREE: ("#fff", "#000"),
    CellState.UNHEALTHY: ("#333b44", "#fff"),
    CellState.ENDED: ("#8d99a4", "#000"),
    CellState.DIFFERS: ("#fff", "#a1260d"),
}


def draw_node(card: NodeCard, topology: NodeTopology) -> Markup:
    """Return an SVG picture of a node: links by kind and width, GPUs by pod; GPUs are links."""
    users = {GpuIndex(cell.index): _mark(cell) for cell in card.cells}
    name, summary = str(clean(card.name)), str(clean(f"{len(card.cells)} GPUs, {card.model}"))
    text = draw_topology(topology, Marks(users=users), name=name, summary=summary)
    return Markup(text)  # noqa: S704 - the picture escapes names


def draw_pod(name: str, topology: NodeTopology, gpus: PodGpus, busy: Sequence[int]) -> Markup:
    """Return an SVG picture of a node with the GPUs and links that one pod uses."""
    marks = Marks(gpus.chosen, [GpuIndex(it) for it in busy], gpus.edges)
    text = draw_topology(topology, marks, name=str(clean(name)), summary="GPUs of the pod by rank")
    return Markup(text)  # noqa: S704 - the picture escapes names


def draw_choice(chosen: ChosenNode) -> Markup:
    """Return an SVG picture of the GPUs that a pod would get."""
    gpus = chosen.matches[0].gpus
    edges = tuple((gpus[edge.a], gpus[edge.b]) for edge in chosen.request.pattern.edges)
    busy = indices_of(GpuMask(chosen.topology.mask & ~chosen.free))
    return draw_pod(chosen.node, chosen.topology, PodGpus(gpus, edges), busy)


def draw_kind(card: NodeCard, topology: NodeTopology) -> str:
    """Return an SVG picture of the links of all nodes that are equal to this one."""
    summary = str(clean(f"{len(card.cells)} GPUs, {card.model}"))
    return draw_topology(topology, Marks(), name="links of one node", summary=summary)


def describe_links(topology: NodeTopology) -> str:
    """Return the kinds of links of a node in one line, the fastest first."""
    return ", ".join(
        f"{each.label} {format_gb_per_s(each.mb_per_s)} GB/s" for each in link_types(topology)
    )


def _mark(cell: GpuCell) -> UserMark:
    fill, ink = _STATE_COLOURS.get(cell.state, _POD_COLOURS[cell.colour])
    letter = Tile.sign(cell) if cell.beside and cell.state not in _STATE_COLOURS else cell.letter
    label = letter if cell.state is CellState.USED else f"{cell.state} {letter}".strip()
    href = str(path("pod", *cell.pod)) if cell.pod else None
    return UserMark(label, fill, ink, str(clean(Tile.title(cell))), href)
