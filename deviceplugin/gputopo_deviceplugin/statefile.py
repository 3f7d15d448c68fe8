"""Stores JSON files that survive a restart of the agent, but not a reboot of the node.

The files are in a folder of the host's ``/run``, which is a tmpfs. They contain data that a
restarted agent may not get elsewhere: the GPUs of each pod, the XIDs and the topology.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gputopo_kube.json_file import Value, read_json, replace_text


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
        return read_json(self._path, parse)

    def save(self, document: Any) -> None:  # noqa: ANN401 - any JSON value
        """Replace the document atomically. Do nothing if the document has not changed.

        Raises:
            OSError: the file cannot be written; the previous document stays in the file.
        """
        text = json.dumps(document, sort_keys=True)
        if text == self._written:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        replace_text(self._path, text)
        self._written = text
