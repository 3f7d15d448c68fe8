"""The Jinja environment: all text from the cluster becomes harmless, short text of one line."""

from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from gputopo.runtime.messages import shortened
from gputopo_explain.placed.nodes import node_sentences
from gputopo_explain.placed.share import share_parts
from gputopo_explain.text import format_gb_per_s, one_line

LONGEST: Final = 400
"""Longest text of one value, in characters. Users can write annotations of 256 KiB."""


def clean(value: object) -> object:
    r"""Return a text without control characters, line breaks and invisible signs, and shortened.

    Numbers and HTML that templates have made (``Markup``) stay unchanged.

    >>> clean("a\x00b\u202ec")
    'a b c'
    """
    if isinstance(value, (Markup, int)):
        return value
    text = one_line(str(value)[: 2 * LONGEST])
    return shortened(text, LONGEST)


def path(*parts: str) -> Markup:
    """Return a URL path with percent-encoded parts.

    >>> path("pod", "a/b", "<c>")
    Markup('/pod/a%2Fb/%3Cc%3E')
    """
    # Percent-encoded text has no character with a meaning in HTML.
    return Markup("/" + "/".join(quote(part, safe="") for part in parts))  # noqa: S704


def query(**parameters: object) -> str:
    """Return the query of a URL; parameters that are empty are left out."""
    given = {name: str(value) for name, value in parameters.items() if value}
    return f"?{urlencode(given)}" if given else "?"


def age(time: str, now: datetime | None = None) -> str:
    """Return how long ago an RFC 3339 time was; empty if the text is no such time.

    >>> age("2026-01-01T00:00:00Z", datetime(2026, 1, 1, 3, 5, tzinfo=UTC))
    '3 h 5 min'
    """
    try:
        past = datetime.fromisoformat(time)
        seconds = max(0, int(((now or datetime.now(UTC)) - past).total_seconds()))
    except (ValueError, TypeError):
        return ""
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if days:
        return f"{days} d {hours % 24} h"
    if hours:
        return f"{hours} h {minutes % 60} min"
    return f"{minutes} min" if minutes else f"{seconds} s"


def environment() -> Environment:
    """Return the environment of all templates."""
    result = Environment(
        loader=PackageLoader("gputopo_web.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=clean,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    functions: dict[str, Any] = {
        "path": path,
        "query": query,
        "node_sentences": node_sentences,
        "share_parts": share_parts,
        "zip_label": lambda label, items: [(label, item) for item in items],
    }
    result.globals.update(functions)
    result.filters.update({"age": age, "gb": format_gb_per_s})
    return result
