"""The map: tiles of nodes with their GPUs, and squares of nodes for an overview."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jinja2 import Environment
from markupsafe import Markup

from gputopo_web.facts.cards import CellState, GpuCell, NodeCard

if TYPE_CHECKING:
    from gputopo_kube.document import ObjectKey

_STEP: Final = 30  # pixels from one GPU to the next
_GAP: Final = 10  # additional pixels between NUMA nodes
_SIGNS: Final = {
    CellState.FREE: "",
    CellState.UNHEALTHY: "✕",
    CellState.ENDED: "†",
    CellState.DIFFERS: "≠",
}


@dataclass(frozen=True, slots=True)
class Dot:
    """A square that stands for a node: its style, text and the title that a browser shows."""

    name: str
    style: str
    text: str
    title: str


@dataclass(frozen=True, slots=True)
class Tile:
    """A node of the map, as its template needs it."""

    card: NodeCard

    @property
    def attention(self) -> bool:
        """Whether something is wrong with the node."""
        return is_conspicuous(self.card)

    @property
    def heading(self) -> str:
        """Number of free GPUs, in words."""
        if self.card.fault:
            return "not readable"
        return "takes no pods" if self.card.not_ready else f"{self.card.free} free"

    @property
    def cells(self) -> list[tuple[GpuCell, int]]:
        """The GPUs with their horizontal positions; NUMA nodes are apart."""
        placed: list[tuple[GpuCell, int]] = []
        x = 2
        for at, cell in enumerate(self.card.cells):
            if at and cell.numa != self.card.cells[at - 1].numa:
                x += _GAP
            placed.append((cell, x))
            x += _STEP
        return placed

    @property
    def width(self) -> int:
        """Width in pixels."""
        return self.cells[-1][1] + _STEP if self.card.cells else 0

    @property
    def warnings(self) -> list[str]:
        """What is wrong with the node and its GPUs."""
        reasons = [f"GPU {cell.index}: {cell.reason}" for cell in self.card.cells if cell.reason]
        whole = [text for text in (self.card.fault, self.card.not_ready) if text]
        return [*whole, *reasons, *self.card.others][:4]

    @property
    def spoken(self) -> list[str]:
        """The pods with their GPUs in words, for screen readers."""
        gpus: dict[ObjectKey, list[str]] = {}
        for cell in self.card.cells:
            for pod in cell.pods:
                gpus.setdefault(pod, []).append(str(cell.index))
        return [f"{pod}: GPU {', '.join(indices)}" for pod, indices in gpus.items()]

    @staticmethod
    def sign(cell: GpuCell) -> str:
        """Return the letter of the GPU's pod with the number of other pods, or the state's sign."""
        if cell.beside and cell.state not in _SIGNS:
            return f"{cell.letter}+{len(cell.beside)}"
        return _SIGNS.get(cell.state, cell.letter)

    @staticmethod
    def title(cell: GpuCell) -> str:
        """Return the state of a GPU in words."""
        user = f", {' and '.join(map(str, cell.pods))}" if cell.pods else ""
        user = f", shared by{user.removeprefix(',')}" if cell.shared else user
        rank = f", rank {cell.rank}" if cell.rank is not None else ""
        reason = f": {cell.reason}" if cell.reason else ""
        return f"GPU {cell.index}: {cell.state}{user}{rank}{reason}"


def is_conspicuous(card: NodeCard) -> bool:
    """Return whether something is wrong with a node."""
    unhealthy = card.count(CellState.UNHEALTHY, CellState.ENDED)
    return bool(card.fault or card.not_ready or unhealthy or card.differs)


def render_tile(templates: Environment, card: NodeCard) -> Markup:
    """Return the HTML of one node."""
    text = templates.get_template("tile.html").render(card=card, tile=Tile(card))
    return Markup(text)  # noqa: S704 - the template escapes


def dot(card: NodeCard) -> Dot:
    """Return the square of a node. Darker squares have fewer free GPUs."""
    size = len(card.cells)
    title = f"{card.name}: {card.free} of {size} GPUs free"
    if is_conspicuous(card):
        return Dot(card.name, "bad", "!" if not card.free else str(card.free), f"{title}; see node")
    quarter = 0 if not card.free else 1 + (3 * card.free - 1) // (size + 1) if size else 0
    return Dot(card.name, f"f{min(3, quarter)}", str(card.free), title)
