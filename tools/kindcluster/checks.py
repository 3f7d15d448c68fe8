"""Checks of the machine before the cluster changes it."""

import shutil

from kindcluster import daemon
from localcluster import preflight
from localcluster.errors import ClusterError
from localcluster.settings import Paths

GB = 10**9
STATE_GB = 10
"""Disk space of a cluster of three workers: Docker's copy of the node image, the nodes' disks."""
BUILD_GB = 4
"""Disk space of programs and node image, and of what their builds need meanwhile."""


def check(paths: Paths, *, starts_docker: bool) -> None:
    """Check for the conditions that would make a start fail after minutes.

    Args:
        paths: folders.
        starts_docker: whether a Docker daemon will be started.

    Raises:
        ClusterError: a requirement is missing; the text names it and the remedy.
    """
    preflight.check(paths)
    if starts_docker:
        daemon.check_free()
        free = shutil.disk_usage(paths.state).free
        if message := lack_of_space(str(paths.state), free, STATE_GB):
            raise ClusterError(f"{message}, or set GPUTOPO_KIND_STATE to a folder on another disk")
        paths.cache.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(paths.cache).free
        if message := lack_of_space(str(paths.cache), free, BUILD_GB):
            raise ClusterError(f"{message}, or set GPUTOPO_CACHE to a folder on another disk")


def lack_of_space(folder: str, free_bytes: int, needed_gb: int) -> str:
    """Message about a disk that is too full; empty if it is not."""
    if free_bytes >= needed_gb * GB:
        return ""
    return (
        f"{folder}: {free_bytes / GB:.1f} GB are free, the cluster needs {needed_gb} GB:"
        " free some space"
    )
