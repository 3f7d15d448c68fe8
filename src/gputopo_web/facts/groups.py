"""Groups of nodes with equal links and GPU models, and the search in them."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gputopo_web.facts.cards import CellState, NodeCard


@dataclass(frozen=True, slots=True)
class Totals:
    """Numbers of GPUs and nodes.

    Attributes:
        free: GPUs that a new pod may get.
        differing: nodes on which kubelet gave GPUs to other containers than the scheduler chose.
        not_ready: nodes that take no new pods.
    """

    nodes: int = 0
    gpus: int = 0
    in_use: int = 0
    free: int = 0
    unhealthy: int = 0
    differing: int = 0
    not_ready: int = 0


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes of one kind, by name.

    Attributes:
        free_counts: number of nodes by the number of their free GPUs.
    """

    key: str
    cards: tuple[NodeCard, ...]
    totals: Totals
    free_counts: Mapping[int, int]

    @property
    def size(self) -> int:
        """Number of GPUs of each node."""
        return len(self.cards[0].cells)


def totals(cards: Iterable[NodeCard]) -> Totals:
    """Return the numbers of some nodes."""
    found = tuple(cards)
    return Totals(
        nodes=len(found),
        gpus=sum(len(card.cells) for card in found),
        in_use=sum(card.in_use for card in found),
        free=sum(card.free for card in found),
        unhealthy=sum(card.count(CellState.UNHEALTHY) for card in found),
        differing=sum(card.differs for card in found),
        not_ready=sum(bool(card.not_ready or card.fault) for card in found),
    )


def groups(cards: Iterable[NodeCard]) -> list[Group]:
    """Return the nodes by group, the largest group first, and in a group by name."""
    found: dict[str, list[NodeCard]] = {}
    for card in sorted(cards, key=lambda card: natural(card.name)):
        found.setdefault(card.group, []).append(card)
    return sorted(
        (
            Group(key, tuple(same), totals(same), Counter(card.free for card in same))
            for key, same in found.items()
        ),
        key=lambda group: (-len(group.cards), group.key),
    )


def natural(name: str) -> tuple[tuple[bool, int, str], ...]:
    """Return a sort key that orders numbers in names by value.

    >>> sorted(["n10", "n2", "n1"], key=natural)
    ['n1', 'n2', 'n10']
    """
    return tuple(
        (False, int(number[:18]), number) if number else (True, 0, text)
        for number, text in re.findall(r"([0-9]+)|([^0-9]+)", name)
    )


_FILTERS: Final[Mapping[str, Callable[[NodeCard], bool]]] = {
    "": lambda _: True,
    "free": lambda card: card.free > 0,
    "unhealthy": lambda card: card.count(CellState.UNHEALTHY) > 0,
    "differs": lambda card: card.differs,
    "not-ready": lambda card: bool(card.not_ready or card.fault),
}
FILTERS: Final = tuple(_FILTERS)


def search(cards: Iterable[NodeCard], text: str, state: str) -> Sequence[NodeCard]:
    """Return the nodes in a state whose name, GPU model or pods contain all words of a text.

    An unknown state is ignored.
    """
    words = text.casefold().split()
    accepted = _FILTERS.get(state, _FILTERS[""])
    return [card for card in cards if accepted(card) and _matches(card, words)]


def _matches(card: NodeCard, words: Sequence[str]) -> bool:
    if not words:
        return True
    own = " ".join((card.name, card.model, *map(str, card.pods))).casefold()
    return all(word in own for word in words)
