"""Stores JSON files that survive a restart of the agent, but not a reboot of the node.

The files are in a folder of the host's ``/run``, which is a tmpfs. They contain data that a
restarted agent may not get elsewhere: the GPUs of each pod, the XIDs and the topology.
"""

import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from gputopo.runtime.log import fields

_log = logging.getLogger(__name__)

Value = TypeVar("Value")


class StateFile:
    """A file with one JSON document."""

    def __init__(self, path: Path) -> None:
        """Use the file at ``path``. If its folder is missing, ``save`` creates the folder."""
        self._path = path
        self._written: str | None = None

    def load(self, parse: Callable[[Any], Value]) -> Value | None:
        """Return the parsed document, or None if the file is missing or not valid.

        ``parse`` must raise ValueError, or pydantic's ValidationError, for an invalid document.
        """
        try:
            return parse(json.loads(self._path.read_text()))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            _log.error("state file ignored %s", fields(path=self._path, reason=error))
            return None

    def save(self, document: Any) -> None:  # noqa: ANN401 - any JSON value
        """Replace the document atomically. Do nothing if the document has not changed.

        Raises:
            OSError: the file cannot be written; the previous document stays in the file.
        """
        text = json.dumps(document, sort_keys=True)
        if text == self._written:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        new = self._path.with_name(f".{self._path.name}.new")
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        new.replace(self._path)
        self._written = text
