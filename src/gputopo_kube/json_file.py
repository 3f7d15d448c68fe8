"""JSON files that survive a restart of a component, but not a reboot of the node."""

import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from gputopo.runtime.log import fields

_log = logging.getLogger(__name__)

Value = TypeVar("Value")


def read_json(path: Path, parse: Callable[[Any], Value]) -> Value | None:
    """Return the parsed document, or None if the file is missing or not valid.

    ``parse`` must raise ValueError, or pydantic's ValidationError, for an invalid document.
    """
    try:
        return parse(json.loads(path.read_text()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        _log.error("state file ignored %s", fields(path=path, reason=error))
        return None


def replace_text(path: Path, text: str) -> None:
    """Replace a file at once; a process that is killed leaves the old or the new one.

    Raises:
        OSError: the file cannot be written, and keeps its content.
    """
    new = path.with_name(f".{path.name}.new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    new.replace(path)


def write_json(path: Path, document: Any) -> None:  # noqa: ANN401 - any JSON value
    """Replace the document in a file, as ``replace_text`` does."""
    replace_text(path, json.dumps(document, sort_keys=True))
