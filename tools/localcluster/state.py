"""The record of the running cluster, written before the first change."""

from dataclasses import dataclass
from pathlib import Path

from localcluster import preflight, recordfile
from localcluster.errors import ClusterError
from localcluster.recordfile import RecordFile
from localcluster.settings import STATE_VARIABLE, Node, Paths, node_of_name


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
    return record_file(paths).read()


def write(paths: Paths, record: Record) -> None:
    """Write the record atomically."""
    record_file(paths).write(record)


def running(paths: Paths) -> Record:
    """The running cluster's record. A ClusterError when there is none, or without root."""
    preflight.require_root()
    record = read(paths)
    if record is None:
        raise ClusterError("no cluster is up; start one with `tools/cluster up`")
    return record


def claim(paths: Paths) -> None:
    """Create the folder of the cluster's state, or check that it is one.

    Raises:
        ClusterError: another folder is in its place.
    """
    record_file(paths).claim()


def clear(paths: Paths) -> None:
    """Empty the folder, the record last."""
    record_file(paths).clear()


def record_file(paths: Paths) -> RecordFile[Record]:
    """The record in a state folder."""
    return RecordFile(paths.state, Record, STATE_VARIABLE)


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
    return recordfile.conflict_message("a cluster", running.clone, reason, "tools/cluster")
