"""Names, addresses and folders of the local cluster."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from localcluster.errors import ClusterError

BRIDGE = "gputopo0"
NODE_NETWORK = "10.99.0.0/24"
CONTROL_PLANE_ADDRESS = "10.99.0.1"
API_PORT = 6443
API_SERVER = f"https://{CONTROL_PLANE_ADDRESS}:{API_PORT}"
POD_NETWORK = "10.244.0.0/16"
SERVICE_NETWORK = "10.96.0.0/16"
API_SERVICE_ADDRESS = "10.96.0.1"
ETCD_CLIENT_PORT = 23790
ETCD_PEER_PORT = 23800
CNI_PLUGINS = Path("/usr/lib/cni")
PAUSE_IMAGE = "localhost/pause:1"
DRIVER = Path("/run/nvidia/driver")
CDI_SPECS = Path("/var/run/cdi")
NUMA_NODES = Path("/sys/devices/system/node")

STATE_VARIABLE = "GPUTOPO_STATE"
KIND_STATE_VARIABLE = "GPUTOPO_KIND_STATE"
# They are created with mode 0700, and their owner is checked.
_STATE_FOLDERS = {
    STATE_VARIABLE: "/var/tmp/gputopo-cluster",  # noqa: S108
    KIND_STATE_VARIABLE: "/var/tmp/gputopo-kind",  # noqa: S108
}

CLONE = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Paths:
    """Folders: the cache, and those of the running cluster."""

    cache: Path
    state: Path

    @property
    def lock(self) -> Path:
        """The folder to lock: not the state folder, which is removed under the lock."""
        return self.state.parent

    @property
    def pki(self) -> Path:
        """Keys, certificates and kubeconfigs."""
        return self.state / "pki"

    @property
    def logs(self) -> Path:
        """One log per process."""
        return self.state / "logs"

    @property
    def binaries(self) -> Path:
        """The cluster's programs, kubectl and helm among them; a link into the cache."""
        return self.state / "bin"

    @property
    def kubeconfig(self) -> Path:
        """The cluster administrator's kubeconfig."""
        return self.pki / "admin.kubeconfig"

    @property
    def kubectl_cache(self) -> Path:
        """Caches of kubectl and helm, which are removed with the cluster."""
        return self.state / "kubectl-cache"

    def node(self, name: str) -> Path:
        """A node's disks and configuration."""
        return self.state / "nodes" / name


@dataclass(frozen=True, slots=True)
class Node:
    """Name and addresses of a node, from its number (1 to 9)."""

    number: int

    @property
    def name(self) -> str:
        """Name in Kubernetes, and its host name."""
        return f"n{self.number}"

    @property
    def address(self) -> str:
        """Address on the bridge."""
        return f"10.99.0.{10 + self.number}"

    @property
    def pod_network(self) -> str:
        """The addresses of its pods."""
        return f"10.244.{self.number}.0/24"

    @property
    def host_interface(self) -> str:
        """Its interface on the bridge."""
        return f"gputopo-n{self.number}"

    @property
    def cgroup(self) -> str:
        """Its cgroup, below the root of every hierarchy."""
        return f"gputopo-n{self.number}"


def node_of_name(name: str) -> Node:
    """The node of this name.

    Raises:
        ClusterError: it is not one of n1 to n9.
    """
    if re.fullmatch(r"n[1-9]", name) is None:
        raise ClusterError(f"node name {name!r}: must be one of n1 to n9")
    return Node(int(name[1]))


def paths_from_environment(environment: Mapping[str, str]) -> Paths:
    """Folders by GPUTOPO_CACHE, GPUTOPO_STATE and XDG_CACHE_HOME, or the defaults."""
    home_cache = environment.get("XDG_CACHE_HOME") or Path(
        environment.get("HOME", "/root"), ".cache"
    )
    cache = environment.get("GPUTOPO_CACHE") or Path(home_cache, "gputopo")
    return Paths(cache=Path(cache).absolute(), state=state_folder(STATE_VARIABLE, environment))


def state_folder(variable: str, environment: Mapping[str, str]) -> Path:
    """The folder of a cluster's state, by an environment variable, or the default."""
    return Path(environment.get(variable) or _STATE_FOLDERS[variable]).absolute()


def other_state_folders(own: Path) -> list[Path]:
    """The folders of the state of other clusters, which may run on this machine too."""
    found = [state_folder(variable, os.environ) for variable in _STATE_FOLDERS]
    return [folder for folder in found if folder != own]


def current_paths() -> Paths:
    """Folders by this process's environment."""
    return paths_from_environment(os.environ)
