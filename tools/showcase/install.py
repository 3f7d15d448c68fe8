"""gputopo on the local cluster: start it, build the images, install the chart."""

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from localcluster.settings import CLONE, current_paths
from showcase.kubectl import Kubectl, KubectlError, wait_for

NAMESPACE = "gputopo-system"
NODES = 3
_CLUSTER = str(CLONE / "tools" / "cluster")
_VALUES = Path(__file__).with_name("values.yaml")


@dataclass(frozen=True, slots=True)
class Installed:
    """A cluster with gputopo on it.

    Attributes:
        workload_image: has ``sh``, ``sleep``, ``env`` and ``stat``; every node has it.
        local: whether the nodes are this machine's, to be reached into.
    """

    kubectl: Kubectl
    workload_image: str
    local: bool


def cluster_is_running() -> bool:
    """Return whether the local cluster's API server answers."""
    try:
        _kubectl().run("get", "--raw", "/readyz", timeout_s=10)
    except (KubectlError, FileNotFoundError, subprocess.TimeoutExpired):
        return False
    return True


def start_cluster() -> None:
    """Start the local cluster, or take the one that runs; progress goes to the terminal."""
    subprocess.run([_CLUSTER, "up"], check=True)


def remove_local_cluster() -> None:
    """Take the local cluster down, and everything it left on the machine."""
    subprocess.run([_CLUSTER, "down"], check=True)


def install_chart(*more_values: Path) -> Installed:
    """Install the chart, or bring it up to date, and wait until every part serves.

    Args:
        more_values: files with values that win over the local cluster's own.
    """
    images = json.loads(
        subprocess.run(
            [_CLUSTER, "images", "-o", "json"], stdout=subprocess.PIPE, check=True
        ).stdout
    )
    kubectl = _kubectl()
    helm = kubectl.binary.with_name("helm")
    settings = [
        f"{component}.image.{part}={value}"
        for component in ("operator", "extender", "devicePlugin", "scheduler")
        for part, value in zip(("repository", "tag"), images[component].rsplit(":", 1), strict=True)
    ]
    subprocess.run(
        [
            *(str(helm), "upgrade", "--install", "gputopo", str(CLONE / "charts" / "gputopo")),
            *("--namespace", NAMESPACE, "--create-namespace", "--values", str(_VALUES)),
            *(option for file in more_values for option in ("--values", str(file))),
            *("--set", ",".join(settings), "--wait", "--timeout", "180s"),
        ],
        check=True,
        stdout=subprocess.DEVNULL,
        env=kubectl.environment,
    )
    installed = Installed(kubectl, images["workload"], local=True)
    wait_for("every node publishes its GPUs", lambda: _all_published(kubectl), timeout_s=60)
    return installed


def on_local_cluster(say: Callable[[str], None]) -> Installed:
    """Return gputopo installed on the local cluster, which is started if need be."""
    say("starting the local cluster")
    start_cluster()
    say("installing the chart")
    return install_chart()


def _kubectl() -> Kubectl:
    paths = current_paths()
    return Kubectl(paths.binaries / "kubectl", paths.kubeconfig, paths.kubectl_cache)


def _all_published(kubectl: Kubectl) -> bool:
    """Whether each node has a topology, and kubelet counts the GPUs that it names."""
    topologies = kubectl.list("gputopologies")
    counted = [
        int(node["status"].get("allocatable", {}).get("gputopo.io/gpu", 0))
        for node in kubectl.list("nodes")
    ]
    published = [len(topology["spec"]["gpus"]) for topology in topologies]
    return len(topologies) == NODES and sorted(counted) == sorted(published)
