"""A folder for the state of a cluster, with the record that shows whose it is."""

import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from localcluster import files, settings
from localcluster.errors import ClusterError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_FILE = "cluster.json"
_UNFINISHED = f"{_FILE}.unfinished"

T = TypeVar("T", bound="DataclassInstance")


class RecordFile(Generic[T]):
    """The record of a cluster, written before the cluster changes the machine.

    Args:
        folder: of the cluster's state.
        kind: the dataclass of the record.
        variable: environment variable with which a user sets the folder.
    """

    def __init__(self, folder: Path, kind: Callable[..., T], variable: str) -> None:
        self._folder = folder
        self._kind = kind
        self._variable = variable

    def read(self) -> T | None:
        """The record of a cluster that is up or partly up; None if there is none.

        Raises:
            ClusterError: the file was not written by this version of the tool.
        """
        file = self._folder / _FILE
        try:
            return self._kind(**json.loads(file.read_text()))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (ValueError, TypeError) as error:
            raise ClusterError(f"{file}: not a cluster's record: {error}") from error

    def write(self, record: T) -> None:
        """Write the record atomically."""
        unfinished = self._folder / _UNFINISHED
        unfinished.write_text(json.dumps(asdict(record), indent=1))
        unfinished.replace(self._folder / _FILE)

    def other_sysctls(self) -> list[dict[str, str]]:
        """The settings of the kernel that each other cluster of this machine has found."""
        found = []
        for folder in settings.other_state_folders(self._folder):
            # Its `down` may remove it now, and no fault of it may stop this cluster's.
            with suppress(OSError, ValueError, KeyError):
                found.append(json.loads((folder / _FILE).read_text())["sysctls"])
        return found

    def claim(self) -> None:
        """Create the folder, for this user alone, or check that it is one of a cluster.

        `down` deletes all that is in it, so a folder with other things in it must never become one.

        Raises:
            ClusterError: another folder is in its place.
        """
        folder = self._folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.lstat()
        if folder.is_symlink() or status.st_uid != os.geteuid() or status.st_mode & 0o077:
            raise ClusterError(f"{folder}: must be a folder of root's with mode 0700")
        if self.read() is None and {entry.name for entry in folder.iterdir()} - {_UNFINISHED}:
            raise ClusterError(
                f"{folder}: holds files, but no cluster's; set {self._variable} to a folder for"
                " nothing else"
            )

    def clear(self) -> None:
        """Empty the folder, the record last: it shows that the folder belongs to a cluster."""
        for entry in sorted(self._folder.iterdir(), key=lambda entry: entry.name == _FILE):
            files.remove(entry)


def conflict_message(what: str, clone: str, reason: str, command: str) -> str:
    """Message for a user who requests another cluster than the running one."""
    whose = "this clone" if clone == str(settings.CLONE) else f"the clone {clone}"
    return f"{what} started from {whose} is running, and {reason}; `{command} down` removes it"
