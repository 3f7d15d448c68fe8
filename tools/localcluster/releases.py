"""The Kubernetes versions that the cluster can run: one patch release of each minor version.

Each has a folder tools/binaries/kubernetes/MINOR with a go.mod and a go.sum, which
`tools/pin-kubernetes` writes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from localcluster.commands import run
from localcluster.errors import ClusterError
from localcluster.gomodules import MODULES, required_version

KUBERNETES_MODULE = "k8s.io/kubernetes"
FOLDER = MODULES / "kubernetes"
DEFAULT_MINOR = "1.36"


@dataclass(frozen=True, slots=True)
class Release:
    """One release of Kubernetes.

    Attributes:
        minor: "1.36".
        version: "v1.36.4".
    """

    minor: str
    version: str

    @property
    def number(self) -> int:
        """36 for "1.36", for comparisons."""
        return int(self.minor.removeprefix("1."))


def supported(folder: Path = FOLDER) -> list[Release]:
    """The releases of which a folder has a go.mod, the oldest first."""
    releases = [
        Release(go_mod.parent.name, required_version(go_mod.read_text(), KUBERNETES_MODULE))
        for go_mod in folder.glob("1.*/go.mod")
    ]
    return sorted(releases, key=lambda release: release.number)


def find(text: str, releases: Sequence[Release]) -> Release:
    """The release that a user names: 1.36, v1.36, 1.36.4 or v1.36.4.

    Raises:
        ClusterError: it is none of these releases; the text lists them.
    """
    named = text.removeprefix("v")
    for release in releases:
        if named in {release.minor, release.version.removeprefix("v")}:
            return release
    choices = ", ".join(f"{release.minor} ({release.version})" for release in releases)
    raise ClusterError(f"kubernetes: {text!r} is not supported; give one of {choices}")


def choose(requested: str | None, running: str | None, releases: Sequence[Release]) -> Release:
    """The release to start: the requested one, else that of the running cluster, else the default.

    Args:
        requested: what the user gave.
        running: version of the running cluster; another clone may have started it, so that it need
            not be one of the releases.
        releases: see :func:`supported`.
    """
    if requested is not None:
        return find(requested, releases)
    by_version: Mapping[str | None, Release] = {each.version: each for each in releases}
    return by_version.get(running) or find(DEFAULT_MINOR, releases)


def built_version(programs: Path) -> str:
    """The version of built programs, as v1.36.4.

    Raises:
        ClusterError: they do not run.
    """
    # It prints "Kubernetes v1.36.4".
    return run([programs / "kube-scheduler", "--version"]).split()[-1]
