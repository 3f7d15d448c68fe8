"""The changes that a cluster makes on the machine, and their reversal."""

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from localcluster.errors import ClusterError

_CGROUPS = Path("/sys/fs/cgroup")
_SYSCTLS = Path("/proc/sys")

# A kubelet takes a machine for its own and sets these.
KUBELET_SYSCTLS = (
    "kernel/keys/root_maxbytes",
    "kernel/keys/root_maxkeys",
    "kernel/panic",
    "kernel/panic_on_oops",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
)

# Where a node mounts its own disks: the programs' default places, so that hostPath volumes of
# ordinary manifests are right.
MOUNT_POINTS = {
    "kubelet": Path("/var/lib/kubelet"),
    "containerd": Path("/var/lib/containerd"),
    "cni": Path("/var/lib/cni"),
    "config/cni": Path("/etc/cni/net.d"),
    "pod-logs": Path("/var/log/pods"),
    "container-logs": Path("/var/log/containers"),
}


def original_sysctls(
    names: Sequence[str], others: Iterable[Mapping[str, str]] = ()
) -> dict[str, str]:
    """The machine's own settings of the kernel.

    Args:
        names: which of them.
        others: what other clusters have found, which may have changed these settings since.
    """
    current = {
        name: (_SYSCTLS / name).read_text().strip() for name in names if (_SYSCTLS / name).exists()
    }
    found = {name: value for other in others for name, value in other.items()}
    return {name: found.get(name, value) for name, value in current.items()}


def restore_sysctls(values: Mapping[str, str], others: Iterable[Mapping[str, str]] = ()) -> None:
    """Restore the settings that differ, except those that another cluster restores at its end.

    Args:
        values: the settings before.
        others: the settings that other clusters have found.
    """
    left = {name for other in others for name in other}
    for name, value in values.items():
        file = _SYSCTLS / name
        if name not in left and file.read_text().strip() != value:
            file.write_text(value)


def missing_folders(wanted: Sequence[Path]) -> list[Path]:
    """The missing folders, parents first."""
    missing = {folder for path in wanted for folder in (path, *path.parents) if not folder.exists()}
    return sorted(missing)


def remove_folders(made: Sequence[Path]) -> None:
    """Remove folders, children first, except those that are in use."""
    for folder in sorted(made, reverse=True):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def create_cgroups(name: str) -> None:
    """Create a cgroup of this name in every hierarchy: kubelet requires its root."""
    if _is_unified():
        present = set((_CGROUPS / "cgroup.controllers").read_text().split())
        wanted = sorted(present & {"cpu", "cpuset", "hugetlb", "io", "memory", "pids"})
        enabling = " ".join(f"+{controller}" for controller in wanted)
        (_CGROUPS / "cgroup.subtree_control").write_text(enabling)
    for hierarchy in _hierarchies():
        (hierarchy / name).mkdir(exist_ok=True)
        for file in ("cpuset.cpus", "cpuset.mems"):
            # In version 1 a new cpuset is empty, and nothing can run in it.
            if (hierarchy / file).exists():
                (hierarchy / name / file).write_text((hierarchy / file).read_text())


def remove_cgroups(name: str) -> None:
    """Remove the cgroup of this name and all below it from every hierarchy.

    Raises:
        ClusterError: processes are still in it after ten seconds.
    """
    deadline = time.monotonic() + 10
    for hierarchy in _hierarchies():
        while (hierarchy / name).is_dir() and not _removed(hierarchy / name):
            if time.monotonic() > deadline:
                raise ClusterError(f"cgroup {hierarchy / name} is still in use")
            time.sleep(0.1)


def _is_unified() -> bool:
    return (_CGROUPS / "cgroup.controllers").exists()


def _hierarchies() -> list[Path]:
    if _is_unified():
        return [_CGROUPS]
    return [folder for folder in _CGROUPS.iterdir() if (folder / "cgroup.procs").exists()]


def _removed(cgroup: Path) -> bool:
    children = sorted((path for path in cgroup.rglob("*") if path.is_dir()), reverse=True)
    try:
        for folder in [*children, cgroup]:
            folder.rmdir()
    except OSError:
        return False
    return True
