"""The chart and the images of an earlier revision of this repository."""

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from localcluster.cluster import Cluster
from localcluster.errors import ClusterError
from localcluster.settings import CLONE

COMPONENTS = ("operator", "extender", "devicePlugin")


@dataclass(frozen=True, slots=True)
class Version:
    """What is installed of one revision.

    Attributes:
        tree: folder with its files.
        images: image of each component, and of kube-scheduler, by the name in the values.
    """

    tree: Path
    images: Mapping[str, str]

    @property
    def chart(self) -> Path:
        """Folder of the chart."""
        return self.tree / "charts" / "gputopo"

    @property
    def definitions(self) -> Sequence[Path]:
        """Files of the CRDs that the chart installs."""
        return sorted((self.chart / "files" / "crds").glob("*.yaml"))


def extract(revision: str, folder: Path) -> Path:
    """Write the files of a revision into a folder; return the folder.

    Raises:
        ClusterError: there is no such revision in this clone.
    """
    archive = ["git", "-C", str(CLONE), "archive", "--format=tar", revision]
    made = subprocess.run(archive, capture_output=True, check=False)
    if made.returncode:
        reason = made.stderr.decode(errors="replace").strip()
        raise ClusterError(f"--from: {revision}: {reason}; name a revision of this clone")
    folder.mkdir(parents=True)
    subprocess.run(["tar", "--extract", "-C", str(folder)], input=made.stdout, check=True)
    return folder


def build(cluster: Cluster, tree: Path) -> Version:
    """Build the images of a tree and load them into the nodes.

    Only the components are of this tree. kube-scheduler is always the one of the cluster.
    """
    built = {image.name: image.reference for image in cluster.images(tree)}
    return Version(tree, {name: built[name] for name in (*COMPONENTS, "scheduler")})
