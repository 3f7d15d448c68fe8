"""Renders the page, its sections and its panels."""

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from markupsafe import Markup

from gputopo.placement.model import PolicyName
from gputopo.sensitivity.resolve import Sensitivity
from gputopo_kube.document import ObjectKey
from gputopo_web.facts.decisions import placement_of
from gputopo_web.facts.explained import WhatIfResult
from gputopo_web.facts.jobs import gpu_job_status, pod_row
from gputopo_web.facts.pods import describe_placement, pod_gpus
from gputopo_web.facts.sizes import size_rows
from gputopo_web.facts.whatif_form import PATTERNS
from gputopo_web.pages import overview
from gputopo_web.pages.curves import shown_profile
from gputopo_web.pages.environment import environment
from gputopo_web.pages.node import draw_choice, draw_kind, draw_node, draw_pod
from gputopo_web.pages.overview import TileCache
from gputopo_web.pages.queries import Selection
from gputopo_web.pages.tiles import dot
from gputopo_web.state.cluster import Changes, ClusterState

if TYPE_CHECKING:
    from gputopo_web.facts.jobs import JobRow

SECTIONS: Final = ("summary", "map", "jobs", "sizes", "profiles", "history")
_MOST_PROFILES: Final = 100
_LONGEST_SECONDS: Final = 10
_MOST_SECTIONS: Final = 200  # of different searches
_MOST_TILES: Final = 40  # of one change; if more nodes change, viewers read the map again


_FORM: Final = {
    "patterns": PATTERNS,
    "sensitivities": tuple(Sensitivity),
    "policies": tuple(PolicyName),
}


class Pages:
    """Renders the state of a cluster.

    Rendered sections and rows are kept until the state changes, because several viewers request
    the same ones; and not longer than 10 seconds, because they show how long ago times were.
    """

    def __init__(
        self, state: ClusterState, cluster: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Render ``state``; ``cluster`` is the name in the heading."""
        self._clock = clock
        self._rendered_at = clock()
        self._state = state
        self._cluster = cluster
        self._templates = environment()
        self._tiles = TileCache(self._templates)
        self._version = -1
        self._rows: list[JobRow] = []
        self._sections: dict[tuple[str, Selection], Markup] = {}

    def index(self, selection: Selection, stream: str) -> str:
        """Return the whole page; ``stream`` identifies the state that it shows."""
        context: dict[str, Any] = {}
        for section in SECTIONS:
            context |= self._context(section, selection)
        return self._templates.get_template("index.html").render(
            context, **_FORM, title="GPUs", cluster=self._cluster, stream=stream
        )

    def section(self, name: str, selection: Selection) -> Markup | None:
        """Return one section of the page; None if there is no section of this name."""
        if name not in SECTIONS:
            return None
        self._refresh()
        known = self._sections.get((name, selection))
        if known is None:
            text = self._templates.get_template(f"{name}.html").render(
                self._context(name, selection)
            )
            known = self._sections[name, selection] = Markup(text)  # noqa: S704 - escaped
        return known

    def node(self, name: str) -> Markup | None:
        """Return the panel of a node; None if there is no node of this name."""
        card, node = self._state.cards.get(name), self._state.nodes.items.get(ObjectKey("", name))
        if card is None or node is None:
            return None
        topology = node.topology
        return self._render(
            "node.html",
            card=card,
            picture=draw_node(card, topology) if topology else "",
            conditions=[*node.conditions.values()],
        )

    def pod(self, key: ObjectKey, explained: object = None) -> Markup | None:
        """Return the panel of a pod; None if there is no pod of this name with GPUs.

        ``explained`` is what the template ``explained.html`` shows.
        """
        pod = self._state.pods.items.get(key)
        if pod is None:
            return None
        placed = pod.placed
        node = self._state.nodes.items.get(ObjectKey("", pod.node or ""))
        topology = node.topology if node else None
        placement = placement_of(placed)
        index_of = {node.name: node.index_of} if node else {}
        picture = Markup("")
        if topology and placed.gpus and pod.node:
            card = self._state.cards.get(pod.node)
            busy = [cell.index for cell in card.cells if cell.pods] if card else ()
            picture = draw_pod(pod.node, topology, pod_gpus(placed, topology), busy)
        return self._render(
            "pod.html",
            pod=placed,
            row=pod_row(placed, pod.document, index_of),
            figures=[*describe_placement(placement)] if placement else [],
            explanation=self._explained(explained),
            picture=picture,
        )

    def gpu_job(self, key: ObjectKey, explained: object = None) -> Markup | None:
        """Return the panel of a GPUJob; None if there is no GPUJob of this name."""
        document = self._state.gpu_jobs.items.get(key)
        if document is None:
            return None
        self._refresh()
        row = next((row for row in self._rows if row.pod is None and row.job == key), None)
        conditions = gpu_job_status(document)[0].conditions
        return self._render(
            "gpujob.html",
            key=key,
            row=row,
            conditions=conditions,
            explanation=self._explained(explained),
        )

    def _explained(self, explained: object) -> Markup:
        return Markup("") if explained is None else self._render("explained.html", it=explained)

    def picture(self, group: str) -> str | None:
        """Return a picture of the links of a group's nodes; None if there is no such group."""
        for card in self._state.cards.values():
            node = self._state.nodes.items.get(ObjectKey("", card.name))
            if card.group == group and node and node.topology:
                return draw_kind(card, node.topology)
        return None

    def what_if(self, result: WhatIfResult) -> Markup:
        """Return the result of a what-if form."""
        chosen = result.found.chosen if result.found else None
        return self._render(
            "whatif.html",
            found=result.found,
            notes=result.notes,
            error=result.error,
            picture=draw_choice(chosen) if chosen else "",
        )

    def message(self, title: str, message: str) -> Markup:
        """Return a panel with a message."""
        return self._render("error.html", title=title, message=message)

    def whole(self, title: str, content: Markup) -> str:
        """Return a page with only this panel, for browsers without JavaScript."""
        return self._templates.get_template("part.html").render(
            title=title, cluster=self._cluster, stream="", content=content
        )

    def change(self, changes: Changes) -> dict[str, Any]:
        """Return what viewers need to show these changes: new tiles, squares and old sections.

        There are no tiles if viewers must read the whole map.
        """
        sections = set(changes.sections)
        if changes.nodes or "jobs" in sections:
            sections.add("summary")
        if len(changes.nodes) > _MOST_TILES:
            sections.add("map")
        cards = [self._state.cards[name] for name in sorted(changes.nodes)]
        if "map" in sections:
            cards = []
            self._tiles.forget({*self._state.cards})
        return {
            "tiles": {card.name: self._tiles.render(card) for card in cards},
            "dots": {card.name: asdict(dot(card)) for card in cards},
            "sections": sorted(sections),
        }

    def _refresh(self) -> None:
        old = self._clock() - self._rendered_at > _LONGEST_SECONDS
        if old or len(self._sections) > _MOST_SECTIONS:
            self._version = -1
        if self._version != self._state.version:
            self._version, self._rendered_at = self._state.version, self._clock()
            self._sections.clear()
            self._rows = overview.all_rows(self._state)

    def _render(self, template: str, **context: object) -> Markup:
        text = self._templates.get_template(template).render(context)
        return Markup(text)  # noqa: S704 - the template escapes

    def _context(self, section: str, selection: Selection) -> dict[str, Any]:
        """Return the variables of a section's template."""
        self._refresh()
        state = self._state
        if section == "summary":
            return {
                "namespace": state.namespace,
                "problems": overview.problems(state),
                "numbers": overview.numbers(state, self._rows),
            }
        if section == "map":
            found, empty = overview.shown_groups(state, selection, self._tiles)
            return {
                "found": found,
                "empty": empty,
                "selection": selection,
                "filters": overview.FILTERS,
            }
        if section == "jobs":
            return {
                "jobs": overview.shown_jobs(self._rows, selection),
                "selection": selection,
            }
        if section == "sizes":
            return {"sizes": size_rows(pod.placed for pod in state.pods.items.values())}
        if section == "profiles":
            known = sorted(state.profiles.items.items())
            shown = [shown_profile(*it) for it in known[:_MOST_PROFILES]]
            return {"profiles": shown, "more_profiles": max(0, len(known) - _MOST_PROFILES)}
        return {"history": state.history.newest_first()[: overview.SHOWN_DECISIONS]}
