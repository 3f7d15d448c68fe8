"""A Docker daemon that leaves the machine's addresses, routes and firewall rules as they are.

It runs in mount, network and process namespaces of its own. A pair of interfaces connects its
network with the machine, which so reaches the API server. When the first process of the namespaces
ends, the kernel ends the daemon and all containers, with their mounts and interfaces.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path

from kindcluster import settings
from kindcluster.docker import Docker
from localcluster import hostchanges, network, processes
from localcluster.api import wait_until
from localcluster.commands import run, succeeds
from localcluster.errors import ClusterError
from localcluster.processes import ProcessFiles
from localcluster.settings import KIND_STATE_VARIABLE, Paths

_NAME = "dockerd"
_START_SECONDS = 60.0
_NAMESPACES = ("--mount", "--propagation=private", "--net")
# The daemon starts only after its process is recorded, so that none is left that `down` does not
# find. dockerd writes to /run, which is the machine's.
_SCRIPT = """
recorded=$1 configuration=$2
tries=0
while [ ! -e "$recorded" ]; do
  tries=$((tries + 1))
  [ $tries -lt 200 ] || exit 1
  sleep 0.05
done
mount -t tmpfs -o mode=755 tmpfs /run
ip link set lo up
exec dockerd --config-file "$configuration"
"""
# Folders that Docker creates on the machine: containerd's place for plugins, and the kernel's
# modules, which kind mounts into its nodes.
CREATED_FOLDERS = (
    *(Path("/opt/containerd/bin"), Path("/opt/containerd/lib")),
    Path("/lib/modules"),
)


class Daemon:
    """The Docker daemon of a state folder.

    Args:
        paths: folders.
        programs: folders of Docker, runc and containerd.
    """

    def __init__(self, paths: Paths, programs: Sequence[Path]) -> None:
        self._paths = paths
        self._files = ProcessFiles(paths.state / "processes")
        folders = ":".join(str(folder) for folder in programs)
        environment = {**os.environ, "PATH": f"{folders}:{os.environ['PATH']}"}
        for name in ("DOCKER_CONTEXT", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH"):
            environment.pop(name, None)
        self.docker = Docker({**environment, "DOCKER_HOST": f"unix://{self.socket}"})

    @property
    def socket(self) -> Path:
        """Where the daemon serves its API."""
        return self._paths.state / "docker.sock"

    def start(self) -> None:
        """Start the daemon, connect its network, and wait until it responds.

        Raises:
            ClusterError: it did not come up.
        """
        log = self._paths.logs / f"{_NAME}.log"
        self._paths.logs.mkdir(exist_ok=True)
        file = self._paths.state / "dockerd.json"
        file.write_text(json.dumps(configuration(self._paths, self.socket), indent=1))
        recorded = self._files.path(_NAME)
        # catatonit reaps the processes of containers whose parents have ended.
        program: list[str | Path] = ["catatonit", "--", "sh", "-ec", _SCRIPT, _NAME]
        program += [recorded, file]
        hostchanges.create_cgroups(settings.CGROUP)
        init = processes.start_namespace(_NAMESPACES, program, log, self.docker.environment)
        self._files.remember(_NAME, init)
        _connect(init.pid)

        def responds() -> bool:
            if not processes.is_running(init):
                raise ClusterError(f"dockerd has ended; see {log}:\n{processes.end_of(log)}")
            return self.docker.responds()

        wait_until(responds, "the Docker daemon", _START_SECONDS)

    def stop(self) -> None:
        """Kill the daemon and all containers, and remove what they have on the machine."""
        self._files.end(_NAME, patience_seconds=0)
        network.delete_link(settings.INTERFACE)
        hostchanges.remove_cgroups(settings.CGROUP)


def configuration(paths: Paths, socket: Path) -> dict[str, object]:
    """The content of the daemon's configuration file."""
    return {
        "hosts": [f"unix://{socket}"],
        "data-root": str(paths.state / "docker"),
        "exec-root": "/run/docker",
        "pidfile": "/run/docker.pid",
        "cgroup-parent": f"/{settings.CGROUP}",
        "exec-opts": ["native.cgroupdriver=cgroupfs"],
        # The runc of tools/binaries has no seccomp.
        "seccomp-profile": "unconfined",
    }


def check_free() -> None:
    """Check that the interface and the network of a new daemon are free.

    Raises:
        ClusterError: another daemon runs, or the addresses are in use.
    """
    if succeeds(["ip", "link", "show", settings.INTERFACE]):
        raise ClusterError(
            f"another cluster of tools/kind runs on this machine, with another"
            f" {KIND_STATE_VARIABLE}: it has the interface {settings.INTERFACE}"
        )
    network.require_no_route([settings.NETWORK], settings.INTERFACE)


def _connect(init: int) -> None:
    machine = settings.INTERFACE
    peer = ["peer", "name", "eth0", "netns", str(init)]
    run(["ip", "link", "add", machine, "type", "veth", *peer])
    run(["ip", "address", "add", f"{settings.MACHINE_ADDRESS}/30", "dev", machine])
    run(["ip", "link", "set", machine, "up"])
    batch = [f"address add {settings.DAEMON_ADDRESS}/30 dev eth0", "link set eth0 up"]
    run(["nsenter", "-t", str(init), "-n", "ip", "-batch", "-"], stdin="\n".join(batch))
