"""The record of the running cluster, and whether it is the requested one."""

from dataclasses import dataclass
from pathlib import Path

from localcluster import recordfile
from localcluster.hostchanges import KUBELET_SYSCTLS
from localcluster.recordfile import RecordFile
from localcluster.settings import KIND_STATE_VARIABLE, Paths

# systemd, which starts a node, sets these for the whole machine.
_SYSTEMD_SYSCTLS = (
    *("fs/file-max", "fs/nr_open", "kernel/core_uses_pid", "kernel/pid_max", "kernel/sysrq"),
    *("fs/protected_fifos", "fs/protected_hardlinks", "fs/protected_regular"),
    "fs/protected_symlinks",
)
SYSCTLS = (*KUBELET_SYSCTLS, *_SYSTEMD_SYSCTLS)


@dataclass(frozen=True, slots=True)
class KindRecord:
    """One cluster, from the start of its `up` to the end of its `down`.

    Attributes:
        clone: the working copy whose tools made it.
        own_docker: whether Docker was started for it, in place of the machine's.
        kubernetes: version, as v1.36.4.
        image: node image.
        programs: folders of its programs, the first ones searched first.
        servers: which server of the catalogue n1, n2, ... simulate.
        sysctls: the machine's own settings before.
        folders: folders that were created on the machine.
    """

    clone: str
    own_docker: bool
    kubernetes: str
    image: str
    programs: list[str]
    servers: dict[str, str]
    sysctls: dict[str, str]
    folders: list[str]

    def folder_of(self, program: str) -> Path | None:
        """The folder with a program; None if none of them has it."""
        found = (Path(folder) for folder in self.programs if Path(folder, program).exists())
        return next(found, None)


def record_file(paths: Paths) -> RecordFile[KindRecord]:
    """The record in a state folder."""
    return RecordFile(paths.state, KindRecord, KIND_STATE_VARIABLE)


def uses_own_docker(running: KindRecord | None, *, build: bool, machine_has_docker: bool) -> bool:
    """Whether a cluster gets a Docker daemon of its own, in place of the machine's.

    Args:
        running: a running cluster keeps its own.
        build: whether the user requests it.
        machine_has_docker: whether a Docker daemon of this machine responds.
    """
    if running is not None:
        return running.own_docker
    return build or not machine_has_docker


def difference(running: KindRecord, image: str, servers: dict[str, str], *, build: bool) -> str:
    """Why a running cluster is not the requested one; empty if it is."""
    if build and not running.own_docker:
        return "it uses the Docker of this machine"
    if running.image != image:
        return f"its node image is {running.image}, wanted is {image}"
    if running.servers != servers:
        return f"its nodes simulate {running.servers}, wanted are {servers}"
    return ""


def conflict_message(running: KindRecord, reason: str) -> str:
    """Message for a user who requests another cluster than the running one."""
    return recordfile.conflict_message("a cluster of kind", running.clone, reason, "tools/kind")
