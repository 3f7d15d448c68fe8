"""What goes wrong with requests to the fake API server."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Literal

SILENT: Final = 0
"""No response; the connection stays open."""
CLOSED: Final = -1
"""The connection is closed without a response."""

CarriedOut = Literal["no", "yes", "later"]
Action = Callable[[], Awaitable[None] | None]


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to requests of a method (regular expression) to a path (contained in it).

    Attributes:
        path: regular expression that is searched in path and query.
        status: of the response; or SILENT or CLOSED.
        carried_out: whether the request takes effect: at once, or when the test calls
            ``carry_out_late``.
        times: how many requests; None stands for all of them.
        content_type: of the response; an empty one is left out, as some proxies do.
    """

    method: str
    path: str
    status: int
    message: str = "injected"
    carried_out: CarriedOut = "no"
    times: int | None = 1
    content_type: str = "application/json"

    def concerns(self, method: str, path: str) -> bool:
        """Whether it happens to this request."""
        return bool(re.fullmatch(self.method, method) and re.search(self.path, path))


@dataclass(frozen=True, slots=True)
class Hook:
    """What a test does once, before the next request of a method to a path takes effect."""

    method: str
    path: str
    action: Action

    def concerns(self, method: str, path: str) -> bool:
        """Whether it is called before this request."""
        return bool(re.fullmatch(self.method, method) and re.search(self.path, path))
