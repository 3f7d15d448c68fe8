"""What a viewer has selected: parameters of the URL. Wrong values are replaced, never an error."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from gputopo_web.facts.groups import FILTERS

_LONGEST_TEXT: Final = 200
_MOST_PAGES: Final = 10_000


@dataclass(frozen=True, slots=True)
class Selection:
    """Which nodes and jobs the page shows.

    Attributes:
        text: words that names must contain.
        state: one of ``FILTERS``.
        group: only nodes of this group; empty for all.
        page: page of the group's nodes, from 1.
        job_page: page of the table of jobs, from 1.
    """

    text: str = ""
    state: str = ""
    group: str = ""
    page: int = 1
    job_page: int = 1

    @classmethod
    def parse(cls, parameters: Mapping[str, str]) -> Self:
        """Return the selection of a URL."""
        state = parameters.get("state", "")
        return cls(
            text=parameters.get("q", "")[:_LONGEST_TEXT],
            state=state if state in FILTERS else "",
            group=parameters.get("group", "")[:_LONGEST_TEXT],
            page=_page(parameters.get("page", "")),
            job_page=_page(parameters.get("jobs", "")),
        )


def _page(text: str) -> int:
    """Return a page number.

    >>> [_page(text) for text in ("3", "0", "-1", "x", "9" * 99)]
    [3, 1, 1, 1, 10000]
    """
    if not (text.isascii() and text.isdecimal()):
        return 1
    return max(1, min(int(text[:6]), _MOST_PAGES))
