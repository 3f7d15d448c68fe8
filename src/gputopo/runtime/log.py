"""Format of all log lines: UTC time, level, message and ``key=value`` fields."""

import json
import logging
import sys
import time
from collections.abc import Iterable, Mapping


class _LineFormatter(logging.Formatter):
    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"


class LogFields:
    """Values of one log line. They are formatted only if the line is written."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, object]) -> None:
        self._values = values

    def __str__(self) -> str:
        return " ".join(
            f"{key}={_quoted(value)}" for key, value in self._values.items() if value is not None
        )


def fields(**values: object) -> LogFields:
    """Return the values as ``key=value`` fields. A value with spaces or quotes is quoted.

    >>> str(fields(pod="default/a", gpus="0,3", reason="no such pod", node=None))
    'pod=default/a gpus=0,3 reason="no such pod"'
    """
    return LogFields(values)


def configure(level: str, quiet: Iterable[str]) -> None:
    """Log ``level`` and above to stderr; the loggers in ``quiet`` log only warnings and errors."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_LineFormatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for name in quiet:
        logging.getLogger(name).setLevel(logging.WARNING)


def _quoted(value: object) -> str:
    text = str(value)
    plain = text and text.isprintable() and not set(text) & {" ", '"', "="}
    return text if plain else json.dumps(text)
