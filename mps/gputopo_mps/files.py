"""JSON files that survive a restart of the component, but not a reboot of the node."""

import json
import logging
import os
from pathlib import Path
from typing import Any

from gputopo.runtime.log import fields

_log = logging.getLogger(__name__)


def load(path: Path) -> Any:  # noqa: ANN401 - any JSON value
    """Return the document, or None if the file is missing or not valid."""
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        _log.error("file ignored %s", fields(path=path, reason=error))
        return None


def save(path: Path, document: Any) -> None:  # noqa: ANN401 - any JSON value
    """Replace the document at once; a process that is killed leaves the old or the new one."""
    new = path.with_name(f".{path.name}.new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(document, file, sort_keys=True)
    new.replace(path)
