"""First process of a node: mounts disks, creates device files, keeps programs running.

Runs inside the node's namespaces as `python -m localcluster.nodeinit NODE_FOLDER BINARIES`. If
it is killed, the kernel ends every process of its pid namespace.
"""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from localcluster import devicefiles, settings
from localcluster.hostchanges import MOUNT_POINTS

_CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
_POLL_SECONDS = 0.2
_SECONDS_BETWEEN_STARTS = 1.0


@dataclass(slots=True)
class Service:
    """One program of the node.

    Attributes:
        name: name in logs and commands.
        argv: its command line.
        log: file of its output.
        process: its last start.
        started_at: when that was, by the monotonic clock.
    """

    name: str
    argv: Sequence[str]
    log: Path
    process: subprocess.Popen[bytes] | None = None
    started_at: float = -_SECONDS_BETWEEN_STARTS

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended."""
        return self.process is not None and self.process.poll() is None

    def reconcile(self, *, wanted: bool) -> None:
        """Take one step towards the wanted state."""
        if wanted and not self.is_running:
            self._start()
        elif not wanted and self.is_running and self.process is not None:
            self.process.terminate()

    def _start(self) -> None:
        if time.monotonic() - self.started_at < _SECONDS_BETWEEN_STARTS:
            return
        self.started_at = time.monotonic()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )


def services(folder: Path, binaries: Path) -> list[Service]:
    """The programs of the node, in the order of their dependencies."""
    name, config = folder.name, folder / "config"
    address = settings.node_of_name(name).address
    logs, pki = folder.parents[1] / "logs", folder.parents[1] / "pki"
    containerd = [f"{binaries}/containerd", f"--config={config}/containerd.toml"]
    kubelet = [
        f"{binaries}/kubelet",
        f"--config={config}/kubelet.json",
        f"--kubeconfig={pki}/{name}.kubeconfig",
        f"--hostname-override={name}",
        f"--node-ip={address}",
        "--v=2",
    ]
    kube_proxy = [f"{binaries}/kube-proxy", f"--config={config}/kube-proxy.json"]
    return [
        Service("containerd", containerd, logs / f"{name}-containerd.log"),
        Service("kubelet", kubelet, logs / f"{name}-kubelet.log"),
        Service("kube-proxy", kube_proxy, logs / f"{name}-kube-proxy.log"),
    ]


def main(folder: Path, binaries: Path) -> None:
    """Boot the node and keep it running."""
    socket.sethostname(folder.name)
    _mount_disks(folder)
    if (folder / "gpus").is_dir():
        _install_gpus(folder / "gpus")
    if (folder / "numa").is_dir():
        _mount("--bind", str(folder / "numa"), str(settings.NUMA_NODES))
    programs = services(folder, binaries)
    while True:
        _reap_orphans({service.process.pid for service in programs if service.process})
        _reconcile(programs, kubelet_off=(folder / "kubelet-off").exists())
        running = " ".join(service.name for service in programs if service.is_running)
        _replace(folder / "running", running)
        time.sleep(_POLL_SECONDS)


def _mount_disks(folder: Path) -> None:
    _mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    for disk, mount_point in MOUNT_POINTS.items():
        _mount("--bind", str(folder / disk), str(mount_point))
    # Pods' mounts below these are to be seen by kubelet and containerd alike.
    _mount("--make-rshared", "/")
    for made in ("/run/netns", "/run/lock"):
        Path(made).mkdir()


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


def _install_gpus(source: Path) -> None:
    """Create the files of a driver: library, programs, device files and CDI spec."""
    for folder in ("lib", "bin"):
        shutil.copytree(source / folder, settings.DRIVER / folder)
    devicefiles.create(source / "devices", settings.DRIVER / "dev")
    # /var/run is /run, of which each node has its own.
    settings.CDI_SPECS.mkdir()
    shutil.copy(source / "cdi.json", settings.CDI_SPECS / "nvidia.json")


def _reconcile(programs: Sequence[Service], *, kubelet_off: bool) -> None:
    containerd, kubelet, kube_proxy = programs
    containerd.reconcile(wanted=True)
    # Started before the API server answers, kubelet backs off for seconds.
    ready = kubelet.is_running or (_containerd_responds() and _api_server_responds())
    kubelet.reconcile(wanted=ready and not kubelet_off)
    kube_proxy.reconcile(wanted=kube_proxy.is_running or ready)


def _containerd_responds() -> bool:
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(_CONTAINERD_SOCKET) == 0


def _api_server_responds() -> bool:
    with socket.socket() as connection:
        connection.settimeout(1.0)
        address = (settings.CONTROL_PLANE_ADDRESS, settings.API_PORT)
        return connection.connect_ex(address) == 0


def _reap_orphans(own_children: set[int]) -> None:
    """Reap orphaned processes; the node's programs are reaped elsewhere."""
    children = Path("/proc/1/task/1/children").read_text().split()
    for pid in {int(child) for child in children} - own_children:
        os.waitpid(pid, os.WNOHANG)


def _replace(file: Path, text: str) -> None:
    if not file.exists() or file.read_text() != text:
        fresh = file.with_suffix(".new")
        fresh.write_text(text)
        fresh.replace(file)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
