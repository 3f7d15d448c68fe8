"""gputopo on a cluster of this machine: start it, build the images, install the chart."""

import json
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gputopo.api.names import RESOURCE
from kindcluster import settings as kind_settings
from kindcluster.cluster import KindCluster
from kindcluster.machines import KindNodes
from localcluster import images
from localcluster.access import NodeAccess
from localcluster.errors import ClusterError
from localcluster.localnodes import LocalNodes
from localcluster.progress import Progress
from localcluster.settings import CLONE, current_paths
from showcase.kubectl import Kubectl, KubectlError, wait_for

NAMESPACE = "gputopo-system"
NODES = 3
SHORT_SAMPLES = Path(__file__).with_name("short-samples.yaml")
"""Values of the chart with which a sample of a training job takes 30 s."""
VALUES = Path(__file__).with_name("values.yaml")
"""Values of the chart for simulated GPUs."""
_KIND_VALUES = CLONE / "tools" / "kindcluster" / "values.yaml"
_TOOLS = CLONE / "tools"


@dataclass(frozen=True, slots=True)
class Platform:
    """What the nodes of a cluster of this machine are.

    Attributes:
        command: starts and removes the cluster.
        nodes: the nodes as machines.
        kubeconfig: of the cluster's administrator.
        kubectl_cache: folder of kubectl's discovery cache.
        program: returns the path of kubectl or helm.
        values: files with values of the chart for it.
    """

    command: Path
    nodes: NodeAccess
    kubeconfig: Path
    kubectl_cache: Path
    program: Callable[[str], Path]
    values: tuple[Path, ...] = (VALUES,)

    @property
    def kubectl(self) -> Kubectl:
        """The client of the running cluster."""
        return Kubectl(self.program("kubectl"), self.kubeconfig, self.kubectl_cache)

    @property
    def is_local(self) -> bool:
        """Whether this is the local cluster, whose control plane tests can stop in parts."""
        return self.command.name == "cluster"


def local() -> Platform:
    """The local cluster."""
    paths = current_paths()
    return Platform(
        _TOOLS / "cluster",
        LocalNodes(paths),
        paths.kubeconfig,
        paths.kubectl_cache,
        paths.binaries.joinpath,
    )


def kind() -> Platform:
    """The cluster of kind."""
    paths = kind_settings.current_paths()
    cluster = KindCluster(paths, Progress())
    return Platform(
        _TOOLS / "kind",
        KindNodes(cluster),
        cluster.kubeconfig,
        paths.kubectl_cache,
        cluster.program,
        (VALUES, _KIND_VALUES),
    )


PLATFORMS: Mapping[str, Callable[[], Platform]] = {"local": local, "kind": kind}


@dataclass(frozen=True, slots=True)
class Installed:
    """A cluster with gputopo on it.

    Attributes:
        workload_image: has ``sh``, ``sleep``, ``env`` and ``stat``; every node has it.
        trainer_image: a training job that reports steps (tools/images/trainer).
        values: files with values that override the platform's.
        platform: None of a cluster that was not started by this clone's tools.
    """

    kubectl: Kubectl
    workload_image: str
    trainer_image: str = ""
    values: tuple[Path, ...] = ()
    platform: Platform | None = None

    @property
    def nodes(self) -> NodeAccess:
        """The nodes as machines. Raises a ClusterError if the cluster gives no access to them."""
        if self.platform is None:
            raise ClusterError(
                "this cluster gives no access to its nodes; use the local cluster or tools/kind"
            )
        return self.platform.nodes


def cluster_is_running(platform: Platform | None = None) -> bool:
    """Return whether the API server of a platform responds, by default of the local cluster."""
    try:
        (platform or local()).kubectl.run("get", "--raw", "/readyz", timeout_s=10)
    except (ClusterError, KubectlError, FileNotFoundError, subprocess.TimeoutExpired):
        return False
    return True


def start_cluster(kubernetes: str | None = None, platform: Platform | None = None) -> None:
    """Start a cluster, or use the running one; progress goes to the terminal.

    Args:
        kubernetes: version; None for that of the running cluster, or the default version.
        platform: by default the local cluster.
    """
    version = ["--kubernetes", kubernetes] if kubernetes else []
    subprocess.run([(platform or local()).command, "up", *version], check=True)


def remove_cluster(platform: Platform | None = None) -> None:
    """Remove a cluster, by default the local one, and all its changes of the machine."""
    subprocess.run([(platform or local()).command, "down"], check=True)


def install_chart(*more_values: Path, platform: Platform | None = None) -> Installed:
    """Install or upgrade the chart, and wait until every component is ready.

    Args:
        more_values: files with values that override the platform's.
        platform: by default the local cluster.
    """
    place = platform or local()
    images_command = (str(place.command), "images", "-o", "json")
    built = json.loads(subprocess.run(images_command, stdout=subprocess.PIPE, check=True).stdout)
    kubectl = place.kubectl
    subprocess.run(
        [
            *(str(place.program("helm")), "upgrade", "--install", "gputopo"),
            *(str(CLONE / "charts" / "gputopo"), "--namespace", NAMESPACE, "--create-namespace"),
            *(word for file in (*place.values, *more_values) for word in ("--values", str(file))),
            *image_options(built),
            *("--wait", "--timeout", "180s"),
        ],
        check=True,
        stdout=subprocess.DEVNULL,
        env=kubectl.environment,
    )
    installed = Installed(kubectl, built["workload"], built["trainer"], more_values, place)
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
    """Install gputopo on the local cluster; see :func:`on_cluster`."""
    return on_cluster(local(), say, *more_values)


def on_cluster(platform: Platform, say: Callable[[str], None], *more_values: Path) -> Installed:
    """Install gputopo on a cluster, which is started if necessary.

    Args:
        platform: what its nodes are.
        say: gets the name of each stage.
        more_values: see :func:`install_chart`.
    """
    say("starting the cluster")
    start_cluster(platform=platform)
    say("installing the chart")
    return install_chart(*more_values, platform=platform)


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
    place = local()
    return Installed(place.kubectl, planned["workload"], planned["trainer"], platform=place)


def _all_published(kubectl: Kubectl) -> bool:
    """Whether each node has a topology, and kubelet counts its GPUs."""
    topologies = kubectl.list("gputopologies")
    allocatable = [node["status"].get("allocatable", {}) for node in kubectl.list("nodes")]
    counted = [int(each.get(RESOURCE, 0)) for each in allocatable]
    published = [len(topology["spec"]["gpus"]) for topology in topologies]
    return len(topologies) == NODES and sorted(filter(None, counted)) == sorted(published)
