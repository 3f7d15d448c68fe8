"""Create the nodes of the cluster with kind, and wait for them."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from kindcluster import nodes, settings
from kindcluster.docker import Docker
from kindcluster.record import KindRecord
from localcluster.api import NodeSummary, summarise_nodes, wait_until
from localcluster.errors import ClusterError
from localcluster.releases import Release
from localcluster.settings import Paths

_READY_SECONDS = 180.0


def kubeconfig(paths: Paths) -> Path:
    """The cluster administrator's kubeconfig, for programs of this machine."""
    return paths.state / "kubeconfig"


def create(
    new: KindRecord, release: Release, servers: Mapping[str, str], docker: Docker, paths: Paths
) -> None:
    """Create the nodes.

    Args:
        new: the cluster.
        release: its version of Kubernetes.
        servers: by kind's names.
        docker: has or pulls the node image.
        paths: folders.

    Raises:
        ClusterError: kind failed.
    """
    read_spec = ("run", "--rm", "--entrypoint=cat", new.image, nodes.BASE_SPEC)
    nodes.install(servers, json.loads(docker.run(*read_spec)), paths)
    content = nodes.configuration(servers, new.image, release, paths, own_docker=new.own_docker)
    file = paths.state / "kind.json"
    file.write_text(json.dumps(content, indent=1))
    docker.kind("create", "cluster", f"--config={file}", f"--kubeconfig={kubeconfig(paths)}")


def wait_until_ready(docker: Docker, names: Sequence[str]) -> None:
    """Wait until these nodes are Ready. A ClusterError if they are not in time."""

    def all_ready() -> bool:
        ready = {summary.name for summary in summaries(docker) if summary.ready}
        return ready >= set(names)

    wait_until(all_ready, f"nodes {', '.join(names)} to be Ready", _READY_SECONDS)


def summaries(docker: Docker) -> list[NodeSummary]:
    """The nodes of the API server; none if it does not respond."""
    get = ("exec", settings.CONTROL_PLANE, "kubectl", "get", "nodes", "--output=json")
    try:
        return summarise_nodes(json.loads(docker.run(*get)))
    except ClusterError:
        return []
