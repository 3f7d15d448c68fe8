"""Checks of the machine before the cluster changes it."""

import shutil

from kindcluster import daemon
from localcluster import preflight
from localcluster.errors import ClusterError
from localcluster.settings import KIND_STATE_VARIABLE, Paths

IMAGE_PROGRAMS = ("buildah", "busybox", "catatonit", "cc", "mmdebstrap", "setpriv", "unshare")
"""What the images of gputopo and the simulated GPUs are built with."""
CLIENTS = ("kubectl", "helm")
"""Not built for a cluster on the Docker of this machine."""
GB = 10**9
STATE_GB = 10
"""Disk space of a cluster of three workers: Docker's copy of the node image, the nodes' disks."""
BUILD_GB = 4
"""Disk space of programs and node image, and of what their builds need meanwhile."""
_CACHE = "GPUTOPO_CACHE"


def check(paths: Paths, *, own_docker: bool, starts: bool) -> None:
    """Check for the conditions that would make a start fail after minutes.

    Args:
        paths: folders.
        own_docker: whether the cluster has a Docker daemon of its own.
        starts: whether there is no cluster yet.

    Raises:
        ClusterError: a requirement is missing; the text names it and the remedy.
    """
    if not own_docker:
        preflight.require_programs(IMAGE_PROGRAMS)
        if missing := [name for name in CLIENTS if shutil.which(name) is None]:
            raise ClusterError(
                f"not installed: {', '.join(missing)}; install what is missing, or use `--build`,"
                " which makes all programs"
            )
        return
    preflight.check(paths, KIND_STATE_VARIABLE)
    if not starts:
        return
    daemon.check_free()
    needs = ((paths.state, STATE_GB, KIND_STATE_VARIABLE), (paths.cache, BUILD_GB, _CACHE))
    for folder, needed_gb, variable in needs:
        folder.mkdir(parents=True, exist_ok=True)
        if message := lack_of_space(str(folder), shutil.disk_usage(folder).free, needed_gb):
            raise ClusterError(f"{message}, or set {variable} to a folder on another disk")


def lack_of_space(folder: str, free_bytes: int, needed_gb: int) -> str:
    """Message about a disk that is too full; empty if it is not."""
    if free_bytes >= needed_gb * GB:
        return ""
    return (
        f"{folder}: {free_bytes / GB:.1f} GB are free, the cluster needs {needed_gb} GB:"
        " free some space"
    )
