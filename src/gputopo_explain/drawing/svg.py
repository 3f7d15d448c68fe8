"""Draw the links of a node as an SVG picture: fast links are thick, PCIe links are light."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from gputopo.topology.model import GpuIndex, LinkKind, NodeTopology
from gputopo_explain.drawing.layout import GPU_RADIUS, Box, Layout, lay_out
from gputopo_explain.drawing.links import LinkType, link_type, link_types
from gputopo_explain.text import format_gb_per_s

_NVLINKS: Final = ("#1b7f3b", "#3d8fd1", "#8e5bb5", "#c9822b")
_PCIE: Final = ("#8f9aa5", "#abb4bc", "#c3cad0", "#d6dbe0")
_CHOSEN: Final = "#e4572e"
_INK: Final = "#22303c"
_SOCKET: Final = 'fill="#f4f6f8" stroke="#c9d1d8"'
_SWITCH: Final = 'fill="#e9edf1" stroke="#c9d1d8" stroke-dasharray="4 3"'
_LINE: Final = 22  # height of a line of text
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
class UserMark:
    """How a GPU with a known state is drawn.

    Attributes:
        label: text in the circle, below the index, for example the letter of a pod.
        fill, ink: colours of the circle and of its text, for example ``#56b4e9``.
        title: text that a browser shows for the GPU.
        href: where a click on the GPU leads; None for no link.
    """

    label: str
    fill: str
    ink: str
    title: str
    href: str | None = None


@dataclass(frozen=True, slots=True)
class Marks:
    """The marked GPUs and links of a picture.

    Attributes:
        users: GPUs whose appearance the caller decides.
        chosen: allocated GPUs in rank order.
        busy: GPUs of other jobs.
        edges: pairs of chosen GPUs that communicate. All other links are drawn faint.
    """

    chosen: Sequence[GpuIndex] = ()
    busy: Sequence[GpuIndex] = ()
    edges: Sequence[tuple[GpuIndex, GpuIndex]] = ()
    users: Mapping[GpuIndex, UserMark] = field(default_factory=dict)


def draw_topology(topology: NodeTopology, marks: Marks, *, name: str, summary: str) -> str:
    """Return the text of an SVG file with the node and a legend."""
    layout = lay_out(topology)
    strokes = _strokes(link_types(topology))
    notes = list(_legend(strokes, layout, marks))
    top = layout.bounds.top - 2 * _LINE - _MARGIN
    left = min(layout.bounds.left, -_LEGEND_WIDTH / 2) - _MARGIN
    below = layout.bounds.bottom + _LINE
    height = below + _LINE * len(notes) + _MARGIN - top
    frame = f"{left:.0f} {top:.0f} {-2 * left:.0f} {height:.0f}"
    return "\n".join(
        [
            _SVG.format(frame=frame, width=-2 * left, height=height, name=quoteattr(name)),
            f'<rect x="{left:.0f}" y="{top:.0f}" width="100%" height="100%" fill="white"/>',
            _text(0, top + 1.5 * _LINE, name, 'font-size="18" font-weight="bold"'),
            _text(0, top + 2.4 * _LINE, summary, 'font-size="13"'),
            *(_box(box, 18, _SOCKET) for box in layout.sockets),
            *(_box(box, 12, _SWITCH) for box in layout.switches),
            *_links(topology, layout, strokes, marks),
            *_gpus(layout, marks),
            *(_note(below + _LINE * row, *note) for row, note in enumerate(notes)),
            "</svg>",
        ]
    )


@dataclass(frozen=True, slots=True)
class _Stroke:
    colour: str
    width: float


def _strokes(types: Sequence[LinkType]) -> dict[LinkType, _Stroke]:
    """Return the stroke of each link type. Faster links of a kind are wider and darker."""
    fastest = max((each.mb_per_s for each in types), default=1)
    strokes: dict[LinkType, _Stroke] = {}
    nvlinks, pcies = iter(_NVLINKS), iter(_PCIE)
    thin = 0.8 if any(each.kind is not LinkKind.PCIE for each in types) else 1.6
    for each in types:
        is_pcie = each.kind is LinkKind.PCIE
        colour = next(pcies, _PCIE[-1]) if is_pcie else next(nvlinks, _NVLINKS[-1])
        width = thin if is_pcie else max(2.0, _WIDEST * each.mb_per_s / fastest)
        strokes[each] = _Stroke(colour, width)
    return strokes


def _links(
    topology: NodeTopology, layout: Layout, strokes: Mapping[LinkType, _Stroke], marks: Marks
) -> Iterator[str]:
    """Yield SVG lines for the links: first slow links, then fast links, finally the job's links.

    A link through NVSwitch is two lines, from each of its GPUs to the switch in the centre.
    """
    strong = {pair for a, b in marks.edges for pair in ((a, b), (b, a))}
    faint = f' opacity="{_FAINT}"' if strong else ""
    weak_lines: dict[LinkType, list[str]] = {each: [] for each in reversed(list(strokes))}
    strong_lines: dict[str, None] = {}
    for link in topology.links:
        kind, stroke = link_type(link), strokes[link_type(link)]
        ends = (layout.points[link.a], layout.points[link.b])
        legs = [(end, (0.0, 0.0)) for end in ends] if kind.kind is LinkKind.NVSWITCH else [ends]
        for start, end in legs:
            if (link.a, link.b) in strong:
                strong_lines[_line(start, end, _Stroke(_CHOSEN, max(3.0, stroke.width)))] = None
            else:
                weak_lines[kind].append(_line(start, end, stroke, faint))
    for lines in weak_lines.values():
        yield from dict.fromkeys(lines)
    yield from strong_lines
    if any(link.kind is LinkKind.NVSWITCH for link in topology.links):
        yield _box(Box(-52, -20, 52, 20), 8, f'fill="white" stroke="{_NVLINKS[0]}"')
        yield _text(0, 5, "NVSwitch", 'font-size="15"')


def _gpus(layout: Layout, marks: Marks) -> Iterator[str]:
    ranks = {gpu: rank for rank, gpu in enumerate(marks.chosen)}
    for gpu, (x, y) in layout.points.items():
        fill, ink, state = _appearance(gpu, ranks, marks)
        user = marks.users.get(gpu)
        if user:
            yield f"<a href={quoteattr(user.href)}>" if user.href else "<g>"
            yield f"<title>{escape(user.title)}</title>"
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{GPU_RADIUS}" {fill} stroke-width="1.5"/>'
        yield _text(x, y + (1 if state else 6), str(gpu), f'font-size="18" fill="{ink}"')
        if state:
            yield _text(x, y + 14, state, f'font-size="10" fill="{ink}"')
        if user:
            yield "</a>" if user.href else "</g>"


def _appearance(gpu: GpuIndex, ranks: Mapping[GpuIndex, int], marks: Marks) -> tuple[str, str, str]:
    """Return the fill of a GPU's circle, the colour of its text, and the state to write in it."""
    if (user := marks.users.get(gpu)) is not None:
        return f'fill="{user.fill}" stroke="{_INK}"', user.ink, user.label
    if gpu in ranks:
        return f'fill="{_CHOSEN}" stroke="{_CHOSEN}"', "white", f"rank {ranks[gpu]}"
    if gpu in marks.busy:
        return 'fill="#d6dbe0" stroke="#8f9aa5"', "#6b7681", "busy"
    return f'fill="white" stroke="{_INK}"', _INK, ""


def _legend(
    strokes: Mapping[LinkType, _Stroke], layout: Layout, marks: Marks
) -> Iterator[tuple[str, str]]:
    """Yield for each line of the legend an SVG sample, centred at x = 0, and its text."""
    for each, stroke in strokes.items():
        text = f"{each.label}: {format_gb_per_s(each.mb_per_s)} GB/s, {each.description}"
        yield _line((-16, 0), (16, 0), stroke), text
    if marks.edges:
        yield _line((-16, 0), (16, 0), _Stroke(_CHOSEN, 4)), "used by the job"
    if len(layout.sockets) > 1:
        yield _box(Box(-14, -8, 14, 8), 5, _SOCKET), "one CPU socket (NUMA node)"
    if layout.switches:
        yield _box(Box(-14, -8, 14, 8), 5, _SWITCH), "one PCIe switch"


def _note(y: float, sample: str, text: str) -> str:
    left = -_LEGEND_WIDTH / 2
    label = _text(left + 44, y + 5, text, 'font-size="13"', anchor="start")
    return f'<g transform="translate({left + 18:.0f} {y:.0f})">{sample}</g>\n{label}'


def _line(
    start: tuple[float, float], end: tuple[float, float], stroke: _Stroke, attributes: str = ""
) -> str:
    return (
        f'<line x1="{start[0]:.1f}" y1="{start[1]:.1f}" x2="{end[0]:.1f}" y2="{end[1]:.1f}"'
        f' stroke="{stroke.colour}" stroke-width="{stroke.width:.1f}"{attributes}/>'
    )


def _box(box: Box, radius: int, attributes: str) -> str:
    return (
        f'<rect x="{box.left:.1f}" y="{box.top:.1f}" width="{box.right - box.left:.1f}"'
        f' height="{box.bottom - box.top:.1f}" rx="{radius}" {attributes}/>'
    )


def _text(x: float, y: float, text: str, attributes: str, *, anchor: str = "middle") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {attributes}>{escape(text)}</text>'
    )
