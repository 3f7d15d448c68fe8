"""JSON files that survive a restart of the agent and not a reboot of the node.

They lie in a folder of the host's ``/run``, which is a tmpfs. They hold what a new agent can learn
from nowhere else: which pods were given which GPUs, and which GPUs reported a fatal XID.
"""

import json
import logging
import os
from pathlib import Path
from typing import Any

from gputopo.runtime.log import fields

_log = logging.getLogger(__name__)


class StateFile:
    """One JSON document, replaced as a whole."""

    def __init__(self, path: Path) -> None:
        """Keep the document at ``path``; its folder is created when it is missing."""
        self._path = path
        self._written: str | None = None

    def read(self) -> Any:  # noqa: ANN401 - any JSON value
        """Return the document; None where there is none or it cannot be read."""
        try:
            return json.loads(self._path.read_text())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            _log.error("state file not read %s", fields(path=self._path, reason=error))
            return None

    def write(self, document: Any) -> None:  # noqa: ANN401
        """Replace the document atomically; do nothing where it is the one written last.

        Raises:
            OSError: where the file cannot be written; the document of before stays.
        """
        text = json.dumps(document, sort_keys=True)
        if text == self._written:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._path.with_name(f".{self._path.name}.new")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        fresh.replace(self._path)
        self._written = text
