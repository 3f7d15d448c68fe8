"""The link graph of a node as an SVG picture: thick is fast, PCIe is light."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from gputopo.topology.model import GpuIndex, LinkKind, NodeTopology
from gputopo_cli.shared.output import figure
from gputopo_cli.topology.layout import GPU_RADIUS, Box, Layout, layout
from gputopo_cli.topology.links import Sort, sort_of, sorts
from gputopo_cli.topology.source import Source

_NVLINKS: Final = ("#1b7f3b", "#3d8fd1", "#8e5bb5", "#c9822b")
_PCIE: Final = ("#8f9aa5", "#abb4bc", "#c3cad0", "#d6dbe0")
_CHOSEN: Final = "#e4572e"
_INK: Final = "#22303c"
_LINE: Final = 22
"""Height of a line of text."""
_MARGIN: Final = 24
_LEGEND_WIDTH: Final = 400
_WIDEST: Final = 8.0
_FAINT: Final = 0.3
_SVG: Final = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="{frame}" width="{width:.0f}"'
    ' height="{height:.0f}" font-family="Helvetica, Arial, sans-serif"'
    f' fill="{_INK}" role="img"'
    " aria-label={name}>"
)


@dataclass(frozen=True, slots=True)
class Marks:
    """What is marked in a picture.

    Attributes:
        chosen: allocated GPUs in rank order.
        busy: GPUs that others have.
        edges: pairs of chosen GPUs that talk to each other; drawn strong, all else faint.
    """

    chosen: Sequence[GpuIndex] = ()
    busy: Sequence[GpuIndex] = ()
    edges: Sequence[tuple[GpuIndex, GpuIndex]] = ()


def every_pair(gpus: Sequence[GpuIndex]) -> list[tuple[GpuIndex, GpuIndex]]:
    """Return the edges of an allocation whose pattern is not known."""
    return list(combinations(gpus, 2))


def svg(source: Source, marks: Marks) -> str:
    """Return the picture of a node, with its legend, as the text of an SVG file."""
    topology = source.topology
    plan = layout(topology)
    strokes = _strokes(sorts(topology))
    notes = list(_legend(strokes, plan, marks))
    top = plan.around.top - 2 * _LINE - _MARGIN
    left = min(plan.around.left, -_LEGEND_WIDTH / 2) - _MARGIN
    below = plan.around.bottom + _LINE
    height = below + _LINE * len(notes) + _MARGIN - top
    frame = f"{left:.0f} {top:.0f} {-2 * left:.0f} {height:.0f}"
    return "\n".join(
        [
            _SVG.format(frame=frame, width=-2 * left, height=height, name=quoteattr(source.name)),
            f'<rect x="{left:.0f}" y="{top:.0f}" width="100%" height="100%" fill="white"/>',
            _text(0, top + 1.5 * _LINE, source.name, 'font-size="18" font-weight="bold"'),
            _text(0, top + 2.4 * _LINE, source.in_short, 'font-size="13"'),
            *_boxes(plan),
            *_links(topology, plan, strokes, marks),
            *_gpus(plan, marks),
            *(_note(below + _LINE * row, *note) for row, note in enumerate(notes)),
            "</svg>",
        ]
    )


@dataclass(frozen=True, slots=True)
class _Stroke:
    colour: str
    width: float


def _strokes(known: Sequence[Sort]) -> dict[Sort, _Stroke]:
    """Return how to draw each sort: width by bandwidth, colour by rank among its kind."""
    fastest = max((sort.mb_per_s for sort in known), default=1)
    strokes: dict[Sort, _Stroke] = {}
    nvlinks, pcies = iter(_NVLINKS), iter(_PCIE)
    thin = 0.8 if any(sort.kind is not LinkKind.PCIE for sort in known) else 1.6
    for sort in known:
        is_pcie = sort.kind is LinkKind.PCIE
        colour = next(pcies, _PCIE[-1]) if is_pcie else next(nvlinks, _NVLINKS[-1])
        width = thin if is_pcie else max(2.0, _WIDEST * sort.mb_per_s / fastest)
        strokes[sort] = _Stroke(colour, width)
    return strokes


def _boxes(plan: Layout) -> Iterator[str]:
    for box in plan.sockets:
        yield _box(box, 18, 'fill="#f4f6f8" stroke="#c9d1d8"')
    for box in plan.switches:
        yield _box(box, 12, 'fill="#e9edf1" stroke="#c9d1d8" stroke-dasharray="4 3"')


def _links(
    topology: NodeTopology, plan: Layout, strokes: Mapping[Sort, _Stroke], marks: Marks
) -> Iterator[str]:
    """Return the lines, slow ones first: fast ones lie on top, and the chosen ones above all."""
    strong = {pair for a, b in marks.edges for pair in ((a, b), (b, a))}
    hub = any(link.kind is LinkKind.NVSWITCH for link in topology.links)
    faint = f' opacity="{_FAINT}"' if strong else ""
    weak_lines: dict[Sort, list[str]] = {sort: [] for sort in reversed(list(strokes))}
    strong_lines: dict[str, None] = {}
    for link in topology.links:
        sort, stroke = sort_of(link), strokes[sort_of(link)]
        ends = (plan.points[link.a], plan.points[link.b])
        legs = [(end, (0.0, 0.0)) for end in ends] if sort.kind is LinkKind.NVSWITCH else [ends]
        for start, end in legs:
            if (link.a, link.b) in strong:
                strong_lines[_line(start, end, _Stroke(_CHOSEN, max(3.0, stroke.width)))] = None
            else:
                weak_lines[sort].append(_line(start, end, stroke, faint))
    for lines in weak_lines.values():
        yield from dict.fromkeys(lines)
    yield from strong_lines
    if hub:
        yield _box(Box(-52, -20, 52, 20), 8, f'fill="white" stroke="{_NVLINKS[0]}"')
        yield _text(0, 5, "NVSwitch", 'font-size="15"')


def _gpus(plan: Layout, marks: Marks) -> Iterator[str]:
    ranks = {gpu: rank for rank, gpu in enumerate(marks.chosen)}
    for gpu, (x, y) in plan.points.items():
        fill, ink, below = _look(gpu, ranks, marks)
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{GPU_RADIUS}" {fill} stroke-width="1.5"/>'
        yield _text(x, y + (1 if below else 6), str(gpu), f'font-size="18" fill="{ink}"')
        if below:
            yield _text(x, y + 14, below, f'font-size="10" fill="{ink}"')


def _look(gpu: GpuIndex, ranks: Mapping[GpuIndex, int], marks: Marks) -> tuple[str, str, str]:
    """Return fill, colour of the text, and the word beneath the number."""
    if gpu in ranks:
        return f'fill="{_CHOSEN}" stroke="{_CHOSEN}"', "white", f"rank {ranks[gpu]}"
    if gpu in marks.busy:
        return 'fill="#d6dbe0" stroke="#8f9aa5"', "#6b7681", "busy"
    return f'fill="white" stroke="{_INK}"', _INK, ""


def _legend(
    strokes: Mapping[Sort, _Stroke], plan: Layout, marks: Marks
) -> Iterator[tuple[str, str]]:
    """Return a sample, drawn around 0, and the words of each line of the legend."""
    for sort, stroke in strokes.items():
        words = f"{sort.label}: {figure(sort.mb_per_s)} GB/s, {sort.words}"
        yield _line((-16, 0), (16, 0), stroke), words
    if marks.edges:
        yield _line((-16, 0), (16, 0), _Stroke(_CHOSEN, 4)), "used by the job"
    if len(plan.sockets) > 1:
        box = _box(Box(-14, -8, 14, 8), 5, 'fill="#f4f6f8" stroke="#c9d1d8"')
        yield box, "one CPU socket (NUMA node)"
    if plan.switches:
        dashed = 'fill="#e9edf1" stroke="#c9d1d8" stroke-dasharray="4 3"'
        yield _box(Box(-14, -8, 14, 8), 5, dashed), "one PCIe switch"


def _note(y: float, sample: str, words: str) -> str:
    left = -_LEGEND_WIDTH / 2
    text = _text(left + 44, y + 5, words, 'font-size="13"', anchor="start")
    return f'<g transform="translate({left + 18:.0f} {y:.0f})">{sample}</g>\n{text}'


def _line(
    start: tuple[float, float], end: tuple[float, float], stroke: _Stroke, more: str = ""
) -> str:
    return (
        f'<line x1="{start[0]:.1f}" y1="{start[1]:.1f}" x2="{end[0]:.1f}" y2="{end[1]:.1f}"'
        f' stroke="{stroke.colour}" stroke-width="{stroke.width:.1f}"{more}/>'
    )


def _box(box: Box, radius: int, look: str) -> str:
    return (
        f'<rect x="{box.left:.1f}" y="{box.top:.1f}" width="{box.right - box.left:.1f}"'
        f' height="{box.bottom - box.top:.1f}" rx="{radius}" {look}/>'
    )


def _text(x: float, y: float, words: str, look: str, *, anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {look}>{escape(words)}</text>'
