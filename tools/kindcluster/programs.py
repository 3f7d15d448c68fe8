"""The programs that kind needs beside those of the local cluster, built from their Go modules."""

from pathlib import Path

from localcluster import binaries
from localcluster.binaries import BinaryGroup
from localcluster.progress import Progress
from localcluster.releases import Release
from localcluster.settings import Paths

_OWN_MODULES = "gputopo.io/tools/binaries"

KIND = BinaryGroup("kind", "sigs.k8s.io/kind", ("sigs.k8s.io/kind",), ())
DOCKER = BinaryGroup(
    "docker",
    "github.com/moby/moby/v2",
    tuple(f"github.com/moby/moby/v2/cmd/{program}" for program in ("dockerd", "docker-proxy")),
    ("github.com/moby/moby/v2/dockerversion.Version",),
)
DOCKER_CLI = BinaryGroup(
    "docker-cli",
    "github.com/docker/cli",
    ("github.com/docker/cli/cmd/docker",),
    ("github.com/docker/cli/cli/version.Version",),
)
# Debian's runc is too old for this Docker. This one has no seccomp, for which it would need another
# C library: Docker starts its containers without.
RUNC = BinaryGroup(
    "runc", "github.com/opencontainers/runc", ("github.com/opencontainers/runc",), (), cgo=True
)
ETCD = BinaryGroup("etcd", "go.etcd.io/etcd/server/v3", (f"{_OWN_MODULES}/etcd",), ())
COREDNS = BinaryGroup("coredns", "github.com/coredns/coredns", (f"{_OWN_MODULES}/coredns",), ())


def of_machine() -> tuple[BinaryGroup, ...]:
    """The programs that run on the machine."""
    return (KIND, DOCKER_CLI, DOCKER, RUNC)


def of_nodes(release: Release) -> tuple[BinaryGroup, ...]:
    """The programs that run in the nodes."""
    return (binaries.kubeadm(release.minor), ETCD, COREDNS)


def ensure_kind(paths: Paths, progress: Progress) -> Path:
    """The folder of kind alone."""
    return binaries.ensure_groups(paths.cache / "kind-only", "", (KIND,), paths, progress)


def ensure_docker(paths: Paths, progress: Progress) -> Path:
    """The folder of kind, Docker and runc."""
    return binaries.ensure_groups(paths.cache / "docker", "", of_machine(), paths, progress)


def ensure_node_programs(release: Release, paths: Paths, progress: Progress) -> Path:
    """The folder of kubeadm, etcd and CoreDNS."""
    folder, prefix = paths.cache / "kubeadm", f"{release.version}-"
    return binaries.ensure_groups(folder, prefix, of_nodes(release), paths, progress)
