"""The record of the running cluster, written before the first change."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from localcluster import files, preflight
from localcluster.errors import ClusterError
from localcluster.settings import CLONE, Node, Paths, node_of_name

_FILE = "cluster.json"
_UNFINISHED = f"{_FILE}.unfinished"


@dataclass(frozen=True, slots=True)
class Record:
    """One cluster, from the start of its `up` to the end of its `down`.

    Attributes:
        clone: the working copy whose tools made it.
        binaries: folder of its programs.
        servers: which server of the catalogue each node plays.
        sysctls: the machine's own settings before.
        folders: mount points that were created on the machine.
    """

    clone: str
    binaries: str
    servers: dict[str, str]
    sysctls: dict[str, str]
    folders: list[str]

    @property
    def nodes(self) -> list[Node]:
        """The nodes, by number."""
        return [node_of_name(name) for name in sorted(self.servers)]


def read(paths: Paths) -> Record | None:
    """The cluster that is up or partly up; None if there is none.

    Raises:
        ClusterError: the file was not written by this version of the tool.
    """
    file = paths.state / _FILE
    try:
        return Record(**json.loads(file.read_text()))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, TypeError) as error:
        raise ClusterError(f"{file}: not a cluster's record: {error}") from error


def write(paths: Paths, record: Record) -> None:
    """Write the record atomically."""
    unfinished = paths.state / _UNFINISHED
    unfinished.write_text(json.dumps(asdict(record), indent=1))
    unfinished.replace(paths.state / _FILE)


def running(paths: Paths) -> Record:
    """The running cluster's record. A ClusterError when there is none, or without root."""
    preflight.require_root()
    record = read(paths)
    if record is None:
        raise ClusterError("no cluster is up; start one with `tools/cluster up`")
    return record


def claim(paths: Paths) -> None:
    """Create the folder of the cluster's state, for root alone, or check that it is one.

    `down` deletes all that is in it, so a folder with other things in it must never become one.

    Raises:
        ClusterError: another folder is in its place.
    """
    paths.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = paths.state.lstat()
    if paths.state.is_symlink() or status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise ClusterError(f"{paths.state}: must be a folder of root's with mode 0700")
    if read(paths) is None and {entry.name for entry in paths.state.iterdir()} - {_UNFINISHED}:
        raise ClusterError(
            f"{paths.state}: holds files, but no cluster's; set GPUTOPO_STATE to a folder for"
            " nothing else"
        )


def clear(paths: Paths) -> None:
    """Empty the folder, the record last: it shows that the folder belongs to a cluster."""
    for entry in sorted(paths.state.iterdir(), key=lambda entry: entry.name == _FILE):
        files.remove(entry)


def programs_of(running: Record | None) -> Path | None:
    """The programs of a running cluster; None without one, or if the cache was emptied."""
    programs = None if running is None else Path(running.binaries)
    return programs if programs is not None and programs.is_dir() else None


def difference(running: Record, binaries: Path, servers: dict[str, str]) -> str:
    """Why a running cluster is not the requested one; empty if it is."""
    if running.binaries != str(binaries):
        return f"its programs are {running.binaries}, wanted are {binaries}"
    if running.servers != servers:
        return f"its nodes play {running.servers}, wanted are {servers}"
    return ""


def conflict_message(running: Record, reason: str) -> str:
    """Message for a user who requests another cluster than the running one."""
    whose = "this clone" if running.clone == str(CLONE) else f"the clone {running.clone}"
    return (
        f"a cluster started from {whose} is running, and {reason}; `tools/cluster down` removes it"
    )
