"""Checks of the machine before the cluster changes it."""

import os
import shutil

from localcluster import settings
from localcluster.commands import run
from localcluster.errors import ClusterError
from localcluster.settings import Paths

PROGRAMS = (
    *("buildah", "busybox", "catatonit", "cc", "etcd", "ip", "iptables", "mmdebstrap", "mount"),
    *("nsenter", "openssl", "runc", "sysctl", "unshare"),
)
_ELSEWHERE = "see docs/start/local-cluster.md for the way with kind"


def require_root() -> None:
    """Raise a ClusterError unless this process runs as root."""
    if os.geteuid() != 0:
        raise ClusterError(f"the local cluster needs root; {_ELSEWHERE}")


def check(paths: Paths) -> None:
    """Check for all conditions that would make the start fail.

    Raises:
        ClusterError: a requirement is missing; the text names it and the remedy.
    """
    require_root()
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if not settings.CNI_PLUGINS.joinpath("ptp").exists():
        missing.append(f"{settings.CNI_PLUGINS}/ptp")
    if missing:
        raise ClusterError(f"not installed: {', '.join(missing)}; run tools/setup first")
    kind = run(["stat", "--file-system", "--format=%T", paths.state]).strip()
    if kind == "overlayfs":
        raise ClusterError(
            f"{paths.state} is on overlayfs, on which containerd cannot work: set GPUTOPO_STATE"
            f" to a folder on a disk or a volume, or {_ELSEWHERE}"
        )
