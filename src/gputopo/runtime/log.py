"""One line per event: time, level, what happened, and ``key=value`` fields."""

import json
import logging
import sys
import time
from collections.abc import Iterable


class _Line(logging.Formatter):
    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"


def configure(level: str, quiet: Iterable[str]) -> None:
    """Write everything from ``level`` up to stderr; loggers named in ``quiet`` only warn."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Line("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for name in quiet:
        logging.getLogger(name).setLevel(logging.WARNING)


def fields(**values: object) -> str:
    """Return the values as ``key=value`` fields; what has blanks or quotes is quoted.

    >>> fields(pod="default/a", gpus="0,3", reason="no such pod", node=None)
    'pod=default/a gpus=0,3 reason="no such pod"'
    """
    return " ".join(f"{key}={_plain(value)}" for key, value in values.items() if value is not None)


def _plain(value: object) -> str:
    text = str(value)
    plain = text and text.isprintable() and not set(text) & {" ", '"', "="}
    return text if plain else json.dumps(text)
