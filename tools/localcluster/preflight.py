"""Checks of the machine before the cluster changes it."""

import os
import shutil
from collections.abc import Sequence

from localcluster import settings
from localcluster.commands import run
from localcluster.errors import ClusterError
from localcluster.settings import Paths

PROGRAMS = (
    *("buildah", "busybox", "catatonit", "cc", "etcd", "ip", "iptables", "mmdebstrap", "mount"),
    *("nsenter", "openssl", "runc", "setpriv", "sysctl", "unshare"),
)


def require_root() -> None:
    """Raise a ClusterError unless this process runs as root."""
    if os.geteuid() != 0:
        raise ClusterError("the cluster needs root: run the command as root")


def require_programs(programs: Sequence[str]) -> None:
    """Raise a ClusterError that names those of the programs that are not installed."""
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        raise ClusterError(f"not installed: {', '.join(missing)}; run tools/setup first")


def check(paths: Paths, variable: str = "GPUTOPO_STATE") -> None:
    """Check for all conditions that would make the start fail.

    Args:
        paths: folders.
        variable: with which a user sets the folder of the state.

    Raises:
        ClusterError: a requirement is missing; the text names it and the remedy.
    """
    require_root()
    require_programs([*PROGRAMS, f"{settings.CNI_PLUGINS}/ptp"])
    kind = run(["stat", "--file-system", "--format=%T", paths.state]).strip()
    if kind == "overlayfs":
        raise ClusterError(
            f"{paths.state} is on overlayfs, on which containerd cannot work: set {variable}"
            " to a folder on a disk or a volume"
        )
