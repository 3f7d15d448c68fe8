"""What a cluster is made from: programs and node image."""

from dataclasses import dataclass
from pathlib import Path

from kindcluster import nodeimage, programs, settings
from localcluster import binaries
from localcluster.errors import ClusterError
from localcluster.progress import Progress
from localcluster.releases import Release
from localcluster.settings import Paths


@dataclass(frozen=True, slots=True)
class Sources:
    """Programs and node image of a cluster.

    Attributes:
        image: node image.
        archive: the image as a file; None if Docker pulls it.
        programs: folders of programs, before those on the PATH.
    """

    image: str
    archive: Path | None
    programs: tuple[Path, ...]


def ensure(
    release: Release, image: str | None, paths: Paths, progress: Progress, *, own_docker: bool
) -> Sources:
    """Build what a cluster needs and the machine lacks.

    Args:
        release: version of Kubernetes.
        image: a node image of the user; None for the built or the published one.
        paths: folders.
        progress: gets a stage for each step.
        own_docker: whether the cluster gets a Docker daemon of its own.

    Raises:
        ClusterError: a build failed, or there is no node image of this version.
    """
    if not own_docker:
        # Another release of kind has other images, and writes other versions of kubeadm's API.
        kind = programs.ensure_kind(paths, progress)
        return Sources(image or published_image(release), None, (kind,))
    if image is not None:
        raise ClusterError(f"--image {image}: only with the Docker of this machine")
    cluster = binaries.ensure(release, paths, progress)
    docker = programs.ensure_docker(paths, progress)
    node = programs.ensure_node_programs(release, paths, progress)
    built = nodeimage.ensure(release, cluster, node, paths, progress)
    return Sources(built.reference, built.archive, (docker, cluster))


def published_image(release: Release) -> str:
    """The node image that kind's project has published.

    Raises:
        ClusterError: the digest of this version is not known here.
    """
    try:
        return settings.PUBLISHED_IMAGES[release.minor]
    except KeyError:
        raise ClusterError(
            f"--kubernetes {release.minor}: no published node image is listed; name one of your"
            " release of kind with --image, or build one with --build"
        ) from None
