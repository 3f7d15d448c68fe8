"""gputopo on the local cluster: start it, build the images, install the chart."""

import json
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from localcluster import images
from localcluster.access import NodeAccess
from localcluster.errors import ClusterError
from localcluster.localnodes import LocalNodes
from localcluster.settings import CLONE, current_paths
from showcase.kubectl import Kubectl, KubectlError, wait_for

NAMESPACE = "gputopo-system"
NODES = 3
SHORT_SAMPLES = Path(__file__).with_name("short-samples.yaml")
"""Values of the chart with which a sample of a training job takes 30 s."""
_CLUSTER = str(CLONE / "tools" / "cluster")
VALUES = Path(__file__).with_name("values.yaml")
"""Values of the chart for the local cluster."""


@dataclass(frozen=True, slots=True)
class Installed:
    """A cluster with gputopo on it.

    Attributes:
        workload_image: has ``sh``, ``sleep``, ``env`` and ``stat``; every node has it.
        trainer_image: a training job that reports steps (tools/images/trainer).
        values: files with values that override the local cluster's.
        access: to the nodes as machines; None of a cluster that gives none.
    """

    kubectl: Kubectl
    workload_image: str
    trainer_image: str = ""
    values: tuple[Path, ...] = ()
    access: NodeAccess | None = None

    @property
    def local(self) -> bool:
        """Whether this is the local cluster, on which the chart can be installed again."""
        return self.access is not None

    @property
    def nodes(self) -> NodeAccess:
        """The nodes as machines. Raises a ClusterError if the cluster gives no access to them."""
        if self.access is None:
            raise ClusterError("this cluster gives no access to its nodes; use the local cluster")
        return self.access


def cluster_is_running() -> bool:
    """Return whether the local cluster's API server responds."""
    try:
        _kubectl().run("get", "--raw", "/readyz", timeout_s=10)
    except (KubectlError, FileNotFoundError, subprocess.TimeoutExpired):
        return False
    return True


def start_cluster(kubernetes: str | None = None) -> None:
    """Start the local cluster, or use the running one; progress goes to the terminal.

    Args:
        kubernetes: version; None for that of the running cluster, or the default version.
    """
    version = ["--kubernetes", kubernetes] if kubernetes else []
    subprocess.run([_CLUSTER, "up", *version], check=True)


def remove_local_cluster() -> None:
    """Remove the local cluster and all its changes of the machine."""
    subprocess.run([_CLUSTER, "down"], check=True)


def install_chart(*more_values: Path) -> Installed:
    """Install or upgrade the chart, and wait until every component is ready.

    Args:
        more_values: files with values that override the local cluster's.
    """
    built = json.loads(
        subprocess.run(
            [_CLUSTER, "images", "-o", "json"], stdout=subprocess.PIPE, check=True
        ).stdout
    )
    kubectl = _kubectl()
    helm = kubectl.binary.with_name("helm")
    subprocess.run(
        [
            *(str(helm), "upgrade", "--install", "gputopo", str(CLONE / "charts" / "gputopo")),
            *("--namespace", NAMESPACE, "--create-namespace", "--values", str(VALUES)),
            *(option for file in more_values for option in ("--values", str(file))),
            *image_options(built),
            *("--wait", "--timeout", "180s"),
        ],
        check=True,
        stdout=subprocess.DEVNULL,
        env=kubectl.environment,
    )
    installed = Installed(
        kubectl,
        built["workload"],
        built["trainer"],
        more_values,
        LocalNodes(current_paths()),
    )
    wait_for("every node publishes its GPUs", lambda: _all_published(kubectl), timeout_s=60)
    return installed


@contextmanager
def nominations(above: int) -> Iterator[Path]:
    """Yield a file with the value ``extender.nominateAbove`` of the chart; remove it at the end."""
    with tempfile.TemporaryDirectory(prefix="gputopo-values-") as folder:
        values = Path(folder) / "nominations.json"
        values.write_text(json.dumps({"extender": {"nominateAbove": above}}))
        yield values


def image_options(built: Mapping[str, str]) -> list[str]:
    """Return the options of helm for the images of all components, by component.

    Helm would read a tag such as 179295601967 as a number, and 12e4 as 120000.
    """
    settings = [
        f"{component}.image.{part}={value}"
        for component in ("operator", "extender", "devicePlugin", "mps", "scheduler", "web")
        if component in built  # the chart of an earlier revision has no values for later components
        for part, value in zip(("repository", "tag"), built[component].rsplit(":", 1), strict=True)
    ]
    return ["--set-string", ",".join(settings)]


def on_local_cluster(say: Callable[[str], None], *more_values: Path) -> Installed:
    """Install gputopo on the local cluster, which is started if necessary.

    Args:
        say: gets the name of each stage.
        more_values: see :func:`install_chart`.
    """
    say("starting the local cluster")
    start_cluster()
    say("installing the chart")
    return install_chart(*more_values)


def on_running_cluster() -> Installed:
    """Return the running local cluster with the chart that is installed on it.

    Nothing is started, built or installed. The nodes must have the images of this clone's
    workloads.

    Raises:
        ClusterError: the cluster does not run.
    """
    if not cluster_is_running():
        raise ClusterError("the local cluster does not run; start it with tools/demo")
    planned = {each.name: each.reference for each in images.plan(current_paths().binaries)}
    access = LocalNodes(current_paths())
    return Installed(_kubectl(), planned["workload"], planned["trainer"], access=access)


def _kubectl() -> Kubectl:
    paths = current_paths()
    return Kubectl(paths.binaries / "kubectl", paths.kubeconfig, paths.kubectl_cache)


def _all_published(kubectl: Kubectl) -> bool:
    """Whether each node has a topology, and kubelet counts its GPUs."""
    topologies = kubectl.list("gputopologies")
    counted = [
        int(node["status"].get("allocatable", {}).get("gputopo.io/gpu", 0))
        for node in kubectl.list("nodes")
    ]
    published = [len(topology["spec"]["gpus"]) for topology in topologies]
    return len(topologies) == NODES and sorted(counted) == sorted(published)
