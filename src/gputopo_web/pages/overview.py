"""What the main page shows: summary, map, jobs and history, for the selection of a viewer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from jinja2 import Environment
from markupsafe import Markup

from gputopo_explain.text import counted
from gputopo_kube.document import ObjectKey
from gputopo_web.facts.cards import NodeCard
from gputopo_web.facts.groups import Group, Totals, groups, search, totals
from gputopo_web.facts.jobs import JobRow, job_rows, search_rows
from gputopo_web.pages.node import describe_links
from gputopo_web.pages.queries import Selection
from gputopo_web.pages.tiles import Dot, dot, render_tile
from gputopo_web.state.cluster import ClusterState
from gputopo_web.state.kinds import KINDS

TILES_OF_KIND: Final = 24
"""Tiles of each kind of node while all kinds are shown."""
TILES_OF_PAGE: Final = 120
ROWS_OF_PAGE: Final = 100
SHOWN_DECISIONS: Final = 60

FILTERS: Final = (
    ("", "all"),
    ("free", "with free GPUs"),
    ("unhealthy", "with unhealthy GPUs"),
    ("differs", "with differences"),
    ("not-ready", "that take no pods"),
)


@dataclass(frozen=True, slots=True)
class Problem:
    """A kind of object that cannot be read."""

    kind: str
    needed_for: str
    error: str


@dataclass(frozen=True, slots=True)
class ShownGroup:
    """Nodes of one kind, as the template of the map needs them.

    Attributes:
        cards: number of all nodes that match the search.
        histogram: pairs of a number of free GPUs, and the number of nodes with it.
        dots: all nodes, if not all of them are shown as tiles.
        hidden: number of nodes without a tile, if another page shows them.
    """

    key: str
    title: str
    counts: str
    links: str
    cards: int
    histogram: Sequence[tuple[int, int]]
    dots: Sequence[Dot]
    shown: Sequence[Markup]
    hidden: int
    pages: int


@dataclass(frozen=True, slots=True)
class ShownJobs:
    """One page of the table of jobs."""

    rows: Sequence[JobRow]
    counts: str
    pages: int


class TileCache:
    """The rendered tiles by card. Many viewers and pages show the same tiles."""

    def __init__(self, templates: Environment) -> None:
        self._templates = templates
        self._tiles: dict[str, tuple[NodeCard, Markup]] = {}

    def render(self, card: NodeCard) -> Markup:
        """Return the tile of a card; cards that have not changed are not rendered again."""
        known = self._tiles.get(card.name)
        if known is None or known[0] is not card:
            known = self._tiles[card.name] = (card, render_tile(self._templates, card))
        return known[1]

    def forget(self, names: set[str]) -> None:
        """Drop the tiles of nodes that are not in ``names``."""
        for name in self._tiles.keys() - names:
            del self._tiles[name]


def problems(state: ClusterState) -> list[Problem]:
    """Return the kinds of objects that cannot be read."""
    return [
        Problem(kind.name, kind.needed_for, error)
        for kind in KINDS
        if (error := state.tables[kind.name].error) is not None
    ]


def numbers(state: ClusterState, rows: Sequence[JobRow]) -> list[tuple[str, str, str]]:
    """Return label, value and style of each number of the summary."""
    found: Totals = totals(state.cards.values())
    waiting = sum(row.waiting for row in rows)
    return [
        ("Nodes", str(found.nodes), ""),
        ("GPUs", str(found.gpus), ""),
        ("in use", str(found.in_use), ""),
        ("free", str(found.free), ""),
        ("unhealthy", str(found.unhealthy), "bad" if found.unhealthy else ""),
        ("nodes with differences", str(found.differing), "bad" if found.differing else ""),
        ("nodes that take no pods", str(found.not_ready), "bad" if found.not_ready else ""),
        ("running jobs", str(len(rows) - waiting), ""),
        ("waiting jobs", str(waiting), ""),
    ]


def all_rows(state: ClusterState) -> list[JobRow]:
    """Return all rows of the table of jobs."""
    index_of = {key.name: it.index_of for key, it in state.nodes.items.items()}
    pods = ((pod.placed, pod.document) for pod in state.pods.items.values())
    return job_rows(pods, state.gpu_jobs.items, index_of)


def shown_jobs(rows: Sequence[JobRow], selection: Selection) -> ShownJobs:
    """Return the rows that a viewer has selected."""
    found = search_rows(rows, selection.text)
    waiting = sum(row.waiting for row in found)
    start = (selection.job_page - 1) * ROWS_OF_PAGE
    return ShownJobs(
        found[start : start + ROWS_OF_PAGE],
        f"{waiting} waiting, {len(found) - waiting} running",
        -(-len(found) // ROWS_OF_PAGE),
    )


def shown_groups(
    state: ClusterState, selection: Selection, tiles: TileCache
) -> tuple[list[ShownGroup], str]:
    """Return the groups of nodes that a viewer has selected, and a text if there are none."""
    found = groups(search(state.cards.values(), selection.text, selection.state))
    if selection.group:
        found = [group for group in found if group.key == selection.group]
    shown = [_shown(group, state, selection, tiles) for group in found]
    return shown, "" if shown else _why_empty(state)


def _why_empty(state: ClusterState) -> str:
    if state.cards:
        return "No node matches the search."
    if state.nodes.error is not None:
        return "The GPUTopologies of the cluster cannot be read, see above."
    if not state.nodes.listed:
        return "The GPUTopologies of the cluster are being read."
    return "No node has a GPUTopology. The agents publish them; see `gputopo doctor`."


def _shown(group: Group, state: ClusterState, selection: Selection, tiles: TileCache) -> ShownGroup:
    start, most = 0, TILES_OF_KIND
    if selection.group:
        start, most = (selection.page - 1) * TILES_OF_PAGE, TILES_OF_PAGE
    cards = group.cards[start : start + most]
    partly = len(cards) < len(group.cards)
    node = state.nodes.items.get(ObjectKey("", group.cards[0].name))
    topology = node.topology if node else None
    return ShownGroup(
        key=group.key,
        title=_title(group),
        counts=_counts(group.totals),
        links=describe_links(topology) if topology else "",
        cards=len(group.cards),
        histogram=sorted(group.free_counts.items()) if len(group.cards) > 1 else (),
        dots=[dot(card) for card in group.cards] if partly else (),
        shown=[tiles.render(card) for card in cards],
        hidden=len(group.cards) - len(cards) if partly and not selection.group else 0,
        pages=-(-len(group.cards) // TILES_OF_PAGE) if selection.group else 1,
    )


def _title(group: Group) -> str:
    nodes = counted(len(group.cards), "node")
    if not group.size:
        return f"{nodes} without a valid GPUTopology"
    gpus = counted(group.size, "GPU")
    return f"{nodes} with {gpus}: {group.cards[0].model or 'unknown model'}"


def _counts(found: Totals) -> str:
    text = f"{found.gpus} GPUs: {found.in_use} in use, {found.free} free"
    return f"{text}, {found.unhealthy} unhealthy" if found.unhealthy else text
